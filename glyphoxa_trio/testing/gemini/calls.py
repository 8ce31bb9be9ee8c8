"""The calls of one Gemini socket: which await an answer, and which must get none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

import attrs

import trio

from glyphoxa_trio.actors import Signal

from ..voice.steps import Close
from ..voice.wire import Message
from .refused import INVALID, SocketRefused
from .state import GeminiState


@attrs.define(eq=False)
class ModelCall:
    """One call that the model made on this socket."""

    id: str
    name: str
    blocking: bool
    state: Literal["owed", "answered", "cancelled"] = "owed"
    since: float = 0.0


@attrs.define(eq=False)
class SocketCalls:
    """All calls of one socket, by id. ``answered`` is set with each blocking one."""

    session: GeminiState = attrs.field(repr=False)
    by_id: dict[str, ModelCall] = attrs.field(factory=dict)
    answered: Signal = attrs.field(factory=Signal, repr=False)

    @property
    def owed(self) -> list[ModelCall]:
        return [call for call in self.by_id.values() if call.state == "owed"]

    @property
    def blocking(self) -> list[ModelCall]:
        """The unanswered calls that the turn waits for before it ends."""
        return [call for call in self.owed if call.blocking]

    def void(self) -> None:
        """Cancel the calls that an interrupted turn waited for."""
        void = sorted(self.blocking, key=lambda call: call.id)
        for call in void:
            call.state, call.since = "cancelled", trio.current_time()
        if void:
            ids = [call.id for call in void]
            self.session.wire.emit({"toolCallCancellation": {"ids": ids}})

    def made(self, calls: Sequence[Message]) -> None:
        """Send calls of the model; its turn waits for the blocking ones."""
        session = self.session
        for call in calls:
            blocking = session.declared.get(call["name"]) == "BLOCKING"
            self.by_id[call["id"]] = ModelCall(call["id"], call["name"], blocking)
            session.service.calls.add(call["id"])
        session.wire.emit({"toolCall": {"functionCalls": [dict(c) for c in calls]}})

    def answer(self, responses: Sequence[Message], message: Message) -> set[str]:
        """Take answers; return when to speak of those that no turn waits for.

        They are the wire's words for it. Raises `SocketRefused` if an answer closes the
        socket.
        """
        session = self.session
        limit = session.service.max_result
        when: set[str] = set()
        if limit is not None and len(json.dumps(message).encode()) > limit:
            session.wire.end(Close(1011, "Internal error encountered."))
            return when
        for response in responses:
            call = self._answerable(response, message)
            if call is None:
                continue
            session.answered(call.name, call.id, response["response"])
            more = response.get("willContinue", False) and not call.blocking
            if more and session.profile.interim_abandons:
                session.violate("interim", f"{call.id} is abandoned", message)
                call.state = "answered"
                when.add("SILENT")
                continue
            if not more:
                call.state = "answered"
            if call.blocking:
                self.answered.set()
            else:
                when.add(response.get("scheduling", "WHEN_IDLE"))
        return when

    def _answerable(self, response: Message, message: Message) -> ModelCall | None:
        """Return the call that is answered; None for one that must get no answer."""
        session = self.session
        if "scheduling" in response and not session.profile.schedules:
            detail = f"scheduling is not supported by {session.profile.name}."
            raise SocketRefused(INVALID, "scheduling", detail)
        call_id = response["id"]
        call = self.by_id.get(call_id)
        if call is None:
            if call_id not in session.service.calls:
                detail = f"There is no function call {call_id!r}."
                raise SocketRefused(INVALID, "no_such_call", detail)
            session.violate("other_socket", call_id, message)
            return None
        if response["name"] != call.name:
            session.violate("other_name", f"{call_id} is of {call.name}", message)
        if call.state == "answered":
            session.violate("answered_twice", call_id, message)
        elif call.state == "cancelled":
            if trio.current_time() >= call.since + session.service.grace:
                session.violate("answered_cancelled", call_id, message)
        else:
            return call
        return None
