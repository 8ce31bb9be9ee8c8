"""Speak with NPCs of a `glyphoxa run`, from trio or asyncio.

    async with connect("ws://127.0.0.1:8080/ws") as client:
        async with client.say("An ale!", npc="Bartok", speaker="Aria") as answer:
            async for event in answer:
                if event["event"] == "Sentence":
                    print(event["text"])

An event is a dictionary, as ``docs/gateway.md`` of glyphoxa describes it; a ``Speech``
has its audio as ``pcm``. An event counts as delivered, and the NPC remembers it, once
the next one is asked for.
"""

from __future__ import annotations

import json
import ssl
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from types import TracebackType
from typing import Any, Self, TypeAlias
from urllib.parse import urlsplit

import anyio
import anyio.abc
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Ping,
    RejectConnection,
    Request,
    TextMessage,
)
from wsproto.events import (
    Event as WsEvent,
)
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

__all__ = [
    "Answer",
    "Client",
    "GlyphoxaClosed",
    "GlyphoxaError",
    "Microphone",
    "connect",
]

PROTOCOL = 1
TurnEvent: TypeAlias = "dict[str, Any]"

_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, LocalProtocolError)
_ACK_EVERY = 16  # events; the service sends at most 64 without an ack
_CONNECT_WITHIN = 10.0  # seconds


class GlyphoxaError(Exception):
    """The service refused a request; ``code`` says how."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class GlyphoxaClosed(Exception):
    """The connection is closed; ``code`` is the WebSocket's, ``reason`` its text."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"the connection is closed: {reason or code}")
        self.code, self.reason = code, reason


@asynccontextmanager
async def connect(
    url: str,
    *,
    token: str | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncGenerator[Client]:
    """Open a connection until the block is left.

    Args:
      url: as in ``ws://127.0.0.1:8080/ws``, or ``wss://``.
      token: of a role; needed for what is not free to all.
      tls: a context of its own, for certificates of your own.

    Raises:
      GlyphoxaClosed: the service refused the connection.
      OSError: nothing answers there.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("ws", "wss") or not parts.hostname:
        raise ValueError(f"write ws://HOST:PORT/ws, or wss://, not {url!r}")
    secure = parts.scheme == "wss"
    port = parts.port or (443 if secure else 80)
    stream: anyio.abc.ByteStream
    with anyio.fail_after(_CONNECT_WITHIN):
        if secure:
            stream = await anyio.connect_tcp(
                parts.hostname,
                port,
                tls=True,
                ssl_context=tls,
                tls_standard_compatible=False,
            )
        else:
            stream = await anyio.connect_tcp(parts.hostname, port)
    async with stream:
        client = Client(stream)
        with anyio.fail_after(_CONNECT_WITHIN):
            await client._open(parts.netloc, parts.path or "/ws", token)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client._read)
                tasks.start_soon(client._live)
                try:
                    yield client
                finally:
                    tasks.cancel_scope.cancel()
                    with anyio.move_on_after(1, shield=True):
                        await client._close()
        except BaseExceptionGroup as group:
            if len(group.exceptions) > 1:
                raise
            # An error of the block itself, which its writer wants to catch by its name.
            raise group.exceptions[0] from None


class Client:
    """One connection. Made by `connect`; usable from any task."""

    def __init__(self, stream: anyio.abc.ByteStream) -> None:
        self.welcome: Mapping[str, Any] = {}
        self._stream = stream
        self._ws = WSConnection(ConnectionType.CLIENT)
        self._sending = anyio.Lock()
        self._ids = count(1)
        self._streams: dict[str, _Events] = {}
        self._waiting: dict[str, _Reply] = {}
        self._speeches: deque[TurnEvent] = deque()  # whose audio is still to come
        self._closed: GlyphoxaClosed | None = None

    @property
    def role(self) -> str:
        """The role of this client: ``anybody``, ``player``, ``game_master`` ..."""
        return str(self.welcome.get("role", ""))

    # -- requests

    async def join(
        self,
        session: str = "default",
        *,
        campaign: str | None = None,
        players: Mapping[str, str] | None = None,
        variables: Mapping[str, str | None] | None = None,
    ) -> Sequence[Mapping[str, Any]]:
        """Open a session, or join it; return its NPCs."""
        reply = await self.request(
            "join",
            session=session,
            campaign=campaign,
            players=dict(players or {}) or None,
            variables=dict(variables or {}) or None,
        )
        npcs: Sequence[Mapping[str, Any]] = reply["npcs"]
        return npcs

    def say(self, text: str, *, speaker: str = "player", **more: Any) -> Answer:
        """Say something; enter the answer to hear it.

        Args:
          more: ``session``, ``npc``, ``scene``, ``to``, ``tier``, ``remaining_ms``,
            ``voiced``.
        """
        return Answer(self, {"type": "say", "text": text, "speaker": speaker, **more})

    def greet(self, npc: str, **more: Any) -> Answer:
        """Have an NPC say its greeting."""
        return Answer(self, {"type": "greet", "npc": npc, **more})

    def speak_as(self, npc: str, text: str, **more: Any) -> Answer:
        """Have an NPC say these words, as the game master."""
        return Answer(self, {"type": "speak_as", "npc": npc, "text": text, **more})

    def listen(self, *, rate: int, speaker: str = "player", **more: Any) -> Microphone:
        """Speak and hear; enter the microphone to open it."""
        said = {"type": "listen", "rate": rate, "speaker": speaker, **more}
        return Microphone(self, said)

    def watch(self, *, session: str | None = None, deltas: bool = False) -> Watch:
        """Watch all turns, of one session or of all, as they happen."""
        return Watch(self, {"type": "watch", "session": session, "deltas": deltas})

    async def approve(self, question: str, yes: bool, *, npc: str, **more: Any) -> bool:
        """Answer an ``ApprovalNeeded``; return False if it was no longer open."""
        reply = await self.request(
            "approve", question=question, yes=yes, npc=npc, **more
        )
        return bool(reply.get("result"))

    async def request(self, kind: str, **fields: Any) -> Mapping[str, Any]:
        """Send any other request of the protocol, and return its answer.

        Raises:
          GlyphoxaError: it is refused.
          GlyphoxaClosed: the connection is closed.
        """
        name = self._new_id()
        reply = self._waiting[name] = _Reply()
        try:
            told = {x: y for x, y in fields.items() if y is not None}
            await self._say({"type": kind, "id": name, **told})
            await reply.came.wait()
        finally:
            del self._waiting[name]
        return self._answer_in(reply.message)

    def _answer_in(self, message: Mapping[str, Any] | None) -> Mapping[str, Any]:
        if message is None:
            raise self._closed or GlyphoxaClosed(1006, "")
        if message["type"] == "error":
            raise GlyphoxaError(message["code"], message["message"])
        return message

    def _new_id(self) -> str:
        return f"c{next(self._ids)}"

    # -- the connection

    async def _open(self, host: str, path: str, token: str | None) -> None:
        await self._send(Request(host=host.rpartition("@")[2], target=path))
        await self._until(AcceptConnection)
        hello: dict[str, Any] = {"type": "hello", "protocol": PROTOCOL}
        if token is not None:
            hello["token"] = token
        await self._say(hello)
        first = await self._until(TextMessage)
        self.welcome = json.loads(first.data)

    async def _until(self, kind: type[Any]) -> Any:
        """Read until an event of this kind, before the other tasks begin."""
        parts: list[str] = []
        while True:
            for event in self._ws.events():
                if isinstance(event, RejectConnection):
                    raise GlyphoxaClosed(1006, f"refused, HTTP {event.status_code}")
                if isinstance(event, CloseConnection):
                    raise GlyphoxaClosed(event.code, event.reason or "")
                if isinstance(event, TextMessage):
                    parts.append(event.data)
                    if not event.message_finished:
                        continue
                    event = TextMessage("".join(parts))
                if isinstance(event, kind):
                    return event
            await self._receive()

    async def _receive(self) -> None:
        try:
            data = await self._stream.receive(65536)
            self._ws.receive_data(data)
        except (*_GONE, anyio.EndOfStream, OSError):
            raise GlyphoxaClosed(1006, "the service has left") from None
        except RemoteProtocolError as error:
            raise GlyphoxaClosed(1002, str(error)) from None

    async def _send(self, event: WsEvent) -> None:
        async with self._sending:
            await self._stream.send(self._ws.send(event))

    async def _say(self, message: Mapping[str, Any]) -> None:
        if self._closed is not None:
            raise self._closed
        try:
            await self._send(TextMessage(json.dumps(message)))
        except _GONE:
            raise self._closed or GlyphoxaClosed(1006, "the service left") from None

    async def _close(self) -> None:
        if self._closed is None:
            self._end(GlyphoxaClosed(1000, "its block was left"))
            with suppress(*_GONE):
                await self._send(CloseConnection(1000, ""))

    async def _live(self) -> None:
        """Tell the service now and then that this client lives."""
        every = float(self.welcome.get("heartbeat_ms", 60_000)) / 3000
        while True:
            await anyio.sleep(every)
            with suppress(GlyphoxaClosed):
                await self._say({"type": "ping"})

    async def _read(self) -> None:
        text: list[str] = []
        audio: list[bytes] = []
        try:
            while True:
                for event in self._ws.events():
                    match event:
                        case TextMessage():
                            text.append(event.data)
                            if event.message_finished:
                                self._take(json.loads("".join(text)))
                                text.clear()
                        case BytesMessage():
                            audio.append(bytes(event.data))
                            if event.message_finished:
                                self._hear(b"".join(audio))
                                audio.clear()
                        case Ping():
                            await self._send(event.response())
                        case CloseConnection():
                            raise GlyphoxaClosed(event.code, event.reason or "")
                await self._receive()
        except GlyphoxaClosed as closed:
            self._end(closed)

    def _end(self, closed: GlyphoxaClosed) -> None:
        self._closed = closed
        for reply in self._waiting.values():
            reply.came.set()
        for events in self._streams.values():
            events.end()

    def _take(self, message: dict[str, Any]) -> None:
        name = message.get("id")
        match message["type"]:
            case "events":
                for event in message["events"]:
                    if event["event"] == "Speech" and event["bytes"]:
                        self._speeches.append(event)
                    if (events := self._streams.get(event["id"])) is not None:
                        events.put(event)
            case "accepted" if name in self._streams:
                self._streams[name].accepted.set()
            case "error" | "done" if name in self._streams:
                error = message if message["type"] == "error" else None
                self._streams[name].end(error)
            case _ if name in self._waiting:
                self._waiting[name].message = message
                self._waiting[name].came.set()

    def _hear(self, pcm: bytes) -> None:
        """Put audio into the oldest event that waits for it."""
        event = self._speeches.popleft()
        event["pcm"] = pcm
        if (events := self._streams.get(event["id"])) is not None:
            events.changed()


class _Reply:
    """The answer to a request, once it is there."""

    def __init__(self) -> None:
        self.came = anyio.Event()
        self.message: Mapping[str, Any] | None = None


class _Events:
    """The events of one utterance or microphone that were not asked for yet."""

    def __init__(self) -> None:
        self.accepted = anyio.Event()
        self.error: Mapping[str, Any] | None = None
        self.ended = False
        self._waiting: deque[TurnEvent] = deque()
        self._arrived = anyio.Event()

    def put(self, event: TurnEvent) -> None:
        self._waiting.append(event)
        self.changed()

    def changed(self) -> None:
        self._arrived.set()

    def end(self, error: Mapping[str, Any] | None = None) -> None:
        self.error, self.ended = error, True
        self.accepted.set()
        self.changed()

    @property
    def ready(self) -> bool:
        """True if the first event is there, with its audio if it has any."""
        if not self._waiting:
            return False
        first = self._waiting[0]
        return first["event"] != "Speech" or not first["bytes"] or "pcm" in first

    async def wait(self) -> None:
        while not self.ready and not self.ended:
            self._arrived = anyio.Event()
            await self._arrived.wait()

    def take(self) -> TurnEvent:
        return self._waiting.popleft()


class _Conversation:
    """What answers and microphones have in common."""

    def __init__(self, client: Client, said: Mapping[str, Any]) -> None:
        self._client = client
        self._id = client._new_id()
        self._said = {x: y for x, y in said.items() if y is not None}
        self._events = _Events()
        self._last = 0  # the number of the event that was handed out last
        self._acked = 0
        self._played: float | None = None
        self._over = False

    async def _enter(self) -> None:
        self._client._streams[self._id] = self._events
        try:
            await self._client._say({**self._said, "id": self._id})
            await self._events.accepted.wait()
            self._raise_error()
        except BaseException:
            del self._client._streams[self._id]
            raise

    def _raise_error(self) -> None:
        if self._events.error is not None:
            self._client._answer_in(self._events.error)
        if self._client._closed is not None:
            raise self._client._closed

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        del self._client._streams[self._id]
        if self._client._closed is None:
            with anyio.move_on_after(1, shield=True), suppress(GlyphoxaClosed):
                if not self._over:
                    await self.leave()
                elif self._acked < self._last:
                    await self._acknowledge()

    async def leave(self) -> None:
        """Interrupt the NPC, or close the microphone; the last events still come."""
        await self._client._say({"type": "leave", "id": self._id})

    async def played(self, ms: float) -> None:
        """Report how many milliseconds of the audio were played in all.

        From the first report on, only what was played counts as delivered.
        """
        self._played = ms
        await self._acknowledge()

    async def _acknowledge(self) -> None:
        told: dict[str, Any] = {"type": "ack", "id": self._id, "n": self._last}
        if self._played is not None:
            told["played_ms"] = self._played
        self._acked = self._last
        await self._client._say(told)

    async def __anext__(self) -> TurnEvent:
        # Asking for the next event acknowledges the last one; several at a time.
        behind = self._last - self._acked
        if behind and (not self._events.ready or behind >= _ACK_EVERY):
            await self._acknowledge()
        if self._over:
            raise StopAsyncIteration
        await self._events.wait()
        if not self._events.ready:
            self._raise_error()
            self._over = True
            raise StopAsyncIteration
        event = self._events.take()
        self._last = event["n"]
        self._note(event)
        return event

    def _note(self, event: TurnEvent) -> None:
        """Look at an event that is handed out."""


class Answer(_Conversation):
    """The answer to an utterance; leaving its block before the end interrupts the NPC.

    ``done`` is its last event, ``TurnDone``, once that has come.
    """

    done: TurnEvent | None = None

    async def __aenter__(self) -> Self:
        """Say it.

        Raises:
          GlyphoxaError: it was not accepted; ``code`` says why.
        """
        await self._enter()
        return self

    def __aiter__(self) -> Self:
        return self

    def _note(self, event: TurnEvent) -> None:
        if event["event"] == "TurnDone":
            self.done, self._over = event, True

    async def finish(self) -> TurnEvent:
        """Hear the rest, and return the last event."""
        async for _ in self:
            pass
        assert self.done is not None
        return self.done


class Watch(_Conversation):
    """The events of all turns, until its block is left. They need no ack."""

    async def __aenter__(self) -> Self:
        """Begin to watch.

        Raises:
          GlyphoxaError: this client has no right to.
        """
        await self._enter()
        return self

    def __aiter__(self) -> Self:
        return self

    def _note(self, event: TurnEvent) -> None:
        self._acked = event["n"]


class Microphone(_Conversation):
    """An open microphone, with the events of all turns that it begins."""

    async def __aenter__(self) -> Self:
        """Open it.

        Raises:
          GlyphoxaError: the NPC cannot hear.
        """
        await self._enter()
        return self

    def __aiter__(self) -> Self:
        return self

    async def hear(self, pcm: bytes) -> None:
        """Send audio: PCM16, mono."""
        if self._client._closed is not None:
            raise self._client._closed
        await self._client._send(BytesMessage(pcm))

    def _note(self, event: TurnEvent) -> None:
        if event["event"] == "Flush":
            self._played = None  # playback counts from 0 again
