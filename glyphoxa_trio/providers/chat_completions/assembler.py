"""Turn a chat-completions stream into events, without I/O, however a server deviates.

Servers that claim this protocol differ in how they stream tool calls. The `Assembler`
does not know them by name, but goes by what it can distinguish:

* Text is passed on as it arrives. Calls are passed on together at the end of the
  stream, since a late fragment may still belong to any of them.
* A fragment belongs to the call with its ``index``; without an index to the call with
  its id, otherwise to the last one. It opens a new call if it brings a name and cannot
  continue the last one: another id; or, where ids do not tell, another name; or an
  object after an object that was already closed.
* Calls make a tool turn, whatever the finish reason says. If the answer was cut
  (``length``, ``content_filter``), a call whose arguments are not a whole JSON object
  is dropped: it never runs, and gets no result. The calls before it are complete, so
  they are passed on, and `Finished` says why the answer ended.
* Fields that nobody else understands, of the message and of its calls, go back to the
  model with the results (`providers.opaque`); they are attached to `Finished`.
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
from glyphoxa_trio.providers.failures import stream_error
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
    count,
    is_whole,
    string,
    well_formed,
)
from glyphoxa_trio.providers.template_calls import tool_named
from glyphoxa_trio.providers.templates import Templates
from glyphoxa_trio.providers.thoughts import Thoughts
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

    @property
    def arguments(self) -> str:
        return "".join(self.parts)

    def continued_by(self, call_id: str, name: str, fragment: str) -> bool:
        """Return whether a fragment continues this call."""
        if not name:
            return True
        if fragment.lstrip()[:1] == "{" and is_whole(self.arguments):
            return False
        if call_id and self.id:
            return call_id == self.id
        return self.name in ("", name)


@attrs.define(eq=False, kw_only=True)
class Assembler(answer.ResponseAssembler):
    """The builder of the events of one response of a server that claims this protocol.

    Args:
      thoughts: removes the model's thoughts from the text.
      templates: removes the marks of its chat template, and finds the calls in them.
      names: of the tools that it was offered.
      lasting: True if the model wants its thoughts back in later turns as well.
    """

    thoughts: Thoughts = attrs.field(factory=Thoughts)
    templates: Templates = attrs.field(factory=Templates)
    names: frozenset[str] = frozenset()
    lasting: bool = False
    _fields: Collected = attrs.field(factory=Collected, init=False)
    _parts: Collected = attrs.field(factory=Collected, init=False)
    _slots: list[_Slot] = attrs.field(factory=list, init=False)
    _size: int = attrs.field(default=0, init=False)

    def whole(self, text: str) -> list[str] | None:
        try:
            payload = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(payload, dict) or not payload.get("choices"):
            return None
        for choice in (
            payload["choices"] if isinstance(payload["choices"], list) else ()
        ):
            if isinstance(choice, dict) and "delta" not in choice:
                choice["delta"] = choice.pop("message", None)
        self.thoughts.come_whole()
        return [json.dumps(payload), "[DONE]"]

    def feed(self, data: str) -> list[LLMEvent]:
        if self._over or not data.strip():
            return []
        if data.strip() == "[DONE]":
            return self._end()
        return self._chunk(self._payloads.parsed(data))

    def _chunk(self, payload: dict[str, Any]) -> list[LLMEvent]:
        """Return the events of one chunk."""
        if payload.get("error"):
            raise stream_error(payload["error"], self.secret)
        if payload.get("object") == "error":
            raise stream_error(payload, self.secret)
        if isinstance(usage := payload.get("usage"), dict):
            of_input = usage.get("prompt_tokens_details")
            known = of_input if isinstance(of_input, dict) else {}
            self._usage = Usage(
                input_tokens=count(usage.get("prompt_tokens")),
                output_tokens=count(usage.get("completion_tokens")),
                cached_tokens=count(known.get("cached_tokens")),
                model=self.model,
            )
        for choice in self._payloads.as_list(payload.get("choices"), "choices"):
            choice = self._payloads.as_object(choice, "a choice")
            if choice.get("index") in (0, None):
                return self._choice(choice)
        return []

    def _choice(self, choice: dict[str, Any]) -> list[LLMEvent]:
        """Return the events of one choice."""
        delta = self._payloads.as_object(choice.get("delta") or {}, "a delta")
        if choice.get("error"):  # of a router, for the server behind it
            raise stream_error(choice["error"], self.secret)
        for entry in self._payloads.as_list(delta.get("tool_calls"), "tool_calls"):
            self._fragment(self._payloads.as_object(entry, "a tool call"))
        reason = choice.get("finish_reason")
        if reason == "error":
            raise LLMError(ErrorKind.INTERRUPTED, "the server gave up on the answer")
        if isinstance(reason, str) and reason:
            self._reason = reason
        # A refusal is what the model says; reasoning is not.
        text = self._text(delta.get("content")) + self._text(delta.get("refusal"))
        if len(delta) > 1 or "content" not in delta or not text:
            self._keep(delta)
        text = self.templates.feed(self.thoughts.feed(text)) if text else ""
        if text:
            return [TextChunk(text)]
        return [Working(calls=True)] if self._slots else []

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
        if isinstance(content, list):  # Mistral streams typed parts
            parts = [part for part in content if isinstance(part, dict)]
            return "".join(
                self._text(part.get("text"))
                for part in parts
                if part.get("type") == "text"
            )
        if content is None or isinstance(content, str):
            return well_formed(content or "")
        raise self._payloads.malformed("content is neither text nor parts of text")

    def _fragment(self, entry: dict[str, Any]) -> None:
        """Add a fragment to its call, or open a new one."""
        function = self._payloads.as_object(entry.get("function") or {}, "a function")
        index = entry.get("index")
        index = index if isinstance(index, int) else None
        call_id, name = string(entry.get("id")), string(function.get("name"))
        fragment = function.get("arguments")
        if isinstance(fragment, dict):
            fragment = json.dumps(fragment)
        elif fragment is None:
            fragment = ""
        elif not isinstance(fragment, str):
            raise self._payloads.malformed("arguments are neither text nor an object")
        slot = self._slot_of(index, call_id, name)
        if slot is not None and self._goes_on(slot, name):
            name, slot.name = "", slot.name + name
        if slot is None or not slot.continued_by(call_id, name, fragment):
            if not (call_id or name or fragment.strip() or of_call(entry)):
                return
            slot = _Slot(index)
            self._slots.append(slot)
        slot.id = slot.id or call_id
        slot.name = slot.name or name
        slot.parts.append(fragment)
        before = slot.fields.size
        slot.fields.add(of_call(entry))
        self._size += len(fragment) + slot.fields.size - before
        self._payloads.bounded(len(self._slots), self._size)

    def _goes_on(self, slot: _Slot, name: str) -> bool:
        """Return whether this is another piece of a tool's name."""
        if not name or slot.name in self.names or slot.arguments.strip():
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
        wanted = calls or (self.lasting and fields.thinks)
        return fields.verbatim(self.writer, lasting=self.lasting) if wanted else None

    def _calls(self, cut: bool) -> list[tuple[ToolCall, _Slot | None]]:
        """Return the calls; of an answer that was cut, only complete ones."""
        calls: list[tuple[ToolCall, _Slot | None]] = []
        used: set[str] = set()
        said: set[tuple[int | None, str, str, str]] = set()
        for slot in self._slots:
            arguments = slot.arguments
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
