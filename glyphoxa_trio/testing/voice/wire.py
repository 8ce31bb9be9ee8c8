"""One client's WebSocket, as a fake server has it: messages in and out, all kept."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs
from trio_websocket import ConnectionClosed, WebSocketConnection

import trio

from .steps import Close, Drop, Event, On

MAX_MESSAGE: Final = 32 * 2**20  # bytes; a client may append 15 MiB of audio
_AHEAD: Final = 64  # messages that wait before a response does
_MOST: Final = 50_000  # messages that may wait at all
_CLOSING: Final = 1.0  # seconds that a client has to answer a close

Message = dict[str, Any]


@attrs.define(eq=False)
class Wire:
    """Messages of one socket. `emit` never waits: one task writes, in order.

    ``received`` and ``sent`` are all messages so far; ``frames`` counts what
    the client sent that was no JSON object. ``code`` is the close code, of
    whoever closed, once ``closed`` is set.
    """

    number: int
    path: str
    headers: Mapping[str, str] = attrs.field(repr=False)
    _socket: WebSocketConnection = attrs.field(repr=False)
    _stream: trio.abc.Stream = attrs.field(repr=False)
    _words: Callable[[Message], set[str]] = attrs.field(repr=False)
    _traps: Sequence[On] = attrs.field(repr=False)
    _binary: bool = False
    received: list[Message] = attrs.field(factory=list, repr=False)
    sent: list[Message] = attrs.field(factory=list, repr=False)
    closed: trio.Event = attrs.field(factory=trio.Event, repr=False)
    code: int | None = None
    ending: bool = False
    on_event: Callable[[Event], None] = attrs.field(init=False, repr=False)
    _waiting: deque[Message | Close | Drop] = attrs.field(factory=deque, repr=False)
    _more: trio.Event = attrs.field(factory=trio.Event, repr=False)
    _less: trio.Event = attrs.field(factory=trio.Event, repr=False)
    _passed: dict[int, int] = attrs.field(factory=dict, repr=False)

    def emit(self, message: Message) -> None:
        """Put a message on its way; nothing once the socket is to be closed."""
        if self.ending:
            return
        if len(self._waiting) >= _MOST:  # a client that never reads
            self.end(Drop())
            return
        self._waiting.append(message)
        self.sent.append(message)
        self._more.set()
        self._spring(message, sent=True)

    def end(self, how: Close | Drop) -> None:
        """Close the socket, after what was emitted; `Drop` does not wait for that."""
        if self.ending:
            return
        self.ending = True
        if isinstance(how, Drop):
            self._waiting.clear()
        self._waiting.append(how)
        self._more.set()

    async def drained(self) -> None:
        """Return once the client has read all but a few of the messages."""
        await trio.lowlevel.checkpoint()
        while len(self._waiting) > _AHEAD and not self.closed.is_set():
            self._less = trio.Event()
            await self._less.wait()

    async def run(self, handle: Callable[[Any], None]) -> None:
        """Read and write until the socket is closed. ``handle`` gets what is read."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write)
            try:
                while True:
                    data = await self._socket.get_message()
                    message = _parsed(data)
                    if isinstance(message, dict):
                        self.received.append(message)
                    if not self.ending:
                        handle(message)
                        if isinstance(message, dict):
                            self._spring(message, sent=False)
            except ConnectionClosed as error:
                if self.code is None:
                    self.code = error.reason.code if error.reason else 1006
            finally:
                self.ending = True
                self.closed.set()
                self._less.set()
            nursery.cancel_scope.cancel()

    async def _write(self) -> None:
        try:
            while True:
                self._more = trio.Event()
                while self._waiting:
                    await self._put(self._waiting[0])
                    if self._waiting:  # `end` may have emptied it meanwhile
                        self._waiting.popleft()
                    if len(self._waiting) <= _AHEAD:
                        self._less.set()
                await self._more.wait()
        except ConnectionClosed:
            pass  # the reader says so

    async def _put(self, out: Message | Close | Drop) -> None:
        match out:
            case Drop():
                self.code = 1006
                await trio.aclose_forcefully(self._stream)
            case Close(code, reason):
                self.code = code
                with trio.move_on_after(_CLOSING):
                    await self._socket.aclose(code, reason)
            case _:
                text = json.dumps(out, separators=(",", ":"))
                await self._socket.send_message(text.encode() if self._binary else text)

    def _spring(self, message: Message, *, sent: bool) -> None:
        """Do what the script wants once this message went over the socket."""
        for place, trap in enumerate(self._traps):
            if trap.sent is not sent or trap.socket not in (None, self.number):
                continue
            if isinstance(trap.message, str):
                fits = trap.message in self._words(message)
            else:
                fits = trap.message(message)
            if not fits:
                continue
            self._passed[place] = passed = self._passed.get(place, 0) + 1
            if passed == trap.skip + 1:
                self.on_event(trap.event)


def _parsed(data: str | bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None
