"""Read the pieces of an answer, in whatever form a server puts them. No I/O.

Servers that claim this protocol write what is a list as an object or the reverse, a
number as text, a piece of text as parts. None of these forms can mean anything else, so
they are read as what they mean, and nobody has to know which server sent them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import attrs

from .opaque import is_thought
from .payloads import is_whole, string

_DECODER: Final = json.JSONDecoder()
_SIGN: Final = re.compile(r"\S")
_OF_A_FUNCTION: Final = ("name", "arguments")


def rows(value: object) -> list[Any]:
    """Return a list, of which None is an empty one, and an object is a row of one.

    An object whose keys are numbers has the rows by their place.
    """
    match value:
        case None:
            return []
        case list():
            return [row for row in value if row is not None]
        case dict() if value and all(str(key).isdecimal() for key in value):
            found = sorted((int(key), row) for key, row in value.items())
            return [_at(key, row) for key, row in found if isinstance(row, dict)]
    return [value] if value else []


def _at(key: int, row: dict[str, Any]) -> dict[str, Any]:
    return row if place(row.get("index")) is not None else {**row, "index": key}


def place(value: object) -> int | None:
    """Return a number, which may be written as text; None if it is none."""
    if type(value) is int:
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    digits = isinstance(value, str) and value.isdecimal() and len(value) < 9
    return int(str(value)) if digits else None


def delta_of(choice: Mapping[str, Any], *, begun: bool) -> object:
    """Return the piece of an answer in a choice.

    Args:
      begun: True if others came before. Then ``message`` has the whole answer again.
    """
    delta = choice.get("delta")
    if isinstance(delta, str):
        return {"content": delta}
    if not delta and not begun:
        text = choice.get("text")  # of the API before chat
        return choice.get("message") or {
            "content": text if isinstance(text, str) else ""
        }
    return delta or {}


def text_of(content: object) -> str | None:
    """Return the text of a content, without the thoughts in it; None if it is none."""
    match content:
        case None:
            return ""
        case str():
            return content
        case list():
            return "".join(map(_text_of_part, content))
        case dict():
            return _text_of_part(content)
    return None


def _text_of_part(part: object) -> str:
    if isinstance(part, dict):
        part = "" if is_thought(str(part.get("type"))) else part.get("text")
    return part if isinstance(part, str) else ""


@attrs.frozen
class Fragment:
    """A piece of a call. ``fields``: the entry in the form of the protocol."""

    index: int | None
    id: str
    name: str
    arguments: str
    fields: Mapping[str, Any]


def fragment_of(entry: Mapping[str, Any]) -> Fragment:
    """Return the piece of a call in an entry."""
    function = entry.get("function")
    if not isinstance(function, dict):
        # The name alone, or both of them beside the id.
        flat = {key: entry[key] for key in _OF_A_FUNCTION if key in entry}
        function = {"name": function} | flat if isinstance(function, str) else flat
        entry = {key: x for key, x in entry.items() if key not in _OF_A_FUNCTION}
        entry["function"] = function
    return Fragment(
        place(entry.get("index")),
        string(entry.get("id")),
        string(function.get("name")),
        arguments_of(function.get("arguments")),
        entry,
    )


def arguments_of(value: object) -> str:
    """Return the text of arguments, or of a piece of them."""
    match value:
        case None:
            return ""
        case str():
            return value
        case [dict() as only]:
            return json.dumps(only)
        case list() if all(isinstance(x, str) for x in value):
            return "".join(value)
    return json.dumps(value)


def settled(pieces: Sequence[str]) -> str:
    """Return the arguments that the pieces of a call mean.

    They are joined, unless only another reading makes a whole object of them: an object
    that came before its text, empty or in part, or came again after it; or each piece
    repeats those before it.
    """
    text = "".join(pieces)
    if not text.strip() or is_whole(text):
        return text
    found = objects_in(text)
    if len(found) > 1:
        last, written = found[-1]
        if all(each.items() <= last.items() for each, _ in found):
            return written
    said = [piece for piece in pieces if piece.strip()]
    if all(b.startswith(a) for a, b in pairwise(said)) and is_whole(said[-1]):
        return said[-1]
    return text


def objects_in(text: str) -> list[tuple[dict[str, Any], str]]:
    """Return the objects of a text, each with its text; none if more is in it."""
    found: list[tuple[dict[str, Any], str]] = []
    at = 0
    while sign := _SIGN.search(text, at):
        begin = sign.start()
        try:
            value, at = _DECODER.raw_decode(text, begin)
        except (ValueError, RecursionError):
            return []
        if not isinstance(value, dict):
            return []
        found.append((value, text[begin:at]))
    return found
