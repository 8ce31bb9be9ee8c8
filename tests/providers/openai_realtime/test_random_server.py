"""Any script and any behaviour of a user and of tools, against the strict server."""

from __future__ import annotations

from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock

from glyphoxa_trio.providers.live_socket import LiveSocket
from glyphoxa_trio.providers.s2s import (
    AudioOut,
    Cancel,
    Command,
    Complaint,
    DropAudio,
    Event,
    Respond,
    ResponseEnded,
    ResponseStarted,
    SendAudio,
    SetInstructions,
    SetTools,
    SpeechBegins,
    SpeechEnds,
    ToolsInForce,
    Truncate,
)
from glyphoxa_trio.testing.realtime_server import (
    EndResponse,
    FailResponse,
    RealtimeServer,
    Speak,
    SpokenCallTools,
    UserSpeaks,
    open_realtime_server,
)

from ..openai_types import client_event
from .support import BY_HAND, SETUP, result, text, tool
from .test_server import model_at

TALK = Speak("Once upon a time.", ms=700, paced=True)
CALLS = SpokenCallTools([("roll", {"sides": 6}), ("roll", {"sides": 8})])
REPLIES: list[Any] = [
    TALK,
    CALLS,
    [TALK, CALLS],
    [CALLS, TALK],
    [Speak("Cut", upto_ms=200, ms=900), EndResponse("incomplete", "max_output_tokens")],
    [
        SpokenCallTools([("roll", {})], open=True),
        EndResponse("incomplete", "max_output_tokens"),
    ],
    FailResponse("server_error"),
]
STEPS = st.sampled_from(
    [
        "respond",
        "respond",
        "respond",
        "cancel",
        "say",
        "tools",
        "instructions",
        "answer",
        "answer",
        "truncate",
        "user",
        "hear",
        "drop",
        "wait a little",
        "wait",
    ]
)


@attrs.define
class Player:
    """Whoever uses the link: does steps, and answers calls when they come."""

    link: LiveSocket[Command, Event]
    server: RealtimeServer
    automatic: bool
    open: list[str] = attrs.field(factory=list)
    answered: list[str] = attrs.field(factory=list)
    items: list[str] = attrs.field(factory=list)
    started: list[str] = attrs.field(factory=list)
    ended: list[str] = attrs.field(factory=list)
    revisions: list[int] = attrs.field(factory=list)
    revision: int = 0
    complaints: list[str] = attrs.field(factory=list)

    async def listen(self) -> None:
        while True:
            match await self.link.receive():
                case ResponseStarted(response):
                    self.started.append(response)
                case AudioOut(_, item, _):
                    self.items.append(item)
                case ResponseEnded() as end:
                    self.ended.append(end.response)
                    self.open += [call.id for call in end.calls] + list(end.void)
                case ToolsInForce(revision):
                    self.revisions.append(revision)
                case Complaint() as complaint:
                    self.complaints.append(complaint.code)

    async def do(self, step: str) -> None:
        link = self.link
        match step:
            case "respond":
                link.send(Respond(tools_forbidden=len(self.items) % 2 == 1))
            case "cancel":
                link.send(Cancel())
            case "say":
                link.send(text("And then?"))
            case "tools":
                self.revision += 1
                link.send(SetTools((tool(), tool("look")), self.revision))
            case "instructions":
                link.send(SetInstructions("Be brief."))
            case "answer":
                self.answer(1)
            case "truncate":
                if self.items:
                    link.send(Cancel())  # what is still said is not cut
                    link.send(Truncate(self.items[-1], 10_000))
            case "user":
                if self.automatic:
                    self.server.sessions[0].happen(UserSpeaks("Stop.", ms=300))
            case "hear":
                self.hear()
            case "drop":
                link.send(DropAudio())
            case "wait a little":
                await trio.sleep(0.13)
            case "wait":
                await trio.sleep(2.1)

    def hear(self) -> None:
        if self.automatic:
            self.link.send(SendAudio(bytes(960)))
            return
        self.link.send(SpeechBegins())
        for _ in range(3):
            self.link.send(SendAudio(bytes(960)))
        self.link.send(SpeechEnds())

    def answer(self, count: int) -> None:
        for call_id in self.open[:count]:
            self.link.send(result(call_id))
            self.answered.append(call_id)
        del self.open[:count]


@given(
    replies=st.lists(st.sampled_from(REPLIES), min_size=1, max_size=4),
    steps=st.lists(STEPS, min_size=4, max_size=25),
    automatic=st.booleans(),
)
def test_the_server_has_nothing_to_complain_of(
    replies: list[Any], steps: list[str], automatic: bool
) -> None:
    async def main() -> None:
        async with open_realtime_server(replies, in_memory=True, grace=0.5) as server:
            setup = SETUP if automatic else BY_HAND
            async with model_at(server).connect(setup) as link:
                player = Player(link, server, automatic)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(player.listen)
                    await server.wait_sessions(1)
                    await trio.sleep(0.1)
                    player.link.send(SetTools((tool(), tool("look")), 0))
                    for step in steps:
                        await player.do(step)
                    while True:  # until nothing is left to be said
                        player.answer(99)
                        before = len(player.ended)
                        await trio.sleep(15)
                        if len(player.ended) == before and not player.open:
                            break
                    nursery.cancel_scope.cancel()
            session = server.sessions[0]
            for message in session.wire.received:
                client_event(message)
            calls = session.conversation.calls
            assert all(call.answered for call in calls.values())
            assert sorted(player.answered) == sorted(calls)
            assert player.started == player.ended
            assert player.revisions == list(range(player.revision + 1))
            assert session.responses.active is None
            assert set(player.complaints) <= {"server_error"}
            assert server.violations == []

    trio.run(main, clock=MockClock(autojump_threshold=0))
