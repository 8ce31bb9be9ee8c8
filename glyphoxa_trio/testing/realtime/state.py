"""The state shared by the parts of one Realtime session: socket, settings and items."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlsplit

import attrs

import trio

from ..voice.service import VoiceService
from ..voice.wire import Message, SocketWriter
from .items import FakeConversation, FakeItem
from .settings import Settings


@attrs.define(eq=False)
class RealtimeState:
    """The state of one socket, as the vendor keeps it.

    ``errors`` are the errors that were sent in error events.
    """

    wire: SocketWriter
    service: VoiceService = attrs.field(repr=False)
    nursery: trio.Nursery = attrs.field(repr=False)
    settings: Settings = attrs.field(init=False)
    conversation: FakeConversation = attrs.field(factory=FakeConversation, repr=False)
    errors: list[Message] = attrs.field(factory=list, repr=False)
    conversation_id: str = attrs.field(init=False)
    _ids: count[int] = attrs.field(factory=count, repr=False)

    def __attrs_post_init__(self) -> None:
        query = parse_qs(urlsplit(self.wire.path).query)
        self.settings = Settings(query["model"][0])
        self.conversation_id = self.new_id("conv")

    def tell(self, kind: str, **fields: Any) -> None:
        """Send an event at once."""
        self.wire.emit({"type": kind, "event_id": self.new_id("event"), **fields})

    def new_id(self, kind: str) -> str:
        """Return an id that no other socket uses, so that calls cannot be mixed up."""
        return f"{kind}_{self.wire.number}_{next(self._ids)}"

    def violate(self, code: str, detail: str, message: Mapping[str, Any]) -> None:
        """Note a forbidden act of the client."""
        self.service.violate(self.wire.number, code, detail, message)

    def error(
        self,
        code: str | None,
        detail: str,
        *,
        param: str | None = None,
        event_id: str | None = None,
        kind: str = "invalid_request_error",
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

    def refuse(
        self, message: Message, code: str, detail: str, param: str | None = None
    ) -> None:
        """Note a violation, and answer it."""
        self.violate(code, detail, message)
        self.say_no(message, code, detail, param)

    def say_no(
        self, message: Message, code: str, detail: str, param: str | None = None
    ) -> None:
        """Answer as the vendor does: the session goes on."""
        event_id = message.get("event_id")
        known = event_id if isinstance(event_id, str) else None
        self.error(code, detail, param=param, event_id=known)

    def add_item(self, item: FakeItem, *, done: bool) -> None:
        """Add an item of the server's own to the end of the conversation."""
        self.conversation.add(item)
        self.show(item, "added")
        if done:
            self.show(item, "done")

    def item_done(self, item: FakeItem) -> None:
        if item in self.conversation.items:  # else the client has deleted it
            self.show(item, "done")

    def show(self, item: FakeItem, what: str) -> None:
        before = self.conversation.before(item)
        shown = copy(item.wire)
        self.tell(f"conversation.item.{what}", previous_item_id=before, item=shown)


def copy(data: dict[str, Any]) -> dict[str, Any]:
    copied: dict[str, Any] = json.loads(json.dumps(data))
    return copied
