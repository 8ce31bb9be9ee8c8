"""A scripted Deepgram server for Flux (``/v2/listen``): loopback, and strict.

    async with open_deepgram_server(["How much is it?"], key="k") as server:
        ears = Deepgram(base_url=server.base_url, api_key=Secret("k"))
        ...
    assert not server.violations

It hears where speech begins and ends by its loudness, and sends what the script says
was said: a word more every third of a second. It counts time in audio, as the vendor
does, so a client that sends none waits for ever, and is closed after ten seconds. The
same messages are refused, and the forbidden acts of clients are noted in
``violations``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import attrs
from trio_websocket import WebSocketRequest

import trio

from .voice.ear import ReceivedAudio, SpeechActivity
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

PATH: Final = "/v2/listen"
ENDS_MS: Final = 500  # of quiet that end a turn
EAGER_MS: Final = 240  # of quiet that probably end one
UPDATE_MS: Final = 240  # of audio between two reports
WORD_MS: Final = 330
IDLE: Final = 10.0  # seconds without audio, after which a socket is closed
_MODELS: Final = ("flux-general-en", "flux-general-multi")
_QUERY: Final = frozenset(
    {
        "model",
        "encoding",
        "sample_rate",
        "eager_eot_threshold",
        "eot_threshold",
        "eot_timeout_ms",
        "keyterm",
        "language_hint",
        "mip_opt_out",
        "tag",
    }
)
_LIMITS: Final = {
    "eager_eot_threshold": (0.3, 0.9),
    "eot_threshold": (0.5, 1.0),
    "eot_timeout_ms": (500, 60_000),
    "sample_rate": (8_000, 48_000),
}

Script = Sequence[str] | Callable[[int, bytes], str]


@attrs.define(eq=False)
class DeepgramServer(Front["FluxSession"]):
    """A running server, and its sessions so far.

    Args:
      script: the transcript of each utterance that is heard to its end, in order over
        all sockets, or a function of its number and its audio so far.
      key: the only key; None takes any.
      mangle: what is sent instead of a message: messages, and pauses in seconds.
      heard: the transcripts of the turns that ended.
    """

    script: Script = attrs.field(default=(), repr=False)
    key: str | None = attrs.field(default=None, repr=False)
    mangle: Mangle = attrs.field(default=as_it_is, repr=False)
    heard: list[str] = attrs.field(factory=list)

    def words(self, pcm: bytes) -> list[str]:
        """Return the words of the utterance that is being heard."""
        number = len(self.heard)
        if callable(self.script):
            return self.script(number, pcm).split()
        return self.script[number].split() if number < len(self.script) else []

    def admit(self, request: WebSocketRequest) -> Refuse | None:
        where = urlsplit(request.path)
        if where.path != PATH:
            self._note("no_such_path", where.path)
            return _no(404, "NOT_FOUND", where.path)
        scheme, _, key = headers_of(request).get("authorization", "").partition(" ")
        if scheme not in ("Token", "Bearer") or not key:
            self._note("no_key", "no Authorization: Token")
            return _no(401, "INVALID_AUTH", "Invalid credentials.")
        if self.key is not None and key != self.key:
            return _no(401, "INVALID_AUTH", "Invalid credentials.")
        if problem := _problem(parse_qs(where.query)):
            self._note("bad_query", problem)
            return _no(400, "BAD_REQUEST", problem)
        return None

    def open_session(self, wire: SocketWriter, nursery: trio.Nursery) -> FluxSession:
        query = parse_qs(urlsplit(wire.path).query)
        return FluxSession(
            wire,
            self,
            nursery,
            ReceivedAudio(int(query["sample_rate"][0])),
            eager="eager_eot_threshold" in query,
        )


def _no(status: int, code: str, detail: str) -> Refuse:
    return Refuse(status, {"err_code": code, "err_msg": detail, "request_id": "r"})


def _problem(query: dict[str, list[str]]) -> str:
    """Return what is wrong with a query; empty if it is right."""
    if unknown := query.keys() - _QUERY:
        return f"unknown parameters: {', '.join(sorted(unknown))}"
    if query.get("model", [""])[0] not in _MODELS:
        return f"no such model: {query.get('model')}"
    if query.get("encoding") != ["linear16"] or "sample_rate" not in query:
        return "raw audio needs encoding=linear16 and sample_rate"
    if "language_hint" in query and query["model"] != ["flux-general-multi"]:
        return "language_hint is for flux-general-multi"
    for name, (low, high) in _LIMITS.items():
        for value in query.get(name, []):
            if (
                not value.replace(".", "", 1).isdigit()
                or not low <= float(value) <= high
            ):
                return f"{name} is {low} to {high}"
    return ""


@attrs.define(eq=False)
class FluxSession:
    """One socket: its audio, and the turn that is going on."""

    wire: SocketWriter
    _server: DeepgramServer = attrs.field(repr=False)
    _nursery: trio.Nursery = attrs.field(repr=False)
    ear: ReceivedAudio
    eager: bool = attrs.field(kw_only=True)
    _turn: int = 0
    _sequence: int = -1
    _began: int = 0  # of the turn, in ms of audio
    _reported: int = 0
    _probably_over: bool = False
    _fed: trio.Event = attrs.field(factory=trio.Event, repr=False)
    _send: trio.MemorySendChannel[Message | Close] = attrs.field(init=False, repr=False)

    async def run(self) -> None:
        self._send, receive = trio.open_memory_channel[Message | Close](10_000)
        self._nursery.start_soon(self._emit_all, receive)
        self._nursery.start_soon(self._watch)
        self._say({"type": "Connected"})
        await self.wire.run(self._handle, self.wire.carry_out)

    async def _emit_all(
        self, messages: trio.MemoryReceiveChannel[Message | Close]
    ) -> None:
        async for message in messages:
            if isinstance(message, Close):
                self.wire.end(message)
            else:
                await emit_mangled(self.wire, self._server.mangle, message)

    async def _watch(self) -> None:
        while True:
            with trio.move_on_after(IDLE) as idle:
                await self._fed.wait()
            if idle.cancelled_caught:
                self.wire.end(Close(1011, "NET-0001: no audio within the timeout"))
                return
            self._fed = trio.Event()

    def _handle(self, message: Any) -> None:
        self._fed.set()
        if isinstance(message, bytes):
            self._hear(message)
            return
        kind = message.get("type") if isinstance(message, dict) else None
        match kind:
            case "CloseStream":
                if self.ear.speaking:
                    self._end("manual")
                self._send.send_nowait(Close(1000))
            case "ForceEndTurn":
                if self.ear.speaking:
                    self._end("manual")
            case "Configure":
                self._say(
                    {
                        "type": "ConfigureSuccess",
                        "thresholds": message.get("thresholds", {}),
                        "keyterms": message.get("keyterms", []),
                    }
                )
            case _:
                shown = message if isinstance(message, dict) else {}
                detail = f"no message of a client: {kind}"
                self._server.service.violate(
                    self.wire.number, "unparsable", detail, shown
                )
                self._say(
                    {
                        "type": "Error",
                        "code": "UNPARSABLE_CLIENT_MESSAGE",
                        "description": detail,
                    }
                )
                self._send.send_nowait(Close(1008, "UNPARSABLE_CLIENT_MESSAGE"))

    # Turns.

    def _hear(self, pcm: bytes) -> None:
        if len(pcm) % 2:
            self._server.service.violate(self.wire.number, "half_a_sample", "", {})
        # In steps, as it would come.
        size = 2 * self.ear.rate * 20 // 1000
        for at in range(0, len(pcm), size):
            self._step(pcm[at : at + size])

    def _step(self, pcm: bytes) -> None:
        for activity, at in self.ear.hear(pcm, silence_ms=ENDS_MS):
            if activity is SpeechActivity.BEGINS:
                self.ear.begin(at)
                self._began = at
                self._probably_over = False
                self._info("StartOfTurn")
            else:
                self._end("model")
        quiet = self.ear.quiet_ms
        if self.ear.speaking and self.eager:
            if quiet >= EAGER_MS and not self._probably_over:
                self._probably_over = True
                self._info("EagerEndOfTurn", whole=True)
            elif not quiet and self._probably_over:
                self._probably_over = False
                self._info("TurnResumed")
        if self.ear.ms - self._reported >= UPDATE_MS:
            self._info("Update")

    def _end(self, trigger: str) -> None:
        words = self._words(whole=True)
        self._info("EndOfTurn", whole=True, trigger=trigger)
        self.ear.cut()
        self.ear.forget()
        self._server.heard.append(" ".join(words))
        self._turn += 1
        self._began = self.ear.ms

    def _words(self, *, whole: bool) -> list[str]:
        if not (whole or self.ear.speaking):
            return []
        words = self._server.words(self.ear.since(self._began))
        known = 1 + (self.ear.ms - self._began) // WORD_MS
        return words if whole else words[:known]

    def _info(self, event: str, *, whole: bool = False, **more: Any) -> None:
        self._reported = self.ear.ms
        words = self._words(whole=whole)
        begins = self._began / 1000
        self._say(
            {
                "type": "TurnInfo",
                "event": event,
                "turn_index": self._turn,
                "audio_window_start": begins,
                "audio_window_end": self.ear.ms / 1000,
                "transcript": " ".join(words),
                "words": [
                    {
                        "word": word,
                        "confidence": 0.9,
                        "start": begins + at * WORD_MS / 1000,
                        "end": begins + (at + 1) * WORD_MS / 1000,
                    }
                    for at, word in enumerate(words)
                ],
                "end_of_turn_confidence": 0.9 if whole else 0.1,
                **more,
            }
        )

    def _say(self, message: Message) -> None:
        self._sequence += 1
        ids = {"request_id": "scripted", "sequence_id": self._sequence}
        self._send.send_nowait({**message, **ids})


def _words(message: Message) -> set[str]:
    return {str(message.get("type")), str(message.get("event"))}


@asynccontextmanager
async def open_deepgram_server(
    script: Script,
    *,
    key: str | None = None,
    mangle: Mangle = as_it_is,
    traps: Sequence[On] = (),
    handshakes: Sequence[Refuse | None] = (),
    in_memory: bool = False,
) -> AsyncIterator[DeepgramServer]:
    """Serve until the block is left; errors are raised as by `open_background`.

    Args:
      script, key, mangle: see `DeepgramServer`.
      traps: reactions to messages, named by their type or event: ``EndOfTurn``.
      handshakes: a refusal for each connection, in order; None accepts it.
      in_memory: no port; clients connect by `Front.dial`, so that time may be virtual.
    """
    service = VoiceService(script=(), hears=(), opens_after=0, lifetime=None, grace=1)
    server = DeepgramServer(
        service=service,
        habits=Habits(words=_words, traps=traps, media=True),
        handshakes=list(handshakes),
        script=script,
        key=key,
        mangle=mangle,
    )
    async with open_front(server, "", in_memory=in_memory) as front:
        yield front
