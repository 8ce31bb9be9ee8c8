"""Commands and messages in any order: what goes out is legal, what comes in adds up."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from glyphoxa_trio.providers.gemini_live.profiles import Profile, profile_of
from glyphoxa_trio.providers.gemini_live.wire import GeminiWire
from glyphoxa_trio.providers.s2s import (
    AudioOut,
    Calling,
    CallReady,
    CallsCancelled,
    Cancel,
    Command,
    Event,
    Heard,
    Interrupted,
    Ready,
    ResponseEnded,
    ResponseStarted,
    Schedule,
    SendAudio,
    SendResult,
    SendText,
    SetInstructions,
    SetTools,
    SpeechBegins,
    SpeechEnds,
    ToolsInForce,
    TranscriptLine,
)

from .support import MODELS, called, content, judged, spoken, tool, wire_of

IDS = [f"fc-{i}" for i in range(6)]
NAMES = ["dice__roll", "look_up"]
LINES = st.builds(
    TranscriptLine,
    st.sampled_from(["user", "assistant", "system"]),
    st.sampled_from("abc"),
)
TOOLS = st.lists(
    st.builds(tool, st.sampled_from(NAMES), st.sampled_from(Calling)),
    max_size=2,
    unique_by=lambda tool: tool.spec.name,
).map(tuple)


class Socket(RuleBasedStateMachine):
    """A wire, whoever carries it, and a server that says whatever it likes."""

    made = Bundle("made")
    wire: GeminiWire
    profile: Profile

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.sent: list[dict[str, Any]] = []  # what left, in order
        self.waiting: list[dict[str, Any]] = []  # until the setup is complete
        self.set_up_after: int | None = None  # so many messages
        self.events: list[Event] = []
        self.calling: dict[str, Calling] = {}
        self.owed: set[str] = set()
        self.cancelled: set[str] = set()
        self.known: set[str] = set()
        self.revisions: list[int] = []

    @initialize(
        model=st.sampled_from(MODELS),
        automatic=st.booleans(),
        tools=TOOLS,
        history=st.lists(LINES, max_size=3).map(tuple),
        handle=st.none() | st.just("h"),
    )
    def open(self, model: str, **setup: Any) -> None:
        self.automatic = setup["automatic"]
        self.profile = profile_of(model)
        self.wire = wire_of(model, **setup)
        self.declare(setup["tools"])
        self.wire.opening(self.now)
        self.carry(setup=True)

    def declare(self, tools: tuple[Any, ...]) -> None:
        for one in tools:
            wanted, can = one.calling, self.profile.calling
            self.calling[one.spec.name] = wanted if wanted in can else can[0]

    def carry(self, *, setup: bool) -> None:
        """What the carrier does with the frames of a step."""
        messages = [judged(json.loads(f.data)) for f in self.wire.outgoing()]
        (self.sent if setup or self.set_up_after is not None else self.waiting).extend(
            messages
        )
        if self.wire.ready and self.set_up_after is None:
            self.set_up_after = len(self.sent) - len(messages)
        if self.wire.ready:
            self.sent += self.waiting
            self.waiting.clear()

    def take(self, events: list[Event]) -> None:
        self.events += events
        self.carry(setup=True)
        for event in events:
            if isinstance(event, CallReady):
                assert event.call.id not in self.known
                self.known.add(event.call.id)
                self.owed.add(event.call.id)
            if isinstance(event, CallsCancelled):
                assert self.owed.issuperset(event.ids)
                self.owed.difference_update(event.ids)
                self.cancelled.update(event.ids)

    def send(self, command: Command) -> None:
        self.wire.send(command, self.now)
        self.carry(setup=False)

    # The client.

    @rule()
    def audio(self) -> None:
        self.send(SendAudio(bytes(2)))

    @rule(line=LINES, reply=st.booleans())
    def text(self, line: TranscriptLine, reply: bool) -> None:
        self.send(SendText(line, reply=reply))

    @rule(tools=TOOLS)
    def tools(self, tools: tuple[Any, ...]) -> None:
        command = SetTools(tools, len(self.revisions))
        if not self.profile.updates:
            with pytest.raises(ValueError, match="SetTools"):
                self.send(command)
            return
        self.revisions.append(command.revision)
        self.declare(tools)
        self.send(command)

    @rule()
    def instructions(self) -> None:
        self.send(SetInstructions("Be brief."))

    @precondition(lambda self: self.profile.cancels)
    @rule()
    def cancel(self) -> None:
        self.send(Cancel())

    @precondition(lambda self: not self.automatic)
    @rule(begins=st.booleans())
    def speech(self, begins: bool) -> None:
        self.send(SpeechBegins() if begins else SpeechEnds())

    @rule(id_=st.sampled_from(IDS), schedule=st.sampled_from(Schedule))
    def result(self, id_: str, schedule: Schedule) -> None:
        command = SendResult(
            call_id=id_, name="dice__roll", output="{}", schedule=schedule
        )
        before = len(self.answers())
        if id_ in self.owed or id_ in self.cancelled:
            self.send(command)
        else:
            with pytest.raises(ValueError, match=id_):
                self.send(command)
        assert len(self.answers()) == before + (id_ in self.owed)
        self.owed.discard(id_)

    @rule(seconds=st.sampled_from([0.0, 0.1, 1.0, 10.0]))
    def wait(self, seconds: float) -> None:
        until = self.now + seconds
        while (alarm := self.wire.alarm) is not None and alarm <= until:
            self.now = max(self.now, alarm)
            self.take(self.wire.wake(self.now))
        self.now = until

    # The server.

    def hear(self, message: dict[str, Any]) -> None:
        self.take(self.wire.receive(json.dumps(message), self.now))

    @rule()
    def set_up(self) -> None:
        self.hear({"setupComplete": {}})

    @rule()
    def speak(self) -> None:
        self.hear(spoken())

    @rule(said=st.sampled_from(["inputTranscription", "outputTranscription"]))
    def transcribe(self, said: str) -> None:
        self.hear(content(**{said: {"text": "word"}}))

    @rule(
        ids=st.lists(st.sampled_from(IDS), min_size=1, max_size=3),
        as_part=st.booleans(),
        name=st.sampled_from(NAMES),
    )
    def call(self, ids: list[str], as_part: bool, name: str) -> None:
        message = called(*ids, name=name)
        if as_part:
            calls = message["toolCall"]["functionCalls"]
            parts = [{"functionCall": call} for call in calls]
            message = content(modelTurn={"parts": parts})
        self.hear(message)

    @rule(ids=st.lists(st.sampled_from(IDS), max_size=3))
    def cancel_calls(self, ids: list[str]) -> None:
        self.hear({"toolCallCancellation": {"ids": ids}})

    @rule()
    def interrupt(self) -> None:
        self.hear(content(interrupted=True))

    @rule(
        status=st.sampled_from([None, "IN_PROGRESS", "IDLE"]),
        reason=st.sampled_from([None, "MALFORMED_FUNCTION_CALL"]),
    )
    def complete(self, status: str | None, reason: str | None) -> None:
        fields = {"interactionStatus": status, "turnCompleteReason": reason}
        said = {key: value for key, value in fields.items() if value is not None}
        self.hear(content(turnComplete=True, **said))

    # What holds.

    def answers(self) -> list[dict[str, Any]]:
        return [
            answer
            for message in self.sent + self.waiting
            if "toolResponse" in message
            for answer in message["toolResponse"]["functionResponses"]
        ]

    @invariant()
    def the_setup_is_first_and_once_and_alone_until_it_is_complete(self) -> None:
        assert ["setup" in message for message in self.sent] == [
            number == 0 for number in range(len(self.sent))
        ]
        if self.set_up_after is None:
            assert len(self.sent) == 1
        else:
            assert self.set_up_after == 1

    @invariant()
    def every_call_is_answered_at_most_once_and_never_a_cancelled_one(self) -> None:
        answered = Counter(answer["id"] for answer in self.answers())
        assert not answered or max(answered.values()) == 1
        # Those of a response that was cancelled before it began: nobody knows them.
        refused = {
            answer["id"]
            for answer in self.answers()
            if answer["response"].get("error", {}).get("status") == "cancelled"
        }
        assert not refused & self.known
        assert answered.keys() == self.known - self.owed - self.cancelled | refused

    @invariant()
    def nothing_is_said_that_the_model_refuses(self) -> None:
        after = self.sent[1:] + self.waiting
        contents = [m["clientContent"] for m in after if "clientContent" in m]
        if not self.profile.turns:  # at most the first history
            assert len(contents) <= 1
            assert all(
                message is self.sent[1]
                for message in after
                if "clientContent" in message
            )
        if not self.profile.updates:
            assert not any("contextUpdate" in message for message in after)
        for answer in self.answers():
            calling = self.calling.get("dice__roll", self.profile.calling[0])
            if not self.profile.scheduling:
                assert "scheduling" not in answer
            assert answer.keys() <= {"id", "name", "response", "scheduling"}, calling
        active = [m["realtimeInput"] for m in after if "realtimeInput" in m]
        marks = [mark for one in active for mark in one if mark.startswith("activity")]
        if self.automatic:
            assert not marks
        else:
            assert marks == ["activityStart", "activityEnd"] * (len(marks) // 2) + [
                "activityStart"
            ] * (len(marks) % 2)
            assert not any("audioStreamEnd" in one for one in active)

    @invariant()
    def responses_begin_and_end_and_hold_what_is_theirs(self) -> None:
        running: str | None = None
        begun: list[str] = []
        for number, event in enumerate(self.events):
            match event:
                case Ready():
                    assert number == 0
                case ResponseStarted(response):
                    assert running is None
                    assert response not in begun
                    running = response
                    begun.append(response)
                case AudioOut(response) | CallReady(response):
                    assert response == running
                case ResponseEnded(response=response):
                    assert response == running
                    running = None
                case Interrupted():
                    pass
        ended = [
            call.id
            for event in self.events
            if isinstance(event, ResponseEnded)
            for call in event.calls
        ]
        ready = [e.call.id for e in self.events if isinstance(e, CallReady)]
        assert ended == ready

    @invariant()
    def words_grow_and_are_told_once(self) -> None:
        words: dict[str, Heard] = {}
        for event in self.events:
            if isinstance(event, Heard) and event.item is not None:
                before = words.get(event.item, Heard("", final=False))
                assert event.text.startswith(before.text)
                assert event.text != before.text or event.final > before.final
                words[event.item] = event

    @invariant()
    def what_is_answered_is_answered_once(self) -> None:
        heard = [e.heard for e in self.events if isinstance(e, ResponseStarted)]
        named = [one for one in heard if one is not None]
        assert len(named) == len(set(named))

    @invariant()
    def tools_come_into_force_in_order(self) -> None:
        told = [e.revision for e in self.events if isinstance(e, ToolsInForce)]
        assert told == self.revisions[: len(told)]

    def teardown(self) -> None:
        if self.set_up_after is not None:
            self.wait(0.0)
            told = [e.revision for e in self.events if isinstance(e, ToolsInForce)]
            assert told == self.revisions


TestSocket = Socket.TestCase
