"""A microphone at a strict server: on virtual time in memory, and over real sockets.

What sounds like speech to the server is loud, and nothing else. Over real sockets
nothing is timed; each test has an absolute end.
"""

from __future__ import annotations

from array import array
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trio
from trio.testing import MockClock

from glyphoxa_trio.providers.audio import bytes_of
from glyphoxa_trio.providers.deepgram import Deepgram
from glyphoxa_trio.providers.speech import (
    Began,
    Final,
    NotUnderstood,
    Partial,
    Recognition,
    Recognized,
    Sounding,
    SpeechError,
    TellsSpeech,
)
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.testing.deepgram_server import (
    Altered,
    Close,
    DeepgramServer,
    Drop,
    Freeze,
    On,
    Refuse,
    Send,
    open_deepgram_server,
)

KEY = "dg-very-secret"
RATE = 16_000
HORSE = "What is the price of a horse?"
Message = dict[str, Any]


def loud(seconds: float) -> bytes:
    return array("h", [4000, -4000] * int(seconds * RATE / 2)).tobytes()


def quiet(seconds: float) -> bytes:
    return bytes(bytes_of(seconds, RATE))


def always(number: int, pcm: bytes) -> str:
    """The same words, also of what is heard again."""
    return HORSE


def ears_of(server: DeepgramServer, **options: Any) -> Deepgram:
    if server.base_url == "http://memory":

        async def dial(host: str, port: int, *, tls: bool) -> trio.abc.Stream:
            return server.dial()

        options.setdefault("dial", dial)
    return Deepgram(base_url=server.base_url, api_key=Secret(KEY), **options)


@attrs.define
class Microphone:
    """Somebody who speaks, and what is understood."""

    server: DeepgramServer
    recognition: Recognition

    async def speak(self, *pieces: bytes, each: float = 0.02) -> None:
        """As fast as it is spoken, in pieces of ``each`` seconds."""
        size = bytes_of(each, RATE)
        for pcm in pieces:
            for at in range(0, len(pcm), size):
                self.recognition.hear(pcm[at : at + size])
                await trio.sleep(each)

    async def understood(self) -> list[Recognized]:
        """The events of one utterance."""
        found: list[Recognized] = []
        async for event in self.recognition.events():
            found.append(event)
            if not isinstance(event, Began | Partial):
                break
        return found


@asynccontextmanager
async def listening(
    script: Any = (HORSE, "Yes."),
    *,
    in_memory: bool = True,
    options: dict[str, Any] | None = None,
    language: str | None = None,
    **given: Any,
) -> AsyncIterator[Microphone]:
    with trio.fail_after(10_000 if in_memory else 60):
        async with open_deepgram_server(
            script, key=KEY, in_memory=in_memory, **given
        ) as server:
            ears = ears_of(server, **(options or {}))
            async with ears.listen(language=language) as recognition:
                yield Microphone(server, recognition)


async def test_what_is_said_is_understood_while_it_is_said(
    autojump_clock: MockClock,
) -> None:
    async with listening() as microphone:
        await microphone.speak(quiet(0.3), loud(2.0), quiet(0.6))
        first = await microphone.understood()
        await microphone.speak(loud(0.5), quiet(0.6))
        second = await microphone.understood()
        server = microphone.server
    assert first[0] == Began(1)
    assert first[-1] == Final(HORSE)
    words = [event.text for event in first if isinstance(event, Partial)]
    assert words == sorted(set(words), key=len)
    assert words[0] == "What"
    assert all(HORSE.startswith(text) for text in words)
    assert second == [Began(2), Partial("Yes."), Final("Yes.")]
    (session,) = server.sessions
    assert session.wire.headers["authorization"] == f"Token {KEY}"
    assert server.violations == []


async def test_a_microphone_that_sends_nothing_in_silence_ends_its_utterance(
    autojump_clock: MockClock,
) -> None:
    async with listening() as microphone:
        await microphone.speak(loud(1.0))
        began = trio.current_time()
        found = await microphone.understood()
        assert trio.current_time() - began < 1.0
        assert found[-1] == Final(HORSE)
        # And it stays connected, for as long as nobody speaks.
        await trio.sleep(60)
        await microphone.speak(loud(0.5))
        assert (await microphone.understood())[-1] == Final("Yes.")
        server = microphone.server
    assert len(server.sessions) == 1
    seconds = len(server.sessions[0].ear.audio) / 2 / RATE
    assert seconds < 12  # of more than a minute: silence is not paid for
    assert server.violations == []


async def test_the_length_of_speech_is_told_as_it_is_heard(
    autojump_clock: MockClock,
) -> None:
    told: list[Sounding] = []
    async with listening() as microphone:
        assert isinstance(microphone.recognition, TellsSpeech)
        microphone.recognition.tell_speech(told.append)
        await microphone.speak(loud(1.0), quiet(0.6))
        await microphone.understood()
    assert {x.utterance for x in told} == {1}
    assert [x.over for x in told] == [False] * (len(told) - 1) + [True]
    assert [x.seconds for x in told] == sorted(x.seconds for x in told)


async def test_words_come_early_if_that_is_asked_for(
    autojump_clock: MockClock,
) -> None:
    async with listening(options={"eager": 0.5, "phrases": ("Moira",)}) as microphone:
        await microphone.speak(loud(0.7), quiet(0.3), loud(0.4), quiet(0.6))
        found = await microphone.understood()
        sent = [x.get("event") for x in microphone.server.sessions[0].wire.sent]
        assert microphone.server.violations == []
    assert "EagerEndOfTurn" in sent
    assert "TurnResumed" in sent
    # All words, before the turn has ended; then it goes on.
    assert Partial(HORSE) in found[:-1]
    assert found[-1] == Final(HORSE)


async def test_another_language_is_another_model(autojump_clock: MockClock) -> None:
    async with listening(["Ja."], language="de-DE") as microphone:
        await microphone.speak(loud(0.5))
        assert (await microphone.understood())[-1] == Final("Ja.")
        assert microphone.server.violations == []


# Sockets that break.

ENDS = [Close(1000), Close(1011, "NET-0000"), Drop(), Freeze()]


@pytest.mark.parametrize(
    ("after", "end"),
    [(after, ENDS[(after + by) % 4]) for after in range(14) for by in (0, 1)],
)
async def test_a_cut_at_each_message_loses_nothing(
    autojump_clock: MockClock, end: Any, after: int
) -> None:
    trap = On(lambda message: True, end, sent=True, skip=after, socket=0)
    async with listening(always, traps=[trap]) as microphone:
        await microphone.speak(quiet(0.3), loud(2.0))
        found = await microphone.understood()
        await trio.sleep(60)
        await microphone.speak(loud(0.5))
        again = await microphone.understood()
        server = microphone.server
    for events, number in ((found, 1), (again, 2)):
        assert events[0] == Began(number)
        assert events[-1] == Final(HORSE)
        assert sum(isinstance(event, Began) for event in events) == 1
    assert len(server.sessions) == 2
    assert server.violations == []


async def test_a_server_that_falls_silent_over_an_utterance_is_left(
    autojump_clock: MockClock,
) -> None:
    # The vendor's fault that left callers in silence: open, and no more reports.
    begun: list[int] = []

    def mangle(message: Message) -> Altered:
        if message.get("event") == "StartOfTurn":
            begun.append(1)
        silent = begun and len(begun) == 1 and message.get("event") != "StartOfTurn"
        return [] if silent and message["type"] == "TurnInfo" else [message]

    async with listening(always, mangle=mangle) as microphone:
        await microphone.speak(loud(1.0))
        found = await microphone.understood()
        assert trio.current_time() < 10
        assert len(microphone.server.sessions) == 2
    assert (found[0], found[-1]) == (Began(1), Final(HORSE))


async def test_an_utterance_over_which_two_sockets_fall_silent_is_not_understood(
    autojump_clock: MockClock,
) -> None:
    over: list[int] = []

    def mangle(message: Message) -> Altered:
        reports = message.get("event") in ("Update", "EndOfTurn")
        return [] if reports and not over else [message]

    async with listening(mangle=mangle, options={"timeout": 30.0}) as microphone:
        await microphone.speak(loud(1.0))
        found = await microphone.understood()
        assert isinstance(found[-1], NotUnderstood)
        assert "no report" in found[-1].detail
        over.append(1)
        await trio.sleep(5)
        await microphone.speak(loud(0.5))
        assert isinstance((await microphone.understood())[-1], Final)


@pytest.mark.parametrize(
    ("refusal", "why"),
    [
        (Refuse(401, {"err_msg": f"no such key {KEY}"}), "HTTP 401"),
        (Refuse(402, {"err_msg": "pay first"}), "HTTP 402"),
        (Refuse(404, {"err_msg": "no such path"}), "HTTP 404"),
    ],
    ids=lambda value: str(value.status) if isinstance(value, Refuse) else "",
)
async def test_a_refusal_ends_recognition_with_its_reason(
    autojump_clock: MockClock, refusal: Refuse, why: str
) -> None:
    async with listening(handshakes=[refusal]) as microphone:
        with pytest.raises(SpeechError, match=why) as caught:
            await microphone.understood()
        assert KEY not in str(caught.value)
        microphone.recognition.hear(loud(1.0))  # nobody hears it


@pytest.mark.parametrize("status", [429, 503])
async def test_a_server_that_is_busy_is_asked_again_with_all_that_was_said(
    autojump_clock: MockClock, status: int
) -> None:
    async with listening(handshakes=[Refuse(status)] * 3) as microphone:
        await microphone.speak(loud(1.0))
        assert (await microphone.understood())[-1] == Final(HORSE)
        assert microphone.recognition.dropped == 0


async def test_a_server_that_stays_away_ends_recognition_in_time(
    autojump_clock: MockClock,
) -> None:
    async def away(host: str, port: int, *, tls: bool) -> trio.abc.Stream:
        raise OSError("nobody there")

    async with listening(options={"dial": away, "timeout": 8.0}) as microphone:
        microphone.recognition.hear(loud(1.0))
        with pytest.raises(SpeechError, match="nobody there"):
            await microphone.understood()
        assert 3 < trio.current_time() <= 8


async def test_what_is_open_when_the_server_goes_away_is_not_understood(
    autojump_clock: MockClock,
) -> None:
    refusals = [None, *[Refuse(503)] * 20]
    trap = On("Update", Drop(), sent=True, skip=1)
    async with listening(handshakes=refusals, traps=[trap]) as microphone:
        await microphone.speak(loud(1.0))
        found = await microphone.understood()
        assert isinstance(found[-1], NotUnderstood)
        with pytest.raises(SpeechError, match="503"):
            await microphone.understood()
        assert trio.current_time() < 20


async def test_a_server_that_hangs_up_at_once_every_time_is_given_up(
    autojump_clock: MockClock,
) -> None:
    trap = On("Connected", Close(1011, "busy"), sent=True)
    async with listening(traps=[trap]) as microphone:
        with pytest.raises(SpeechError, match="busy"):
            await microphone.understood()
        assert 8 < trio.current_time() < 20
        assert len(microphone.server.sessions) < 10


async def test_sockets_that_end_now_and_then_are_no_outage(
    autojump_clock: MockClock,
) -> None:
    def expired(socket: int) -> On:
        late = lambda message: trio.current_time() > 180 * (socket + 1)  # noqa: E731
        return On(late, Close(1000), sent=True, socket=socket)

    async with listening(traps=[expired(at) for at in range(6)]) as microphone:
        for _ in range(6):
            await microphone.speak(quiet(0.5))
            await trio.sleep(180)
        assert len(microphone.server.sessions) == 7
        await microphone.speak(loud(0.5), quiet(0.5))
        assert (await microphone.understood())[-1] == Final(HORSE)


async def test_errors_and_nonsense_of_the_server(autojump_clock: MockClock) -> None:
    junk = On("StartOfTurn", Send({"type": "Surprise", "x": [1]}), sent=True)
    error = On(
        "Update",
        Send({"type": "Error", "code": "INTERNAL", "description": "oops"}),
        sent=True,
        skip=3,
        socket=0,
    )
    async with listening(always, traps=[junk, error]) as microphone:
        await microphone.speak(quiet(0.2), loud(2.0))
        found = await microphone.understood()
        assert len(microphone.server.sessions) == 2
    assert (found[0], found[-1]) == (Began(1), Final(HORSE))


@settings(max_examples=max(5, settings().max_examples // 5), deadline=None)
@given(
    what=st.lists(st.sampled_from(["as it is", "drop", "twice", "late"]), max_size=40),
    cuts=st.lists(st.tuples(st.integers(0, 30), st.sampled_from(ENDS)), max_size=3),
)
def test_every_utterance_ends_once_whatever_the_server_does(
    what: list[str], cuts: list[tuple[int, Any]]
) -> None:
    trio.run(whatever, what, cuts, clock=MockClock(autojump_threshold=0))


async def whatever(what: list[str], cuts: list[tuple[int, Any]]) -> None:
    todo = iter(what)

    def mangle(message: Message) -> Altered:
        match next(todo, "as it is"):
            case "drop":
                return []
            case "twice":
                return [message, message]
            case "late":
                return [0.7, message]
        return [message]

    traps = [
        On(lambda message: True, end, sent=True, skip=skip, socket=at)
        for at, (skip, end) in enumerate(cuts)
    ]
    found: list[Recognized] = []
    async with listening(
        always, mangle=mangle, traps=traps, options={"timeout": 60.0}
    ) as microphone:

        async def collect() -> None:
            async for event in microphone.recognition.events():
                found.append(event)  # noqa: PERF401  # what came before it is left

        async with trio.open_nursery() as nursery:
            nursery.start_soon(collect)
            for _ in range(2):
                await microphone.speak(loud(1.0), each=0.1)
                await trio.sleep(45)
            nursery.cancel_scope.cancel()
        assert microphone.server.violations == []
    is_open = False
    for event in found:
        assert is_open is not isinstance(event, Began)
        is_open = isinstance(event, Began | Partial)
    assert not is_open
    assert found
    assert isinstance(found[-1], Final)


async def test_leaving_closes_the_socket_at_once(autojump_clock: MockClock) -> None:
    async with listening() as microphone:
        await microphone.speak(loud(0.5))
        left = trio.current_time()
        server = microphone.server
        session = server.sessions[0]
    assert trio.current_time() - left <= 0.2
    assert session.wire.closed.is_set()


async def test_leaving_a_server_that_is_frozen_takes_a_moment(
    autojump_clock: MockClock,
) -> None:
    with trio.fail_after(100):
        traps = [On("Connected", Freeze(), sent=True)]
        async with open_deepgram_server([], in_memory=True, traps=traps) as server:
            async with ears_of(server).listen() as recognition:
                recognition.hear(loud(1.0))
                await trio.sleep(1)
            assert trio.current_time() == pytest.approx(1.2)


async def test_a_microphone_that_is_far_too_fast_loses_what_is_too_much(
    autojump_clock: MockClock,
) -> None:
    traps = [On("Connected", Freeze(), sent=True)]
    async with listening(traps=traps) as microphone:
        await trio.sleep(0.1)
        for _ in range(120):
            microphone.recognition.hear(quiet(1.0))
        assert microphone.recognition.dropped > 60


# Over real sockets.


async def test_two_speakers_over_sockets_at_the_same_time() -> None:
    with trio.fail_after(60):
        async with open_deepgram_server(always, key=KEY) as server:
            ears = ears_of(server)
            understood: list[Recognized] = []

            async def one() -> None:
                async with ears.listen() as recognition:
                    for at in range(0, len(said := loud(1.0) + quiet(0.7)), 640):
                        recognition.hear(said[at : at + 640])
                    understood.extend(
                        await Microphone(server, recognition).understood()
                    )

            async with trio.open_nursery() as nursery:
                nursery.start_soon(one)
                nursery.start_soon(one)
    assert [x for x in understood if isinstance(x, Final)] == [Final(HORSE)] * 2
    assert server.violations == []


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"base_url": "ftp://host"}, "base_url"),
        ({"api_key": Secret("a b")}, "api_key"),
        ({"eager": 0.1}, "eager"),
        ({"timeout": 0.0}, "timeout"),
    ],
)
def test_what_no_request_can_carry_is_refused_at_once(
    options: dict[str, Any], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        Deepgram(**options)


def test_no_key_is_shown() -> None:
    assert KEY not in repr(Deepgram(api_key=Secret(KEY)))
