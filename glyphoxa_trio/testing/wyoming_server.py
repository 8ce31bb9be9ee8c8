"""A scripted Wyoming server, as piper and faster-whisper are: real TCP on loopback.

    async with open_wyoming_server(
        speak=lambda sentence: [pcm], hear=lambda utterance: ["Who is there?"]
    ) as server:
        voice = WyomingSynthesis(server=WyomingServer(server.address))
        ...
    assert server.sentences[0].text == "Mind the books."

A script is a function that returns steps. A step is audio in bytes, words (of a
transcript: all but the last are parts of it), a number of seconds to wait, or one of
the other steps below. A client that says what the protocol does not have is noted in
``refused``, and its connection is closed, as the servers of the protocol do.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.providers.speech import SpeechError
from glyphoxa_trio.providers.wyoming.wire import EventReader, WyomingEvent, encoded

from .loopback import open_loopback


@attrs.frozen(kw_only=True)
class WyomingSentence:
    """A sentence to be spoken."""

    text: str
    voice: Mapping[str, Any] = attrs.field(factory=dict)
    streamed: bool = False


@attrs.frozen(kw_only=True)
class WyomingUtterance:
    """An utterance to be understood."""

    pcm: bytes
    rate: int
    language: str | None = None
    model: str | None = None
    names: tuple[str, ...] = ()


@attrs.frozen
class SendBytes:
    """Bytes in place of events."""

    data: bytes


@attrs.frozen
class ReportError:
    """An error event."""

    text: str
    code: str | None = None


@attrs.frozen
class CutConnection:
    """The end of the connection."""


Step = bytes | str | float | SendBytes | ReportError | CutConnection
Speak = Callable[[WyomingSentence], Sequence[Step]]
Hear = Callable[[WyomingUtterance], Sequence[Step]]


@attrs.define(eq=False)
class FakeWyomingServer:
    """A running server, and what it was asked so far.

    ``described`` counts the questions for what it offers; ``left`` the connections
    that clients have closed.
    """

    address: str
    sentences: list[WyomingSentence] = attrs.field(factory=list)
    utterances: list[WyomingUtterance] = attrs.field(factory=list)
    refused: list[str] = attrs.field(factory=list)
    described: int = 0
    connections: int = 0
    left: int = 0
    _changed: trio.Condition = attrs.field(factory=trio.Condition, repr=False)

    async def wait(self, condition: Callable[[], bool]) -> None:
        """Return once ``condition`` is true; it is called after every change here."""
        async with self._changed:
            while not condition():
                await self._changed.wait()

    async def note(self, change: Callable[[], None]) -> None:
        """Make a change, and tell those who wait."""
        async with self._changed:
            change()
            self._changed.notify_all()


@asynccontextmanager
async def open_wyoming_server(
    *,
    speak: Speak | None = None,
    hear: Hear | None = None,
    rate: int = 22_050,
    streams: bool = False,
) -> AsyncIterator[FakeWyomingServer]:
    """Serve the scripts on a free port of 127.0.0.1 until the block is left.

    Args:
      speak, hear: what it offers.
      rate: of its audio, in Hz.
      streams: it offers streams of text and of transcripts.
    """

    async def serve(stream: trio.SocketStream) -> None:
        await _Client(stream, server, speak, hear, rate, streams).serve()

    async with open_loopback(serve) as origin:
        server = FakeWyomingServer(f"tcp{origin[len('http') :]}")
        yield server


_BY: Final = {"name": "a test", "url": "https://example.com"}
_ABOUT: Final = {
    "attribution": _BY,
    "installed": True,
    "description": None,
    "version": None,
}


class _Refused(Exception):
    """A client has sent what is not in the protocol."""


class _Cut(Exception):
    """The script ends the connection."""


@attrs.define(eq=False)
class _Client:
    """One connection."""

    _stream: trio.SocketStream
    _server: FakeWyomingServer
    _speak: Speak | None
    _hear: Hear | None
    _rate: int
    _streams: bool
    _voice: Mapping[str, Any] = attrs.field(factory=dict, init=False)
    _text: str | None = attrs.field(default=None, init=False)  # of a stream
    _asked: Mapping[str, Any] = attrs.field(factory=dict, init=False)
    _pcm: bytearray | None = attrs.field(default=None, init=False)
    _heard: int = attrs.field(default=0, init=False)  # the rate of the utterance

    async def serve(self) -> None:
        self._server.connections += 1
        reader = EventReader()
        answers, waiting = trio.open_memory_channel[WyomingEvent](100)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._answer_all, waiting, nursery.cancel_scope)
            try:
                while data := await self._stream.receive_some(65_536):
                    for event in reader.feed(bytes(data)):
                        await answers.send(event)
                await self._server.note(self._leave)
            except trio.BrokenResourceError:
                await self._server.note(self._leave)
            except SpeechError as error:
                refused = partial(self._server.refused.append, str(error))
                await self._server.note(refused)
            nursery.cancel_scope.cancel("the client has left")

    def _leave(self) -> None:
        self._server.left += 1

    async def _answer_all(
        self, events: trio.MemoryReceiveChannel[WyomingEvent], scope: trio.CancelScope
    ) -> None:
        try:
            async for event in events:
                await self._answer(event)
        except trio.BrokenResourceError:
            await self._server.note(self._leave)
        except _Refused as no:
            await self._server.note(partial(self._server.refused.append, str(no)))
        except _Cut:
            pass
        scope.cancel("the connection is over")

    async def _answer(self, event: WyomingEvent) -> None:
        data = event.data
        match event.type:
            case "describe":
                self._server.described += 1
                await self._send("info", self._info())
            case "synthesize" if self._speak is not None and self._text is None:
                await self._say(_text(event), data.get("voice", {}), streamed=False)
            case "synthesize-start" if self._speak is not None and self._streams:
                self._text, self._voice = "", data.get("voice", {})
            case "synthesize-chunk" if self._text is not None:
                self._text += _text(event)
            case "synthesize-stop" if self._text is not None:
                text, self._text = self._text, None
                await self._say(text, self._voice, streamed=True)
                await self._send("synthesize-stopped")
            case "transcribe" if self._hear is not None:
                self._asked = data
            case "audio-start" if self._hear is not None:
                self._pcm, self._heard = bytearray(), _pcm16(event)
            case "audio-chunk" if self._pcm is not None:
                if _pcm16(event) != self._heard:
                    raise _Refused("audio of another rate than it began with")
                self._pcm += event.payload
            case "audio-stop" if self._pcm is not None:
                await self._understand(bytes(self._pcm))
                self._pcm = None
            case other:
                raise _Refused(f"{other} is not expected here")

    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = {"asr": [], "tts": []}
        if self._speak is not None:
            voice = {"name": "test", "languages": ["en"], **_ABOUT}
            info["tts"] = [
                {
                    "name": "scripted-voice",
                    "voices": [voice],
                    "supports_synthesize_streaming": self._streams,
                    **_ABOUT,
                }
            ]
        if self._hear is not None:
            model = {"name": "test", "languages": ["en"], **_ABOUT}
            info["asr"] = [
                {
                    "name": "scripted-ears",
                    "models": [model],
                    "supports_transcript_streaming": self._streams,
                    **_ABOUT,
                }
            ]
        return info

    async def _say(self, text: str, voice: object, *, streamed: bool) -> None:
        assert self._speak is not None
        how = voice if isinstance(voice, dict) else {}
        sentence = WyomingSentence(text=text, voice=how, streamed=streamed)
        await self._server.note(lambda: self._server.sentences.append(sentence))
        layout = {"rate": self._rate, "width": 2, "channels": 1}
        await self._send("audio-start", layout | {"timestamp": 0})
        for step in self._speak(sentence):
            if isinstance(step, bytes):
                await self._send("audio-chunk", layout | {"timestamp": 0}, step)
            else:
                await self._step(step)
        await self._send("audio-stop", {"timestamp": 0})

    async def _understand(self, pcm: bytes) -> None:
        assert self._hear is not None
        utterance = WyomingUtterance(
            pcm=pcm,
            rate=self._heard,
            language=self._asked.get("language"),
            model=self._asked.get("name"),
            names=tuple(self._asked.get("transcript_names", ())),
        )
        await self._server.note(lambda: self._server.utterances.append(utterance))
        *steps, last = self._hear(utterance)
        if self._streams:
            await self._send("transcript-start")
        for step in steps:
            if isinstance(step, str):
                await self._send("transcript-chunk", {"text": step})
            else:
                await self._step(step)
        if isinstance(last, str):
            await self._send("transcript", {"text": last})
        else:
            await self._step(last)
        if self._streams:
            await self._send("transcript-stop")

    async def _step(self, step: Step) -> None:
        match step:
            case SendBytes(data):
                await self._stream.send_all(data)
            case ReportError(text, code):
                code_ = {} if code is None else {"code": code}
                await self._send("error", {"text": text} | code_)
            case CutConnection():
                raise _Cut
            case float() | int():
                await trio.sleep(step)
            case other:
                raise TypeError(f"not a step of this script: {other!r}")

    async def _send(
        self, kind: str, data: Mapping[str, Any] | None = None, payload: bytes = b""
    ) -> None:
        event = WyomingEvent(kind, data or {}, payload)
        await self._stream.send_all(encoded(event))


def _text(event: WyomingEvent) -> str:
    text = event.data.get("text")
    if not isinstance(text, str):
        raise _Refused(f"{event.type} without a text")
    return text


def _pcm16(event: WyomingEvent) -> int:
    """Return the rate of audio, which must be PCM16 mono."""
    data = event.data
    if (data.get("width"), data.get("channels")) != (2, 1) or len(event.payload) % 2:
        raise _Refused("not PCM16 mono")
    return int(data["rate"])
