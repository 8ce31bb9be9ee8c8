"""Speech over HTTP: a strict server on loopback, the vendor's client, a real voice.

Sockets are real, so nothing is timed; each test has an absolute end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import openai
import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio.providers.audio import seconds_of
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.openai_speech import OpenAISpeech
from glyphoxa_trio.providers.openai_speech.link import PIECE
from glyphoxa_trio.providers.openai_speech.wire import AudioReader, stated_rate
from glyphoxa_trio.providers.speech import SpeechError, VoiceStyle
from glyphoxa_trio.providers.speech_server import SpeechServer
from glyphoxa_trio.providers.wav import wav
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.testing.http_server import (
    CloseConnection,
    LateReply,
    NoAnswer,
    Pieces,
    RawBytes,
    StatusReply,
)
from glyphoxa_trio.testing.speech_server import (
    FakeSpeechServer,
    Reply,
    Script,
    open_speech_server,
)

KEY = "sk-very-secret"
PCM = bytes(range(256)) * 200  # about a second
ALLOY = VoiceStyle(name="alloy")


@asynccontextmanager
async def asked(
    script: Script, *, key: str | None = KEY, **options: Any
) -> AsyncIterator[tuple[FakeSpeechServer, OpenAISpeech]]:
    with trio.fail_after(60):
        async with open_speech_server(script, key=KEY) as server:
            at = SpeechServer(
                base_url=server.base_url, api_key=None if key is None else Secret(key)
            )
            given: dict[str, Any] = {"model": server.model, "server": at, "timeout": 30}
            voice = OpenAISpeech(**(given | options))
            try:
                yield server, voice
            finally:
                await voice.aclose()


async def heard(
    voice: OpenAISpeech, text: str = "Mind the books.", how: VoiceStyle = ALLOY
) -> bytes:
    async with voice.speak(text, how) as pieces:
        return b"".join([piece async for piece in pieces])


def streamed(*pieces: bytes, kind: str = "audio/pcm", ends: bool = True) -> Pieces:
    """Pieces that come apart from each other; without an end, a broken connection."""

    def made() -> Iterable[bytes]:
        yield from pieces
        if not ends:
            raise trio.BrokenResourceError("the test ends it here")

    return Pieces(made, {"Content-Type": kind})


async def test_a_sentence_is_asked_for_as_the_vendor_wants_it() -> None:
    style = VoiceStyle(name="coral", speed=9.0, pronunciation={"Bree": "Brie"})
    async with asked([PCM]) as (server, voice):
        assert await heard(voice, "Bree, 3 miles.", style) == PCM
        assert await heard(voice) == PCM
        assert server.http.connections == 1  # kept
    first, second = server.sentences
    assert (first.text, first.voice, first.speed) == ("Brie, 3 miles.", "coral", 4.0)
    assert (second.text, second.speed) == ("Mind the books.", 1.0)
    assert server.http.requests[1].message == {
        "model": server.model,
        "input": "Mind the books.",
        "voice": "alloy",
        "response_format": "pcm",
    }
    assert server.refused == []


async def test_audio_is_heard_before_the_sentence_is_whole() -> None:
    reply = streamed(PCM[:3], PCM[3:1001], PCM[1001:])
    async with asked([reply]) as (_, voice):
        async with voice.speak("Mind the books.", ALLOY) as audio:
            pieces = [x async for x in audio]
    assert b"".join(pieces) == PCM
    assert all(len(piece) % 2 == 0 for piece in pieces)
    assert len(pieces[0]) <= 512  # at once
    # And then no more of them than a player needs.
    assert len(pieces) <= 2 + seconds_of(PCM, voice.rate) / PIECE


@pytest.mark.parametrize("length", [None, 0, 0xFFFFFFFF])
async def test_a_wav_in_place_of_raw_audio_states_its_rate(length: int | None) -> None:
    file = bytearray(wav(PCM, 12_000))
    if length is not None:  # as programs do that write to a pipe
        file[40:44] = length.to_bytes(4, "little")
    async with asked([streamed(bytes(file[:2]), bytes(file[2:]))]) as (_, voice):
        pcm = await heard(voice)
    assert seconds_of(pcm, voice.rate) == pytest.approx(seconds_of(PCM, 12_000), 0.01)


async def test_a_rate_in_the_type_of_raw_audio_counts() -> None:
    reply = streamed(PCM, kind="audio/pcm; rate=12000")
    async with asked([reply]) as (_, voice):
        pcm = await heard(voice)
    assert seconds_of(pcm, voice.rate) == pytest.approx(seconds_of(PCM, 12_000), 0.01)
    assert stated_rate("audio/pcm") is None
    assert stated_rate("audio/pcm;rate=1") is None


FLOATS = bytearray(wav(PCM, 24_000))
FLOATS[20] = 3


@pytest.mark.parametrize(
    ("reply", "kind", "why"),
    [
        (
            StatusReply(429, {"Retry-After": "2"}, {"error": {"message": "slow down"}}),
            ErrorKind.RATE_LIMITED,
            "HTTP 429: slow down",
        ),
        (StatusReply(503, body=b"busy"), ErrorKind.OVERLOADED, "HTTP 503: busy"),
        (
            StatusReply(400, body={"error": {"message": f"no {KEY} in a voice"}}),
            ErrorKind.BAD_REQUEST,
            "no [secret] in a voice",
        ),
        (StatusReply(307, {"Location": "/"}), ErrorKind.NOT_FOUND, "redirects"),
        (StatusReply(200, body={"ok": 1}), ErrorKind.MALFORMED, 'not audio, but: {"'),
        (b"ID3\x04 and so on", ErrorKind.MALFORMED, "it sends MP3"),
        (bytes(FLOATS), ErrorKind.MALFORMED, "not PCM16 mono: format 3"),
        (b"RIFF of nothing at all", ErrorKind.MALFORMED, "not a WAV file"),
        (b"", ErrorKind.MALFORMED, "ended without audio"),
        (b"x", ErrorKind.MALFORMED, "ended without audio"),
        (RawBytes(b"hello\r\n\r\n"), ErrorKind.INTERRUPTED, "127.0.0.1"),
        (CloseConnection(), ErrorKind.INTERRUPTED, "127.0.0.1"),
    ],
    ids=str,
)
async def test_what_goes_wrong_loses_one_sentence(
    reply: Reply, kind: ErrorKind, why: str
) -> None:
    async with asked([reply, PCM]) as (server, voice):
        with pytest.raises(SpeechError) as caught:
            await heard(voice)
        assert why in str(caught.value)
        assert KEY not in str(caught.value)
        assert caught.value.kind is kind
        assert await heard(voice) == PCM
    assert len(server.sentences) == 2


@pytest.mark.parametrize("reply", [NoAnswer(), LateReply(60.0, StatusReply())], ids=str)
async def test_who_says_nothing_in_time_is_hung_up_on(
    mock_clock: MockClock, reply: Reply
) -> None:
    mock_clock.autojump_threshold = 0.05  # when neither side has anything to do
    async with asked([reply, PCM], timeout=20) as (server, voice):
        with pytest.raises(SpeechError, match="no audio within 20 s") as caught:
            await heard(voice)
        assert trio.current_time() == pytest.approx(20)
        assert caught.value.kind is ErrorKind.FIRST_TOKEN
        await server.http.wait(lambda: server.http.hangups == 1)


async def test_who_breaks_off_in_a_word_was_heard_so_far() -> None:
    async def script(_: object) -> Reply:
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"
        return RawBytes(head + PCM[:500])

    got = b""
    async with asked(script) as (_, voice):
        with pytest.raises(SpeechError) as caught:
            async with voice.speak("Mind the books.", ALLOY) as pieces:
                async for piece in pieces:
                    got += piece
    assert caught.value.kind is ErrorKind.INTERRUPTED
    assert PCM[:500].startswith(got)
    assert got


async def test_a_refused_key_is_lasting_and_not_shown() -> None:
    async with asked([PCM], key="sk-another") as (server, voice):
        with pytest.raises(SpeechError, match="401: Incorrect API key") as caught:
            await heard(voice)
    assert caught.value.lasting
    assert "sk-another" not in str(caught.value) + repr(voice)
    assert server.sentences == []


async def test_nobody_at_the_address_is_an_error() -> None:
    async with asked([PCM]) as (server, _):
        gone = SpeechServer(base_url=server.base_url)
    with trio.fail_after(60):
        with pytest.raises(SpeechError) as caught:
            await heard(OpenAISpeech(model="m", server=gone))
        assert caught.value.kind is ErrorKind.UNREACHABLE
        await gone.aclose()


async def test_leaving_in_mid_sentence_hangs_up_at_once() -> None:
    endless = Pieces(lambda: iter(lambda: PCM, None), {"Content-Type": "audio/pcm"})
    async with asked([endless]) as (server, voice):
        async with voice.speak("A long story.", ALLOY) as pieces:
            assert await anext(pieces)
        await server.http.wait(lambda: server.http.hangups == 1)


async def test_cancelled_before_the_first_audio_it_hangs_up() -> None:
    async with asked([NoAnswer()]) as (server, voice):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(heard, voice))
            await server.http.wait(lambda: bool(server.http.requests))
            nursery.cancel_scope.cancel()
        await server.http.wait(lambda: server.http.hangups == 1)


@pytest.mark.border  # the client asks a program for the name of the processor
async def test_the_vendors_client_is_understood_by_the_server() -> None:
    def by_the_vendor(base_url: str) -> bytes:
        with (
            openai.OpenAI(api_key=KEY, base_url=base_url, max_retries=0) as client,
            client.audio.speech.with_streaming_response.create(
                model="scripted-voice",
                input="Mind the books.",
                voice="alloy",
                response_format="pcm",
                speed=1.5,
            ) as response,
        ):
            return response.read()

    async with asked([streamed(PCM[:100], PCM[100:])]) as (server, voice):
        assert await trio.to_thread.run_sync(by_the_vendor, server.base_url) == PCM
        assert await heard(voice, how=VoiceStyle(name="alloy", speed=1.5)) == PCM
    # The vendor's client and ours ask the same.
    theirs, ours = server.http.requests
    assert theirs.message == ours.message
    assert theirs.path == ours.path
    assert server.refused == []


async def test_the_server_takes_nothing_that_the_vendor_would_not() -> None:
    wrong = [
        (VoiceStyle(), "Hi.", "voice: a text"),
        (ALLOY, "", "input: a text"),
        (ALLOY, "x" * 4097, "input: at most"),
    ]
    async with asked([PCM]) as (server, voice):
        for style, text, why in wrong:
            with pytest.raises(SpeechError, match=why):
                await heard(voice, text, style)
        with pytest.raises(SpeechError, match="does not exist"):
            await heard(OpenAISpeech(model="x", server=voice.server))
    assert len(server.refused) == 4
    with pytest.raises(ValueError, match="at least one reply"):
        async with open_speech_server([]):
            pass


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 1000])
@pytest.mark.parametrize("packed", [False, True])
def test_audio_is_the_same_however_it_is_cut(size: int, packed: bool) -> None:
    data = wav(PCM, 24_000) if packed else PCM
    reader = AudioReader(24_000, 24_000)
    pieces = [reader.feed(data[at : at + size]) for at in range(0, len(data), size)]
    assert all(len(piece) % 2 == 0 for piece in pieces)
    assert b"".join([*pieces, reader.end()]) == PCM
