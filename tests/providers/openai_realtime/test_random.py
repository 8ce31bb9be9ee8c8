"""Any order of wants, calls, results, interruptions and crossings, against the
dumbest server that could be: what is on its way may cross, nothing else is lost."""

from __future__ import annotations

import json
from collections import Counter, deque
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from glyphoxa_trio.providers.openai_realtime.sequencer import SequencerState
from glyphoxa_trio.providers.openai_realtime.wire import RealtimeWire
from glyphoxa_trio.providers.s2s import (
    Cancel,
    Complaint,
    Event,
    Respond,
    ResponseEnded,
    ResponseStarted,
    SetTools,
    ToolsInForce,
)

from ..openai_types import client_event
from .support import BY_HAND, SETUP, function_call, result, text, tool, whole

ACTIVE = "conversation_already_has_active_response"
INACTIVE = "response_cancel_not_active"


class Server:
    """What the vendor enforces, and no more. It counts what it must never see."""

    def __init__(self) -> None:
        self.told: deque[dict[str, Any]] = deque()  # on their way to the client
        self.active: str | None = None
        self.calls: dict[str, list[dict[str, Any]]] = {}  # by response
        self.answered: Counter[str] = Counter()
        self.over: set[str] = set()
        self.responses = 0

    def tell(self, kind: str, **fields: Any) -> None:
        self.told.append({"type": kind, **fields})

    def hear(self, frame: dict[str, Any]) -> None:
        match frame["type"]:
            case "session.update":
                self.tell("session.updated", session={"type": "realtime"})
            case "response.create":
                if self.active is not None:
                    self.refuse(ACTIVE, frame)
                else:
                    self.begin()
            case "response.cancel":
                wanted = frame.get("response_id", self.active)
                if self.active is None or wanted != self.active:
                    self.refuse(INACTIVE, frame)
                else:
                    self.end("cancelled", "client_cancelled")
            case "conversation.item.create":
                item = frame["item"]
                if item["type"] == "function_call_output":
                    self.answered[item["call_id"]] += 1
                    [made_by] = [
                        response
                        for response, calls in self.calls.items()
                        if any(call["call_id"] == item["call_id"] for call in calls)
                    ]
                    assert made_by in self.over, "an output before response.done"

    def refuse(self, code: str, frame: dict[str, Any]) -> None:
        error = {"type": "invalid_request_error", "code": code, "message": "no"}
        self.tell("error", error=error | {"event_id": frame["event_id"]})

    def begin(self) -> None:
        self.responses += 1
        self.active = f"resp_{self.responses}"
        self.calls[self.active] = []
        self.tell("response.created", response=whole(self.active, "in_progress"))

    def call(self, status: str) -> None:
        assert self.active is not None
        calls = self.calls[self.active]
        item = function_call(f"call_{self.active}_{len(calls)}", status)
        calls.append(item)
        where = {"response_id": self.active, "output_index": 0}
        self.tell("response.output_item.done", item=item, **where)

    def end(self, status: str, reason: str | None = None) -> None:
        assert self.active is not None
        done = whole(self.active, status, output=self.calls[self.active])
        done["status_details"] = {"type": status, "reason": reason}
        self.over.add(self.active)
        self.active = None
        self.tell("response.done", response=done)


class Conversation(RuleBasedStateMachine):
    """A client that wants anything at any time, and whatever crosses on the way."""

    @initialize(automatic=st.booleans())
    def open(self, automatic: bool) -> None:
        self.automatic = automatic
        self.wire = RealtimeWire(setup=SETUP if automatic else BY_HAND)
        self.server = Server()
        self.said: deque[dict[str, Any]] = deque()  # on their way to the server
        self.now = 0.0
        self.events: list[Event] = []
        # What the client has been told, in the simplest words.
        self.active: str | None = None
        self.asked: str | None = None
        self.wants = self.creates = self.refusals = 0
        self.open_calls: list[str] = []
        self.revision = 0
        self.revisions: list[int] = []
        self.given_up = False
        self.server.tell("session.created", session={"type": "realtime"})
        while self.server.told or self.said:
            self.server_reads()
            self.client_reads()

    def teardown(self) -> None:
        if not hasattr(self, "wire"):
            return
        for _ in range(20):
            for call_id in self.open_calls:
                self.wire.send(result(call_id), self.now)
            self.open_calls.clear()
            self.collect()
            while self.server.told or self.said:
                self.server_reads()
                self.client_reads()
            if self.server.active is not None:
                self.server.end("completed")
            elif self.wire.alarm is not None:
                self.time_passes()
            elif not self.open_calls:
                break
        assert self.wire.sequencer.state is SequencerState.IDLE
        assert not self.wire.sequencer.is_wanted
        assert self.creates <= self.wants + self.refusals
        ended = [e for e in self.events if isinstance(e, ResponseEnded)]
        started = [e.response for e in self.events if isinstance(e, ResponseStarted)]
        assert [end.response for end in ended] == started
        told = [call_id for end in ended for call_id in self.ids(end)]
        calls = [call for calls in self.server.calls.values() for call in calls]
        made = {call["call_id"] for call in calls}
        assert len(told) == len(set(told))
        assert self.server.answered == Counter(told)  # each exactly once
        assert made >= set(told)
        assert made == set(told) or self.given_up  # what came later is nobody's
        assert self.revisions == list(range(1, self.revision + 1))

    @staticmethod
    def ids(end: ResponseEnded) -> list[str]:
        return [*(call.id for call in end.calls), *end.void]

    # What the client wants

    @rule(words=st.booleans())
    def want(self, words: bool) -> None:
        self.wants += 1
        self.wire.send(Respond(tools_forbidden=words), self.now)
        self.collect()

    @rule()
    def cancel(self) -> None:
        self.wire.send(Cancel(), self.now)
        self.collect()

    @rule()
    def say(self) -> None:
        self.wire.send(text("Go on."), self.now)
        self.collect()

    @rule()
    def set_tools(self) -> None:
        self.revision += 1
        self.wire.send(SetTools((tool(),), self.revision), self.now)
        self.collect()

    @precondition(lambda self: self.open_calls)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        call_id = data.draw(st.sampled_from(self.open_calls))
        self.open_calls.remove(call_id)
        self.wire.send(result(call_id), self.now)
        self.collect()

    # What happens at the server

    @precondition(lambda self: self.server.active)
    @rule(status=st.sampled_from(["completed", "incomplete"]))
    def model_calls(self, status: str) -> None:
        assert self.server.active is not None
        if len(self.server.calls[self.server.active]) < 4:
            self.server.call(status)

    @precondition(lambda self: self.server.active)
    @rule(status=st.sampled_from(["completed", "incomplete", "failed"]))
    def model_ends(self, status: str) -> None:
        self.server.end(status)

    @precondition(lambda self: self.automatic)
    @rule(answered=st.booleans())
    def user_speaks(self, answered: bool) -> None:
        where = {"item_id": "item_user"}
        kind = "input_audio_buffer.speech"
        self.server.tell(f"{kind}_started", audio_start_ms=0, **where)
        if self.server.active is not None:
            self.server.end("cancelled", "turn_detected")
        self.server.tell(f"{kind}_stopped", audio_end_ms=1, **where)
        if answered:
            self.server.begin()

    # What is on its way arrives

    @rule()
    def server_reads(self) -> None:
        if self.said:
            frame = self.said.popleft()
            self.server.hear(frame)

    @rule()
    def client_reads(self) -> None:
        if not self.server.told:
            return
        message = self.server.told.popleft()
        if message["type"] == "response.created":
            self.active, self.asked = message["response"]["id"], None
        if message["type"] == "response.done":
            self.active = None
        if message["type"] == "error":
            self.refusals += message["error"]["code"] == ACTIVE
            if message["error"]["event_id"] == self.asked:
                self.asked = None
        self.take(self.wire.receive(json.dumps(message), self.now))

    @precondition(lambda self: self.wire.alarm is not None)
    @rule()
    def time_passes(self) -> None:
        assert self.wire.alarm is not None
        self.now = self.wire.alarm
        events = self.wire.wake(self.now)
        for event in events:
            if isinstance(event, Complaint):
                self.asked = self.active = None
                self.given_up = True
        self.take(events)

    def take(self, events: list[Event]) -> None:
        self.events += events
        for event in events:
            if isinstance(event, ResponseEnded):
                self.open_calls += self.ids(event)
            if isinstance(event, ToolsInForce):
                self.revisions.append(event.revision)
        self.collect()

    def collect(self) -> None:
        for frame in self.wire.outgoing():
            client_event(frame.data)
            event = json.loads(frame.data)
            if event["type"] == "response.create":
                assert self.active is None, "a create while one is active"
                assert self.asked is None, "two creates at once"
                self.asked = event["event_id"]
                self.creates += 1
            self.said.append(event)

    @invariant()
    def calls_are_answered_at_most_once(self) -> None:
        if hasattr(self, "server"):
            assert all(times == 1 for times in self.server.answered.values())


TestConversation = Conversation.TestCase
