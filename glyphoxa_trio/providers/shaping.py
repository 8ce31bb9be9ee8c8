"""Bring a conversation into the one shape that every model server accepts. No I/O.

Chat templates are strict, each in its own way, and a message that one of them refuses
costs the whole request. So a conversation is brought into a form that all accept:

* One system prompt, at the beginning. A later system message becomes text of the user's
  turn, marked as data, because it may contain the words of a tool.
* Turns alternate. The first and the last are the user's: a greeting, or an answer that
  has already begun, gets a line of the user's before or after it.
* Consecutive lines of users become one turn. The speaker is named in the text; further
  lines of the same speaker are indented, so that one player cannot speak as two.
* A call is followed by its result and by nothing else: a missing result is reported as
  missing, and a result without a call becomes data. No id occurs twice.

The same messages give the same shape, and more messages at the end leave all turns
before the last one of each side unchanged, so that servers find the prefix in their
caches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import attrs

from glyphoxa_trio.tools.outcome import ToolCall

from .llm import Message
from .opaque import OpaqueFields
from .payloads import safe_name

BEGIN: Final = "(The conversation begins.)"
GO_ON: Final = "(Go on exactly where you stopped, without saying it again.)"
NOTHING: Final = "…"  # stands for an empty utterance
_MISSING: Final = "There is no answer."
_MARK: Final = re.compile(r"<\s*[/\u2044\u2215\uff0f\\]\s*data", re.IGNORECASE)
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")  # OpenAI takes no longer ones
_SHORT: Final = re.compile(r"[A-Za-z0-9]{9}")


@attrs.frozen
class Text:
    """Words. ``name`` is the speaker, if ``text`` is theirs alone."""

    text: str
    name: str = ""

    def __str__(self) -> str:
        if not self.name:
            return self.text
        name = " ".join(self.name.split())
        return "\n  ".join(f"{name}: {self.text}".splitlines())


@attrs.frozen
class ShapedCall:
    """A call of the assistant's. ``fields``: what its model wants back with it."""

    call: ToolCall
    fields: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class Result:
    """The result of a call."""

    call: ToolCall
    content: str


@attrs.frozen
class Own:
    """Blocks that the model wants back as it wrote them, with its calls."""

    blocks: tuple[dict[str, Any], ...]


@attrs.frozen
class Extras:
    """The fields that the model wants back with the calls of this turn."""

    fields: OpaqueFields


Part = Text | ShapedCall | Result | Own | Extras
OpaqueOf = Callable[[Message], OpaqueFields | None]
Verbatim = Callable[[Message], tuple[str, Sequence[dict[str, Any]]]]


@attrs.frozen
class ShapedTurn:
    """The words and acts of one side until the other's turn. Results come first."""

    role: Literal["user", "assistant"]
    parts: tuple[Part, ...]

    @property
    def texts(self) -> list[Text]:
        """The words of this turn."""
        return [part for part in self.parts if isinstance(part, Text)]

    @property
    def calls(self) -> list[ShapedCall]:
        """The calls of this turn, without those in `Own` blocks."""
        return [part for part in self.parts if isinstance(part, ShapedCall)]

    @property
    def extras(self) -> OpaqueFields:
        """The fields that the model wants back with these calls."""
        # Calls come last, and what belongs to them with them.
        found = [part.fields for part in self.parts if isinstance(part, Extras)]
        return found[-1] if found else OpaqueFields()

    @property
    def results(self) -> list[Result]:
        """The results in this turn."""
        return [part for part in self.parts if isinstance(part, Result)]


@attrs.frozen
class Shaped:
    """The system prompt, and the turns."""

    system: str
    turns: tuple[ShapedTurn, ...]


def shape(
    messages: Sequence[Message],
    *,
    tool_messages: bool = True,
    short_ids: bool = False,
    numbered_ids: bool = False,
    verbatim: Verbatim = lambda _: ("", ()),
    opaque: OpaqueOf = lambda _: OpaqueFields(),
) -> Shaped:
    """Return the conversation as turns that alternate.

    Args:
      messages: the conversation.
      tool_messages: False describes calls and results in words of the user's turn.
      numbered_ids: True makes ids such as ``functions.roll:0``, as Kimi writes them.
      short_ids: True makes ids of nine letters and digits, as Mistral wants them.
      verbatim: returns the blocks of an answer as its model wants them back, and the
        text before them that was written for the model.
      opaque: returns the fields that the model wants back with an answer, and None if
        it accepts its calls only in words.
    """
    # Only the first message: a late result may be the second, and is no prompt.
    at = 1 if messages and messages[0].role == "system" else 0
    system = messages[0].content if at else ""
    spoken = _Spoken(tool_messages, short_ids, verbatim, opaque, numbered_ids).of(
        messages[at:]
    )
    return Shaped(system, tuple(_alternating(spoken)))


def data(text: str) -> str:
    """Mark text that no player has said, so that models do not take it for orders."""
    # Foreign text must not be able to end the mark, however a model reads it.
    return f"<data>\n{_MARK.sub('[/data', text)}\n</data>"


def _alternating(spoken: Iterable[tuple[str, list[Part]]]) -> Iterator[ShapedTurn]:
    """Yield alternating turns, with lines in between where they are missing."""
    turns: list[tuple[str, list[Part]]] = []
    for role, parts in spoken:
        if not parts:
            continue
        if not turns and role == "assistant":
            turns.append(("user", [Text(BEGIN)]))
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(parts)
        else:
            turns.append((role, [*parts]))
    if not turns:
        turns.append(("user", [Text(BEGIN)]))
    if turns[-1][0] == "assistant":
        turns.append(("user", [Text(GO_ON)]))
    for role, parts in turns:
        yield ShapedTurn("user" if role == "user" else "assistant", tuple(parts))


@attrs.define(eq=False)
class _Spoken:
    """Each message as parts of a role."""

    _tool_messages: bool
    _short_ids: bool
    _verbatim: Verbatim
    _opaque: OpaqueOf
    _numbered_ids: bool = False
    _used: set[str] = attrs.field(factory=set, init=False)

    def of(self, messages: Sequence[Message]) -> Iterator[tuple[str, list[Part]]]:
        """Yield the role and parts of each message."""
        at = 0
        while at < len(messages):
            message = messages[at]
            at += 1
            match message.role:
                case "system":
                    yield "user", [Text(data(message.content))] * bool(message.content)
                case "user":
                    words = message.content if message.content.strip() else NOTHING
                    yield "user", [Text(words, message.name)]
                case "tool":  # without a call
                    yield "user", [Text(data(_told(message.name, "", message.content)))]
                case "assistant":
                    end = at
                    while end < len(messages) and messages[end].role == "tool":
                        end += 1
                    answers = messages[at:end] if message.calls else ()
                    at += len(answers)
                    yield from self._answer(message, answers)

    def _answer(
        self, message: Message, answers: Sequence[Message]
    ) -> Iterator[tuple[str, list[Part]]]:
        """Yield an assistant's message with its results."""
        extras = self._opaque(message)
        written = {} if extras is None else extras.calls
        calls = [
            self._known(x, asis="id" in written.get(x.id, {})) for x in message.calls
        ]
        words: list[Part] = [Text(message.content)] * bool(message.content.strip())
        left = list(answers)
        results: list[Part] = []
        for call, was in zip(calls, message.calls, strict=True):
            found = next((x for x in left if x.call_id == was.id), None)
            if found is not None:
                left.remove(found)
            content = _MISSING if found is None else found.content
            results.append(Result(call, content))
        orphans = [Text(data(_told(x.name, "", x.content))) for x in left]
        if not calls:
            kept = extras is not None and (extras.message or extras.written)
            of_text = [Extras(extras)] if extras is not None and kept else []
            yield "assistant", [*words, *of_text] if words else []
            return
        if not self._tool_messages or extras is None:
            told = [_flat(x) for x in results if isinstance(x, Result)]
            yield "assistant", words
            yield "user", [*told, *orphans]
            return
        opener, blocks = self._verbatim(message)
        if blocks:
            if opener.strip():
                yield "assistant", [Text(opener)]
                yield "user", [Text(GO_ON)]
            ids = {x.id: y.id for x, y in zip(message.calls, calls, strict=True)}
            own = ({**x, "id": ids[x["id"]]} if "id" in x else x for x in blocks)
            yield "assistant", [Own(tuple(own))]
        else:
            fields = [extras.calls.get(was.id, {}) for was in message.calls]
            shaped = map(ShapedCall, calls, fields)
            yield "assistant", [*words, *[Extras(extras)] * bool(calls), *shaped]
        yield "user", [*results, *orphans]

    def _known(self, call: ToolCall, *, asis: bool) -> ToolCall:
        """Return the call with an id that may be used."""
        if self._numbered_ids:
            fresh = f"functions.{safe_name(call.name)}:{len(self._used)}"
            self._used.add(fresh)
        elif asis and not self._short_ids and call.id not in self._used:
            fresh = call.id
            self._used.add(fresh)
        else:
            fresh = self._id(call.id)
        return call if fresh == call.id else attrs.evolve(call, id=fresh)

    def _id(self, call_id: str) -> str:
        """Return the id, or another one that is the same in every request."""
        good = _SHORT if self._short_ids else _ID
        if good.fullmatch(call_id) and call_id not in self._used:
            fresh = call_id
        else:
            number = len(self._used)
            while (fresh := f"call{number:05d}") in self._used:
                number += 1
        self._used.add(fresh)
        return fresh


def _flat(result: Result) -> Text:
    """Return a result as words."""
    call = result.call
    return Text(data(_told(call.name, call.arguments, result.content)))


def _told(name: str, arguments: str, content: str) -> str:
    """Describe a call and its result in words."""
    asked = f" {arguments}" if arguments.strip() not in ("", "{}") else ""
    return f"{name or 'a tool'}{asked}: {content or 'done'}"
