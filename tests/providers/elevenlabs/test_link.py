"""Sentences by a strict server: on virtual time in memory, and over real sockets.

Over real sockets nothing is timed; each test has an absolute end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock

from glyphoxa_trio.providers.audio import seconds_of
from glyphoxa_trio.providers.chain import ModelCandidate
from glyphoxa_trio.providers.elevenlabs import ElevenLabs, wire
from glyphoxa_trio.providers.speech import (
    SpeechError,
    Synthesizer,
    TellsWords,
    VoiceStyle,
)
from glyphoxa_trio.providers.speech_chain import SynthesizerChain
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.testing.elevenlabs_server import (
    Altered,
    Close,
    Drop,
    ElevenLabsServer,
    Freeze,
    On,
    Refuse,
    Send,
    open_elevenlabs_server,
    sound_of,
)
from glyphoxa_trio.testing.loopback import open_loopback

KEY = "sk-very-secret"
TEXT = "Well, seventy-five gold pieces."
VOICE = VoiceStyle(name="Rachel/1", language="en-GB")
Message = dict[str, Any]


@attrs.define
class Said:
    """What came of one sentence."""

    pcm: bytes = b""
    words: list[tuple[int, float]] = attrs.field(factory=list)
    pieces: int = 0


def mouth_of(server: ElevenLabsServer, **options: Any) -> ElevenLabs:
    if server.base_url == "http://memory":

        async def dial(host: str, port: int, *, tls: bool) -> trio.abc.Stream:
            return server.dial()

        options["dial"] = dial
    return ElevenLabs(base_url=server.base_url, api_key=Secret(KEY), **options)


@asynccontextmanager
async def speaking(
    *, in_memory: bool = True, options: dict[str, Any] | None = None, **given: Any
) -> AsyncIterator[tuple[ElevenLabsServer, ElevenLabs]]:
    with trio.fail_after(120):
        async with open_elevenlabs_server(
            key=KEY, in_memory=in_memory, **given
        ) as server:
            yield server, mouth_of(server, **(options or {}))


async def say(mouth: ElevenLabs, text: str = TEXT, voice: VoiceStyle = VOICE) -> Said:
    said = Said()
    async with mouth.speak(text, voice) as pieces:
        assert isinstance(pieces, TellsWords)
        pieces.tell_words(lambda words, end: said.words.append((words, end)))
        async for pcm in pieces:
            said.pcm += pcm
            said.pieces += 1
            # A word is told with the audio in which it ends, at the latest.
            if said.words:
                assert said.words[-1][1] <= seconds_of(said.pcm, mouth.rate) + 1e-6
    return said


async def test_a_sentence_is_said_and_its_words_have_times(
    autojump_clock: MockClock,
) -> None:
    async with speaking() as (server, mouth):
        said = await say(mouth)
    assert said.pcm == sound_of(TEXT + " ", 24_000)
    assert said.pieces == 6
    # Four letters and a long comma; then 13, 5 and 8 characters with their spaces.
    assert [count for count, _ in said.words] == [1, 2, 3, 4]
    assert [end for _, end in said.words] == pytest.approx([0.56, 1.08, 1.28, 1.6])
    (session,) = server.sessions
    assert session.voice == "Rachel/1"
    assert session.query == {
        "model_id": ["eleven_flash_v2_5"],
        "output_format": ["pcm_24000"],
        "language_code": ["en"],
        "sync_alignment": ["true"],
        "auto_mode": ["true"],
    }
    assert [x.get("text") for x in session.wire.received] == [" ", TEXT + " ", ""]
    assert session.wire.headers["xi-api-key"] == KEY
    assert server.violations == []


@pytest.mark.parametrize(
    ("model", "language"), [("eleven_multilingual_v2", None), ("eleven_v3", ["en"])]
)
async def test_only_newer_models_are_told_a_language(
    autojump_clock: MockClock, model: str, language: list[str] | None
) -> None:
    async with speaking(options={"model": model, "rate": 16_000}) as (server, mouth):
        assert (await say(mouth)).pcm == sound_of(TEXT + " ", 16_000)
    assert server.sessions[0].query.get("language_code") == language
    assert server.violations == []


@pytest.mark.parametrize(("speed", "sent"), [(1.1, 1.1), (3.0, 1.2), (0.1, 0.7)])
async def test_the_speed_is_the_nearest_one_that_the_vendor_takes(
    autojump_clock: MockClock, speed: float, sent: float
) -> None:
    async with speaking() as (server, mouth):
        await say(mouth, voice=VoiceStyle(name="v", speed=speed))
    first = server.sessions[0].wire.received[0]
    assert first == {"text": " ", "voice_settings": {"speed": sent}}
    assert server.violations == []


async def test_audio_without_times_is_said_without_them(
    autojump_clock: MockClock,
) -> None:
    async with speaking(aligned=False) as (_, mouth):
        said = await say(mouth)
    assert said.pcm == sound_of(TEXT + " ", 24_000)
    assert said.words == []


async def test_no_voice_is_said_before_anything_is_dialled() -> None:
    async with speaking() as (server, mouth):
        with pytest.raises(SpeechError, match="no voice is configured"):
            await say(mouth, voice=VoiceStyle())
    assert server.sessions == []


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (Close(1000), "closed with 1000"),
        (Close(1011, "server error"), "closed with 1011: server error"),
        (Drop(), "the connection broke"),
        (Freeze(), "silent for 5 s"),
        (Send({"message": "no credits", "error": "quota_exceeded"}), "quota_exceeded"),
        (Send({"audio": "!!!"}), "no message of this protocol: !!!"),
    ],
    ids=["closed", "failed", "dropped", "frozen", "refused", "nonsense"],
)
@pytest.mark.parametrize("after", range(6))
async def test_a_cut_at_each_message_is_an_error_in_time(
    autojump_clock: MockClock, event: Any, why: str, after: int
) -> None:
    trap = On("audio", event, sent=True, skip=after)
    async with speaking(traps=[trap], pace=0.5) as (_, mouth):
        said: list[bytes] = []
        with pytest.raises(SpeechError, match=why) as caught:
            async with mouth.speak(TEXT, VOICE) as pieces:
                async for pcm in pieces:
                    said.append(pcm)  # noqa: PERF401  # the last one raises
        assert trio.current_time() < 8
    # What arrived before it is said: the beginning of the sentence.
    assert len(said) == after + 1
    assert sound_of(TEXT + " ", 24_000).startswith(b"".join(said))
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("refusal", "why"),
    [
        (Refuse(401, {"detail": {"message": f"wrong key {KEY}"}}), "401: wrong key"),
        (Refuse(402, {"detail": {"message": "pay first"}}), "402: pay first"),
        (Refuse(404, {"detail": "Not Found"}), "404: Not Found"),
        (Refuse(429, {"detail": {"message": "too many"}}), "429: too many"),
        (Refuse(503, "busy"), "503"),
    ],
    ids=lambda value: str(value.status) if isinstance(value, Refuse) else value[:3],
)
async def test_a_refusal_is_told_without_the_key(
    autojump_clock: MockClock, refusal: Refuse, why: str
) -> None:
    async with speaking(handshakes=[refusal]) as (_, mouth):
        with pytest.raises(SpeechError, match=why) as caught:
            await say(mouth)
        assert KEY not in str(caught.value)
        assert (await say(mouth)).pcm  # the next sentence may succeed


async def test_a_server_that_never_answers_ends_at_the_timeout(
    autojump_clock: MockClock,
) -> None:
    def never(message: Message) -> Altered:
        return [] if message.get("audio") else [1000.0]

    async with speaking(mangle=never, options={"timeout": 2.0}) as (_, mouth):
        with pytest.raises(SpeechError, match="no audio in time"):
            await say(mouth)
        assert trio.current_time() == 2.0


async def test_a_server_that_takes_nobody_in_ends_at_the_timeout(
    autojump_clock: MockClock,
) -> None:
    async def dial(host: str, port: int, *, tls: bool) -> trio.abc.Stream:
        await trio.sleep_forever()
        raise AssertionError

    mouth = ElevenLabs(timeout=2.0, dial=dial)
    with pytest.raises(SpeechError, match=r"api\.elevenlabs\.io: no WebSocket"):
        await say(mouth)
    assert trio.current_time() == 2.0


async def test_a_server_that_does_not_stop_is_stopped(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "LONGEST", 9.0)
    async with speaking(mangle=lambda message: [message] * 100, chunk_ms=2000) as (
        _,
        mouth,
    ):
        with pytest.raises(SpeechError, match="more than 9 s"):
            await say(mouth)


async def test_a_chain_passes_on_what_is_told_of_words(
    autojump_clock: MockClock,
) -> None:
    async with speaking(handshakes=[Refuse(503)]) as (_, mouth):
        first, second = (ModelCandidate[Synthesizer](x, mouth) for x in ("a", "b"))
        said: list[tuple[int, float]] = []
        async with SynthesizerChain([first, second]).speak(TEXT, VOICE) as pieces:
            assert isinstance(pieces, TellsWords)
            # "Well," has ended in the audio that the chain has waited for.
            await anext(pieces)
            assert said == []
            pieces.tell_words(lambda words, end: said.append((words, end)))
            async for _ in pieces:
                pass
    assert [words for words, _ in said] == [1, 2, 3, 4]


async def test_leaving_in_the_middle_closes_the_socket_at_once(
    autojump_clock: MockClock,
) -> None:
    async with speaking(pace=1.0) as (server, mouth):
        async with mouth.speak(TEXT, VOICE) as pieces:
            await anext(pieces)
        assert trio.current_time() == 0
        await server.sessions[0].wire.closed.wait()
        assert trio.current_time() == 0
    assert server.violations == []


async def test_leaving_a_server_that_is_frozen_takes_a_tenth_of_a_second(
    autojump_clock: MockClock,
) -> None:
    async with speaking(traps=[On("audio", Freeze(), sent=True)]) as (_, mouth):
        async with mouth.speak(TEXT, VOICE) as pieces:
            await anext(pieces)
        assert trio.current_time() == pytest.approx(0.1)


@given(
    what=st.lists(
        st.sampled_from(["as it is", "drop", "twice", "late", "junk", "empty"]),
        max_size=8,
    )
)
def test_a_sentence_ends_once_whatever_the_server_does(what: list[str]) -> None:
    trio.run(whatever, what, clock=MockClock(autojump_threshold=0))


async def whatever(what: list[str]) -> None:
    todo = iter(what)

    def mangle(message: Message) -> Altered:
        match next(todo, "as it is"):
            case "drop":
                return []
            case "twice":
                return [message, message]
            case "late":
                return [1.0, message]
            case "junk":
                return [{"surprise": 1}, {**message, "alignment": {"chars": "x"}}]
            case "empty":
                return [{"audio": "", "isFinal": None}, message]
        return [message]

    async with speaking(mangle=mangle, options={"timeout": 3.0}) as (server, mouth):
        try:
            said = await say(mouth)
        except SpeechError:
            # Only its end is missed, or all of its audio.
            assert what[6:7] == ["drop"] or what[:6] == ["drop"] * 6
        else:
            ends = [count for count, _ in said.words]
            assert ends == sorted(set(ends))
        assert trio.current_time() < 10
    assert server.violations == []


# Over real sockets.


async def test_three_sentences_over_sockets_at_the_same_time() -> None:
    async with speaking(in_memory=False) as (server, mouth):
        said: dict[str, Said] = {}

        async def one(text: str) -> None:
            said[text] = await say(mouth, text)

        async with trio.open_nursery() as nursery:
            for text in ("One.", "Two, three.", "Go away!"):
                nursery.start_soon(one, text)
    assert {text: x.pcm for text, x in said.items()} == {
        text: sound_of(text + " ", 24_000) for text in said
    }
    assert len(said) == len(server.sessions) == 3
    assert server.violations == []


async def test_who_is_away_or_speaks_another_protocol_is_said() -> None:
    async def hang_up(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b"220 mail\r\n")
        await stream.aclose()

    with trio.fail_after(60):
        async with open_loopback(hang_up) as origin:
            mouth = ElevenLabs(base_url=origin)
            with pytest.raises(SpeechError, match=r"hung up|WebSocket"):
                await say(mouth)
        with pytest.raises(SpeechError, match="connect"):
            await say(mouth)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"base_url": "ftp://host"}, "base_url"),
        ({"base_url": "https://host?key=k"}, "base_url"),
        ({"api_key": Secret("a b")}, "api_key"),
        ({"rate": 8_000}, "rate"),
        ({"timeout": 0.0}, "timeout"),
    ],
)
def test_what_no_request_can_carry_is_refused_at_once(
    options: dict[str, Any], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        ElevenLabs(**options)


def test_no_key_is_shown() -> None:
    assert KEY not in repr(ElevenLabs(api_key=Secret(KEY)))
