"""Turn a chat-completions stream into events, without I/O, however a server deviates.

Servers that claim this protocol differ in how they stream tool calls. The `Assembler`
does not know them by name, but goes by what it can distinguish:

* Text is passed on as it arrives. Calls are passed on together at the end of the
  stream, since a late fragment may still belong to any of them.
* A fragment belongs to the call with its ``index``; without an index to the call with
  its id, otherwise to the last one. It opens a new call if it brings a name and cannot
  continue the last one: another id, unless the arguments go on; or, where ids do not
  tell, another name; or an object after an object that was already closed.
* Calls make a tool turn, whatever the finish reason says. If the answer was cut
  (``length``, ``content_filter``), a call whose arguments are not a whole JSON object
  is dropped: it never runs, and gets no result. The calls before it are complete, so
  they are passed on, and `Finished` says why the answer ended.
* Fields that nobody else understands, of the message and of its calls, and thoughts in
  its text go back to the model with the results (`providers.opaque`); they are attached
  to `Finished`.
* Calls that the model wrote into its text, in a form of its template, come after the
  others. One that says the same as another is that one.
* If a call's name is not a tool's name, and a piece makes it the beginning of one, the
  piece is part of the name. Words that a template puts around a name are left out.
* Ids are unique within a response. A missing id, and every repetition of one, becomes
  ``call_`` and 32 hex digits. The same id, index, name and arguments twice are one
  call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import attrs

from glyphoxa_trio.providers import answer
from glyphoxa_trio.providers.deltas import (
    Fragment,
    delta_of,
    fragment_of,
    place,
    rows,
    settled,
    text_of,
)
from glyphoxa_trio.providers.failures import error_in, stream_error, written_by_model
from glyphoxa_trio.providers.llm import (
    CallReady,
    ErrorKind,
    Finished,
    FinishReason,
    LLMError,
    LLMEvent,
    TextChunk,
    Usage,
    Verbatim,
    Working,
)
from glyphoxa_trio.providers.opaque import (
    MAX_SIZE,
    Collected,
    OpaqueFields,
    is_thought,
    of_call,
    of_content,
    of_message,
    plain_id,
)
from glyphoxa_trio.providers.payloads import (
    MAX_CALLS,
    count,
    is_whole,
    well_formed,
)
from glyphoxa_trio.providers.template_calls import calls_in, tool_named
from glyphoxa_trio.providers.templates import Templates
from glyphoxa_trio.providers.thoughts import Thoughts
from glyphoxa_trio.tools.arguments import InvalidArguments, load
from glyphoxa_trio.tools.outcome import ToolCall

_CUT: Final[Mapping[str, FinishReason]] = {
    "length": FinishReason.LENGTH,
    "content_filter": FinishReason.FILTERED,
}


@attrs.define(eq=False)
class _Slot:
    """An unfinished call."""

    index: int | None
    id: str = ""
    name: str = ""
    parts: list[str] = attrs.field(factory=list)
    fields: Collected = attrs.field(factory=Collected)
    _may_end: bool = attrs.field(default=False, init=False)
    _looks: int = attrs.field(default=0, init=False)

    @property
    def written(self) -> str:
        """All pieces of the arguments."""
        return "".join(self.parts).strip()

    def continued_by(self, piece: Fragment) -> bool:
        """Return whether a fragment continues this call."""
        if not piece.name:
            return True
        another = piece.id and piece.id != self.id
        opens = piece.arguments.lstrip()[:1] == "{"
        if (opens or another) and self._is_closed():
            # An empty object may come before the text.
            return bool(piece.id) and not another and self.written == "{}"
        if another and self.id:  # some make a new id for each piece
            if not piece.arguments.strip() or self.name != piece.name:
                return False
            return piece.index is not None or not opens
        return self.name in ("", piece.name)

    def add(self, arguments: str) -> None:
        """Add a piece of the arguments."""
        self.parts.append(arguments)
        if arguments.strip():
            self._may_end = arguments.rstrip()[-1] == "}"

    def _is_closed(self) -> bool:
        """Return whether the arguments are a whole object."""
        # So many times, since each of them reads all that came so far.
        if self._looks == MAX_CALLS or not self._may_end:
            return False
        self._looks += 1
        return is_whole(settled(self.parts))


@attrs.define(eq=False, kw_only=True)
class Assembler(answer.ResponseAssembler):
    """The builder of the events of one response of a server that claims this protocol.

    Args:
      thoughts: removes the model's thoughts from the text.
      templates: removes the marks of its chat template, and finds the calls in them.
      names: of the tools that it was offered.
      lasting: True if the model wants its thoughts back in later turns as well.
      written_lasting: True if it wants so those that are in its text.
    """

    thoughts: Thoughts = attrs.field(factory=Thoughts)
    templates: Templates = attrs.field(factory=Templates)
    names: frozenset[str] = frozenset()
    lasting: bool = False
    written_lasting: bool = False
    _fields: Collected = attrs.field(factory=Collected, init=False)
    _parts: Collected = attrs.field(factory=Collected, init=False)
    _slots: list[_Slot] = attrs.field(factory=list, init=False)
    _size: int = attrs.field(default=0, init=False)
    # True once a delta had a part of the answer, which is then no ``message``.
    _streams: bool = attrs.field(default=False, init=False)
    _legacy: bool = attrs.field(default=False, init=False)  # its calls are so

    def whole(self, text: str) -> list[str] | None:
        try:
            payloads = [json.loads(text)]
        except (ValueError, RecursionError):
            payloads = self._lines(text)
        if not payloads or not all(
            isinstance(x, dict) and x.get("choices") for x in payloads
        ):
            return None
        self.thoughts.come_whole()
        return [*map(json.dumps, payloads), "[DONE]"]

    def _lines(self, text: str) -> list[Any]:
        """Return the payloads of a stream without its form, one a line."""
        try:
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        except (ValueError, RecursionError):
            return []

    def rescued(self, text: str) -> list[str] | None:
        written = written_by_model(text)
        if not written or not self.names:
            return None
        marks = Templates(names=self.names)
        marks.feed(written)
        marks.end()
        calls = marks.besides(()) or calls_in(written, dict.fromkeys(self.names))
        if not calls or not all(_is_read(x) for _, x in calls):
            return None
        entries = [{"function": {"name": x, "arguments": y}} for x, y in calls]
        choice = {"delta": {"tool_calls": entries}, "finish_reason": "tool_calls"}
        return [json.dumps({"choices": [choice]}), "[DONE]"]

    def feed(self, data: str) -> list[LLMEvent]:
        if self._over or not data.strip():
            return []
        if data.strip() == "[DONE]":
            return self._end()
        try:
            payload = json.loads(data)
        except (ValueError, RecursionError):
            return self._pieces(data)
        if isinstance(payload, dict):
            return self._chunk(payload)
        if payload in (None, []) or self._reason:
            return []
        if (error := error_in(payload)) is not None:
            raise stream_error(error, self.secret)
        raise self._payloads.malformed(f"a chunk is not an object: {data}")

    def _pieces(self, data: str) -> list[LLMEvent]:
        """Return the events of several payloads that came as one.

        Some servers leave out the blank line between them, or write their name twice.
        """
        lines = data.splitlines()
        bare = [line.strip().removeprefix("data:") for line in lines]
        if bare == [data.strip()]:
            if self._reason:
                return []  # after the end of the answer
            error = stream_error(data, self.secret)
            if error.kind is not ErrorKind.INTERRUPTED:
                raise error
            raise self._payloads.malformed(f"not JSON: {data}")
        return [event for line in bare for event in self.feed(line)]

    def _chunk(self, payload: dict[str, Any]) -> list[LLMEvent]:
        """Return the events of one chunk."""
        choices = rows(payload.get("choices"))
        failed = payload.get("error") or payload.get("object") == "error"
        # After the end of the answer, words of the server's are of its bookkeeping.
        told = failed or not (choices or self._reason)
        if told and (error := error_in(payload)) is not None:
            raise stream_error(error, self.secret)
        if isinstance(usage := payload.get("usage"), dict):
            of_input = usage.get("prompt_tokens_details")
            known = of_input if isinstance(of_input, dict) else {}
            self._usage = Usage(
                input_tokens=count(usage.get("prompt_tokens")),
                output_tokens=count(usage.get("completion_tokens")),
                cached_tokens=count(known.get("cached_tokens")),
                model=self.model,
            )
        for choice in choices:
            choice = self._payloads.as_object(choice, "a choice")
            if place(choice.get("index")) in (0, None):
                return self._choice(choice)
        return []

    def _choice(self, choice: dict[str, Any]) -> list[LLMEvent]:
        """Return the events of one choice."""
        delta = self._payloads.as_object(
            delta_of(choice, begun=self._streams), "a delta"
        )
        if choice.get("error"):  # of a router, for the server behind it
            raise stream_error(error_in({"error": choice["error"]}), self.secret)
        for entry in self._entries(delta):
            self._fragment(self._payloads.as_object(entry, "a tool call"))
        # A refusal is what the model says; reasoning is not.
        text = self._text(delta.get("content")) + self._text(delta.get("refusal"))
        if len(delta) > 1 or "content" not in delta or not text:
            self._keep(delta)
        self.begun = self.begun or bool(text or self._slots or self._fields.size)
        self._streams = self._streams or (self.begun and bool(choice.get("delta")))
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self._stop(reason)
        if not text:
            return [Working(calls=True)] if self._slots else []
        text = self.thoughts.feed(text)
        events: list[LLMEvent] = []
        if self.thoughts.unsaid:
            self.thoughts.unsaid = False
            self.templates = attrs.evolve(self.templates)  # calls in it are none
            events.append(Working(unsaid=True))
        if text := self.templates.feed(text):
            events.append(TextChunk(text))
        return events or ([Working(calls=True)] if self._slots else [])

    def _stop(self, reason: str) -> None:
        """Take the reason why the answer ends.

        Raises:
          LLMError: if it was given up.
        """
        self._reason = reason
        if reason == "error":
            raise LLMError(ErrorKind.INTERRUPTED, "the server gave up on the answer")
        if not self.begun and "malformed_function_call" in reason.lower():  # Gemini
            raise self._payloads.malformed(
                f"the server could not read a call: {reason}"
            )

    def _entries(self, delta: Mapping[str, Any]) -> list[Any]:
        """Return the pieces of calls in a delta."""
        entries = rows(delta.get("tool_calls"))
        legacy = delta.get("function_call")  # the form before; some send both
        if isinstance(legacy, dict) and not entries:
            if not self._slots:
                self._legacy = True
                return [{"function": legacy}]
            # There is only one, so its name says nothing when it comes again.
            return [{"function": legacy | {"name": None}}] * self._legacy
        return entries

    def _keep(self, delta: dict[str, Any]) -> None:
        """Keep what the model wants back beside its text and its calls."""
        fields, parts = of_message(delta), of_content(delta.get("content"))
        self._fields.add(fields)
        self._parts.add(parts)
        if self._fields.size + self._parts.size > MAX_SIZE:
            raise self._payloads.malformed(f"more than {MAX_SIZE} characters of fields")
        if parts or any(is_thought(name) and x for name, x in fields.items()):
            self.thoughts.elsewhere()

    def _text(self, content: object) -> str:
        """Return the text of a message's content."""
        text = text_of(content)
        if text is None:
            raise self._payloads.malformed("content is neither text nor parts of text")
        return well_formed(text)

    def _fragment(self, entry: dict[str, Any]) -> None:
        """Add a fragment to its call, or open a new one."""
        piece = fragment_of(entry)
        slot = self._slot_of(piece.index, piece.id, piece.name)
        if slot is not None and self._goes_on(slot, piece.name):
            slot.name, piece = slot.name + piece.name, attrs.evolve(piece, name="")
        fields = of_call(piece.fields)
        if slot is None or not slot.continued_by(piece):
            if not (piece.id or piece.name or piece.arguments.strip() or fields):
                return
            slot = _Slot(piece.index)
            self._slots.append(slot)
        slot.id = slot.id or piece.id
        slot.name = slot.name or piece.name
        slot.add(piece.arguments)
        before = slot.fields.size
        slot.fields.add(fields)
        self._size += len(piece.arguments) + slot.fields.size - before
        self._payloads.bounded(len(self._slots), self._size)

    def _goes_on(self, slot: _Slot, name: str) -> bool:
        """Return whether this is another piece of a tool's name."""
        if not name or slot.name in self.names or slot.written:
            return False
        return any(known.startswith(slot.name + name) for known in self.names)

    def _slot_of(self, index: int | None, call_id: str, name: str) -> _Slot | None:
        """Return the call that a fragment may belong to."""
        slots = [slot for slot in reversed(self._slots) if index in (None, slot.index)]
        by_id = (slot for slot in slots if call_id and slot.id == call_id)
        latest = slots[0] if slots else None
        if latest is None and self._slots and not name:
            latest = self._slots[-1]  # an index that only continuations have
        return next(by_id, latest)

    def _end(self) -> list[LLMEvent]:
        self._over = True
        reason = _CUT.get(self._reason or "", FinishReason.STOP)
        cut = reason in (FinishReason.LENGTH, FinishReason.FILTERED)
        text = self.templates.feed(self.thoughts.end(cut=cut))
        text += self.templates.end(cut=cut)
        words = [TextChunk(text)] if text else []
        calls = self._calls(cut)
        if not cut:
            reason = FinishReason.TOOL_CALLS if calls else FinishReason.STOP
        end = Finished(reason=reason, usage=self._usage, verbatim=self._verbatim(calls))
        return [*words, *(CallReady(call) for call, _ in calls), end]

    def _verbatim(self, calls: list[tuple[ToolCall, _Slot | None]]) -> Verbatim | None:
        """Return what the model wants back with its calls."""
        of_calls = {
            call.id: (slot.fields.value or {})
            | ({} if plain_id(slot.id) or call.id != slot.id else {"id": slot.id})
            for call, slot in calls
            if slot
        }
        fields = OpaqueFields(
            message=self._fields.value or {},
            parts=self._parts.value or (),
            calls={key: x for key, x in of_calls.items() if x},
        )
        lasting, written = self.lasting, self.thoughts.written
        if written and (self.written_lasting or not (lasting and fields.thinks)):
            fields = attrs.evolve(fields, written=written)
            lasting = self.written_lasting
        wanted = calls or (lasting and (fields.thinks or fields.written))
        return fields.verbatim(self.writer, lasting=lasting) if wanted else None

    def _calls(self, cut: bool) -> list[tuple[ToolCall, _Slot | None]]:
        """Return the calls; of an answer that was cut, only complete ones."""
        calls: list[tuple[ToolCall, _Slot | None]] = []
        used: set[str] = set()
        said: set[tuple[int | None, str, str, str]] = set()
        for slot in self._slots:
            arguments = settled(slot.parts)
            if cut and not (slot.name and is_whole(arguments)):
                continue
            if not (slot.name or slot.id or arguments.strip()):
                continue  # fields of a call that never came
            if not slot.name:
                raise self._payloads.malformed("a tool call without a name")
            whole = (slot.index, slot.id, slot.name, arguments)
            if slot.id and whole in said:
                continue
            said.add(whole)
            fresh = slot.id and slot.id not in used
            call_id = slot.id if fresh else self.new_id()
            used.add(call_id)
            # Some servers send no arguments for an empty object.
            text = well_formed(arguments) if arguments.strip() else "{}"
            name = tool_named(slot.name, self.names) or slot.name
            calls.append((ToolCall(call_id, name, text), slot))
        for name, arguments in self.templates.besides(call for call, _ in calls):
            calls.append((ToolCall(self.new_id(), name, arguments), None))
        self._payloads.bounded(len(calls), self._size)
        return calls


def _is_read(arguments: str) -> bool:
    """Return whether arguments are an object, or almost one."""
    try:
        load(arguments)
    except InvalidArguments:
        return False
    return True
