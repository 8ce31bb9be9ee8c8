"""Walks plain data and the layout of the model together, and builds the model.

cattrs finds the reader for a type; the readers are all here and in `scalars`,
because its own would coerce (bool("false") is True) and forget places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import attrs

from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.tier import DEFAULT_LIMITS, Tier, TierLimits

from .contexts import NAMING, npcs_of
from .fields import NotEmpty, Text, Unit
from .layout import (
    CommandLine,
    ServerDefaults,
    layout,
    may_be_bare,
    unknown,
)
from .mcp import McpConfig
from .model import Config, NpcConfig
from .overrides import ToolOverride
from .problems import Problems, shown, sort_of
from .scalars import Scalars
from .servers import McpDefaults, ServerSpec, Transport

if TYPE_CHECKING:
    import cattrs

_Hook = Callable[[Any, Any], Any]


@attrs.define(eq=False)
class ConfigReader:
    """Reads one file. ``defaults`` is what servers get that do not state it,
    ``warnings`` what was odd and no error.
    """

    scalars: Scalars
    defaults: McpDefaults = attrs.field(factory=McpDefaults)
    warnings: Problems = attrs.field(factory=Problems, init=False)
    converter: cattrs.Converter = attrs.field(init=False)

    def read(self, data: Any) -> Config:
        """The whole file's data as a `Config`.

        Raises:
          ValueError: a `ConfigMisfit` where there is more to say than one sentence.
          ConfigError: if the whole contradicts itself.
        """
        config: Config = self.converter.structure(data, Config)
        return config

    def __attrs_post_init__(self) -> None:
        import cattrs

        self.converter = cattrs.Converter()
        scalars: Mapping[type, _Hook] = {
            str: self.scalars.text,  # and every StrEnum
            bool: self.scalars.switch,
            int: self.scalars.whole,
            float: self.scalars.number,
            Tier: self.scalars.tier,
            Secret: self.scalars.secret,
            Path: self.scalars.path,
        }
        for kind, hook in scalars.items():
            self.converter.register_structure_hook(kind, hook)
        shapes: tuple[tuple[Callable[[Any], bool], _Hook], ...] = (
            (attrs.has, self._object),
            (lambda kind: kind is Any, self.scalars.anything),
            (lambda kind: kind == Secret | None, self.scalars.optional_secret),
            (lambda kind: get_origin(kind) is Annotated, self._marked),
            (lambda kind: get_origin(kind) is tuple, self._list),
            (lambda kind: get_origin(kind) is Mapping, self._mapping),
            (lambda kind: kind == Mapping[str, ToolOverride], self._overrides),
            (lambda kind: kind == tuple[NpcConfig, ...], self._npcs),
            (lambda kind: kind == tuple[ServerSpec, ...], self._servers),
            (lambda kind: kind is ServerSpec, self._server),
            (lambda kind: kind is McpConfig, self._mcp),
            (lambda kind: kind is Config, self._config),
            (lambda kind: kind is TierLimits, self._tiers),
        )
        for fits, hook in shapes:  # of several that fit, the last one holds
            self.converter.register_structure_hook_func(fits, hook)

    def _marked(self, value: Any, kind: Any) -> Any:
        match kind.__metadata__[0]:
            case Unit() as unit:
                number = self.scalars.number(value, float)
                if number < 0:
                    raise ValueError("must not be negative")
                return unit.in_seconds(number)
            case CommandLine():
                return self._command(value)
            case NotEmpty():
                if not (text := self.scalars.text(value, str)).strip():
                    raise ValueError("must not be empty")
                return text

    def _command(self, value: Any) -> tuple[str, ...]:
        if type(value) is str:
            words = self.scalars.words(value)
        elif isinstance(value, list):
            words = self._list(value, tuple[str, ...])
        else:
            raise ValueError(f"expected text or a list, got {sort_of(value)}")
        if not words:
            raise ValueError("must not be empty")
        return words

    # containers; what stands where one should may be a secret, so it is not shown

    def _list(self, value: Any, kind: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise ValueError(f"expected a list, got {sort_of(value)}")
        problems, made = Problems(), []
        for index, item in enumerate(value):
            with problems.under(index):
                made.append(self.converter.structure(item, get_args(kind)[0]))
        problems.end()
        return tuple(made)

    def _mapping(self, value: Any, kind: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise ValueError(f"expected a mapping, got {sort_of(value)}")
        problems, made = Problems(), {}
        for key, item in value.items():
            if type(key) is not str or not key:
                problems.add(f"expected a name as key, got {shown(key)}")
                continue
            with problems.under(key):
                made[key] = self.converter.structure(item, get_args(kind)[1])
        problems.end()
        return made

    # classes

    def _object(self, value: Any, kind: Any) -> Any:
        made, problems = self._fields(value, kind)
        problems.end()
        return kind(**made)

    def _fields(self, value: Any, kind: type) -> tuple[dict[str, Any], Problems]:
        """The values of a class by field, those that fit, and what does not."""
        if not isinstance(value, Mapping):
            raise ValueError(f"expected a mapping, got {sort_of(value)}")
        problems, made, keys = Problems(), {}, layout(kind)
        for key in value:
            if key not in keys:
                problems.add(unknown(key, kind))
        for name, key in keys.items():
            given = value.get(name)
            if name not in value or (given is None and may_be_bare(key.kind)):
                if key.field is not None and key.field.default is attrs.NOTHING:
                    problems.add(f"{name} is missing")
                continue
            with problems.under(name):
                item = self.converter.structure(given, key.kind)
                if key.field is not None and key.field.validator is not None:
                    key.field.validator(None, key.field, item)
                made[name if key.field is None else key.field.name] = item
        return made, problems

    def _config(self, value: Any, _: Any) -> Config:
        made, problems = self._fields(value, Config)
        agent = made.pop("agent", None)
        if agent is not None and agent.trust is not None:
            if "trust" in value:
                problems.add("trust and agent.trust are the same thing: give one")
            made["trust"] = agent.trust
        contexts = made.pop("contexts", {})
        with problems.under("contexts"):
            made["npcs"] = npcs_of(contexts, made, self.warnings)
        problems.end()
        if contexts and "naming" not in (value.get("mcp") or ()):
            made["mcp"] = attrs.evolve(made.get("mcp", McpConfig()), naming=NAMING)
        return Config(**made)

    def _tiers(self, value: Any, _: Any) -> TierLimits:
        bands, problems = self._fields(value, TierLimits)
        problems.end()
        stated = {
            f"{tier}_{limit}": figure
            for tier, band in bands.items()
            for limit, figure in attrs.asdict(band).items()
            if figure is not None
        }
        return attrs.evolve(DEFAULT_LIMITS, **stated)

    def _mcp(self, value: Any, _: Any) -> McpConfig:
        defaults = value.get("defaults") if isinstance(value, Mapping) else None
        with Problems().under("defaults"):  # reported when it is read as a field
            self.defaults = self._object(defaults or {}, McpDefaults)
        config: McpConfig = self._object(value, McpConfig)
        return config

    def _server(self, value: Any, _: Any) -> ServerSpec:
        self.scalars.noted.clear()
        made, problems = self._fields(value, ServerSpec)
        noted = self.scalars.noted.items()
        made["expanded"] = {name: Secret(text) for name, text in noted}
        args = made.pop("args", ())
        if args and "command" not in value:
            problems.add("args without a command")
        problems.end()
        made["command"] = made.get("command", ()) + args
        if (auth := made.pop("auth", None)) is not None:
            made["token"] = auth.token and _bare(auth.token)
            made["oauth"] = auth.oauth
        own = made.pop("defaults", None) or ServerDefaults()
        for field in attrs.fields(McpDefaults):
            otherwise = getattr(own, field.name) or getattr(self.defaults, field.name)
            made.setdefault(field.name, otherwise)
        stdio = made.get("transport", Transport.STDIO) is Transport.STDIO
        if stdio and made.get("url") is None and made.get("cwd") is None:
            made["cwd"] = self.scalars.base
        return ServerSpec(**made)

    # collections of things with names

    def _npcs(self, value: Any, _: Any) -> tuple[NpcConfig, ...]:
        if not isinstance(value, list):
            raise ValueError(f"expected a list, got {sort_of(value)}")
        return self._named(enumerate(value), NpcConfig, str.casefold, Problems())

    def _servers(self, value: Any, _: Any) -> tuple[ServerSpec, ...]:
        problems = Problems()
        if isinstance(value, list):
            return self._named(enumerate(value), ServerSpec, str, problems)
        entries = _by_name(value, problems)
        return self._named(entries.items(), ServerSpec, str, problems)

    def _overrides(self, value: Any, kind: Any) -> dict[str, ToolOverride]:
        if not isinstance(value, list):
            return self._mapping(value, kind)
        problems = Problems()
        made: dict[str, ToolOverride] = {}
        for index, entry in enumerate(value):
            with problems.under(index):
                if not isinstance(entry, Mapping):
                    raise ValueError(f"expected a mapping, got {sort_of(entry)}")
                rest = {key: item for key, item in entry.items() if key != "name"}
                override = self.converter.structure(rest, ToolOverride)
                if "name" not in entry:
                    raise ValueError("name is missing")
                name = self._marked(entry["name"], Text)
                if name in made:
                    problems.add(f"the name {shown(entry['name'])} is taken", index)
                made[name] = override
        problems.end()
        return made

    def _named(
        self,
        entries: Iterable[tuple[str | int, Any]],
        kind: type,
        fold: Callable[[str], str],
        problems: Problems,
    ) -> tuple[Any, ...]:
        """Read each entry; two with one name are a problem, sound or not."""
        made: list[Any] = []
        taken: set[str] = set()
        for step, entry in entries:
            written = entry.get("name") if isinstance(entry, Mapping) else None
            name = written if isinstance(written, str) else None
            with problems.under(step):
                made.append(self.converter.structure(entry, kind))
                name = made[-1].name
            if name is not None:
                if fold(name.strip()) in taken:
                    problems.add(f"the name {shown(written)} is taken", step, "name")
                taken.add(fold(name.strip()))
        problems.end()
        return tuple(made)


def _bare(token: Secret) -> Secret | None:
    """The token alone: some files write it with the scheme, others without."""
    scheme, _, rest = token.reveal().partition(" ")
    if scheme.lower() != "bearer":
        return token
    return Secret(rest.strip()) if rest.strip() else None


def _by_name(value: Any, problems: Problems) -> dict[str | int, Any]:
    """The entries of a map of servers, each with its key as its name."""
    if not isinstance(value, Mapping):
        raise ValueError(f"expected a list or a mapping, got {sort_of(value)}")
    entries: dict[str | int, Any] = {}
    for name, entry in value.items():
        entries[name] = entry
        if isinstance(entry, Mapping):
            entries[name] = {**entry, "name": name}
            if "name" in entry:
                problems.add("the key is its name: leave out 'name'", name)
    return entries
