"""The parts of a tool's answer: the message to be spoken, and the data for a model.

`present` splits a result into ``message``, short enough to be spoken, and ``data``,
everything. `outcome_text` writes an outcome as the JSON text that goes back to a model,
never above its cap in bytes of UTF-8.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from .arguments import canonical
from .definition import ToolDefinition
from .outcome import Effect, Outcome, ToolResult

CHAT_CAP: Final = 16 * 1024
MIN_CAP: Final = 256  # below this, not even the status of a call would fit

MESSAGE_LIMIT: Final = 1000  # characters: about a minute of speech
RESULT_PHRASE: Final = "I have the result."
NOTHING_PHRASE: Final = "Done."
ERROR_PHRASE: Final = "That did not work."

# Keys under which servers put the result itself, when they wrap it.
_WRAPPERS: Final = ("structured", "data", "result", "output")
_PLACEHOLDER: Final = re.compile(r"\{([\w-]+(?:\.[\w-]+)*)\}")
_OPENING: Final = re.compile(r"\s*[\[{]")
_MAX_DEPTH: Final = 64
_LARGEST_JSON_TEXT: Final = 1024 * 1024
_CUT: Final = "…"


@attrs.frozen
class Presented:
    """A result in two parts: a short message to be spoken, and all of it as data."""

    message: str
    data: Any


def present(result: ToolResult, definition: ToolDefinition) -> Presented:
    """Split a result into what may be spoken and what a model may read.

    The message is the first that yields words: ``speech_template``, ``speech_field``,
    the text blocks, a fixed phrase. A text block that is a JSON object or array is
    data, not words: servers without structured content answer like that, and an NPC
    should not read braces aloud. A template with a placeholder that the result cannot
    fill is not used: a sentence with a hole in it sounds worse than the tool's own
    words. Of media a model reads placeholders, which are not spoken.
    """
    words, structured = _read(result)
    read = text = "\n".join(words)
    if result.media:
        read = "\n".join([*words, *(item.placeholder for item in result.media)])
    if result.complaint:
        read = "\n".join(filter(None, (read, f"[{result.complaint}]")))
    spoken = text
    fixed = RESULT_PHRASE if read or structured is not None else NOTHING_PHRASE
    if result.is_error:
        fixed = ERROR_PHRASE  # a template is for the good news
    elif structured is not None or definition.speech_template:
        spoken = (
            rendered(definition.speech_template or "", structured).strip()
            or _spoken(_found(structured, definition.speech_field or "")).strip()
            or text
        )
    if structured is None:
        data: Any = read or None
    else:
        data = {"text": read, "structured": structured} if read else structured
    return Presented(_short(spoken.strip()) or fixed, data)


def outcome_text(
    outcome: Outcome, *, cap: int = CHAT_CAP, max_depth: int | None = None
) -> str:
    """Return the outcome as a model reads it: a JSON object of at most ``cap`` bytes.

    Status is left out when it is ok, and data when it only repeats the message. Text
    that does not fit is cut from the end, marked ``"truncated": true``. Data deeper
    than ``max_depth`` levels of objects and arrays is cut likewise.

    Raises:
      ValueError: if ``cap`` is below `MIN_CAP`."""
    if cap < MIN_CAP:
        raise ValueError(f"cap must be at least {MIN_CAP} bytes, got {cap}")
    head: dict[str, Any] = {}
    if not outcome.ok:
        head["status"] = outcome.status.value
    if outcome.limit is not None:
        head["limit"] = outcome.limit.value
    if outcome.effect is Effect.UNKNOWN:
        head["effect"] = outcome.effect.value
    body: dict[str, Any] = {"message": outcome.message}
    data = outcome.data
    repeats = isinstance(data, str) and data.strip() == outcome.message
    if data is not None and not repeats:
        body["data"] = data
    # The outcome itself adds one level.
    writer = JsonTextWriter(_MAX_DEPTH if max_depth is None else max_depth + 1)
    text = writer.object(head | body, cap)
    if writer.truncated or outcome.truncated:
        text = writer.object(head | {"truncated": True} | body, cap)
    return text


def _read(result: ToolResult) -> tuple[list[str], Any]:
    """Return the words of a result, and its structured content, wherever it was."""
    blocks = [(block, container(block)) for block in result.text]
    words = [block for block, value in blocks if value is None]
    values = [(block, value) for block, value in blocks if value is not None]
    if not values:
        return words, result.structured
    if result.structured is None:
        return words, values[0][1] if len(values) == 1 else [v for _, v in values]
    known = _already_said(result.structured)
    words += [block for block, value in values if _comparable(value) not in known]
    return words, result.structured


def container(text: str) -> Any:
    """Return the JSON object or array that ``text`` is, or None."""
    if len(text) > _LARGEST_JSON_TEXT or not _OPENING.match(text):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _already_said(structured: Any) -> set[str]:
    """Return the values that a text block may repeat: servers send both."""
    known: set[str] = set()
    for place in _places(structured):
        entries = place if isinstance(place, list | tuple) else ()
        known.update(map(_comparable, (place, *entries)))
    return known - {""}


def _comparable(value: Any) -> str:
    try:
        return canonical(value)
    except (ValueError, TypeError, RecursionError):
        return ""  # equal to nothing else


def _places(structured: Any) -> Iterable[Any]:
    yield structured
    if isinstance(structured, Mapping):
        yield from (structured[name] for name in _WRAPPERS if name in structured)


def _found(structured: Any, path: str) -> Any:
    """Return the value at the dotted ``path``, or at that path inside a wrapper."""
    for place in _places(structured):
        value = place
        for step in path.split("."):
            if isinstance(value, Mapping):
                value = value.get(step)
            elif (
                isinstance(value, list | tuple) and step.isdecimal() and len(step) < 10
            ):
                value = value[int(step)] if int(step) < len(value) else None
            else:
                value = None
        if value is not None:
            return value
    return None


def rendered(template: str, structured: Any) -> str:
    """Return the template with its ``{placeholders}`` filled in one pass; empty if a
    value is missing. Placeholders inside values are not filled."""
    names = _PLACEHOLDER.findall(template)
    values = {name: _spoken(_found(structured, name)) for name in names}
    if not all(values.values()):
        return ""
    # A function, so that backslashes in a value are not read as references.
    return _PLACEHOLDER.sub(lambda found: values[found[1]], template)


def _spoken(value: Any) -> str:
    """Return a scalar, or a list of scalars, in words; else an empty text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        try:
            return str(value)
        except ValueError:  # more digits than Python writes
            return ""
    if isinstance(value, list | tuple) and value:
        nested = any(isinstance(entry, list | tuple) for entry in value)
        parts = [] if nested else [_spoken(entry) for entry in value]
        return ", ".join(parts) if all(parts) else ""
    return ""


def _short(text: str) -> str:
    if len(text) <= MESSAGE_LIMIT:
        return text
    return text[: MESSAGE_LIMIT - len(_CUT)].rstrip() + _CUT


@attrs.define(eq=False)
class JsonTextWriter:
    """A writer of JSON text of limited size, which reads no more than fits."""

    max_depth: int
    truncated: bool = attrs.field(default=False, init=False)

    def write(self, value: Any, room: int, depth: int = 0) -> str | None:
        """Return as much of ``value`` as fits into ``room`` bytes; None for nothing."""
        if isinstance(value, str):
            return self._string(value, room)
        if isinstance(value, Mapping | list | tuple):
            if room < 2:
                self.truncated = True
                return None
            if depth >= self.max_depth:
                self.truncated = True
                return self._string(_CUT, room)
            if isinstance(value, Mapping):
                return self.object(value, room, depth)
            return self._array(value, room, depth)
        if isinstance(value, float) and not math.isfinite(value):
            return self._string(str(value), room)
        try:
            text = json.dumps(value)
        except (TypeError, ValueError):  # no JSON type, or too many digits
            return self._string(f"[{type(value).__name__}]", room)
        if len(text) > room:
            self.truncated = True
            return None
        return text

    def object(self, value: Mapping[Any, Any], room: int, depth: int = 0) -> str:
        """Return as many entries as fit into ``room`` bytes, at least two bytes."""
        parts: list[str] = []
        left = room - 2
        for key, entry in value.items():
            name = _quoted(str(key)[: left + 1])
            left -= _size(name) + (2 if parts else 1)  # the colon, and the comma
            text = self.write(entry, left, depth + 1)
            if text is None:
                break
            left -= _size(text)
            parts.append(f"{name}:{text}")
        return "{" + ",".join(parts) + "}"

    def _array(self, value: Iterable[Any], room: int, depth: int) -> str:
        parts: list[str] = []
        left = room - 2
        for entry in value:
            left -= 1 if parts else 0
            text = self.write(entry, left, depth + 1)
            if text is None:
                break
            left -= _size(text)
            parts.append(text)
        return "[" + ",".join(parts) + "]"

    def _string(self, value: str, room: int) -> str | None:
        start = value[: max(room, 0)]  # every character takes at least a byte
        if len(start) == len(value) and _size(text := _quoted(value)) <= room:
            return text
        self.truncated = True
        fits, too_many = -1, len(start) + 1
        while too_many - fits > 1:
            count = (fits + too_many) // 2
            if _size(_quoted(start[:count] + _CUT)) <= room:
                fits = count
            else:
                too_many = count
        return None if fits < 0 else _quoted(start[:fits] + _CUT)


def _quoted(text: str) -> str:
    # A lone surrogate has no UTF-8 encoding; it becomes a question mark.
    return json.dumps(text.encode(errors="replace").decode(), ensure_ascii=False)


def _size(text: str) -> int:
    return len(text.encode())
