"""A small wire and a peer in memory, so that the link is tested without a vendor."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress

import attrs
import pytest
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_server_stream
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Request, TextMessage
from wsproto.events import Event as WireEvent

import trio
from trio.testing import lockstep_stream_pair, memory_stream_pair

from glyphoxa_trio.actors import lone_errors
from glyphoxa_trio.providers.live_socket import LiveSocket, open_live_socket
from glyphoxa_trio.providers.live_wire import Frame, Lane
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.s2s import (
    Command,
    Complaint,
    Event,
    Heard,
    LinkClosed,
    Ready,
    SendAudio,
    SendText,
    SpeechEnds,
    TranscriptLine,
)


@attrs.define
class PlainWire:
    """Says what it means: ``ready``, ``over``, ``alarm 5``; all else was heard."""

    first: Sequence[str] = ()
    ready: bool = False
    alarm: float | None = None
    unknown: dict[str, int] = attrs.field(factory=dict)
    frames: list[Frame] = attrs.field(factory=list)
    events_per_message: int = 1

    def opening(self, now: float) -> None:
        self.frames += [Frame(text) for text in self.first]

    def send(self, command: Command, now: float) -> None:
        match command:
            case SendAudio(pcm):
                self.frames.append(Frame(pcm, Lane.AUDIO))
            case SpeechEnds():
                self.frames.append(Frame("end", Lane.AFTER_AUDIO))
            case SendText(line):
                self.frames.append(Frame(line.text))
            case _:
                raise ValueError("not here")

    def receive(self, message: str | bytes, now: float) -> list[Event]:
        match str(message, "utf-8") if isinstance(message, bytes) else message:
            case "ready":
                self.ready = True
                self.frames.append(Frame("set up"))
                return [Ready()]
            case "over":
                raise LinkClosed(ErrorKind.RATE_LIMITED, "over", retryable=True)
            case text if text.startswith("alarm "):
                self.alarm = now + float(text.removeprefix("alarm "))
                return []
            case text:
                return [Heard(text, final=True)] * self.events_per_message

    def wake(self, now: float) -> list[Event]:
        assert self.alarm is not None
        assert now >= self.alarm
        self.alarm = None
        self.frames.append(Frame("awake"))
        return [Complaint(kind=ErrorKind.SILENCE, code="alarm", detail=str(now))]

    def outgoing(self) -> list[Frame]:
        frames, self.frames = self.frames, []
        return frames


Handler = Callable[[WebSocketConnection], Awaitable[None]]


@asynccontextmanager
async def open_in_memory(
    handler: Handler, wire: PlainWire | None = None
) -> AsyncIterator[LiveSocket[Command, Event]]:
    """A link to ``handler``, which serves until it returns; virtual time is fine."""

    async def serve(stream: trio.abc.Stream) -> None:
        async with trio.open_nursery() as reader:
            request = await wrap_server_stream(reader, stream)
            socket = await request.accept()
            with suppress(ConnectionClosed):
                await handler(socket)
                await socket.aclose()
            reader.cancel_scope.cancel()

    async with _open(serve, memory_stream_pair(), wire or PlainWire()) as link:
        yield link


@asynccontextmanager
async def open_wedged(*says: WireEvent) -> AsyncIterator[LiveSocket[Command, Event]]:
    """A link to a peer that sets up, ``says`` that a second later, and never reads."""

    async def serve(stream: trio.abc.Stream) -> None:
        wedged = WSConnection(ConnectionType.SERVER)
        asked = False
        while not asked:
            wedged.receive_data(bytes(await stream.receive_some()))
            asked = any(isinstance(event, Request) for event in wedged.events())
        await stream.send_all(wedged.send(AcceptConnection()))
        await stream.send_all(wedged.send(TextMessage("ready")))
        await trio.sleep(1)
        for event in says:
            await stream.send_all(wedged.send(event))
        await trio.sleep_forever()

    # What is sent over these waits until it is read.
    async with _open(serve, lockstep_stream_pair(), PlainWire()) as link:
        assert await link.receive() == Ready()
        yield link


@asynccontextmanager
async def _open(
    serve: Callable[[trio.abc.Stream], Awaitable[None]],
    streams: tuple[trio.abc.Stream, trio.abc.Stream],
    wire: PlainWire,
) -> AsyncIterator[LiveSocket[Command, Event]]:
    ours, theirs = streams
    # The peer outlives the link, so that it hears a goodbye.
    scope = trio.CancelScope(shield=True)

    async def peer() -> None:
        with scope:
            async with theirs:
                await serve(theirs)

    async def dial(host: str, port: int, *, tls: bool) -> trio.abc.Stream:
        return ours

    with lone_errors():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(peer)
            try:
                async with open_live_socket(wire, url="ws://peer/", dial=dial) as link:
                    yield link
            finally:
                scope.cancel()


async def closing(link: LiveSocket[Command, Event]) -> LinkClosed:
    """What the link ends with; its events are thrown away."""
    with pytest.raises(LinkClosed) as caught:
        while True:
            await link.receive()
    return caught.value


def text(words: str) -> SendText:
    return SendText(TranscriptLine("user", words))
