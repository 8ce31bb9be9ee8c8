"""The provider against the strict fake server, which notes what the vendor forbids.

In memory and in virtual time, but for what only a real socket shows.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import attrs
import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio.providers.live_socket import LiveSocket
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.openai_realtime import OpenAIRealtime, SessionOptions
from glyphoxa_trio.providers.s2s import (
    S2S,
    AudioOut,
    CallReady,
    Cancel,
    Command,
    Complaint,
    Event,
    Heard,
    InteractionEnded,
    LinkClosed,
    Ready,
    Respond,
    ResponseEnd,
    ResponseEnded,
    ResponseStarted,
    SendAudio,
    SetTools,
    Setup,
    SpeechBegins,
    SpeechEnds,
    SpeechStarted,
    Spoken,
    ToolsInForce,
    TranscriptLine,
    Truncate,
)
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.testing.realtime_server import (
    Close,
    Drop,
    Error,
    Expire,
    FailResponse,
    HangResponse,
    ModelTurn,
    On,
    PauseResponse,
    RealtimeServer,
    Refuse,
    Reply,
    Speak,
    SpokenCallTools,
    UserSpeaks,
    open_realtime_server,
)
from glyphoxa_trio.testing.realtime_server import Transcription as Understood

from ..openai_types import client_event
from .support import SETUP, result, text, tool

E = TypeVar("E", bound=Event)
WITH_TOOL = attrs.evolve(SETUP, tools=(tool(),))
ROLL = SpokenCallTools([("roll", {"sides": 6})])


def model_at(server: RealtimeServer, **options: Any) -> OpenAIRealtime:
    async def dial(host: str, port: int, *, tls: bool) -> trio.abc.Stream:
        return server.dial()

    return OpenAIRealtime(
        model="gpt-realtime-2",
        base_url=server.base_url,
        api_key=Secret("sk-hush"),
        **{"dial": dial, **options},
    )


@asynccontextmanager
async def talking(
    script: Any, setup: Setup = WITH_TOOL, **options: Any
) -> AsyncIterator[tuple[LiveSocket[Command, Event], RealtimeServer]]:
    """A link that is set up, to a server that must have nothing to complain of."""
    async with open_realtime_server(script, in_memory=True, **options) as server:
        async with model_at(server).connect(setup) as link:
            assert await link.receive() == Ready()
            yield link, server
        for session in server.sessions:
            for message in session.wire.received:
                client_event(message)
    assert not server.violations


async def until(
    link: LiveSocket[Command, Event], kind: type[E]
) -> tuple[list[Event], E]:
    """The events up to the next one of that kind, which is the last of them."""
    events: list[Event] = []
    while True:
        events.append(await link.receive())
        last = events[-1]
        if isinstance(last, kind):
            return events, last


def spoken(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Spoken))


def played(events: Sequence[Event]) -> bytes:
    return b"".join(event.pcm for event in events if isinstance(event, AudioOut))


def noise(ms: int) -> bytes:
    rng = random.Random(7)
    return array("h", [rng.randint(-9000, 9000) for _ in range(24 * ms)]).tobytes()


def rolls(turn: ModelTurn) -> Reply:
    if turn.outputs:
        return Speak(f"You rolled {turn.outputs[-1].output}.", ms=60)
    return [Speak("One moment.", ms=40), ROLL]


async def test_a_turn_with_a_tool(autojump_clock: MockClock) -> None:  # G36
    async with talking(rolls) as (link, server):
        link.send(text("Roll for me."))
        link.send(Respond())
        events, end = await until(link, ResponseEnded)
        assert isinstance(events[0], ResponseStarted)
        assert spoken(events) == "One moment."
        [call] = end.calls
        assert (call.name, call.arguments) == ("roll", '{"sides": 6}')
        assert CallReady(end.response, call) in events
        link.send(result(call.id, '{"total":4}'))
        link.send(Respond())
        events, end = await until(link, ResponseEnded)
        assert spoken(events) == 'You rolled {"total":4}.'
        assert end.usage is not None
        assert end.usage.model == "gpt-realtime-2"
        assert await link.receive() == InteractionEnded()
        assert link.statistics().audio_dropped == 0
    assert not server.warnings
    assert server.sessions[0].wire.headers["authorization"] == "Bearer sk-hush"
    assert "openai-beta" not in server.sessions[0].wire.headers


async def test_several_calls_are_answered_in_any_order_before_one_response(
    autojump_clock: MockClock,
) -> None:
    def script(turn: ModelTurn) -> Reply:
        if turn.outputs:
            return Speak(",".join(o.output for o in turn.outputs))
        return SpokenCallTools([("roll", {"sides": sides}) for sides in (4, 6, 8)])

    async with talking(script) as (link, server):
        link.send(Respond())
        _, end = await until(link, ResponseEnded)
        for call in reversed(end.calls):
            link.send(result(call.id, call.arguments[-2:-1]))
        link.send(Respond())
        events, _ = await until(link, ResponseEnded)
        assert spoken(events) == "8,6,4"
    assert not server.warnings


async def test_a_result_that_is_there_early_goes_out_in_time(
    autojump_clock: MockClock,
) -> None:
    async with talking([[ROLL, PauseResponse(2), Speak("Well.")]]) as (link, server):
        link.send(Respond())
        _, ready = await until(link, CallReady)
        link.send(result(ready.call.id))
        _, _end = await until(link, ResponseEnded)
        link.send(Respond())
        await until(link, ResponseEnded)
    assert not server.warnings


async def test_audio_out_is_what_the_model_said_to_the_byte(
    autojump_clock: MockClock,
) -> None:
    audio = noise(1234)
    async with talking([Speak("Hm.", audio=audio)]) as (link, _):
        link.send(Respond())
        events, _end = await until(link, ResponseEnded)
        assert played(events) == audio


async def test_audio_in_is_what_was_heard_to_the_byte(
    autojump_clock: MockClock,
) -> None:
    audio = noise(900)
    setup = attrs.evolve(WITH_TOOL, automatic=False, language="en-GB")
    async with talking(
        [Speak("Yes.")], setup, hears=[Understood("Who is there?", late=False)]
    ) as (
        link,
        server,
    ):
        link.send(SpeechBegins())
        for start in range(0, len(audio), 960):
            link.send(SendAudio(audio[start : start + 960]))
        link.send(SpeechEnds())
        link.send(Respond())
        events, _end = await until(link, ResponseEnded)
        assert "Who is there?" in [e.text for e in events if isinstance(e, Heard)]
        assert spoken(events) == "Yes."
        [utterance] = server.sessions[0].hearing.utterances
        assert utterance == audio


async def test_the_server_hears_by_itself_and_answers(
    autojump_clock: MockClock,
) -> None:
    async with talking([Speak("Yes?")], hears=[Understood("Hello!", late=False)]) as (
        link,
        _,
    ):
        for piece in (noise(400), bytes(48 * 700)):
            for start in range(0, len(piece), 960):
                link.send(SendAudio(piece[start : start + 960]))
                await trio.sleep(0.02)
        events, _end = await until(link, ResponseEnded)
        assert "Hello!" in [e.text for e in events if isinstance(e, Heard)]
        assert spoken(events) == "Yes?"


async def test_an_interruption_ends_voids_and_truncates(
    autojump_clock: MockClock,
) -> None:
    interrupted = [
        Speak("It was a dark and", ms=900),
        SpokenCallTools([("roll", {"sides": 6})], open=True),
        UserSpeaks("Stop!"),
        HangResponse(),
    ]
    async with talking([interrupted, Speak("As you wish.")]) as (link, server):
        link.send(Respond())
        events, _speech = await until(link, SpeechStarted)
        item = next(event.item for event in events if isinstance(event, AudioOut))
        link.send(Cancel())  # field problem 11: the server has done that
        link.send(Truncate(item, 10**6))  # field problem 10
        _, end = await until(link, ResponseEnded)
        assert end.end is ResponseEnd.CANCELLED
        assert end.detail == "turn_detected"
        assert end.calls == ()
        for call_id in end.void:
            link.send(result(call_id, '{"status":"cancelled"}'))
        events, _end = await until(link, ResponseEnded)
        assert spoken(events) == "As you wish."
        history = server.sessions[0].conversation.items
        assert [i.truncated_ms for i in history if i.id == item] == [900]
        kinds = [m["type"] for m in server.sessions[0].wire.received]
        assert "response.cancel" not in kinds
        assert kinds.count("response.create") == 1


async def test_a_response_of_the_server_that_crosses_ours_is_waited_for(
    autojump_clock: MockClock,
) -> None:  # field problem 1
    def script(turn: ModelTurn) -> Reply:
        return Speak(f"Answer {turn.number}.", ms=200, paced=True)

    async with talking(script) as (link, server):
        session = server.sessions[0]
        link.send(Respond())  # is on its way when the server begins by itself
        session.responses.begin({}, automatic=True)
        _, first = await until(link, ResponseEnded)
        _, second = await until(link, ResponseEnded)
        assert (first.end, second.end) == (ResponseEnd.COMPLETED,) * 2
        assert [r.automatic for r in session.responses.every] == [True, False]
        [refusal] = session.errors
        assert refusal["code"] == "conversation_already_has_active_response"


async def test_nothing_is_asked_for_while_somebody_speaks(
    autojump_clock: MockClock,
) -> None:
    async with talking([Speak("Yes?"), Speak("And?")]) as (link, server):
        session = server.sessions[0]
        session.happen(UserSpeaks("Hear me.", ms=3000))
        await until(link, SpeechStarted)
        link.send(Respond())
        await until(link, ResponseEnded)
        await until(link, ResponseEnded)
        assert [r.automatic for r in session.responses.every] == [True, False]
        assert session.errors == []


async def test_wants_while_a_response_runs_are_one_response_after_it(
    autojump_clock: MockClock,
) -> None:
    script = [Speak("Long.", ms=1000, paced=True), Speak("Short.")]
    async with talking(script) as (link, server):
        for _ in range(5):
            link.send(Respond())
        await until(link, ResponseEnded)
        await until(link, ResponseEnded)
        with trio.move_on_after(60):
            while True:
                assert not isinstance(await link.receive(), ResponseStarted)
        assert len(server.sessions[0].responses.every) == 2


async def test_new_tools_are_one_message_and_hold_for_the_next_response(
    autojump_clock: MockClock,
) -> None:
    def script(turn: ModelTurn) -> Reply:
        return Speak(" ".join(turn.tools), ms=500, paced=True)

    async with talking(script) as (link, _):
        link.send(Respond())
        await until(link, ResponseStarted)
        before = link.statistics().sent
        link.send(SetTools((tool("a"), tool("b")), 3))
        link.send(Respond())
        events, force = await until(link, ToolsInForce)
        assert force.revision == 3
        assert link.statistics().sent == before + 1
        more, _end = await until(link, ResponseEnded)
        assert spoken(events + more) == "roll"
        events, _end = await until(link, ResponseEnded)
        assert spoken(events) == "a b"


async def test_words_can_be_asked_for_and_a_response_has_its_own_instructions(
    autojump_clock: MockClock,
) -> None:
    def script(turn: ModelTurn) -> Reply:
        return Speak(f"{turn.instructions}|{turn.request.get('tool_choice')}")

    async with talking(script) as (link, _):
        link.send(Respond(instructions="Be brief.", tools_forbidden=True))
        events, _end = await until(link, ResponseEnded)
        assert spoken(events) == "You are Greymantle.\n\nBe brief.|none"


async def test_history_is_there_before_anything_is_asked(
    autojump_clock: MockClock,
) -> None:
    history = (
        TranscriptLine("user", "I am Mira."),
        TranscriptLine("assistant", "Well met."),
    )
    setup = attrs.evolve(SETUP, history=history)
    async with talking(
        lambda turn: Speak(" ".join(line.text for line in turn.lines)), setup
    ) as (link, _):
        link.send(text("Who am I?"))
        link.send(Respond())
        events, _end = await until(link, ResponseEnded)
        assert spoken(events) == "I am Mira. Well met. Who am I?"


async def test_a_model_that_writes(autojump_clock: MockClock) -> None:
    setup = attrs.evolve(WITH_TOOL, speaks=False)
    async with talking([Speak("In words.")], setup) as (link, _):
        link.send(Respond())
        events, _end = await until(link, ResponseEnded)
        assert spoken(events) == "In words."
        assert played(events) == b""


async def test_cancelling_stops_it_and_the_next_one_runs(
    autojump_clock: MockClock,
) -> None:
    script = [Speak("Endless.", ms=60_000, paced=True), Speak("New.")]
    async with talking(script) as (link, _):
        link.send(Respond())
        await until(link, AudioOut)
        link.send(Cancel())
        link.send(Respond())
        _, end = await until(link, ResponseEnded)
        assert (end.end, end.detail) == (ResponseEnd.CANCELLED, "client_cancelled")
        events, _end = await until(link, ResponseEnded)
        assert spoken(events) == "New."
        assert trio.current_time() < 1


async def test_a_failed_response_says_who_must_act_and_the_session_goes_on(
    autojump_clock: MockClock,
) -> None:
    script = [
        FailResponse("rate_limit_exceeded", type="rate_limit_error"),
        Speak("Again."),
    ]
    async with talking(script) as (link, _):
        link.send(Respond())
        _, complaint = await until(link, Complaint)
        assert complaint.kind is ErrorKind.RATE_LIMITED
        _, end = await until(link, ResponseEnded)
        assert end.end is ResponseEnd.FAILED
        link.send(Respond())
        events, _end = await until(link, ResponseEnded)
        assert spoken(events) == "Again."


async def test_a_quota_error_in_mid_session_is_a_complaint(
    autojump_clock: MockClock,
) -> None:
    quota = Error("insufficient_quota", "Quota exceeded.", "insufficient_quota")
    async with talking([[quota, Speak("Still here.")]]) as (link, _):
        link.send(Respond())
        _, complaint = await until(link, Complaint)
        assert complaint.kind is ErrorKind.RATE_LIMITED
        assert complaint.code == "insufficient_quota"
        events, _end = await until(link, ResponseEnded)
        assert spoken(events) == "Still here."


@pytest.mark.parametrize(
    ("event", "kind", "code"),
    [
        (Expire(), ErrorKind.INTERRUPTED, None),
        (Close(1011, "boom"), ErrorKind.OVERLOADED, 1011),
        (Close(1008, "policy"), ErrorKind.BAD_REQUEST, 1008),
        (Drop(), ErrorKind.INTERRUPTED, 1006),
    ],
    ids=["expires", "1011", "1008", "drops"],
)
async def test_a_session_that_ends_says_why(
    autojump_clock: MockClock, event: Any, kind: ErrorKind, code: int | None
) -> None:
    script = [[Speak("Not", upto_ms=50), event, HangResponse()]]
    async with talking(script) as (link, _):
        link.send(Respond())
        with pytest.raises(LinkClosed) as caught:
            while True:
                await link.receive()
        assert (caught.value.kind, caught.value.code) == (kind, code)
        assert caught.value.retryable == (code != 1008)


async def test_a_session_expires_at_its_age(autojump_clock: MockClock) -> None:
    async with talking([Speak("Hm.")], lifetime=3599.0) as (link, _):
        with pytest.raises(LinkClosed, match="session_expired"):
            await link.receive()
        assert trio.current_time() == 3599


async def test_a_server_that_greets_late_is_waited_for(
    autojump_clock: MockClock,
) -> None:
    async with open_realtime_server(
        [Speak("At last.")], in_memory=True, opens_after=9
    ) as server:
        async with model_at(server).connect(WITH_TOOL) as link:
            link.send(text("Hello?"))
            link.send(Respond())
            events, _end = await until(link, ResponseEnded)
            assert spoken(events) == "At last."
            assert trio.current_time() >= 9
    assert not server.violations


async def test_a_setup_that_is_not_taken_ends_the_session(
    autojump_clock: MockClock,
) -> None:
    beta = SessionOptions(extra={"temperature": 0.8})
    async with open_realtime_server([Speak("")], in_memory=True) as server:
        with pytest.raises(LinkClosed, match="temperature") as caught:
            async with model_at(server, options=beta).connect(SETUP) as link:
                await link.receive()
        assert caught.value.kind is ErrorKind.BAD_REQUEST
        assert not caught.value.retryable


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, ErrorKind.AUTHENTICATION), (429, ErrorKind.RATE_LIMITED)],
)
async def test_a_refused_handshake(
    autojump_clock: MockClock, status: int, kind: ErrorKind
) -> None:
    no = Refuse(
        status, {"error": {"message": "No, sk-hush."}}, headers={"retry-after": "9"}
    )
    async with open_realtime_server(
        [Speak("")], in_memory=True, handshakes=[no]
    ) as server:
        with pytest.raises(LinkClosed) as caught:
            async with model_at(server).connect(SETUP):
                pytest.fail("opened")
        assert caught.value.kind is kind
        assert caught.value.retry_after == 9
        assert "sk-hush" not in str(caught.value)


async def test_a_key_that_is_wrong_is_not_worth_another_try(
    autojump_clock: MockClock,
) -> None:
    async with open_realtime_server(
        [Speak("")], in_memory=True, api_key="sk-other"
    ) as server:
        with pytest.raises(LinkClosed, match="Incorrect API key") as caught:
            async with model_at(server).connect(SETUP):
                pytest.fail("opened")
        assert not caught.value.retryable


async def test_a_whole_turn_over_a_real_socket() -> None:
    with trio.fail_after(20):
        async with open_realtime_server(rolls) as server:
            model = OpenAIRealtime(
                model="gpt-realtime-2",
                base_url=server.base_url + "/",
                api_key=Secret("sk-hush"),
            )
            async with model.connect(WITH_TOOL) as link:
                link.send(text("Roll."))
                link.send(Respond())
                _, end = await until(link, ResponseEnded)
                link.send(result(end.calls[0].id, "4"))
                link.send(Respond())
                events, _end = await until(link, ResponseEnded)
                assert spoken(events) == "You rolled 4."
    assert not server.violations
    assert not server.warnings


async def test_a_trap_in_the_middle_of_a_call_leaves_nothing_unsaid(
    autojump_clock: MockClock,
) -> None:
    trap = On("response.output_item.done", Close(1001, "going"), sent=True)
    async with talking([[ROLL, HangResponse()]], traps=[trap]) as (link, _):
        link.send(Respond())
        _, ready = await until(link, CallReady)
        with pytest.raises(LinkClosed) as caught:
            while True:
                await link.receive()
        assert caught.value.code == 1001
        link.send(result(ready.call.id))  # goes nowhere, and says so elsewhere


def test_the_model_says_who_it_is_and_what_it_can() -> None:
    model: S2S = OpenAIRealtime(model="gpt-realtime-2", api_key=Secret("sk-hush"))
    assert model.label == "gpt-realtime-2 at https://api.openai.com/v1"
    assert "hush" not in repr(model)
    can = model.capabilities
    assert can.live_tools
    assert can.acknowledges_tools
    assert can.asks_for_responses
    assert (can.input_rate, can.output_rate) == (24_000, 24_000)
    assert (can.max_tools, can.max_result) == (128, 16_384)


@pytest.mark.parametrize(
    "wrong",
    [
        {"base_url": "wss://api.openai.com/v1"},
        {"base_url": "https://user:pass@host/v1"},
        {"base_url": "https://host/v1?key=k"},
        {"api_key": Secret("a key")},
        {"api_key": Secret("")},
    ],
    ids=["scheme", "credentials", "query", "blank", "empty"],
)
def test_an_address_or_a_key_that_cannot_be_one(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"base_url|api_key"):
        OpenAIRealtime(model="m", **wrong)
