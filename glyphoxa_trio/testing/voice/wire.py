"""The WebSocket of one client of a fake server: messages in and out, all kept."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs
from trio_websocket import ConnectionClosed, WebSocketConnection

import trio

from glyphoxa_trio.actors import Signal

from .gate import ClosableStream
from .steps import Close, Drop, Freeze, On, ResponseStep, Send

MAX_MESSAGE: Final = 32 * 2**20  # bytes; a client may append 15 MiB of audio
_AHEAD: Final = 64  # messages in the queue before a response waits
_AT_ONCE: Final = 0.001  # seconds in which messages may become one frame
_MOST: Final = 50_000  # messages that may be in the queue at all
_CLOSING: Final = 1.0  # seconds that a client has to answer a close

Message = dict[str, Any]
Last = Close | Drop | Freeze  # the end of a socket


@attrs.frozen(kw_only=True)
class Habits:
    """The way in which a server uses its sockets, whatever it sends.

    Args:
      words: returns the words by which a script may name a message.
      traps: reactions to certain messages on a socket.
      beside: fields that no client knows, added to every message.
      merge: returns two messages as one frame, or None if they must be two; None never
        merges.
      binary: whether frames are binary.
      media: whether binary frames of the client are audio, which is handled as it is.
      records: whether messages and audio are kept; without, a socket may live for
        hours.
    """

    words: Callable[[Message], set[str]]
    traps: Sequence[On] = ()
    beside: Mapping[str, Any] = attrs.field(factory=dict)
    merge: Callable[[Message, Message], Message | None] | None = None
    binary: bool = False
    media: bool = False
    records: bool = True


@attrs.define(eq=False)
class SocketWriter:
    """Messages of one socket. `emit` never waits: one task writes, in order.

    ``received`` and ``sent`` are all messages so far, if they are kept; ``code`` is the
    close code of the side that closed, once ``closed`` is set.
    """

    number: int
    path: str
    headers: Mapping[str, str] = attrs.field(repr=False)
    _socket: WebSocketConnection = attrs.field(repr=False)
    _gate: ClosableStream = attrs.field(repr=False)
    habits: Habits = attrs.field(repr=False)
    received: list[Message] = attrs.field(factory=list, repr=False)
    sent: list[Message] = attrs.field(factory=list, repr=False)
    closed: trio.Event = attrs.field(factory=trio.Event, repr=False)
    code: int | None = None
    ending: bool = False
    on_event: Callable[[ResponseStep], None] = attrs.field(init=False, repr=False)
    _waiting: deque[Message | Last] = attrs.field(factory=deque, repr=False)
    _more: Signal = attrs.field(factory=Signal, repr=False)
    _drained: trio.lowlevel.ParkingLot = attrs.field(
        factory=trio.lowlevel.ParkingLot, repr=False
    )
    _written: trio.Event = attrs.field(factory=trio.Event, repr=False)
    _passed: dict[int, int] = attrs.field(factory=dict, repr=False)

    def emit(self, message: Message) -> None:
        """Queue a message; it is dropped if the socket is about to be closed."""
        if self.ending:
            return
        if len(self._waiting) >= _MOST:  # the client never reads
            self.end(Drop())
            return
        if self._waiting and self.habits.merge is not None:
            last = self._waiting[-1]
            both = self.habits.merge(last, message) if isinstance(last, dict) else None
            if both is not None:
                self._waiting[-1] = both
                return
        self._waiting.append(message)
        self._more.set()

    def end(self, how: Last) -> None:
        """Close the socket after the queued messages; `Drop` does not wait for them."""
        if self.ending:
            return
        self.ending = True
        if isinstance(how, Drop):
            self._waiting.clear()
        self._waiting.append(how)
        self._more.set()

    def carry_out(self, step: ResponseStep) -> None:
        """Carry out a step that concerns the socket alone.

        Raises:
          ValueError: it concerns more than that.
        """
        match step:
            case Send(message):
                self.emit(dict(message))
            case Close() | Drop() | Freeze():
                self.end(step)
            case _:
                raise ValueError(f"{step} cannot happen to this socket")

    async def drained(self) -> None:
        """Return once the client has read all but a few of the messages."""
        await trio.lowlevel.checkpoint()
        while len(self._waiting) > _AHEAD and not self.closed.is_set():
            await self._drained.park()

    async def run(
        self, handle: Callable[[Any], None], on_event: Callable[[ResponseStep], None]
    ) -> None:
        """Read and write until the socket is closed.

        ``handle`` gets each message that was read, ``on_event`` the steps of the
        script.
        """
        self.on_event = on_event
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write)
            try:
                while True:
                    data = await self._socket.get_message()
                    if self.ending:
                        continue  # the socket is about to close, so input is ignored
                    media = self.habits.media and isinstance(data, bytes)
                    message = data if media else _parsed(data)
                    if isinstance(message, dict) and self.habits.records:
                        self.received.append(message)
                    handle(message)
                    if isinstance(message, dict):
                        self._spring(message, sent=False)
            except ConnectionClosed as error:
                if self.ending:  # by our own close: its frame has to arrive
                    await self._written.wait()
                if self.code is None:
                    self.code = error.reason.code if error.reason else 1006
            finally:
                self.ending = True
                self.closed.set()
                self._drained.unpark_all()
            nursery.cancel_scope.cancel()

    async def _write(self) -> None:
        try:
            while not self._written.is_set():
                if self.habits.merge is not None:
                    await trio.sleep(_AT_ONCE)
                while self._waiting:
                    await self._put(self._waiting.popleft())
                    if len(self._waiting) <= _AHEAD:
                        self._drained.unpark_all()
                await self._more.take()
        except ConnectionClosed:
            pass  # the reader reports it
        finally:
            self._written.set()

    async def _put(self, out: Message | Last) -> None:
        match out:
            case Drop():
                self.code = 1006
                await trio.aclose_forcefully(self._gate)
                self._written.set()
            case Freeze():
                self._gate.shut()
            case Close(code, reason):
                self.code = code
                with trio.move_on_after(_CLOSING):
                    await self._socket.aclose(code, reason)
                self._written.set()
            case _:
                text = json.dumps({**out, **self.habits.beside}, separators=(",", ":"))
                data = text.encode() if self.habits.binary else text
                await self._socket.send_message(data)
                if self.habits.records:
                    self.sent.append(out)
                self._spring(out, sent=True)

    def _spring(self, message: Message, *, sent: bool) -> None:
        """Do what the script wants once this message went over the socket."""
        for place, trap in enumerate(self.habits.traps):
            if trap.sent is not sent or trap.socket not in (None, self.number):
                continue
            if isinstance(trap.message, str):
                fits = trap.message in self.habits.words(message)
            else:
                fits = trap.message(message)
            if not fits:
                continue
            self._passed[place] = passed = self._passed.get(place, 0) + 1
            if passed != trap.skip + 1:
                continue
            if isinstance(trap.event, Last) and not self.ending:
                self._waiting.clear()  # right after that message, not later
            self.on_event(trap.event)


def _parsed(data: str | bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None
