"""One socket of the fake Realtime server: what its client says, and what follows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

import attrs

import trio

from ..voice.front import Violation
from ..voice.shapes import Misfit
from ..voice.steps import (
    Close,
    Drop,
    Error,
    Expire,
    Freeze,
    Send,
    Step,
    UserSpeaks,
)
from ..voice.wire import Message, Wire
from .hearing import Hearing
from .items import Call, Conversation, Item, ItemError
from .responding import Responses
from .settings import Settings
from .shapes import CLIENT

if TYPE_CHECKING:
    from ..realtime_server import RealtimeServer

_CODES: Final = {
    "unknown": "unknown_parameter",
    "missing": "missing_required_parameter",
    "type": "invalid_type",
    "value": "invalid_value",
    "length": "array_above_max_length",
}
_INVALID: Final = "invalid_request_error"
_EXPIRED: Final = "Your session hit the maximum duration of 60 minutes."


@attrs.define(eq=False)
class RealtimeSession:
    """The state of one socket, as the vendor keeps it.

    ``errors`` are what the error events said that it was sent.
    """

    wire: Wire
    server: RealtimeServer = attrs.field(repr=False)
    nursery: trio.Nursery = attrs.field(repr=False)
    settings: Settings = attrs.field(init=False)
    conversation: Conversation = attrs.field(factory=Conversation, repr=False)
    hearing: Hearing = attrs.field(init=False, repr=False)
    responses: Responses = attrs.field(init=False, repr=False)
    errors: list[Message] = attrs.field(factory=list, repr=False)
    conversation_id: str = attrs.field(init=False)
    _greeted: bool = False
    _configured: bool = False
    _ids: count[int] = attrs.field(factory=count, repr=False)

    def __attrs_post_init__(self) -> None:
        query = parse_qs(urlsplit(self.wire.path).query)
        self.settings = Settings(query["model"][0])
        self.hearing = Hearing(self, self.server.hears)
        self.responses = Responses(self)
        self.conversation_id = self.new_id("conv")
        self.wire.on_event = self.happen

    async def run(self) -> None:
        if "openai-beta" in self.wire.headers:
            code = "beta_api_shape_disabled"
            self.violate(code, "the beta is gone", {})
            self._error(code, "The beta API shape is disabled.")
            self.wire.end(Close(4000, code))
        elif self.server.opens_after:
            self.nursery.start_soon(self._greet_after, self.server.opens_after)
        else:
            self._greet()
        if self.server.lifetime is not None:
            self.nursery.start_soon(self._expire_after, self.server.lifetime)
        await self.wire.run(self._handle)

    def _greet(self) -> None:
        self._greeted = True
        self.tell("session.created", session=_copy(self.settings.now))

    async def _greet_after(self, seconds: float) -> None:
        await trio.sleep(seconds)
        self._greet()

    async def _expire_after(self, seconds: float) -> None:
        await trio.sleep(seconds)
        self.happen(Expire())

    # What is said

    def tell(self, kind: str, **fields: Any) -> None:
        """An event, on its way at once."""
        self.wire.emit({"type": kind, "event_id": self.new_id("event"), **fields})

    def new_id(self, kind: str) -> str:
        """Never that of another socket, so that calls cannot be mixed up."""
        return f"{kind}_{self.wire.number}_{next(self._ids)}"

    def violate(self, code: str, detail: str, message: Mapping[str, Any]) -> None:
        """Note what the client must not do."""
        found = Violation(self.wire.number, code, detail, message)
        self.server.violations.append(found)

    def _error(
        self,
        code: str | None,
        detail: str,
        *,
        param: str | None = None,
        event_id: str | None = None,
        kind: str = _INVALID,
    ) -> None:
        error = {
            "type": kind,
            "code": code,
            "message": detail,
            "param": param,
            "event_id": event_id,
        }
        self.errors.append(error)
        self.tell("error", error=error)

    def _refuse(
        self, message: Message, code: str, detail: str, param: str | None = None
    ) -> None:
        """Note it, and answer."""
        self.violate(code, detail, message)
        self.say_no(message, code, detail, param)

    def say_no(
        self, message: Message, code: str, detail: str, param: str | None = None
    ) -> None:
        """Answer as the vendor does: the session goes on."""
        event_id = message.get("event_id")
        known = event_id if isinstance(event_id, str) else None
        self._error(code, detail, param=param, event_id=known)

    def happen(self, event: Step) -> None:
        """Something that the script wants to happen to this socket."""
        match event:
            case UserSpeaks():
                self.hearing.user_speaks(event)
            case Error(code, text, kind):
                self._error(code, text, kind=kind)
            case Send(message):
                self.wire.emit(dict(message))
            case Expire():
                self._error("session_expired", _EXPIRED)
                self.wire.end(Close(1001, _EXPIRED))
            case Close() | Drop() | Freeze():
                self.wire.end(event)
            case _:
                raise ValueError(f"{event} cannot happen to a Realtime socket")

    # What the client says

    def _handle(self, message: Any) -> None:
        if not isinstance(message, dict):
            self._refuse({}, "invalid_json", "Every frame is one JSON object.")
            return
        if not self._greeted:
            self.violate("not_ready", "before session.created", message)
        try:
            event = CLIENT(message, "")
            self._take(event)
        except Misfit as error:
            detail = f"Invalid '{error.path}': {error.detail}"
            self._refuse(message, _CODES[error.kind], detail, error.path)
        except ItemError as error:
            self._refuse(message, error.code, error.detail, error.param)

    def _take(self, event: Message) -> None:
        kind = event["type"]
        if kind == "session.update":
            self._update(event["session"])
            return
        if not self._configured:
            self.violate("not_configured", f"{kind} before session.update", event)
            self._configured = True  # once is enough
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
                item = _copy(self.conversation.items[place].wire)
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
        self.tell("session.updated", session=_copy(self.settings.now))

    def _create(self, event: Message) -> None:
        wire = dict(event["item"])
        call: Call | None = None
        if wire["type"] == "function_call_output":
            call = self.conversation.answer(wire["call_id"])
        item = Item(
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
            call.answered = True
        if wire["type"] == "function_call":  # history, told by the client
            known = Call(item, "", over=True)
            self.conversation.calls[known.id] = known
        self._show(item, "added")
        self._show(item, "done")

    def add_item(self, item: Item, *, done: bool) -> None:
        """An item of the server's own, at the end of the conversation."""
        self.conversation.add(item)
        self._show(item, "added")
        if done:
            self._show(item, "done")

    def item_done(self, item: Item) -> None:
        if item in self.conversation.items:  # else the client has deleted it
            self._show(item, "done")

    def _show(self, item: Item, what: str) -> None:
        before = self.conversation.before(item)
        shown = _copy(item.wire)
        self.tell(f"conversation.item.{what}", previous_item_id=before, item=shown)


def _copy(data: dict[str, Any]) -> dict[str, Any]:
    copied: dict[str, Any] = json.loads(json.dumps(data))
    return copied
