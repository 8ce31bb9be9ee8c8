"""The calls of one Gemini socket: who is owed an answer, and who must get none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import attrs

import trio

from ..voice.steps import Close
from ..voice.wire import Message
from .generation import Generation
from .refused import INVALID, Refused

if TYPE_CHECKING:
    from .session import GeminiSession


@attrs.define(eq=False)
class Call:
    """One call that the model made on this socket."""

    id: str
    name: str
    blocking: bool
    generation: Generation = attrs.field(repr=False)
    state: Literal["owed", "answered", "cancelled"] = "owed"
    since: float = 0.0


@attrs.define(eq=False)
class Calls:
    """All calls of one socket, by id."""

    session: GeminiSession = attrs.field(repr=False)
    by_id: dict[str, Call] = attrs.field(factory=dict)

    @property
    def owed(self) -> list[Call]:
        return [call for call in self.by_id.values() if call.state == "owed"]

    def void(self, generation: Generation) -> None:
        """Those that an interrupted turn waited for get no answer any more."""
        void = [self.by_id[call_id] for call_id in sorted(generation.waits_for)]
        for call in void:
            call.state, call.since = "cancelled", trio.current_time()
        if void:
            ids = [call.id for call in void]
            self.session.wire.emit({"toolCallCancellation": {"ids": ids}})

    def made(self, generation: Generation, calls: Sequence[Message]) -> None:
        """The model calls; its turn waits for those that are blocking."""
        session = self.session
        for call in calls:
            blocking = session.declared.get(call["name"]) == "BLOCKING"
            known = Call(call["id"], call["name"], blocking, generation)
            self.by_id[known.id] = known
            if blocking:
                generation.waits_for.add(known.id)
        session.wire.emit({"toolCall": {"functionCalls": [dict(c) for c in calls]}})
        session.turns.tell_resumable()

    def answer(self, responses: Sequence[Message], message: Message) -> None:
        """Raises `Refused` for what closes the socket."""
        session = self.session
        limit = session.server.max_result
        if limit is not None and len(json.dumps(message).encode()) > limit:
            session.wire.end(Close(1011, "Internal error encountered."))
            return
        when: set[str] = set()
        for response in responses:
            call = self._answerable(response, message)
            if call is None:
                continue
            output = response["response"]
            session.history = session.history.answered(call.name, call.id, output)
            more = response.get("willContinue", False) and not call.blocking
            if more and session.profile.interim_abandons:
                session.violate("interim", f"{call.id} is abandoned", message)
                call.state = "answered"
                when.add("SILENT")
                continue
            if not more:
                call.state = "answered"
            if call.blocking:
                call.generation.answered(call.id)
            else:
                when.add(response.get("scheduling", "WHEN_IDLE"))
        if when - {"SILENT"}:
            session.turns.speak_of(interrupt="INTERRUPT" in when)
        elif when:
            session.turns.knows()

    def _answerable(self, response: Message, message: Message) -> Call | None:
        """The call that is answered; None for one that gets no answer."""
        session = self.session
        if "scheduling" in response and not session.profile.schedules:
            detail = f"scheduling is not supported by {session.profile.name}."
            raise Refused(INVALID, "scheduling", detail)
        call_id = response["id"]
        call = self.by_id.get(call_id)
        if call is None:
            others = (other.calls.by_id for other in session.server.sessions)
            if not any(call_id in calls for calls in others):
                detail = f"There is no function call {call_id!r}."
                raise Refused(INVALID, "no_such_call", detail)
            session.violate("other_socket", call_id, message)
            return None
        if response["name"] != call.name:
            session.violate("other_name", f"{call_id} is of {call.name}", message)
        if call.state == "answered":
            session.violate("answered_twice", call_id, message)
        elif call.state == "cancelled":
            if trio.current_time() >= call.since + session.server.grace:
                session.violate("answered_cancelled", call_id, message)
        else:
            return call
        return None
