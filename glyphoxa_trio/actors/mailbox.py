"""An actor: one task, one mailbox, one owner of the state.

An actor is an async function that reads an `Inbox`. Its state is its local variables,
so nothing else can change it. Messages are frozen `Request` classes whose type
arguments are the actor they are for and the type of the answer, so that a type checker
refuses a message to the wrong actor::

    class Dice: ...  # the actor that the messages are for

    @attrs.frozen
    class Roll(Request[Dice, list[int]]):
        count: int
        sides: int

    async def dice(inbox: Inbox[Dice]) -> None:
        rng = random.Random()
        async for call in inbox:
            with call.answering():
                roll = call.request
                call.reply([rng.randint(1, roll.sides) for _ in range(roll.count)])

    async with trio.open_nursery() as nursery:
        ref = spawn(nursery, dice)                      # Ref[Dice]
        rolls = await ref.ask(Roll(2, 6), within=0.5)   # list[int]
        await ref.stop(within=1)

Only the caller has a deadline: the actor's work is cancelled because the caller has
left, through any number of actors in between. No caller waits for ever: a crash, a
stop, a full mailbox and a cancellation all end its wait. Times are seconds on trio's
clock.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from typing import Any, Final, Generic, TypeVar
from weakref import WeakSet

import attrs

import trio

from glyphoxa_trio.errors import ActorGone, DeadlineExceeded

from .call import A, Call, Request
from .supervision import Backoff, OnEvent, supervise

R = TypeVar("R")

BLOCKED: Final = 0.005  # seconds; a timer is that late only if the loop was blocked
MOST_BLOCKED: Final = 5.0  # seconds of it that are not counted in one request


@attrs.frozen(kw_only=True)
class MailboxStatistics:
    """Counts since the actor was spawned; ``waiting`` is now, ``peak`` the most."""

    name: str
    capacity: int
    waiting: int
    peak: int
    asked: int
    told: int
    dropped: int
    abandoned: int


@attrs.define(eq=False)
class _Counts:
    asked: int = 0
    told: int = 0
    dropped: int = 0
    abandoned: int = 0
    closed: bool = False


@attrs.define(eq=False)
class Inbox(Generic[A]):
    """The reading end of a mailbox. It skips calls whose callers have left.

    Iteration ends when the actor is stopped and everything sent before that has been
    read.
    """

    name: str
    _channel: trio.MemoryReceiveChannel[Call[A]]
    # The asked calls that the body took; weak, so that finished ones are forgotten.
    _taken: WeakSet[Call[A]] = attrs.field(factory=WeakSet, init=False)

    def __aiter__(self) -> Inbox[A]:
        return self

    async def __anext__(self) -> Call[A]:
        try:
            return await self.receive()
        except trio.EndOfChannel:
            raise StopAsyncIteration from None

    async def receive(self) -> Call[A]:
        """Wait for the next call whose caller still waits, and return it.

        Raises:
          trio.EndOfChannel: if the actor was stopped and the mailbox is empty.
        """
        while (call := await self._channel.receive()).abandoned:
            pass
        if not call.told:
            self._taken.add(call)
        return call

    def drop_taken(self, crash: Exception | None) -> None:
        """Refuse the calls that an ended life took and neither answered nor runs."""
        for call in list(self._taken):
            if call._answer is None and not call._in_work:
                gone = ActorGone(f"{self.name} ended before it answered")
                gone.__cause__ = crash
                call.refuse(gone)
        self._taken.clear()

    def close(self) -> None:
        """Refuse all waiting calls, then accept no more."""
        with suppress(trio.WouldBlock, trio.EndOfChannel, trio.ClosedResourceError):
            while True:
                self._channel.receive_nowait().refuse(ActorGone(f"{self.name} stopped"))
        self._channel.close()


@attrs.frozen(eq=False)
class Ref(Generic[A]):
    """The writing end of a mailbox, by which the rest of the program uses an actor."""

    name: str
    _channel: trio.MemorySendChannel[Call[A]]
    _stopped: trio.Event
    _counts: _Counts = attrs.field(factory=_Counts)

    async def ask(
        self,
        request: Request[A, R],
        *,
        within: float,
        excused: Callable[[], float] | None = None,
    ) -> R:
        """Send ``request`` and wait for its answer.

        Args:
          request: the message; its type determines the type of the reply.
          within: the longest wait, in seconds. It covers the wait for a place in the
            mailbox, the wait in it, and the work itself. Time in which the event loop
            itself was blocked does not count, up to 5 s: the actor had none of it.
          excused: returns how many seconds of the wait do not count either, so far.

        Cancelling the caller cancels the work.

        Raises:
          DeadlineExceeded: if ``within`` seconds pass first.
          ActorGone: if the actor stops, or crashes on this very request.
          GlyphoxaError: any other error that the actor answers with.
        """
        call = Call(request)
        self._counts.asked += 1
        try:
            deadline = trio.current_time() + max(within, 0.0)
            latest = deadline + MOST_BLOCKED
            counted = 0.0
            while call._answer is None:
                with trio.move_on_at(deadline):
                    if not call.delivered:
                        await self._channel.send(call)
                        call.delivered = True
                    await call.settled()
                late = trio.current_time() - deadline
                if excused is not None and (more := excused() - counted) > 0:
                    counted += more
                    # Look again in a second at the earliest: it may go on growing.
                    deadline += max(more, late + 1.0)
                    latest = deadline + MOST_BLOCKED
                    continue
                if late < BLOCKED or deadline >= latest:
                    break
                deadline = min(deadline + late + BLOCKED, latest)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            call.refuse(ActorGone(f"{self.name} stopped"))
        finally:
            if call._answer is None:
                self._counts.abandoned += 1
                call.abandon()
        if call._answer is None:
            raise DeadlineExceeded(f"{self.name}: no answer within {within:.3f}s")
        answer: R = call._answer.unwrap()
        return answer

    def tell(self, request: Request[A, Any]) -> bool:
        """Send ``request`` without waiting, for its effect only.

        Returns False if the mailbox is full or the actor gone: the message is dropped
        and counted. Never blocks.
        """
        try:
            self._channel.send_nowait(Call(request, told=True))
        except (
            trio.WouldBlock,
            trio.BrokenResourceError,
            trio.ClosedResourceError,
        ):
            self._counts.dropped += 1
            return False
        self._counts.told += 1
        return True

    def close(self) -> None:
        """Accept no more messages; those in the mailbox are still answered."""
        self._counts.closed = True
        self._channel.close()

    @property
    def closed(self) -> bool:
        return self._counts.closed

    @property
    def untouched(self) -> bool:
        """True if it was never sent a message."""
        return not (self._counts.asked or self._counts.told)

    @property
    def idle(self) -> bool:
        """True if the actor waits for its next message, or was never sent one, and none
        is on its way."""
        if self.untouched:
            return True
        channel = self._channel.statistics()
        return not channel.current_buffer_used and bool(channel.tasks_waiting_receive)

    async def stop(self, *, within: float) -> bool:
        """Close the mailbox, and wait until the actor has answered all messages.

        Returns True if it ended within so many seconds. Otherwise it is not cancelled:
        the owner of its nursery decides that.
        """
        self.close()
        with trio.move_on_after(within):
            await self._stopped.wait()
        return self._stopped.is_set()

    def statistics(self) -> MailboxStatistics:
        channel = self._channel.statistics()
        return MailboxStatistics(
            name=self.name,
            capacity=int(channel.max_buffer_size),
            waiting=channel.current_buffer_used,
            peak=channel.peak_buffer_used,
            asked=self._counts.asked,
            told=self._counts.told,
            dropped=self._counts.dropped,
            abandoned=self._counts.abandoned,
        )

    def __repr__(self) -> str:
        state = "stopped" if self._stopped.is_set() else "running"
        waiting = self._channel.statistics().current_buffer_used
        return f"<Ref {self.name}: {state}, {waiting} waiting>"


def spawn(
    nursery: trio.Nursery,
    body: Callable[[Inbox[A]], Awaitable[None]],
    *,
    name: str | None = None,
    capacity: int = 16,
    restart: Backoff | None = None,
    on_event: OnEvent | None = None,
) -> Ref[A]:
    """Start an actor in the caller's ``nursery`` and return its `Ref`.

    The mailbox exists before its reader, so the ref can be used at once, and it
    outlives every restart, so a ref stays valid. The actor ends when it is stopped or
    the nursery is cancelled.

    Args:
      capacity: the number of messages that may wait; beyond that `Ref.ask` waits for a
        place, and `Ref.tell` drops its message.
      restart: run ``body`` again when it crashes; without it a crash cancels the
        nursery. ``body`` creates its own state, so that no state of a crashed life is
        left to the next one.
      on_event: called with every life, failure and restart; must not block.

    Raises:
      TypeError: for ``restart`` without ``on_event``: a crash would go unnoticed.
    """
    if restart is not None and on_event is None:
        raise TypeError("spawn(restart=...) needs on_event=, to report a crash")
    label = name if name is not None else str(getattr(body, "__name__", body))
    send, receive = trio.open_memory_channel[Call[A]](capacity)
    stopped = trio.Event()

    async def live() -> None:
        try:
            with closing(Inbox(label, receive)) as inbox:

                async def one_life() -> None:
                    crash: Exception | None = None
                    try:
                        await body(inbox)
                    except Exception as error:
                        crash = error
                        raise
                    finally:
                        inbox.drop_taken(crash)

                if restart is None:
                    await one_life()
                else:
                    await supervise(one_life, restart, name=label, on_event=on_event)
        finally:
            stopped.set()

    nursery.start_soon(live, name=label)
    return Ref(label, send, stopped)
