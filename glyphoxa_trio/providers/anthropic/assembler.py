"""Turn a Messages stream into events, without I/O.

A response is a sequence of blocks. Text is passed on as it arrives; calls are passed on
together at the end, when it is known why the response ended:

* If it was cut (``max_tokens``, a full context), the last call is dropped unless its
  arguments are a whole object: it never runs. The calls before it are complete, so they
  are passed on.
* If it was refused, no call is passed on.
* Otherwise the model's text is passed on unchanged; missing arguments become ``{}``.

Thoughts become nothing but `Working`. If calls follow them, the whole response is
attached to `Finished`, with signatures: without its thoughts the server does not accept
the calls in the next request. A ping before the first block says nothing about the
model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import attrs

from glyphoxa_trio.providers import answer
from glyphoxa_trio.providers.deltas import arguments_of, place, rows, settled
from glyphoxa_trio.providers.failures import error_in, stream_error
from glyphoxa_trio.providers.llm import (
    CallReady,
    Finished,
    FinishReason,
    LLMEvent,
    TextChunk,
    Usage,
    Verbatim,
    Working,
)
from glyphoxa_trio.providers.opaque import plain_id
from glyphoxa_trio.providers.payloads import (
    count,
    is_whole,
    safe_name,
    string,
    well_formed,
)
from glyphoxa_trio.providers.template_calls import tool_named
from glyphoxa_trio.providers.templates import Templates
from glyphoxa_trio.providers.thoughts import Thoughts
from glyphoxa_trio.tools.arguments import as_object
from glyphoxa_trio.tools.outcome import ToolCall

from .wire import THOUGHTS

MAX_KEPT: Final = 4 * 1024 * 1024  # characters of one response

_OF_A_CALL: Final = frozenset({"type", "id", "name", "input"})
_ENDS: Final[Mapping[str, FinishReason]] = {
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "refusal": FinishReason.FILTERED,
}


@attrs.define(eq=False)
class _Block:
    """One unfinished block: its first fields, and the pieces that came since."""

    first: dict[str, Any]
    kind: str
    parts: list[str] = attrs.field(factory=list)
    signature: str = ""
    closed: bool = False

    def is_same(self, other: _Block) -> bool:
        """Return whether the other one is this block, begun once more."""
        begun = self.closed or any(self.parts)
        return not begun and "id" in self.first and self.first == other.first

    @property
    def text(self) -> str:
        """The text that the block began with, if any, and the pieces."""
        return string(self.first.get(self.kind)) + "".join(self.parts)

    @property
    def arguments(self) -> str:
        """The arguments as the model wrote them.

        Some servers send all of them when the block starts.
        """
        written, given = settled(self.parts), self.first.get("input")
        return arguments_of(given) if given and not written.strip() else written

    def again(self, call: ToolCall | None) -> dict[str, Any] | None:
        """Return the block as the server takes it back; None if it takes none."""
        match self.kind:
            case "text" if self.text.strip():
                return {"type": "text", "text": self.text}
            case "thinking":
                signature = self.signature or string(self.first.get("signature"))
                return {
                    "type": "thinking",
                    "thinking": self.text,
                    "signature": signature,
                }
            case "redacted_thinking":
                return {"type": self.kind, "data": self.first.get("data")}
            case "tool_use" if call is not None:
                return {
                    **self.first,  # such as a signature
                    "type": "tool_use",
                    "id": call.id,
                    "name": safe_name(call.name),
                    "input": as_object(call.arguments),
                }
        return None


@attrs.define(eq=False, kw_only=True)
class Assembler(answer.ResponseAssembler):
    """The builder of the events of one response of a Messages server.

    Args:
      names: of the tools that the model was offered.
      templates: removes the marks of its chat template, and finds the calls in them.
      lasting: True if the model wants its thoughts back in later turns as well.
    """

    names: frozenset[str] = frozenset()
    templates: Templates = attrs.field(factory=Templates)
    lasting: bool = False
    _blocks: dict[int, _Block] = attrs.field(factory=dict, init=False)  # as they began
    # The number of the block that has an index of the server's.
    _places: dict[int | None, int] = attrs.field(factory=dict, init=False)
    _thoughts: Thoughts = attrs.field(factory=Thoughts, init=False)
    _kept: int = attrs.field(default=0, init=False)
    _written: int = attrs.field(default=0, init=False)  # of that, arguments of calls

    def whole(self, text: str) -> list[str] | None:
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            return None
        match message:
            case {"type": "message"} | {"role": "assistant", "content": _}:
                pass
            case _:
                return None
        start: dict[str, Any] = {"type": "message_start", "message": message}
        content = message.get("content")
        words = [{"type": "text", "text": content}]
        blocks = words if isinstance(content, str) else rows(content)
        found = [start]
        for at, block in enumerate(blocks):
            found.append(
                {"type": "content_block_start", "index": at, "content_block": block}
            )
        found.append({"type": "message_delta", "delta": message})
        return [json.dumps(row) for row in [*found, {"type": "message_stop"}]]

    def feed(self, data: str) -> list[LLMEvent] | None:
        if self._over or not data.strip():
            return None
        if data.strip() == "[DONE]":  # of the other API
            return self._end()
        payload = self._payloads.parsed(data)
        kind = payload.get("type") or _kind_of(payload)
        # After the end of the answer, words of the server's are of its bookkeeping.
        failed = kind == "error" or (kind is None and payload.get("error"))
        told = failed or not (kind or self._reason)
        if told and (error := error_in(payload)) is not None:
            raise stream_error(error, self.secret)
        match kind:
            case "message_start":
                message = self._payloads.as_object(payload.get("message"), "a message")
                self._count(message.get("usage"))
                return None
            case "content_block_start":
                return self._begin(payload)
            case "content_block_delta":
                return self._go_on(payload)
            case "content_block_stop":
                if (block := self._block(payload)) is not None:
                    block.closed = True
            case "message_delta":
                delta = payload.get("delta")
                delta = self._payloads.as_object(
                    {} if delta is None else delta, "a delta"
                )
                self._reason = string(delta.get("stop_reason")) or self._reason
                self._count(payload.get("usage"))
            case "message_stop":
                return self._end()
        return [] if self._blocks else None

    def _begin(self, payload: dict[str, Any]) -> list[LLMEvent]:
        """Start a block."""
        self.begun = True
        first = self._payloads.as_object(payload.get("content_block"), "a block")
        block = _Block(first, string(first.get("type")))
        index = place(payload.get("index"))
        known = self._blocks.get(self._places.get(index, -1))
        if known is not None and known.is_same(block):
            return []
        # Some number all blocks alike, or none.
        self._places[index] = len(self._blocks)
        self._blocks[len(self._blocks)] = block
        self._keep(block, "")
        if block.kind == "tool_use":
            return [Working(calls=True)]
        return self._say(block.text) if block.kind == "text" else []

    def _block(self, payload: dict[str, Any]) -> _Block | None:
        """Return the block that an event is about, if it has begun."""
        index = place(payload.get("index"))
        if index is None and self._blocks:
            return self._blocks[len(self._blocks) - 1]
        block = self._blocks.get(self._places.get(index, -1))
        if block is None and payload.get("index") != index:
            raise self._payloads.malformed("an event of a block without its index")
        return block

    def _say(self, text: str) -> list[LLMEvent]:
        """Return the text that may be spoken, without thoughts."""
        said, taken_back = self._thoughts.feed(well_formed(text)), self._thoughts.unsaid
        if taken_back:
            self._thoughts.unsaid = False
            self.templates = attrs.evolve(self.templates)  # calls in it are none
        said = self.templates.feed(said)
        words: list[LLMEvent] = [TextChunk(said)] if said else []
        return [Working(unsaid=True), *words] if taken_back else words

    def _go_on(self, payload: dict[str, Any]) -> list[LLMEvent]:
        """Add a delta to its block."""
        delta = self._payloads.as_object(payload.get("delta"), "a delta")
        kind = string(delta.get("type")) or _kind_of_delta(delta)
        block = self._block(payload)
        if block is None:
            raise self._payloads.malformed("a delta of a block that has not begun")
        match kind:
            case "text_delta":
                return self._say(self._keep(block, delta.get("text")))
            case "input_json_delta":
                self._keep(block, arguments_of(delta.get("partial_json")))
            case "thinking_delta":
                self._keep(block, delta.get("thinking"))
            case "signature_delta":
                block.signature = self._keep(block, delta.get("signature"), part=False)
        return []

    def _keep(self, block: _Block, piece: object, *, part: bool = True) -> str:
        """Store a piece of a block, and check the limits."""
        if not isinstance(piece := "" if piece is None else piece, str):
            raise self._payloads.malformed("a delta has no text")
        if part:
            block.parts.append(piece)
        self._kept += len(piece)
        if block.kind == "tool_use":
            self._written += len(piece)
            calls = sum(each.kind == "tool_use" for each in self._blocks.values())
            self._payloads.bounded(calls, self._written)
        if self._kept + len(self._blocks) > MAX_KEPT:
            raise self._payloads.malformed(f"more than {MAX_KEPT} characters")
        return piece

    def _count(self, given: object) -> None:
        """Take the usage figures. They are totals; a missing figure is unchanged."""
        if not isinstance(given, dict):
            return
        before = self._usage or Usage(model=self.model)
        cached = count(given.get("cache_read_input_tokens"))
        fresh = given.get("input_tokens")
        told = count(fresh) + count(given.get("cache_creation_input_tokens")) + cached
        self._usage = Usage(
            input_tokens=before.input_tokens if fresh is None else told,
            output_tokens=count(given.get("output_tokens")) or before.output_tokens,
            cached_tokens=before.cached_tokens if fresh is None else cached,
            model=self.model,
        )

    def _end(self) -> list[LLMEvent]:
        self._over = True
        reason = _ENDS.get(self._reason or "", FinishReason.STOP)
        cut = reason in (FinishReason.LENGTH, FinishReason.FILTERED)
        text = self.templates.feed(self._thoughts.end(cut=cut))
        text += self.templates.end(cut=cut)
        calls = {} if reason is FinishReason.FILTERED else self._calls(reason)
        if calls and reason is FinishReason.STOP:
            reason = FinishReason.TOOL_CALLS
        end = Finished(reason=reason, usage=self._usage, verbatim=self._verbatim(calls))
        words = [TextChunk(text)] if text else []
        return [*words, *map(CallReady, calls.values()), end]

    def _calls(self, reason: FinishReason) -> dict[int, ToolCall]:
        """Return the calls by the index of their block, in order."""
        calls: dict[int, ToolCall] = {}
        used: set[str] = set()
        last = next(reversed(self._blocks), None)
        for index, block in self._blocks.items():
            if block.kind != "tool_use":
                continue
            name, arguments = string(block.first.get("name")), block.arguments
            cut = reason is FinishReason.LENGTH and index == last
            if cut and not (name and is_whole(arguments)):
                continue
            if not name:
                raise self._payloads.malformed("a tool call without a name")
            call_id = string(block.first.get("id"))
            if not call_id or call_id in used:
                call_id = self.new_id()
            used.add(call_id)
            text = well_formed(arguments) if arguments.strip() else "{}"
            name = tool_named(name, self.names) or name
            calls[index] = ToolCall(call_id, name, text)
        for name, arguments in self.templates.besides([*calls.values()]):
            index = max((*self._blocks, *calls), default=-1) + 1
            calls[index] = ToolCall(self.new_id(), name, arguments)
        self._payloads.bounded(len(calls), self._written)
        return calls

    def _verbatim(self, calls: Mapping[int, ToolCall]) -> Verbatim | None:
        """Return the response as the server takes it back, if it needs its thoughts."""
        thought = any(block.kind in THOUGHTS for block in self._blocks.values())
        extra = any(
            block.first.keys() - _OF_A_CALL or not plain_id(calls[at].id)
            for at, block in self._blocks.items()
            if at in calls
        )
        if not (calls and (thought or extra)):
            return None
        again = [block.again(calls.get(at)) for at, block in self._blocks.items()]
        # Those that it wrote into its text are calls like the others.
        for at, call in calls.items():
            if at not in self._blocks:
                first = {"id": call.id, "name": call.name}
                again.append(_Block(first, "tool_use").again(call))
        content = json.dumps([block for block in again if block is not None])
        return Verbatim(model=self.writer, content=content, lasting=self.lasting)


def _kind_of(payload: Mapping[str, Any]) -> str | None:
    """Return what an event without a type is; some name it only beside its data."""
    delta = payload.get("delta")
    if "content_block" in payload:
        return "content_block_start"
    if isinstance(delta, dict):
        return "message_delta" if "stop_reason" in delta else "content_block_delta"
    return "message_start" if isinstance(payload.get("message"), dict) else None


def _kind_of_delta(delta: Mapping[str, Any]) -> str:
    """Return what a delta without a type is, by its field."""
    kinds = {
        "text": "text_delta",
        "partial_json": "input_json_delta",
        "thinking": "thinking_delta",
        "signature": "signature_delta",
    }
    return next((kind for name, kind in kinds.items() if name in delta), "")
