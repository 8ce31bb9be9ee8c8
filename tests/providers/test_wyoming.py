"""Voices and ears of Wyoming servers: the package of its authors on both ends.

Sockets are real, so nothing is timed; each test has an absolute end.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest
from wyoming.asr import (
    Transcribe,
    Transcript,
    TranscriptChunk,
    TranscriptStart,
    TranscriptStop,
)
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.event import Event
from wyoming.info import (
    AsrModel,
    AsrProgram,
    Attribution,
    Describe,
    Info,
    TtsProgram,
    TtsVoice,
)
from wyoming.server import AsyncEventHandler, AsyncTcpServer
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeStopped,
    SynthesizeVoice,
)

import trio
from trio.testing import MockClock

from glyphoxa_trio.providers.audio import seconds_of
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.speech import SpeechError, VoiceStyle
from glyphoxa_trio.providers.wyoming import (
    RATE,
    WyomingRecognition,
    WyomingServer,
    WyomingSynthesis,
)
from glyphoxa_trio.testing.wyoming_server import (
    CutConnection,
    FakeWyomingServer,
    ReportError,
    SendBytes,
    Step,
    WyomingUtterance,
    open_wyoming_server,
)

PCM = bytes(range(256)) * 200
ALAN = VoiceStyle(name="alan")


@asynccontextmanager
async def served(
    *steps: Step, ears: bool = False, within: float = 30.0, **options: Any
) -> AsyncIterator[tuple[FakeWyomingServer, WyomingSynthesis, WyomingRecognition]]:
    script = {"hear" if ears else "speak": lambda _: steps}
    with trio.fail_after(60):
        async with open_wyoming_server(**script, **options) as server:  # type: ignore[arg-type]
            at = WyomingServer(server.address)
            yield (
                server,
                WyomingSynthesis(server=at, timeout=within),
                WyomingRecognition(server=at, timeout=within, names=("Moira",)),
            )


async def heard(voice: WyomingSynthesis, text: str = "Mind the books.") -> bytes:
    async with voice.speak(text, ALAN) as pieces:
        return b"".join([x async for x in pieces])


async def microphone(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        await trio.lowlevel.checkpoint()
        yield piece


async def understood(
    ears: WyomingRecognition, *pieces: bytes, told: list[str] | None = None
) -> str:
    async def tell(words: str) -> None:
        if told is not None:
            told.append(words)

    audio = microphone(*pieces)
    return await ears.recognize(audio, language="en-GB", tell=tell)


# Servers that are made with the package.


def _about(name: str) -> dict[str, Any]:
    by = Attribution(name="a test", url="https://example.com")
    return {
        "name": name,
        "attribution": by,
        "installed": True,
        "description": None,
        "version": "1",
    }


class Theirs(AsyncEventHandler):
    """As wyoming-piper and wyoming-faster-whisper answer."""

    streams = False
    events: list[Event]

    async def handle_event(self, event: Event) -> bool:
        self.events.append(event)
        if Describe.is_type(event.type):
            voice = TtsVoice(languages=["en"], **_about("alan"))
            model = AsrModel(languages=["en"], **_about("small"))
            tts = TtsProgram(
                voices=[voice],
                supports_synthesize_streaming=self.streams,
                **_about("piper"),
            )
            asr = AsrProgram(
                models=[model],
                supports_transcript_streaming=self.streams,
                **_about("faster-whisper"),
            )
            await self.write_event(Info(tts=[tts], asr=[asr]).event())
        elif Synthesize.is_type(event.type):
            await self._speak(Synthesize.from_event(event).text)
        elif SynthesizeChunk.is_type(event.type):
            for sentence in SynthesizeChunk.from_event(event).text.split(". "):
                await self._speak(sentence)
        elif SynthesizeStop.is_type(event.type):
            await self.write_event(SynthesizeStopped().event())
        elif AudioStop.is_type(event.type):
            await self._transcribe()
        return True

    async def _speak(self, text: str) -> None:
        await self.write_event(AudioStart(rate=RATE, width=2, channels=1).event())
        audio = text.encode().ljust(100, b"\0")
        for at in range(0, 100, 30):
            chunk = AudioChunk(RATE, 2, 1, audio[at : at + 30])
            await self.write_event(chunk.event())
        await self.write_event(AudioStop().event())

    async def _transcribe(self) -> None:
        if self.streams:
            await self.write_event(TranscriptStart().event())
            for part in ("Who ", "is there?"):
                await self.write_event(TranscriptChunk(part).event())
        await self.write_event(Transcript("Who is there?").event())
        if self.streams:
            await self.write_event(TranscriptStop().event())


@asynccontextmanager
async def by_them(*, streams: bool) -> AsyncIterator[tuple[str, list[Event]]]:
    """Run their server in a thread; give its address, and what it was told."""
    events: list[Event] = []
    ready, stop = threading.Event(), asyncio.Event()
    found: dict[str, Any] = {}

    def handler(*streams_of_it: Any) -> AsyncEventHandler:
        made = Theirs(*streams_of_it)
        made.streams, made.events = streams, events
        return made

    async def main() -> None:
        server = AsyncTcpServer("127.0.0.1", 0)
        await server.start(handler)
        assert isinstance(server._server, asyncio.Server)
        found["port"] = server._server.sockets[0].getsockname()[1]
        found["loop"] = asyncio.get_running_loop()
        ready.set()
        await stop.wait()
        await server.stop()

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    try:
        assert await trio.to_thread.run_sync(ready.wait, 10)
        with trio.fail_after(60):
            yield f"tcp://127.0.0.1:{found['port']}", events
    finally:
        with suppress(KeyError):
            found["loop"].call_soon_threadsafe(stop.set)
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(thread.join, 10)


async def test_their_piper_speaks() -> None:
    async with by_them(streams=False) as (address, events):
        voice = WyomingSynthesis(server=WyomingServer(address, "piper"))
        for _ in range(2):
            assert await heard(voice) == b"Mind the books.".ljust(100, b"\0")
    assert [event.type for event in events] == [
        *("select-program", "describe", "synthesize"),
        *("select-program", "synthesize"),  # what it offers is known
    ]
    assert Synthesize.from_event(events[2]) == Synthesize(
        "Mind the books.", voice=SynthesizeVoice(name="alan")
    )


async def test_their_piper_speaks_in_a_stream_where_it_can() -> None:
    async with by_them(streams=True) as (address, events):
        voice = WyomingSynthesis(server=WyomingServer(address))
        pcm = await heard(voice, "Mind the books. Or else.")
        assert pcm == b"Mind the books".ljust(100, b"\0") + b"Or else.".ljust(
            100, b"\0"
        )
    assert [event.type for event in events] == [
        *("describe", "synthesize-start", "synthesize-chunk", "synthesize-stop")
    ]
    assert SynthesizeStart.from_event(events[1]).voice == SynthesizeVoice(name="alan")


@pytest.mark.parametrize("streams", [False, True])
async def test_their_whisper_hears(streams: bool) -> None:
    told: list[str] = []
    async with by_them(streams=streams) as (address, events):
        ears = WyomingRecognition(server=WyomingServer(address), model="small")
        assert await understood(ears, b"aa", b"bbbb", told=told) == "Who is there?"
    assert told == (["Who", "Who is there?"] if streams else [])
    transcribe, start, *chunks, _ = events[1:]
    assert Transcribe.from_event(transcribe) == Transcribe(name="small", language="en")
    assert AudioStart.from_event(start).rate == 16_000
    assert b"".join(AudioChunk.from_event(x).audio for x in chunks) == b"aabbbb"


# Our fake, by their client.


async def test_their_client_is_understood_by_our_server() -> None:
    def ask(port: int, *events: Event, until: str) -> list[Event]:
        async def run() -> list[Event]:
            found: list[Event] = []
            async with AsyncTcpClient("127.0.0.1", port, 10, 10) as client:
                for event in events:
                    await client.write_event(event)
                while not found or found[-1].type != until:
                    event_ = await client.read_event()
                    assert event_ is not None
                    found.append(event_)
            return found

        return asyncio.run(run())

    async def asked(port: int, *events: Event, until: str) -> list[Event]:
        return await trio.to_thread.run_sync(partial(ask, port, *events, until=until))

    def hear(utterance: WyomingUtterance) -> Sequence[Step]:
        return ["Who ", f"Who? {utterance.language}"]

    with trio.fail_after(60):
        async with open_wyoming_server(
            speak=lambda _: [PCM], hear=hear, streams=True
        ) as server:
            port = int(server.address.rpartition(":")[2])
            (event,) = await asked(port, Describe().event(), until="info")
            info = Info.from_event(event)
            assert info.tts[0].supports_synthesize_streaming
            assert info.asr[0].models[0].languages == ["en"]
            text = Synthesize("Hi.", voice=SynthesizeVoice(name="alan")).event()
            said = await asked(port, text, until="audio-stop")
            assert AudioStart.from_event(said[0]).rate == RATE
            assert AudioChunk.from_event(said[1]).audio == PCM
            stream = [
                SynthesizeStart().event(),
                SynthesizeChunk("Hi ").event(),
                SynthesizeChunk("you.").event(),
                SynthesizeStop().event(),
            ]
            assert await asked(port, *stream, until="synthesize-stopped")
            audio = [
                Transcribe(language="en").event(),
                AudioStart(rate=16_000, width=2, channels=1).event(),
                AudioChunk(16_000, 2, 1, b"aabb").event(),
                AudioStop().event(),
            ]
            words = await asked(port, *audio, until="transcript-stop")
            assert [x.type for x in words] == [
                *("transcript-start", "transcript-chunk"),
                *("transcript", "transcript-stop"),
            ]
            assert Transcript.from_event(words[2]).text == "Who? en"
        assert [(x.text, x.voice, x.streamed) for x in server.sentences] == [
            ("Hi.", {"name": "alan"}, False),
            ("Hi you.", {}, True),
        ]
        assert server.utterances[0].pcm == b"aabb"
        assert server.refused == []


# What goes wrong.


async def test_audio_of_another_rate_is_resampled() -> None:
    async with served(PCM, rate=16_000) as (_, voice, _):
        pcm = await heard(voice)
    assert seconds_of(pcm, RATE) == pytest.approx(seconds_of(PCM, 16_000), 0.01)


WRONG: list[tuple[Step, ErrorKind, str]] = [
    (ReportError("no such voice"), ErrorKind.INTERRUPTED, "no such voice"),
    (ReportError("slow", "overloaded"), ErrorKind.OVERLOADED, "slow"),
    (CutConnection(), ErrorKind.INTERRUPTED, "closed the connection"),
    (SendBytes(b"<html>\n"), ErrorKind.MALFORMED, "not the Wyoming protocol: <html>"),
    (SendBytes(b'{"type": 1}\n'), ErrorKind.MALFORMED, "without a type"),
]


@pytest.mark.parametrize(("step", "kind", "why"), WRONG, ids=str)
async def test_what_goes_wrong_loses_one_sentence(
    step: Step, kind: ErrorKind, why: str
) -> None:
    async with served(step) as (server, voice, _):
        for _ in range(2):
            with pytest.raises(SpeechError, match=why) as caught:
                await heard(voice)
            assert caught.value.kind is kind
            assert str(caught.value).startswith("tcp://127.0.0.1:")
    assert len(server.sentences) == 2
    assert server.described == 2  # asked again, since it may be another server now


@pytest.mark.parametrize(("step", "kind", "why"), WRONG, ids=str)
async def test_what_goes_wrong_loses_one_utterance(
    step: Step, kind: ErrorKind, why: str
) -> None:
    async with served(step, ears=True) as (server, _, ears):
        with pytest.raises(SpeechError, match=why) as caught:
            await understood(ears, b"aa")
        assert caught.value.kind is kind
    assert server.utterances[0].names == ("Moira",)


async def test_audio_that_is_none_is_an_error() -> None:
    wrong = b'{"type": "audio-chunk", "data": {"rate": 9, "width": 1, "channels": 1}}\n'
    async with served(SendBytes(wrong)) as (_, voice, _):
        with pytest.raises(SpeechError, match=r"tcp.*not PCM16 mono"):
            await heard(voice)
    async with served() as (_, voice, _):
        with pytest.raises(SpeechError, match="ended without audio"):
            await heard(voice)
        assert await heard(voice, "…") == b""


async def test_who_breaks_off_in_a_word_was_heard_so_far() -> None:
    got = b""
    async with served(PCM, CutConnection()) as (_, voice, _):
        with pytest.raises(SpeechError, match="closed the connection"):
            async with voice.speak("Mind the books.", ALAN) as pieces:
                async for piece in pieces:
                    got += piece
    assert got == PCM


async def test_who_says_nothing_in_time_is_left(mock_clock: MockClock) -> None:
    mock_clock.autojump_threshold = 0.05  # when neither side has anything to do
    async with served(600.0, within=9) as (server, voice, _):
        with pytest.raises(SpeechError, match="no audio within 9 s") as caught:
            await heard(voice)
        assert caught.value.kind is ErrorKind.FIRST_TOKEN
        await server.wait(lambda: server.left == 1)
    async with served(600.0, "Who?", ears=True, within=9) as (server, _, ears):
        with pytest.raises(SpeechError, match="no transcript after 9 s"):
            await understood(ears, b"aa")
        await server.wait(lambda: server.left == 1)


async def test_who_is_silent_in_a_word_is_left(mock_clock: MockClock) -> None:
    mock_clock.autojump_threshold = 0.05
    async with served(PCM, 600.0) as (server, voice, _):
        with pytest.raises(SpeechError, match="silent for 5 s") as caught:
            await heard(voice)
        assert caught.value.kind is ErrorKind.SILENCE
        await server.wait(lambda: server.left == 1)


async def test_leaving_in_mid_sentence_closes_the_connection_at_once() -> None:
    async with served(PCM, 600.0) as (server, voice, _):
        async with voice.speak("A long story.", ALAN) as pieces:
            assert await anext(pieces)
        await server.wait(lambda: server.left == 1)


@pytest.mark.parametrize("ears", [False, True])
async def test_cancelled_while_it_waits_it_closes_the_connection(ears: bool) -> None:
    async with served(600.0, "Who?", ears=ears) as (server, voice, hears):
        async with trio.open_nursery() as nursery:
            if ears:
                nursery.start_soon(understood, hears, b"aa")
                await server.wait(lambda: bool(server.utterances))
            else:
                nursery.start_soon(heard, voice)
                await server.wait(lambda: bool(server.sentences))
            nursery.cancel_scope.cancel()
        await server.wait(lambda: server.left == 1)


async def test_a_server_of_the_other_kind_says_so() -> None:
    async with served("Who?", ears=True) as (_, voice, _):
        with pytest.raises(SpeechError, match="offers no synthesizer") as caught:
            await heard(voice)
        assert caught.value.lasting
    async with served(PCM) as (_, _, ears):
        with pytest.raises(SpeechError, match="offers no recognizer") as caught:
            await understood(ears, b"aa")
        assert caught.value.lasting


async def test_nobody_at_the_address_is_an_error() -> None:
    async with served(PCM) as (server, _, _):
        gone = server.address
    voice = WyomingSynthesis(server=WyomingServer(gone))
    with trio.fail_after(60), pytest.raises(SpeechError) as caught:
        await heard(voice)
    assert caught.value.kind is ErrorKind.UNREACHABLE
    assert voice.label == gone


@pytest.mark.parametrize("address", ["http://x:1", "tcp://x", "tcp://:1", "x:1"])
def test_another_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="base_url"):
        WyomingServer(address)


async def test_words_may_come_before_the_end_of_the_audio() -> None:
    """A server with a detector of its own answers when it likes."""
    transcript = SendBytes(b'{"type": "transcript", "data": {"text": "Yes."}}\n')
    gone_on = trio.Event()

    async def spoken() -> AsyncIterator[bytes]:
        yield b"aa"
        await gone_on.wait()  # nobody asks for more
        yield b"bb"

    async def tell(words: str) -> None:
        raise AssertionError(words)

    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some(10_000)
        await stream.send_all(b'{"type": "info", "data": {"asr": [{}]}}\n')
        await stream.receive_some(10_000)
        await stream.send_all(transcript.data)
        await trio.sleep_forever()

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            listeners = await nursery.start(
                partial(trio.serve_tcp, serve, 0, host="127.0.0.1")
            )
            port = listeners[0].socket.getsockname()[1]
            ears = WyomingRecognition(server=WyomingServer(f"tcp://127.0.0.1:{port}"))
            assert await ears.recognize(spoken(), language=None, tell=tell) == "Yes."
            nursery.cancel_scope.cancel()
