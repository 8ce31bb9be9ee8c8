"""Checks of the fields of knowledge, as validators of data classes. Pure.

Each raises `KnowledgeRefused`, which names the field and what to do. A text that a file
or a database cannot hold (NUL, half a surrogate pair) is refused, not repaired.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, TypeVar

import attrs

from .errors import KnowledgeRefused

MOST_ATTRIBUTES: Final = 16 * 1024  # characters of their JSON
MOST_LEVELS: Final = 16  # of attributes inside attributes
MOST_LISTED: Final = 200  # aliases of an entity, and entities that a fact is about
MOST_LINES: Final = 10_000  # that a fact was taken from

_ENCODER: Final = json.JSONEncoder(
    default=dict, ensure_ascii=False, separators=(",", ":")
)
Check = Callable[[Any, "attrs.Attribute[Any]", Any], None]
Kind = TypeVar("Kind", bound=StrEnum)


def storable(text: str) -> bool:
    """Return True if every store can hold the text."""
    if "\0" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def text_of(most: int, *, optional: bool = False) -> Check:
    """Return a validator of a text of at most so many characters."""

    def check(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        # Stores read thousands of texts, nearly all of them ordinary.
        plain = type(value) is str and value.isascii() and value.isprintable()
        if plain and len(value) <= most and (optional or value.strip()):
            return
        if fault := _fault(value, most, optional=optional):
            raise _refused(instance, attribute, fault)

    return check


def texts_of(most: int) -> Check:
    """Return a validator of a tuple of texts of at most so many characters each."""

    def check(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if len(value) > MOST_LISTED:
            fault = f"there are {len(value)}; give at most {MOST_LISTED}"
            raise _refused(instance, attribute, fault)
        for one in value:
            if fault := _fault(one, most, optional=False):
                raise _refused(instance, attribute, fault)

    return check


def _fault(value: Any, most: int, *, optional: bool) -> str:
    if not isinstance(value, str):
        return f"{value!r:.60} is no text; give a text"
    if len(value) > most:
        return f"it has {len(value)} characters; shorten it to {most}"
    if not optional and (not value or value.isspace()):
        return f"it is empty; give 1 to {most} characters"
    if not storable(value):
        return "it has a NUL or half a surrogate pair in it; remove that"
    return ""


def _refused(
    instance: Any, attribute: attrs.Attribute[Any], fault: str
) -> KnowledgeRefused:
    kind = type(instance).__name__.lower()
    told = next(
        (
            f" {value!r:.60}"
            for name in ("id", "name", "text", "type")
            if name != attribute.name
            and isinstance(value := getattr(instance, name, None), str)
            and value
        ),
        "",
    )
    return KnowledgeRefused(f"{kind}{told}: {attribute.name}: {fault}")


def attributes(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    """Validate plain data for JSON: at most 16 KiB, and 16 levels deep."""
    if type(value) is dict and _is_small(value):
        return
    try:
        if not isinstance(value, Mapping):
            raise KnowledgeRefused("it is no mapping; give names and values")
        _plain(value, 1)
        size = len(as_json(value))
    except KnowledgeRefused as error:
        raise _refused(instance, attribute, str(error)) from None
    except ValueError:  # a number of more than 4,300 digits
        raise _refused(instance, attribute, "a number is too long") from None
    if size > MOST_ATTRIBUTES:
        fault = f"they are {size} characters of JSON; shorten them to {MOST_ATTRIBUTES}"
        raise _refused(instance, attribute, fault)


def _is_small(value: dict[Any, Any]) -> bool:
    """Return True of a few short texts and numbers, as nearly all attributes are.

    They need no closer look.
    """
    if len(value) > 16:
        return False
    for key, inner in value.items():
        if type(key) is not str or not _is_short(key):
            return False
        kind = type(inner)
        if kind is str:
            if not _is_short(inner):
                return False
        elif kind is int:
            if not -(2**63) <= inner < 2**63:
                return False
        elif inner is not None and kind is not bool:
            return False
    return True


def _is_short(text: str) -> bool:
    return len(text) <= 200 and text.isascii() and text.isprintable()


def _plain(value: Any, level: int) -> None:
    if level > MOST_LEVELS:
        raise KnowledgeRefused(f"they are more than {MOST_LEVELS} levels deep")
    if isinstance(value, str):
        if not storable(value):
            raise KnowledgeRefused("a text has a NUL or half a surrogate pair in it")
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise KnowledgeRefused(f"the name {key!r:.60} is no text")
            _plain(key, level)
            _plain(inner, level + 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            _plain(inner, level + 1)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise KnowledgeRefused(f"{value} is no number in JSON")
    elif value is not None and not isinstance(value, bool | int):
        what = type(value).__name__
        raise KnowledgeRefused(f"a value is of the type {what}, which JSON has not")


def as_json(value: Mapping[str, Any]) -> str:
    """Return attributes as text for a store."""
    return _ENCODER.encode(value)


def confidence(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    """Validate a number from 0 to 1."""
    if not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
        fault = f"{value!r:.60} is no number from 0 to 1; give one"
        raise _refused(instance, attribute, fault)


def moment(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    """Validate a Unix time."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise _refused(instance, attribute, f"{value!r:.60} is no Unix time; give one")


def line_numbers(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    """Validate sessions with numbers of lines."""
    if len(value) > MOST_LINES:
        fault = f"there are {len(value)}; give at most {MOST_LINES}"
        raise _refused(instance, attribute, fault)
    for session, n in value:
        told = isinstance(session, str) and isinstance(n, int)
        if not told or not storable(session) or not 0 < n < 2**63:
            fault = f"{(session, n)!r:.60} is no session with the number of a line"
            raise _refused(instance, attribute, fault)


def one_of(kind: type[Kind], field: str, value: Kind | str) -> Kind:
    """Convert the name of a kind."""
    if type(value) is kind:
        return value
    try:
        return kind(value)
    except ValueError:
        names = ", ".join(kind)
        message = f"{field}: {value!r:.60} is none of {names}; choose one"
        raise KnowledgeRefused(message) from None


def texts(value: Iterable[str]) -> tuple[str, ...]:
    """Convert several texts, each once, in their order."""
    if value == ():
        return ()
    if isinstance(value, str):
        raise KnowledgeRefused(f"{value!r:.60} is one text; give a list of texts")
    try:
        return tuple(dict.fromkeys(value))
    except TypeError:
        raise KnowledgeRefused(f"{value!r:.60} is no list of texts") from None


def lines(value: Iterable[Sequence[Any]]) -> tuple[tuple[str, int], ...]:
    """Convert sessions with numbers of lines, each once, in order."""
    if value == ():
        return ()
    try:
        return tuple(sorted({(session, n) for session, n in value}))
    except (TypeError, ValueError):
        message = f"lines: {value!r:.60} are no pairs of a session and a number"
        raise KnowledgeRefused(message) from None
