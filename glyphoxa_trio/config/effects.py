"""Which parts of a new configuration take effect in a program that runs. Pure.

Each key declares when a change of it does (`fields`). A ``live`` one takes effect at
once; any other keeps its value until the next start, and is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import attrs

from .fields import TakesEffect, declared
from .layout import key_of
from .model import Config

T = TypeVar("T")


def taken_over(old: Config, new: Config) -> tuple[Config, tuple[str, ...]]:
    """The configuration after a reload, and the keys that have changed but take effect
    only at the next start, as the file calls them.
    """
    config, late = _merged(old, new, "")
    return config, tuple(late)


def changed_keys(old: Config, new: Config) -> tuple[str, ...]:
    """The keys that differ, those of servers left out, as ``npcs[Bartok].tools``."""
    hidden = ("mcp.servers", "mcp.from_mcp_json", "mcp.shared", "mcp.left_out")
    return tuple(x for x in _differing(old, new, "") if not x.startswith(hidden))


def _merged(old: T, new: T, path: str) -> tuple[T, list[str]]:
    kept: dict[str, Any] = {}
    late: list[str] = []
    kind: Any = type(new)
    for field in attrs.fields(kind):
        before, after = getattr(old, field.name), getattr(new, field.name)
        if before == after:
            continue
        where = _joined(path, key_of(kind, field))
        match declared(field):
            case TakesEffect.LIVE:
                pass
            case TakesEffect.OFF_AT_ONCE if not after:
                pass
            case None:
                kept[field.name], more = _merged(before, after, where)
                late += more
            case _:
                kept[field.name] = before
                late += _differing(before, after, where)
    merged: Any = new
    return (attrs.evolve(merged, **kept) if kept else new), late


def _differing(before: Any, after: Any, path: str) -> Iterator[str]:
    """The places where two values differ, as far down as there are keys."""
    if before == after:
        return
    kind = type(after)
    if attrs.has(kind) and type(before) is kind:
        for field in attrs.fields(kind):
            yield from _differing(
                getattr(before, field.name),
                getattr(after, field.name),
                _joined(path, key_of(kind, field)),
            )
    elif isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in dict.fromkeys((*before, *after)):
            yield from _differing(
                before.get(name), after.get(name), _joined(path, str(name))
            )
    elif _are_named(before) and _are_named(after) and path:
        ones, others = ({x.name: x for x in named} for named in (before, after))
        for name in dict.fromkeys((*ones, *others)):
            yield from _differing(ones.get(name), others.get(name), f"{path}[{name}]")
    else:
        yield path


def _are_named(value: Any) -> bool:
    return isinstance(value, tuple) and all(hasattr(x, "name") for x in value)


def _joined(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
