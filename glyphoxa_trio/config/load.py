"""From a file to a `Config`, or to every problem in it at once (D14).

A problem of one value does not hide another's. Only an object's contradictions
(a stdio server without a command) wait until its own values are sound: after a
misspelt key they would be noise.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Container, Mapping
from pathlib import Path, PurePath
from typing import Any, TypeVar

import attrs

from .mcp_json import Shared, find_mcp_json, parse_mcp_json, stranger_of
from .model import Config
from .problems import ConfigError, Misfit
from .reader import Reader
from .scalars import Scalars
from .servers import McpConfig, McpDefaults

T = TypeVar("T")


def load_config(
    path: str | os.PathLike[str],
    *,
    env: Mapping[str, str] | None = None,
    warn: Callable[[str], None] | None = None,
    mcp_json: bool = True,
) -> Config:
    """The configuration in a file; its suffix says the format. Blocks on reading.

    The servers of the project's ``.mcp.json`` come with it, behind its own (N9):
    the nearest one from the file's folder upward, within its repository.

    Args:
      warn: told of what is odd and no error; names the place.
      mcp_json: False leaves that file alone, as ``mcp.enabled: false`` does.

    Raises:
      ConfigError: with every problem of both, each with its place.
    """
    source = Path(path).absolute()
    tell = warn or _ignore
    config = Config()
    problems: list[str] = []
    try:
        config = load_text(read_file(source), source=source, env=env, warn=warn)
    except ConfigError as error:
        problems += error.problems
    found = find_mcp_json(source.parent) if mcp_json and config.mcp.enabled else None
    if found is not None:
        try:
            shared = _load_shared(found, source, config.mcp, env)
        except ConfigError as error:
            problems += error.problems
        else:
            servers = config.mcp.servers + shared.servers
            config = attrs.evolve(config, mcp=attrs.evolve(config.mcp, servers=servers))
            for text in shared.warnings:
                tell(text)
    if problems:
        raise ConfigError(*problems)
    return config


def _ignore(_: str) -> None:
    """For callers that want no warnings."""


def _load_shared(
    found: Path, config: Path, mcp: McpConfig, env: Mapping[str, str] | None
) -> Shared:
    if (why := stranger_of(found, config)) is not None:
        return Shared(warnings=(why,))
    taken = {spec.name for spec in mcp.servers}
    return load_mcp_json(found, env=env, defaults=mcp.defaults, taken=taken)


def load_mcp_json(
    path: Path,
    *,
    env: Mapping[str, str] | None = None,
    defaults: McpDefaults | None = None,
    taken: Container[str] = (),
    only: str | None = None,
) -> Shared:
    """The servers of a ``.mcp.json``; see `parse_mcp_json`. Blocks on reading.

    Raises:
      ConfigError: with every problem, each with its place.
    """
    source = path.absolute()
    data, repeated = read_text(read_file(source), source=source)
    if repeated:  # which of the two others take is anybody's guess
        raise ConfigError(*repeated)
    environment = os.environ if env is None else env
    return parse_mcp_json(
        data,
        source=source,
        env=environment,
        defaults=defaults,
        taken=taken,
        only=only,
    )


def read_file(source: Path) -> str:
    """The text of a file.

    Raises:
      ConfigError: if it cannot be read, or is not UTF-8.
    """
    try:
        return source.read_text(encoding="utf-8-sig")
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise ConfigError(f"cannot be read: {why} @ {source.name}") from error
    except UnicodeDecodeError:
        raise ConfigError(f"is not UTF-8 text @ {source.name}") from None


def load_text(
    text: str,
    *,
    source: PurePath,
    env: Mapping[str, str] | None = None,
    warn: Callable[[str], None] | None = None,
) -> Config:
    """The configuration in a text, as if it stood in the file ``source``.

    Raises:
      ConfigError: see `load_config`.
    """
    data, repeated = read_text(text, source=source)
    if data is None:
        raise ConfigError(*repeated, f"the file is empty @ {source.name}")
    try:
        config = parse(data, source=source, env=env, warn=warn)
    except ConfigError as error:
        raise ConfigError(*repeated, *error.problems) from None
    if repeated:
        raise ConfigError(*repeated)
    return config


def read_text(text: str, *, source: PurePath) -> tuple[Any, tuple[str, ...]]:
    """Plain data of YAML, TOML or JSON by suffix, and a problem per repeated key.

    Raises:
      ConfigError: if the text is not that format, with line and column.
    """
    repeated: list[str] = []
    try:
        match source.suffix.lower():
            case ".yaml" | ".yml":
                data = _read_yaml(text, repeated)
            case ".toml":
                data = _read_toml(text)
            case ".json":
                data = _read_json(text, repeated)
            case suffix:
                raise ValueError(
                    f"{suffix or 'no suffix'}: a configuration is a .yaml, .yml,"
                    " .toml or .json file"
                )
    except ValueError as error:
        raise ConfigError(f"{error} @ {source.name}") from None
    except RecursionError:
        raise ConfigError(f"is nested too deeply @ {source.name}") from None
    return data, tuple(f"{problem} @ {source.name}" for problem in repeated)


def _read_yaml(text: str, repeated: list[str]) -> Any:
    from ruamel.yaml import YAML, MappingNode, ScalarNode
    from ruamel.yaml.constructor import SafeConstructor
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    checked: dict[int, object] = {}

    class Constructor(SafeConstructor):
        def flatten_mapping(self, node: Any) -> Any:
            # Looked at before ``<<`` is merged in, because a merged key may be
            # overridden; and at all, because ruamel checks no mapping with one.
            if isinstance(node, MappingNode) and id(node) not in checked:
                checked[id(node)] = node
                seen = set()
                for key, _ in node.value:
                    if not isinstance(key, ScalarNode):
                        raise MarkedYAMLError(
                            None, None, "a key must be text", key.start_mark
                        )
                    if key.value in seen:
                        where = _line_and_column(key.start_mark)
                        repeated.append(f"key {key.value!r} is there twice, {where}")
                    seen.add(key.value)
            return super().flatten_mapping(node)

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            try:
                return super().construct_object(node, deep)
            except (YAMLError, RecursionError):
                raise
            except Exception:  # foreign code: `!!bool maybe` is a KeyError there
                what = "a value does not fit its type"
                raise MarkedYAMLError(None, None, what, node.start_mark) from None

    yaml = YAML(typ="safe", pure=True)  # pure: YAML 1.2, where `on` is no boolean
    yaml.Constructor = Constructor
    yaml.allow_duplicate_keys = True
    yaml.composer.warn_double_anchors = False  # legal, and the warning quotes
    try:
        return yaml.load(text)
    except MarkedYAMLError as error:
        # Its own text quotes the file, and with it a secret.
        where = _line_and_column(error.problem_mark or error.context_mark)
        problem = re.sub(r"(['\"])(?!<).{5,}\1", "…", str(error.problem))
        raise ValueError(f"is not YAML: {problem}, {where}") from None
    except YAMLError as error:
        raise ValueError(f"is not YAML: {error}") from None


def _line_and_column(mark: Any) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}"


def _read_toml(text: str) -> Any:
    try:
        return tomllib.loads(text) or None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"is not TOML: {error}") from None


def _read_json(text: str, repeated: list[str]) -> Any:
    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        seen: dict[str, Any] = {}
        for key, value in found:
            if key in seen:
                repeated.append(f"key {key!r} is there twice")
            seen[key] = value
        return seen

    if not text.strip():
        return None
    try:
        return json.loads(text, object_pairs_hook=pairs)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ValueError(f"is not JSON: {error.msg}, {where}") from None


def parse(
    data: Any,
    *,
    source: PurePath,
    env: Mapping[str, str] | None = None,
    warn: Callable[[str], None] | None = None,
) -> Config:
    """Plain data as a `Config`. Paths are relative to the folder of ``source``.

    Raises:
      ConfigError: with every problem, each with its place.
    """
    reader = Reader(Scalars(os.environ if env is None else env, Path(source).parent))
    config: Config = _read_as(reader, data, Config, source)
    for where, what in reader.warnings.found:
        (warn or _ignore)(f"{what} @ {source.name}{where}")
    return config


def load_as(path: str | os.PathLike[str], kind: type[T]) -> T:
    """Another file than a configuration, read by the same rules into ``kind``.

    Raises:
      ConfigError: with every problem, each with its place.
    """
    source = Path(path).absolute()
    data, repeated = read_text(read_file(source), source=source)
    reader = Reader(Scalars(os.environ, source.parent))
    if repeated:
        raise ConfigError(*repeated)
    return _read_as(reader, {} if data is None else data, kind, source)


def _read_as(reader: Reader, data: Any, kind: type[T], source: PurePath) -> T:
    try:
        made: T = reader.converter.structure(data, kind)
        return made
    except Misfit as misfit:
        places = misfit.found
    except ConfigError as error:
        places = [("", what) for what in error.problems]
    except ValueError as error:
        places = [("", str(error))]
    raise ConfigError(*(f"{what} @ {source.name}{where}" for where, what in places))
