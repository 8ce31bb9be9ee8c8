"""Check a `Config` that a program made as strictly as a file.

Python checks no types, so text in place of a list of tools would grant each of its
letters. A value that can only be meant one way is accepted: a list for a tuple, the
name of a choice for the choice, text for a path or a secret.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

import attrs

from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.naming import nearest
from glyphoxa_trio.tools.tier import Tier

from .fields import NotEmpty, Unit
from .model import Config
from .problems import ConfigError, ConfigMisfit, Problems, shown, sort_of


def checked(config: object) -> Config:
    """Return ``config``, with each value converted to the type of its field.

    Raises:
      ConfigError: with every problem, each with its place.
    """
    if not isinstance(config, Config):
        raise ConfigError(
            "expected a Config, the path of a file, or a function that makes a Config,"
            f" got {sort_of(config)}; glyphoxa_trio.config.parse makes one of a mapping"
        )
    try:
        made: Config = _object(config, Config)
    except ConfigMisfit as misfit:
        problems = [f"{what} @ {at.removeprefix('.')}" for at, what in misfit.found]
        raise ConfigError(*problems) from None
    named = (("npcs", made.npcs, str.casefold), ("mcp.servers", made.mcp.servers, str))
    if twice := [text for where in named for text in _named_twice(*where)]:
        raise ConfigError(*twice)
    return made


def _named_twice(
    place: str, entries: Iterable[Any], fold: Callable[[str], str]
) -> Iterable[str]:
    taken: set[str] = set()
    for at, entry in enumerate(entries):
        name = fold(entry.name.strip())
        if name in taken:
            yield f"the name {shown(entry.name)} is taken @ {place}[{at}].name"
        taken.add(name)


def _fitting(value: Any, kind: Any) -> Any:
    """Return ``value`` as a ``kind``.

    Raises:
      ValueError, ConfigMisfit: if it does not fit; the latter has places.
    """
    if get_origin(kind) in (Union, UnionType):
        if value is None:
            return None
        kind = next(part for part in get_args(kind) if part is not NoneType)
    if get_origin(kind) is Annotated:
        return _marked(value, kind)
    if get_origin(kind) is tuple:
        return _list(value, get_args(kind)[0])
    if get_origin(kind) is Mapping:
        return _mapping(value, get_args(kind)[1])
    if kind is Any:
        return value
    if kind in _PLAIN:
        return _PLAIN[kind](value)
    if issubclass(kind, Enum):
        return _choice(value, kind)
    return _object(value, kind)


def _object(value: Any, kind: type[Any]) -> Any:
    """Return the object, or a copy of it if one of its values had to be converted."""
    if not isinstance(value, kind):
        raise ValueError(
            f"expected a {kind.__name__}, got {sort_of(value)}: write"
            f" {kind.__name__}(...)"
        )
    changed: dict[str, Any] = {}
    problems = Problems()
    exact: Any = type(value)  # a `LlmConfig` is a `ModelConfig`, with more fields
    for field, hint in _fields(exact):
        given = getattr(value, field.name)
        with problems.under(field.name):
            made = _fitting(given, hint)
            if made is not given:
                changed[field.alias or field.name] = made
    problems.end()
    return attrs.evolve(value, **changed) if changed else value


@functools.cache
def _fields(kind: type[Any]) -> tuple[tuple[attrs.Attribute[Any], Any], ...]:
    hints = get_type_hints(kind, include_extras=True)
    return tuple((x, hints[x.name]) for x in attrs.fields(kind) if x.init)


def _list(value: Any, kind: Any) -> Any:
    if not isinstance(value, (tuple, list)):
        instead = f": write [{shown(value)}]" if isinstance(value, str) else ""
        raise ValueError(f"expected a list, got {sort_of(value)}{instead}")
    problems, made = Problems(), []
    for at, item in enumerate(value):
        with problems.under(at):
            made.append(_fitting(item, kind))
    problems.end()
    same = isinstance(value, tuple) and all(map(_is, value, made))
    return value if same else tuple(made)


def _mapping(value: Any, kind: Any) -> Any:
    if not isinstance(value, Mapping):
        raise ValueError(f"expected a mapping, got {sort_of(value)}")
    problems, made = Problems(), {}
    for key, item in value.items():
        if not isinstance(key, str) or not key:
            problems.add(f"expected a name as key, got {shown(key)}")
            continue
        with problems.under(key):
            made[key] = _fitting(item, kind)
    problems.end()
    return value if all(map(_is, value.values(), made.values())) else made


def _is(one: object, other: object) -> bool:
    return one is other


def _marked(value: Any, kind: Any) -> Any:
    match kind.__metadata__[0]:
        case Unit():
            if (number := _number(value)) < 0:
                raise ValueError("must not be negative")
            return number
        case NotEmpty():
            if not (text := _text(value)).strip():
                raise ValueError("must not be empty")
            return text
    return _fitting(value, get_args(kind)[0])


def _choice(value: Any, kind: type[Enum]) -> Enum:
    if isinstance(value, kind):
        return value
    try:
        if not isinstance(value, str):
            raise ValueError
        return Tier.parse(value) if kind is Tier else kind(value)
    except ValueError:
        names = [*map(str, kind)]
        near = nearest(value, names, n=1) if isinstance(value, str) else ()
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(
            f"expected one of {', '.join(names)}, got {shown(value)}{hint}"
        ) from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected text, got {shown(value)}")
    return value


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"expected True or False, got {shown(value)}")
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"expected a whole number, got {shown(value)}")
    return value


def _number(value: Any) -> float:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or value != value:
        raise ValueError(f"expected a number, got {shown(value)}")
    return value  # type: ignore[no-any-return]


def _path(value: Any) -> Path:
    if isinstance(value, str) and value:
        return Path(value)
    if not isinstance(value, Path):
        raise ValueError(f"expected a path, got {sort_of(value)}")
    return value


def _secret(value: Any) -> Secret:
    if isinstance(value, str):
        return Secret(value)
    if not isinstance(value, Secret):
        raise ValueError(f"expected a Secret, got {sort_of(value)}")
    return value


_PLAIN: Final[Mapping[Any, Callable[[Any], Any]]] = {
    str: _text,
    bool: _switch,
    int: _whole,
    float: _number,
    Path: _path,
    Secret: _secret,
}
