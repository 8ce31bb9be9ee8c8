"""The fields of an answer that only its model understands, and wants back. No I/O.

Servers that claim the chat completions API add fields of their own to an answer and to
its calls: reasoning, signatures of it, encrypted state. Some of them accept the result
of a call only together with these fields (Gemini 3, DeepSeek, Kimi), others refuse
every field they do not know (Mistral, Groq, Cerebras), but none has refused a field
that it had sent itself without saying so. So whatever a model sends beside its text and
its calls goes back to the same model as it came, and a refusal teaches the rest
(`abilities`).

In a stream such a field comes in pieces: `Collected` joins them. Text is appended; an
object gets what each piece adds; of a list of objects, a piece continues the last one
if it has the same ``index`` and ``type``. A field that says what an object is, such as
its ``type``, replaces the one before, and a whole value that comes twice counts once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from .llm import Message, Verbatim

MAX_SIZE: Final = 4 * 1024 * 1024  # characters of one answer

_PLAIN: Final = frozenset(
    {
        "role",
        "content",
        "tool_calls",
        "refusal",
        "function_call",  # the form of a call before ``tool_calls``
        "annotations",  # of links; the text has what is said
        "audio",
        "name",
        "channel",  # gpt-oss: of the harmony format, refused by its own servers
    }
)
_PLAIN_OF_CALL: Final = frozenset({"index", "id", "type", "function"})
_PLAIN_OF_FUNCTION: Final = frozenset({"name", "arguments"})
# What an object is, not what it says: a later value replaces the one before.
_NAMING: Final = frozenset({"type", "id", "format", "role", "name", "index", "object"})
_WORDS: Final = frozenset({"text", "summary", "content"})
_SIGNS: Final = ("signature", "opaque", "encrypted")  # of thoughts, and no words

# DeepSeek since 3.2 and Kimi refuse a past call without the thoughts before it; MiniMax
# and MiMo are worse without them.
_LATER: Final = re.compile(r"deepseek|kimi|moonshot|minimax|\bmimo\b", re.IGNORECASE)
# Those in its text as well; templates of others leave them out of the past.
_LATER_IN_TEXT: Final = re.compile(r"minimax", re.IGNORECASE)
_NUMBERS: Final = re.compile(r"kimi|moonshot", re.IGNORECASE)


@attrs.frozen(kw_only=True)
class OpaqueFields:
    """The fields of one answer.

    Args:
      message: the fields of the message.
      parts: the parts of its content that come before the text, such as thoughts. Their
        types count as their names.
      calls: the fields of each call by the call's id; ``function`` has those of its
        function.
      written: the thoughts that came in its text, as they came, with their tags.
    """

    message: Mapping[str, Any] = attrs.field(factory=dict)
    parts: Sequence[Mapping[str, Any]] = ()
    calls: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    written: str = ""

    @property
    def thinks(self) -> bool:
        """True if the model's thoughts are among the fields."""
        return bool(self.parts) or any(map(is_thought, self.message))

    @property
    def names(self) -> frozenset[str]:
        """The names of the fields of the message and of the calls."""
        calls = self.calls.values()
        inner = (call.get("function", ()) for call in calls)
        types = (str(part.get("type")) for part in self.parts)
        names = frozenset(self.message).union(*calls, *inner, types)
        return names - {"id", "function"}

    @property
    def signed(self) -> frozenset[str]:
        """The names of those that sign or encrypt a thought, anywhere in them."""
        calls = self.calls.values()
        inner = (call.get("function", {}) for call in calls)
        parts = ({str(x.get("type")): x} for x in self.parts)
        every = (self.message, *calls, *inner, *parts)
        signs = {
            name for x in every for name, value in x.items() if _signs(name, value)
        }
        return (self.names | {"id"}) & signs

    def without(self, names: frozenset[str]) -> OpaqueFields:
        """Return the fields without those of these names."""
        if not names & (self.names | {"id"}):
            return self
        return attrs.evolve(
            self,
            message=_less(self.message, names),
            parts=[x for x in self.parts if x.get("type") not in names],
            calls={key: _less_inside(x, names) for key, x in self.calls.items()},
        )

    def verbatim(self, writer: str, *, lasting: bool) -> Verbatim | None:
        """Return the fields as ``writer`` wants them back, None without any."""
        if not (self.message or self.parts or self.calls or self.written):
            return None
        text = json.dumps(attrs.asdict(self, recurse=False))
        return Verbatim(model=writer, content=text, lasting=lasting)


def opaque_fields(message: Message, writer: str) -> OpaqueFields:
    """Return the fields that ``writer`` wants back with its ``message``, if any."""
    if message.verbatim is None or message.verbatim.model != writer:
        return _NONE
    data = json.loads(message.verbatim.content)
    # A list is the form of another API, for which nothing is known here.
    return OpaqueFields(**data) if isinstance(data, dict) else _NONE


def sent_back(messages: Iterable[Message]) -> list[OpaqueFields]:
    """Return the fields of all answers, in the form of either API."""
    found: list[OpaqueFields] = []
    for content in (x.verbatim.content for x in messages if x.verbatim is not None):
        data = json.loads(content)
        thoughts = {"parts": of_content(data)}
        found.append(OpaqueFields(**(data if isinstance(data, dict) else thoughts)))
    return found


def is_thought(name: str) -> bool:
    """Return whether a field of this name has thoughts, or a sign of them."""
    return name.startswith(("reasoning", "thinking", "thought"))


def wants_thoughts_later(model: str) -> bool:
    """Return whether a model of this name wants its thoughts back in later turns.

    Others want them until the turn ends, and the past is shorter without them.
    """
    return _LATER.search(model) is not None


def wants_written_later(model: str) -> bool:
    """Return whether a model of this name wants thoughts in its text back in later
    turns as well."""
    return _LATER_IN_TEXT.search(model) is not None


def numbers_calls(model: str) -> bool:
    """Return whether a model of this name loses its way without ids of its own form."""
    return _NUMBERS.search(model) is not None


def plain_id(call_id: str) -> bool:
    """Return whether an id is of the kind that every server accepts."""
    return re.fullmatch(r"[A-Za-z0-9_-]{1,40}", call_id) is not None


def of_message(delta: Mapping[str, Any]) -> dict[str, Any]:
    """Return the opaque fields of a message, or of a piece of it."""
    return _less(delta, _PLAIN)


def of_call(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the opaque fields of a call, or of a piece of it."""
    fields = _less(entry, _PLAIN_OF_CALL)
    function = entry.get("function")
    more = _less(function, _PLAIN_OF_FUNCTION) if isinstance(function, dict) else {}
    return fields | {"function": more} if more else fields


def of_content(content: object) -> list[dict[str, Any]]:
    """Return the parts of a content that are thoughts."""
    parts = content if isinstance(content, list) else ()
    return [
        part
        for part in parts
        if isinstance(part, dict) and is_thought(str(part.get("type")))
    ]


def _less_inside(call: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    fields = _less(call, names)
    if "function" in fields:
        fields["function"] = _less(fields["function"], names)
    return fields


def _less(fields: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {name: x for name, x in fields.items() if name not in names}


@attrs.define(eq=False)
class Collected:
    """An object or a list that comes in pieces: `add` each, then take the `value`.

    ``size`` is how many characters the pieces had.
    """

    size: int = 0
    _value: Any = attrs.field(default=None, init=False)

    def add(self, piece: Mapping[str, Any] | Sequence[Any]) -> None:
        """Join a piece to the value."""
        if piece:
            self._value = self._joined(self._value, piece, "")

    @property
    def value(self) -> Any:
        """The value without what stayed empty, None if nothing is left."""
        value = _finished(self._value)
        if isinstance(value, dict):
            value = {name: x for name, x in value.items() if x not in _EMPTY}
        return value or None

    def _joined(self, old: Any, piece: object, name: str) -> Any:
        """Return the value of a field with another piece of it."""
        if isinstance(piece, str):
            self.size += len(piece)
            if not isinstance(old, _Growing) or name in _NAMING:
                return _Growing([piece])
            if old.parts != [piece] or _is_words(name):
                old.parts.append(piece)
            return old
        self.size += 1
        if isinstance(piece, dict):
            known = old if isinstance(old, dict) else {}
            for key, part in piece.items():
                if part is not None or key not in known:
                    known[key] = self._joined(known.get(key), part, key)
            return known
        if isinstance(piece, list):
            rows = old if isinstance(old, list) else []
            before = len(rows)
            for row in piece:
                # The rows of one piece are different ones, unless it numbers them.
                one = len(rows) == before or (isinstance(row, dict) and "index" in row)
                if rows and one and _continues(row, rows[-1]):
                    rows[-1] = self._joined(rows[-1], row, name)
                else:
                    rows.append(self._joined(None, row, name))
            return rows
        return piece


@attrs.define(eq=False)
class _Growing:
    """A text that is not complete. Its pieces are joined once, at the end."""

    parts: list[str]


def _is_words(name: str) -> bool:
    """Return whether the same piece twice means that it was said twice."""
    if name in _WORDS:
        return True
    return is_thought(name) and not _is_sign(name)


def _continues(row: object, last: object) -> bool:
    """Return whether a row of a list is the next piece of the last one."""
    if not (isinstance(last, dict) and isinstance(row, dict)):
        return False
    for name in ("type", "id", "index"):
        old, new = _finished(last.get(name)), row.get(name)
        if None not in (old, new) and old != new:
            return False
    if "index" in row:
        return True
    words = any(_is_words(name) and x for name, x in row.items())
    signed = any(_finished(x) for name, x in last.items() if _is_sign(name))
    # What follows a signature is another thought.
    return not (words and signed) and any(map(_is_words, row))


def _is_sign(name: str) -> bool:
    return any(sign in name for sign in _SIGNS)


def _signs(name: str, value: object, depth: int = 8) -> bool:
    """Return whether a field is a sign of thoughts, or has one in it."""
    if _is_sign(name):
        return True
    if isinstance(value, dict) and depth:
        return any(_signs(key, x, depth - 1) for key, x in value.items())
    if isinstance(value, list) and depth:
        return any(_signs("", x, depth - 1) for x in value)
    # A proxy may put the signature into the id of a call.
    told = {"type": _SIGNS, "id": ("thought",)}.get(name, ())
    return any(sign in str(value) for sign in told)


def _finished(value: Any) -> Any:
    """Return the value with its texts joined."""
    match value:
        case _Growing(parts):
            return "".join(parts)
        case dict():
            return {name: _finished(x) for name, x in value.items()}
        case list():
            return [_finished(x) for x in value]
    return value


_EMPTY: Final[tuple[object, ...]] = (None, "", [], {})
_NONE: Final = OpaqueFields()
