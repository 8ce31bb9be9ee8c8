"""The keywords of one type in a reduced schema, each only if it can be sent."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final

from glyphoxa_trio.providers.payloads import well_formed

from .joining import values_of
from .values import is_number, listed, mapping

MAX_TEXT: Final = 500  # characters of a description, default, pattern or value
MAX_ENUM: Final = 2_000  # characters of all values of one enum

# Without lookaround and backreferences, which Gemini's expressions lack.
_PATTERN: Final = rf"(?a)(?!.*(?:\(\?[=!<P]|\\[1-9k]))[ -~]{{1,{MAX_TEXT}}}"

Node = dict[str, Any]


def of_string(flat: Node) -> Node:
    """Return the keywords of a string."""
    node = counts(flat, "minLength", "maxLength")
    said = [value for value in values_of(flat) if isinstance(value, str)]
    values = [value for value in dict.fromkeys(map(text_of, said)) if value]
    # An incomplete enum would forbid the values it lacks; Gemini refuses an empty one.
    lengths = [len(value) for value in values]
    if values and max(lengths) < MAX_TEXT and sum(lengths) <= MAX_ENUM:
        node["enum"] = values
    form = flat.get("format")
    if form == "date-time" or (form == "enum" and "enum" in node):
        node["format"] = form
    pattern, default = flat.get("pattern"), flat.get("default")
    if isinstance(pattern, str) and re.fullmatch(_PATTERN, pattern):
        node["pattern"] = pattern
    if isinstance(default, str) and len(default) <= MAX_TEXT:
        node["default"] = text_of(default)
    return node


def of_number(kind: str, flat: Node) -> Node:
    """Return the keywords of a number or integer."""
    low, high = flat.get("minimum"), flat.get("maximum")
    if kind == "INTEGER":
        low = _tighter(max, low, flat.get("exclusiveMinimum"), _above)
        high = _tighter(min, high, flat.get("exclusiveMaximum"), _below)
    said: Node = {"minimum": low, "maximum": high, "default": flat.get("default")}
    node: Node = {name: value for name, value in said.items() if is_number(value)}
    form = flat.get("format")
    if form in (("int32", "int64") if kind == "INTEGER" else ("float", "double")):
        node["format"] = form
    return node


def _above(bound: float) -> int:
    return math.floor(bound) + 1


def _below(bound: float) -> int:
    return math.ceil(bound) - 1


def _tighter(
    choose: Callable[[float, float], float],
    bound: Any,
    exclusive: Any,
    inside: Callable[[float], int],
) -> Any:
    """Return the inclusive bound of integers that equals an exclusive one."""
    if exclusive is True and is_number(bound):  # as in draft 4 of JSON schema
        return inside(bound)
    if not is_number(exclusive):
        return bound
    return choose(bound, inside(exclusive)) if is_number(bound) else inside(exclusive)


def counts(flat: Node, *names: str) -> Node:
    """Return the keywords that are counts, such as ``minLength``."""
    said: Node = {name: flat.get(name) for name in names}
    return {
        name: int(value)
        for name, value in said.items()
        if is_number(value) and value >= 0 and value == int(value)
    }


def description(kind: str, flat: Node) -> str:
    """Return the description, with what the keywords of its type cannot say.

    That is the values of a number that are allowed, and most formats of a string.
    """
    text = text_of(flat.get("description"))
    if kind in ("INTEGER", "NUMBER"):
        numbers = [value for value in values_of(flat) if is_number(value)]
        if numbers:
            said = ", ".join(map(str, islice(numbers, MAX_TEXT)))
            text = f"{text} One of: {said}."
    elif kind == "STRING" and flat.get("format") not in ("date-time", "enum"):
        form = text_of(flat.get("format"))
        text += f" Format: {form}." if form else ""
    return cut(text)


def may_be_null(flat: Mapping[str, Any]) -> bool:
    """Return whether a schema allows null."""
    said = flat.get("type")
    if flat.get("nullable") is True or is_null({"type": said}):
        return True
    if said is None:
        return None in values_of(flat)
    return any(is_null({"type": kind}) for kind in listed(said))


def is_null(form: Any) -> bool:
    """Return whether a schema allows only null."""
    form = mapping(form)
    said = form.get("type")
    if said is None and ("const" in form or "enum" in form):
        return values_of(form) == [None]
    return said in ("null", "NULL", ["null"], ["NULL"])


def text_of(value: Any) -> str:
    """Return ``value`` if it is text, well-formed and not much too long."""
    return well_formed(value[: 2 * MAX_TEXT]) if isinstance(value, str) else ""


def cut(text: str) -> str:
    """Cut a text to `MAX_TEXT` characters."""
    text = text.strip()
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
