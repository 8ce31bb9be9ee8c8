"""A scripted ElevenLabs server for speech over WebSockets: loopback, and strict.

    async with open_elevenlabs_server(key="k") as server:
        mouth = ElevenLabs(base_url=server.base_url, api_key=Secret("k"))
        ...
    assert not server.violations

Each character of the text sounds for `MS` milliseconds, a comma for longer, so that
words do not end in proportion to their letters; its samples are the number of the
character. Messages end anywhere in a word. The same messages are refused as by the
vendor, and the forbidden acts of clients are noted in ``violations``.
"""

from __future__ import annotations

import re
from array import array
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

import attrs
from trio_websocket import WebSocketRequest

import trio

from .voice.mangling import Altered as Altered
from .voice.mangling import Mangle, as_it_is, emit_mangled
from .voice.service import VoiceService
from .voice.steps import Close as Close
from .voice.steps import Drop as Drop
from .voice.steps import Freeze as Freeze
from .voice.steps import On as On
from .voice.steps import Refuse as Refuse
from .voice.steps import Send as Send
from .voice.wire import Habits, Message, SocketWriter
from .voice_front import Front, headers_of, open_front

MS: Final = 40  # of one character
COMMA_MS: Final = 400
_PATH: Final = re.compile(r"/v1/text-to-speech/([^/]+)/stream-input")
_QUERY: Final = frozenset(
    {
        "model_id",
        "output_format",
        "language_code",
        "sync_alignment",
        "auto_mode",
        "inactivity_timeout",
        "apply_text_normalization",
        "enable_logging",
        "enable_ssml_parsing",
        "optimize_streaming_latency",
        "seed",
    }
)
# The documentation's fields of the first message, and of the others.
_FIRST: Final = frozenset(
    {
        "text",
        "voice_settings",
        "generation_config",
        "pronunciation_dictionary_locators",
        "try_trigger_generation",
        "xi-api-key",
        "authorization",
    }
)
_LATER: Final = frozenset(
    {"text", "try_trigger_generation", "flush", "voice_settings", "generator_config"}
)


@attrs.define(eq=False)
class ElevenLabsServer(Front["ElevenLabsSession"]):
    """A running server, and the messages that its clients have sent so far.

    Args:
      key: the only key; None takes any.
      chunk_ms: milliseconds of audio in one message.
      pace: seconds of waiting for a second of audio.
      aligned: whether messages have times.
      mangle: what is sent instead of a message: messages, and pauses in seconds.
    """

    key: str | None = attrs.field(default=None, repr=False)
    chunk_ms: int = 300
    pace: float = 0.0
    aligned: bool = True
    mangle: Mangle = attrs.field(default=as_it_is, repr=False)

    @property
    def texts(self) -> list[str]:
        """The text of each client, one socket after the other."""
        return [session.text for session in self.sessions]

    def admit(self, request: WebSocketRequest) -> Refuse | None:
        where = urlsplit(request.path)
        if not _PATH.fullmatch(where.path):
            self._note("no_such_path", where.path)
            return Refuse(404, {"detail": "Not Found"})
        if self.key is not None and headers_of(request).get("xi-api-key") != self.key:
            status = {"status": "invalid_api_key", "message": "Invalid API key"}
            return Refuse(401, {"detail": status})
        query = parse_qs(where.query)
        for name in query.keys() - _QUERY:
            self._note("unknown_parameter", name)
        model = query.get("model_id", ["eleven_multilingual_v2"])[0]
        if "language_code" in query and not re.search("v2_5|v3", model):
            self._note("language", f"{model} is told no language")
        if not _rate(query):
            self._note("output_format", str(query.get("output_format")))
            return Refuse(400, {"detail": "unsupported output_format"})
        return None

    def open_session(
        self, wire: SocketWriter, nursery: trio.Nursery
    ) -> ElevenLabsSession:
        return ElevenLabsSession(wire, self, nursery)


def _rate(query: dict[str, list[str]]) -> int:
    """Return the rate of an output format that is PCM; 0 for others."""
    asked = query.get("output_format", ["mp3_44100_128"])[0]
    found = re.fullmatch(r"pcm_(16000|22050|24000|44100|48000)", asked)
    return int(found[1]) if found else 0


@attrs.define(eq=False)
class ElevenLabsSession:
    """One socket: the text that was sent, and the speech that is made of it."""

    wire: SocketWriter
    _server: ElevenLabsServer = attrs.field(repr=False)
    _nursery: trio.Nursery = attrs.field(repr=False)
    text: str = ""
    _made: int = 0  # characters that are spoken
    _begun: bool = False
    _over: bool = False
    _work: trio.Event = attrs.field(factory=trio.Event, repr=False)
    _flush: bool = False

    @property
    def voice(self) -> str:
        found = _PATH.fullmatch(urlsplit(self.wire.path).path)
        return unquote(found[1]) if found else ""

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.wire.path).query)

    async def run(self) -> None:
        self._nursery.start_soon(self._speak)
        await self.wire.run(self._handle, self.wire.carry_out)

    def _handle(self, message: Any) -> None:
        if not isinstance(message, dict) or not isinstance(message.get("text"), str):
            self._refuse("invalid_message", "a message has a text", message)
            return
        if self._over:
            self._refuse("after_the_end", "the end of the text was sent", message)
            return
        text, first = message["text"], not self._begun
        self._begun = True
        for name in message.keys() - (_FIRST if first else _LATER):
            self._violate("unknown_field", name, message)
        if first and text != " ":
            self._refuse("first_message", "the first text is a space", message)
            return
        settings = message.get("voice_settings")
        if settings and not 0.7 <= settings.get("speed", 1.0) <= 1.2:
            self._refuse("invalid_voice_settings", "speed is 0.7 to 1.2", message)
            return
        if not first:
            self._over = not text
            self.text += text
            if text and not text.endswith(" "):
                self._violate("no_space", "text ends with a space", message)
            self._flush = bool(self._flush or message.get("flush"))
        self._work.set()

    def _violate(self, code: str, detail: str, message: Any) -> None:
        shown = message if isinstance(message, dict) else {}
        self._server.service.violate(self.wire.number, code, detail, shown)

    def _refuse(self, code: str, detail: str, message: Any) -> None:
        self._violate(code, detail, message)
        self.wire.emit({"message": detail, "error": code, "code": 1008})
        self.wire.end(Close(1008, detail))

    async def _speak(self) -> None:
        """Speak what is complete, until the end of the text."""
        rate = _rate(self.query)
        while not self._over:
            await self._work.wait()
            self._work = trio.Event()
            if self._over or self._flush:
                self._flush = False
                text, self._made = self.text[self._made :], len(self.text)
                for message in self._messages(text, rate):
                    await self._emit(message)
                    await trio.sleep(self._server.pace * self._server.chunk_ms / 1000)
        await self._emit({"isFinal": True})
        self.wire.end(Close(1000))

    async def _emit(self, message: Message) -> None:
        await emit_mangled(self.wire, self._server.mangle, message)

    def _messages(self, text: str, rate: int) -> Iterator[Message]:
        size, begins = self._server.chunk_ms, 0
        pcm, ends = sound_of(text, rate), list(_ends(text))
        until = ends[-1] if ends else 0
        while begins < until:
            piece = pcm[_at(begins, rate) : _at(begins + size, rate)]
            chars = [
                (char, end - begins)
                for char, end in zip(text, ends, strict=True)
                if begins < end <= begins + size
            ]
            times = _alignment(chars) if self._server.aligned and chars else None
            yield {
                "audio": b64encode(piece).decode(),
                "alignment": times,
                "normalizedAlignment": times,
            }
            begins += size


def _at(ms: int, rate: int) -> int:
    return 2 * (rate * ms // 1000)


def _ends(text: str) -> Iterator[int]:
    at = 0
    for char in text:
        at += COMMA_MS if char == "," else MS
        yield at


def _alignment(chars: Sequence[tuple[str, int]]) -> dict[str, list[Any]]:
    lasts = [COMMA_MS if char == "," else MS for char, _ in chars]
    # One that began in the message before has no time before this one.
    starts = [max(0, end - last) for (_, end), last in zip(chars, lasts, strict=True)]
    return {
        "chars": [char for char, _ in chars],
        "charStartTimesMs": starts,
        "charDurationsMs": [
            end - start for (_, end), start in zip(chars, starts, strict=True)
        ],
    }


def sound_of(text: str, rate: int) -> bytes:
    """Return what a text sounds like: the number of each character, for its time."""
    samples = array("h")
    for char, end in zip(text, _ends(text), strict=True):
        samples.extend([ord(char) % 1000] * (rate * end // 1000 - len(samples)))
    return samples.tobytes()


def _words(message: Message) -> set[str]:
    return {name for name, value in message.items() if value}


@asynccontextmanager
async def open_elevenlabs_server(
    *,
    key: str | None = None,
    chunk_ms: int = 300,
    pace: float = 0.0,
    aligned: bool = True,
    mangle: Mangle = as_it_is,
    traps: Sequence[On] = (),
    handshakes: Sequence[Refuse | None] = (),
    in_memory: bool = False,
) -> AsyncIterator[ElevenLabsServer]:
    """Serve until the block is left; errors are raised as by `open_background`.

    Args:
      key, chunk_ms, pace, aligned, mangle: see `ElevenLabsServer`.
      traps: reactions to messages, named by their fields: ``audio``, ``isFinal``.
      handshakes: a refusal for each connection, in order; None accepts it.
      in_memory: no port; clients connect by `Front.dial`, so that time may be virtual.
    """
    service = VoiceService(script=(), hears=(), opens_after=0, lifetime=None, grace=1)
    server = ElevenLabsServer(
        service=service,
        habits=Habits(words=_words, traps=traps),
        handshakes=list(handshakes),
        key=key,
        chunk_ms=chunk_ms,
        pace=pace,
        aligned=aligned,
        mangle=mangle,
    )
    async with open_front(server, "", in_memory=in_memory) as front:
        yield front
