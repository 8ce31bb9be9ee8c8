"""Whole conversations with the strict fake, over WebSockets in memory, by model.

The fake closes on whatever the vendor closes on, and notes every mistake.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import attrs
import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio.providers.gemini_live import GeminiLive, Profile
from glyphoxa_trio.providers.gemini_live.profiles import LIVE_3_8 as PROFILE_3_8
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.s2s import (
    S2S,
    AudioOut,
    Calling,
    CallReady,
    CallsCancelled,
    Cancel,
    Event,
    GoingAway,
    HandleIssued,
    Heard,
    InteractionEnded,
    Interrupted,
    LinkClosed,
    Ready,
    RealtimeLink,
    ResponseEnd,
    ResponseEnded,
    S2STool,
    Schedule,
    SendAudio,
    SendResult,
    SendText,
    SetTools,
    Setup,
    SpeechBegins,
    SpeechEnds,
    Spoken,
    ToolsInForce,
    TranscriptLine,
)
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.testing.gemini_server import (
    Close,
    EndResponse,
    GeminiServer,
    HangResponse,
    ModelTurn,
    On,
    Reply,
    Script,
    Speak,
    SpokenCallTools,
    UserSpeaks,
    open_gemini_server,
)
from glyphoxa_trio.testing.gemini_server import Transcription as Understood
from tests.testing.vendor_types import judge_gemini

from .support import EXTENDED_3_8, FLASH_3_1, LIVE_3_8, NATIVE_2_5, tool

KNOWN = [NATIVE_2_5, FLASH_3_1, LIVE_3_8, EXTENDED_3_8]
E = TypeVar("E")


def gemini(server: GeminiServer, model: str, **options: Any) -> GeminiLive:
    async def dial(host: str, port: int, *, tls: bool) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        return server.dial()

    key = Secret("AIza-not-a-key")
    url = server.base_url
    return GeminiLive(model=model, base_url=url, api_key=key, dial=dial, **options)


# How the server puts what it says into frames, and when its turns are over.
HABITS: dict[str, Any] = {}


@pytest.fixture(autouse=True, params=["plain", "bags"])
def habits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    bags = {"merged": True, "binary": True, "lag": 0.25}
    found = {"plain": {}, "bags": bags}[request.param]
    monkeypatch.setattr(f"{__name__}.HABITS", found)


@attrs.frozen
class Table:
    """A server, and links to it that are set up."""

    server: GeminiServer

    @asynccontextmanager
    async def connect(self, model: str, **fields: Any) -> AsyncIterator[RealtimeLink]:
        found: S2S = gemini(self.server, model)
        setup = {"instructions": "You are Greymantle.", "tools": (tool(),)} | fields
        async with found.connect(Setup(**setup)) as link:
            assert isinstance(await link.receive(), Ready)
            yield link


@asynccontextmanager
async def conversation(script: Script, **options: Any) -> AsyncIterator[Table]:
    """A server that plays ``script``.

    At the end every message of both sides is what the vendor's types know, and the
    client has made no mistake.
    """
    habits = {**HABITS, **options}
    async with open_gemini_server(script, in_memory=True, **habits) as server:
        yield Table(server)
    for session in server.sessions:
        judge_gemini(session.wire.sent, session.wire.received)
    assert server.violations == []


async def until(
    link: RealtimeLink, kind: type[E], seen: list[Event] | None = None
) -> E:
    """The next event of that kind; those before it are ``seen``."""
    with trio.fail_after(1000):  # virtual
        while True:
            event = await link.receive()
            if seen is not None:
                seen.append(event)
            if isinstance(event, kind):
                return event


def rolls(turn: ModelTurn) -> Reply:
    if turn.outputs:
        return Speak(f"You rolled {turn.outputs[-1].output['output']['total']}.")
    arguments = {"expression": "2d6"}
    return [Speak("One moment."), SpokenCallTools([("dice__roll", arguments)])]


def words(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Spoken))


@pytest.mark.parametrize("calling", Calling)
@pytest.mark.parametrize("model", KNOWN)
async def test_a_turn_with_a_tool(
    model: str, calling: Calling, autojump_clock: MockClock
) -> None:
    # G36
    async with conversation(rolls) as table:
        async with table.connect(model, tools=(tool(calling=calling),)) as link:
            link.send(SendText(TranscriptLine("user", "Roll!")))
            seen: list[Event] = []
            ready = await until(link, CallReady, seen)
            assert ready.call.arguments == '{"expression": "2d6"}'
            await trio.sleep(1.5)
            link.send(
                SendResult(
                    call_id=ready.call.id, name=ready.call.name, output='{"total": 7}'
                )
            )
            await until(link, InteractionEnded, seen)
            assert words(seen) == "One moment.You rolled 7."
            assert sum(len(e.pcm) for e in seen if isinstance(e, AudioOut)) == 2 * 4800
            ends = [event for event in seen if isinstance(event, ResponseEnded)]
            assert [call for end in ends for call in end.calls] == [ready.call]
            assert {end.end for end in ends} == {ResponseEnd.COMPLETED}


@pytest.mark.parametrize("model", KNOWN)
async def test_parallel_calls_in_two_forms_are_answered_one_by_one(
    model: str, autojump_clock: MockClock
) -> None:
    def script(turn: ModelTurn) -> Reply:
        if len(turn.outputs) == 2:
            return Speak("Both.")
        if turn.outputs:
            return Speak("One.")
        calls = [("dice__roll", {"expression": "1d20"}), ("dice__roll", None)]
        return SpokenCallTools(calls, twice=True)

    async with conversation(script) as table:
        async with table.connect(model) as link:
            link.send(SendText(TranscriptLine("user", "Roll twice!")))
            ended = await until(link, ResponseEnded)
            assert [call.arguments for call in ended.calls] == [
                '{"expression": "1d20"}',
                "{}",
            ]
            for call in reversed(ended.calls):
                link.send(SendResult(call_id=call.id, name=call.name, output="{}"))
            seen: list[Event] = []
            while not words(seen).endswith("Both."):
                await until(link, Spoken, seen)
            await until(link, InteractionEnded, seen)
            assert not any(isinstance(event, CallReady) for event in seen)


@pytest.mark.parametrize("model", KNOWN)
async def test_a_session_is_resumed_with_other_tools(
    model: str, autojump_clock: MockClock
) -> None:
    # 8: where tools are not replaced, another socket has them, and the history
    turns: list[ModelTurn] = []

    def script(turn: ModelTurn) -> Reply:
        turns.append(turn)
        return Speak("Well met.")

    async with conversation(script) as table:
        handle = None
        async with table.connect(model) as link:
            link.send(SendText(TranscriptLine("user", "I am Ada.")))
            await until(link, InteractionEnded)
            while handle is None:
                handle = (await until(link, HandleIssued)).handle
        setup = {"tools": (tool("look_up"),), "handle": handle}
        async with table.connect(model, **setup) as link:
            link.send(SendText(TranscriptLine("user", "Who am I?")))
            await until(link, InteractionEnded)
    assert [turn.tools for turn in turns] == [("dice__roll",), ("look_up",)]
    assert [line.text for line in turns[1].lines] == [
        "I am Ada.",
        "Well met.",
        "Who am I?",
    ]


async def test_resumed_is_said_of_a_socket_with_a_handle(
    autojump_clock: MockClock,
) -> None:
    async with open_gemini_server([Speak("Hm.")], in_memory=True) as server:
        model = gemini(server, LIVE_3_8)
        async with model.connect(Setup(instructions="")) as link:
            assert await link.receive() == Ready(resumed=False)
            link.send(SendText(TranscriptLine("user", "Hm?")))
            issued = await until(link, HandleIssued)
            while issued.handle is None:
                issued = await until(link, HandleIssued)
        async with model.connect(Setup(instructions="", handle=issued.handle)) as link:
            assert await link.receive() == Ready(resumed=True)


@pytest.mark.parametrize("model", KNOWN)
async def test_a_result_for_another_socket_is_told_as_text(
    model: str, autojump_clock: MockClock
) -> None:
    # 6: the result of a tool that ran while its socket went away
    turns: list[ModelTurn] = []

    def script(turn: ModelTurn) -> Reply:
        turns.append(turn)
        return rolls(turn) if turn.socket == 0 else Speak("Seven!")

    async with conversation(script) as table:
        async with table.connect(model) as link:
            link.send(SendText(TranscriptLine("user", "Roll!")))
            call = (await until(link, CallReady)).call
        async with table.connect(
            model, history=(TranscriptLine("user", "Roll!"),)
        ) as link:
            answer = SendResult(call_id=call.id, name=call.name, output="{}")
            with pytest.raises(ValueError, match="no call"):
                link.send(answer)
            told = f"Result of the earlier call of {call.name}: 7"
            link.send(SendText(TranscriptLine("system", told)))
            await until(link, InteractionEnded)
    assert turns[1].user == f"Note: {told}"


@pytest.mark.parametrize("model", KNOWN)
async def test_history_is_known_to_a_new_socket(
    model: str, autojump_clock: MockClock
) -> None:
    turns: list[ModelTurn] = []

    def script(turn: ModelTurn) -> Reply:
        turns.append(turn)
        return Speak("Ada.")

    history = (
        TranscriptLine("user", "I am Ada."),
        TranscriptLine("assistant", "Well met."),
    )
    async with conversation(script) as table:
        async with table.connect(model, history=history) as link:
            link.send(SendText(TranscriptLine("user", "Who am I?")))
            await until(link, InteractionEnded)
    said = [(line.role, line.text) for line in turns[0].lines]
    assert said[:2] == [("user", "I am Ada."), ("model", "Well met.")]
    assert said[-1] == ("user", "Who am I?")


@pytest.mark.parametrize("model", KNOWN)
async def test_what_others_say_interrupts_nothing_and_reaches_the_model(
    model: str, autojump_clock: MockClock
) -> None:
    # D23a: the others receive finished transcripts as text, without replying
    turns: list[ModelTurn] = []

    def script(turn: ModelTurn) -> Reply:
        turns.append(turn)
        if turn.number == 0:
            return Speak("A long story.", ms=2000, paced=True)
        return Speak("Bob sings.")

    async with conversation(script) as table:
        async with table.connect(model) as link:
            link.send(SendText(TranscriptLine("user", "Tell me.")))
            await until(link, Spoken)
            link.send(SendText(TranscriptLine("user", "Bob: tra la."), reply=False))
            seen: list[Event] = []
            await until(link, InteractionEnded, seen)
            assert not any(isinstance(event, Interrupted) for event in seen)
            await trio.sleep(5)
            assert len(turns) == 1
            link.send(SendText(TranscriptLine("user", "Who sings?")))
            await until(link, InteractionEnded)
    assert len(turns) == 2
    assert "Bob: tra la." in "\n".join(line.text for line in turns[1].lines)


async def test_tools_are_replaced_on_an_open_socket(autojump_clock: MockClock) -> None:
    turns: list[ModelTurn] = []

    def script(turn: ModelTurn) -> Reply:
        turns.append(turn)
        return Speak("Yes.")

    async with conversation(script) as table:
        async with table.connect(LIVE_3_8) as link:
            for revision, names in enumerate((["look_up"], []), 1):
                link.send(SetTools(tuple(map(tool, names)), revision))
                assert await until(link, ToolsInForce) == ToolsInForce(revision)
                link.send(SendText(TranscriptLine("user", "And now?")))
                await until(link, InteractionEnded)
    assert [turn.tools for turn in turns] == [("look_up",), ()]


@pytest.mark.parametrize("model", [NATIVE_2_5, FLASH_3_1, LIVE_3_8])
async def test_who_interrupts_a_blocking_call_cancels_it(
    model: str, autojump_clock: MockClock
) -> None:
    # 5: an answer nobody wants any more must not be sent
    def script(turn: ModelTurn) -> Reply:
        return rolls(turn) if turn.number == 0 else Speak("Very well.")

    trap = On("toolCall", UserSpeaks("Stop!", after=0.5, late=False), sent=True)
    async with conversation(script, traps=[trap]) as table:
        async with table.connect(
            model, tools=(tool(calling=Calling.BLOCKING),)
        ) as link:
            link.send(SendText(TranscriptLine("user", "Roll!")))
            call = (await until(link, CallReady)).call
            assert (await until(link, CallsCancelled)).ids == (call.id,)
            await until(link, Interrupted)
            await trio.sleep(2.0)
            link.send(SendResult(call_id=call.id, name=call.name, output="{}"))
            seen: list[Event] = []
            heard = await until(link, Heard, seen)
            await until(link, InteractionEnded, seen)
            assert attrs.evolve(heard, final=True) in seen
            assert heard.text == "Stop!"
            assert words(seen) == "Very well."


async def test_a_call_beside_the_talk_survives_an_interruption(
    autojump_clock: MockClock,
) -> None:
    def script(turn: ModelTurn) -> Reply:
        if turn.outputs:
            return Speak("Seven.")
        return rolls(turn) if turn.number == 0 else Speak("Yes?")

    trap = On("toolCall", UserSpeaks("Hello?"), sent=True)
    async with conversation(script, traps=[trap]) as table:
        async with table.connect(LIVE_3_8) as link:
            link.send(SendText(TranscriptLine("user", "Roll!")))
            call = (await until(link, CallReady)).call
            seen: list[Event] = []
            while "Yes?" not in words(seen):
                await until(link, Spoken, seen)
            assert not any(isinstance(event, CallsCancelled) for event in seen)
            silent = Schedule.SILENT
            link.send(
                SendResult(
                    call_id=call.id, name=call.name, output="{}", schedule=silent
                )
            )
            await until(link, InteractionEnded)


async def test_a_response_is_stopped_by_the_client(autojump_clock: MockClock) -> None:
    story = [Speak("A long story.", ms=60_000, paced=True)]
    for model in (LIVE_3_8, EXTENDED_3_8):
        async with conversation(story) as table:
            async with table.connect(model) as link:
                link.send(SendText(TranscriptLine("user", "Tell me.")))
                await until(link, AudioOut)
                link.send(Cancel())
                ended = await until(link, ResponseEnded)
                assert ended.end is ResponseEnd.CANCELLED
        assert trio.current_time() < 1


def tone(ms: int) -> bytes:
    """Something loud enough to be speech, at 16 kHz."""
    samples = (int(9000 * math.sin(i / 5)) for i in range(16 * ms))
    return array("h", samples).tobytes()


@pytest.mark.parametrize("model", KNOWN)
@pytest.mark.parametrize("automatic", [True, False])
async def test_what_is_spoken_arrives_to_the_byte(
    model: str, automatic: bool, autojump_clock: MockClock
) -> None:
    async with conversation(
        [Speak("I hear you.")], hears=[Understood("Hello there.", late=False)]
    ) as table:
        async with table.connect(model, automatic=automatic) as link:
            pcm = tone(400) + bytes(32 * 700)
            if not automatic:
                link.send(SpeechBegins())
            for at in range(0, len(pcm), 640):
                link.send(SendAudio(pcm[at : at + 640]))
                await trio.sleep(0.02)
            if not automatic:
                link.send(SpeechEnds())
            seen: list[Event] = []
            await until(link, InteractionEnded, seen)
            whole = [e for e in seen if isinstance(e, Heard) and e.final]
            assert [heard.text for heard in whole] == ["Hello there."]
            await trio.sleep(5)
        session = table.server.sessions[0]
        assert bytes(session.hearing.audio) == pcm
        assert session.hearing.rate == 16_000
        ends = [m for m in session.wire.received if "audioStreamEnd" in str(m)]
        assert len(ends) == automatic  # the microphone was off for a while


async def test_a_malformed_call_is_a_failed_response(autojump_clock: MockClock) -> None:
    script = [EndResponse(reason="MALFORMED_FUNCTION_CALL")]
    async with conversation(script) as table:
        async with table.connect(NATIVE_2_5) as link:
            link.send(SendText(TranscriptLine("user", "Roll!")))
            assert (await until(link, ResponseEnded)).end is ResponseEnd.FAILED


# How it ends.


async def test_a_notice_comes_before_the_end(autojump_clock: MockClock) -> None:
    # 17: a session has a limit, and says so
    async with conversation([Speak("Hm.")], lifetime=605.0, notice=50.0) as table:
        async with table.connect(LIVE_3_8) as link:
            assert await until(link, GoingAway) == GoingAway(50.0)
            assert trio.current_time() == pytest.approx(555.0, abs=0.01)
            with pytest.raises(LinkClosed) as closed:
                await until(link, InteractionEnded)
            assert closed.value.retryable


@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [
        (1007, ErrorKind.BAD_REQUEST, False),
        (1008, ErrorKind.BAD_REQUEST, False),
        (1011, ErrorKind.OVERLOADED, True),
        (1000, ErrorKind.INTERRUPTED, True),
        (1001, ErrorKind.INTERRUPTED, True),
    ],
)
async def test_a_close_code_says_whether_to_try_again(
    code: int, kind: ErrorKind, retryable: bool, autojump_clock: MockClock
) -> None:
    script: Script = [[Close(code, "Because."), HangResponse()]]
    async with conversation(script) as table:
        async with table.connect(LIVE_3_8) as link:
            link.send(SendText(TranscriptLine("user", "Hello?")))
            with pytest.raises(LinkClosed) as closed:
                await until(link, InteractionEnded)
    end = closed.value
    assert (end.code, end.kind, end.retryable) == (code, kind, retryable)


async def test_a_large_result_may_break_the_service(autojump_clock: MockClock) -> None:
    # 12: 1011 right after a result
    async with conversation(rolls, max_result=1000) as table:
        async with table.connect(LIVE_3_8) as link:
            link.send(SendText(TranscriptLine("user", "Roll!")))
            call = (await until(link, CallReady)).call
            output = f'{{"text": "{"x" * 2000}"}}'
            link.send(SendResult(call_id=call.id, name=call.name, output=output))
            with pytest.raises(LinkClosed) as closed:
                await until(link, InteractionEnded)
            assert (closed.value.code, closed.value.retryable) == (1011, True)


async def test_a_profile_that_is_wrong_is_closed_upon(
    autojump_clock: MockClock,
) -> None:
    # What the model's name does not say can be given; wrongly, it is permanent.
    async with open_gemini_server([Speak("Hm.")], in_memory=True) as server:
        found = gemini(server, FLASH_3_1, profile=PROFILE_3_8)
        assert found.capabilities.live_tools
        async with found.connect(Setup(instructions="")) as link:
            await link.receive()
            link.send(SetTools((), 1))
            with pytest.raises(LinkClosed) as closed:
                await until(link, InteractionEnded)
        assert (closed.value.code, closed.value.retryable) == (1007, False)
        assert [violation.code for violation in server.violations] == ["context_update"]


async def test_a_profile_can_be_given(autojump_clock: MockClock) -> None:
    mine = Profile(calling=(Calling.BLOCKING,), turns=True, text_as_turn=True)
    async with open_gemini_server(rolls, in_memory=True) as server:
        found = gemini(server, NATIVE_2_5, profile=mine)
        tools: tuple[S2STool, ...] = (tool(),)
        async with found.connect(Setup(instructions="", tools=tools)) as link:
            link.send(SendText(TranscriptLine("user", "Roll!")))
            await until(link, CallReady)
        (setup, *_) = server.sessions[0].wire.received
        (function,) = setup["setup"]["tools"][0]["functionDeclarations"]
        assert "behavior" not in function
        assert server.violations == []
