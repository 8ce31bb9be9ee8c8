"""One socket of the fake Realtime server: its client's messages, and their effects."""

from __future__ import annotations

from typing import Any, Final

import attrs

import trio

from ..voice.shapes import ShapeMismatch
from ..voice.steps import (
    Close,
    Drop,
    Error,
    Expire,
    Freeze,
    ResponseStep,
    Send,
    UserSpeaks,
)
from ..voice.wire import Message
from .hearing import Hearing
from .items import FakeItem, ItemError, ModelCall
from .responding import FakeResponses
from .shapes import CLIENT
from .state import RealtimeState, copy

_CODES: Final = {
    "unknown": "unknown_parameter",
    "missing": "missing_required_parameter",
    "type": "invalid_type",
    "value": "invalid_value",
    "length": "array_above_max_length",
}
_EXPIRED: Final = "Your session hit the maximum duration of 60 minutes."


@attrs.define(eq=False)
class RealtimeSession(RealtimeState):
    """One socket: its state, and the parts that act on it."""

    hearing: Hearing = attrs.field(init=False, repr=False)
    responses: FakeResponses = attrs.field(init=False, repr=False)
    _greeted: bool = False
    _configured: bool = False

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.responses = FakeResponses(self)
        self.hearing = Hearing(self, self.responses)

    async def run(self) -> None:
        if "openai-beta" in self.wire.headers:
            code = "beta_api_shape_disabled"
            self.violate(code, "the beta is gone", {})
            self.error(code, "The beta API shape is disabled.")
            self.wire.end(Close(4000, code))
        elif self.service.opens_after:
            self.nursery.start_soon(self._greet_after, self.service.opens_after)
        else:
            self._greet()
        if self.service.lifetime is not None:
            self.nursery.start_soon(self._expire_after, self.service.lifetime)
        await self.wire.run(self._handle, self.happen)

    def _greet(self) -> None:
        self._greeted = True
        self.tell("session.created", session=copy(self.settings.now))

    async def _greet_after(self, seconds: float) -> None:
        await trio.sleep(seconds)
        self._greet()

    async def _expire_after(self, seconds: float) -> None:
        await trio.sleep(seconds)
        self.happen(Expire())

    def happen(self, event: ResponseStep) -> None:
        """Do a step that the script wants to happen on this socket."""
        match event:
            case UserSpeaks():
                self.hearing.user_speaks(event)
            case Error(code, text, kind):
                self.error(code, text, kind=kind)
            case Send(message):
                self.wire.emit(dict(message))
            case Expire():
                self.error("session_expired", _EXPIRED)
                self.wire.end(Close(1001, _EXPIRED))
            case Close() | Drop() | Freeze():
                self.wire.end(event)
            case _:
                raise ValueError(f"{event} cannot happen to a Realtime socket")

    # Messages of the client

    def _handle(self, message: Any) -> None:
        if not isinstance(message, dict):
            self.refuse({}, "invalid_json", "Every frame is one JSON object.")
            return
        if not self._greeted:
            self.violate("not_ready", "before session.created", message)
        try:
            event = CLIENT(message, "")
            self._take(event)
        except ShapeMismatch as error:
            detail = f"Invalid '{error.path}': {error.detail}"
            self.refuse(message, _CODES[error.kind], detail, error.path)
        except ItemError as error:
            self.refuse(message, error.code, error.detail, error.param)

    def _take(self, event: Message) -> None:
        kind = event["type"]
        if kind == "session.update":
            self._update(event["session"])
            return
        if not self._configured:
            self.violate("not_configured", f"{kind} before session.update", event)
            self._configured = True  # noted only once
        match kind:
            case "input_audio_buffer.append":
                self.hearing.append(event["audio"])
            case "input_audio_buffer.commit":
                self.hearing.commit()
            case "input_audio_buffer.clear":
                self.hearing.clear()
            case "conversation.item.create":
                self._create(event)
            case "conversation.item.retrieve":
                code = "item_retrieve_invalid_item_id"
                place = self.conversation.place(event["item_id"], code)
                item = copy(self.conversation.items[place].wire)
                self.tell("conversation.item.retrieved", item=item)
            case "conversation.item.delete":
                self.conversation.delete(event["item_id"])
                self.tell("conversation.item.deleted", item_id=event["item_id"])
            case "conversation.item.truncate":
                keys = ("item_id", "content_index", "audio_end_ms")
                what = {key: event[key] for key in keys}
                self.conversation.truncate(**what)
                self.tell("conversation.item.truncated", **what)
            case "response.create":
                self.responses.ask(event)
            case "response.cancel":
                self.responses.cancel(event)
            case _:
                raise ItemError("invalid_value", "That is for WebRTC only.", "type")

    def _update(self, changes: Message) -> None:
        self.settings.update(changes, speaking=self.responses.active is not None)
        self._configured = True
        self.tell("session.updated", session=copy(self.settings.now))

    def _create(self, event: Message) -> None:
        wire = dict(event["item"])
        call: ModelCall | None = None
        if wire["type"] == "function_call_output":
            call = self.conversation.answer(wire["call_id"])
        item = FakeItem(
            {
                "id": wire.pop("id", None) or self.new_id("item"),
                "object": "realtime.item",
                **wire,
                "status": "completed",
            }
        )
        self.conversation.add(item, event.get("previous_item_id"))
        if call is not None:
            if not call.over:
                self.violate("output_too_early", "its response still runs", event)
            self.conversation.answered(call)
        if wire["type"] == "function_call":  # history, sent by the client
            known = ModelCall(item, "", over=True)
            self.conversation.calls[known.id] = known
        self.show(item, "added")
        self.show(item, "done")
