"""Which socket a conversation has: opened when wanted, replaced in time, given up.

A new socket is opened before the old one is closed, and in a moment in which nobody
speaks, if that can be waited for. One task, `Sockets.run`, opens them; one each reads
them. Whoever holds this is told what comes, and never waits. Above 300
lines: when one is opened, replaced and given up is decided from the same state.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from random import Random
from typing import Protocol

import attrs

import trio

from glyphoxa_trio.actors import Backoff, Signal
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.s2s import (
    S2S,
    Event,
    LinkClosed,
    Ready,
    RealtimeLink,
    Setup,
)
from glyphoxa_trio.tools.breaker import Ticket

from .choice import Choices


def _usual() -> Backoff:
    # Mostly chance: what a vendor cuts at once must not come back at once.
    return Backoff(first=0.5, ceiling=10.0, jitter=0.8, max_restarts=5)


@attrs.frozen(kw_only=True)
class LiveSettings:
    """Times are seconds.

    Args:
      connect: how long a socket may take to be set up.
      rotate: the age at which it is replaced.
      idle: the silence after which it is closed, until it is wanted again.
      swap: how long a replacement waits for a moment in which nobody speaks.
      leave: so long before its server closes it, it is replaced in any case.
      audio: of the microphone, kept while there is no socket; the oldest goes first.
      backoff: between attempts; beyond its restarts the conversation rests until
        somebody speaks again, and a microphone alone tries no sooner than by it.
      chance: what its jitter is drawn from.
    """

    connect: float = 10.0
    rotate: float = 55 * 60.0
    idle: float = 600.0
    swap: float = 2.0
    leave: float = 5.0
    audio: float = 2.0
    backoff: Backoff = attrs.field(factory=_usual)
    chance: Random = attrs.field(factory=Random)


@attrs.define(eq=False)
class Socket:
    """One life of the connection. ``number`` counts from 1."""

    number: int
    link: RealtimeLink
    since: float
    setup: Setup
    at: int  # which of the models
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)


class SocketOwner(Protocol):
    """Whose sockets these are. None of it waits."""

    @property
    def quiet(self) -> bool:
        """Nobody speaks, no turn runs, and nothing is owed."""
        ...

    def setup(self, at: int) -> Setup:
        """What the next socket, with that model, begins with."""
        ...

    def opened(self, at: int, why: LinkClosed | None, *, resumed: bool) -> None:
        """A socket is open with that model; the one before it, if any, is being closed.
        ``why``: the last failure of one that comes before it."""
        ...

    def lost(self, closed: LinkClosed) -> None:
        """The socket is gone; the next is tried."""
        ...

    def rested(self) -> None:
        """The socket was closed, since nobody wanted it."""
        ...

    def gave_up(self, closed: LinkClosed) -> None:
        """There is none, and nothing more is tried until it is wanted again."""
        ...

    def handle_failed(self) -> None:
        """The conversation cannot be resumed: the next socket is told of it."""
        ...

    def take(self, event: Event, now: float) -> None:
        """What the socket that counts has said."""
        ...


def without_handle(closed: LinkClosed) -> LinkClosed:
    """The same, worth another attempt: it may have been the handle."""
    return LinkClosed(closed.kind, closed.detail, retryable=True, code=closed.code)


def _gone_on_with(closed: LinkClosed) -> LinkClosed:
    """The same, of a conversation that another model goes on with."""
    return LinkClosed(closed.kind, closed.detail, retryable=True)


@attrs.define(eq=False)
class Sockets:
    """The sockets of one conversation, one at a time."""

    choices: Choices
    settings: LiveSettings
    owner: SocketOwner
    current: Socket | None = attrs.field(default=None, init=False)
    opened: int = attrs.field(default=0, init=False)
    failed: int = attrs.field(default=0, init=False)
    fault: LinkClosed | None = attrs.field(default=None, init=False)
    _wanted: bool = attrs.field(default=False, init=False)
    _gave_up: bool = attrs.field(default=False, init=False)
    _changed: Signal = attrs.field(factory=Signal, init=False)
    _replace_by: float | None = attrs.field(default=None, init=False)
    _retry_at: float = attrs.field(default=0.0, init=False)
    _failures: deque[float] = attrs.field(factory=deque, init=False)
    _active: float = attrs.field(default=0.0, init=False)  # when something last was
    _why: LinkClosed | None = attrs.field(default=None, init=False)  # not the first

    @property
    def provider(self) -> S2S:
        """The model of the socket that there is; else the one that is asked first."""
        at = 0 if self.current is None else self.current.at
        return self.choices.of[min(at, len(self.choices.of) - 1)].provider

    @property
    def audio_limit(self) -> int:
        """Bytes of the microphone that are kept while there is none."""
        rate = self.provider.capabilities.input_rate
        return int(self.settings.audio * rate) * 2

    def become(self, choices: Choices, settings: LiveSettings) -> None:
        """Open the next one there, and so."""
        self.choices, self.settings = choices, settings

    def want(self, *, patient: bool = False) -> None:
        """Somebody has something to say.

        If it was given up, this is another attempt, and now; ``patient``: in its time,
        since a microphone that is on is no reason to hurry.
        """
        self._active = trio.current_time()
        if self._gave_up and not patient:
            self._gave_up = False
            self._retry_at = self._active
            self._changed.set()
        if not self._wanted:
            self._wanted = True
            self._changed.set()

    def look(self) -> None:
        """Something has changed that may be what was waited for."""
        self._changed.set()

    def replace(self, closes_in: float | None) -> None:
        """Another socket is needed: as soon as nobody speaks, but not later than its
        server closes this one, if that is known."""
        within = self.settings.swap
        if closes_in is not None:
            within = max(0.0, closes_in - self.settings.leave)
        by = trio.current_time() + within
        self._replace_by = by if self._replace_by is None else min(by, self._replace_by)
        self._changed.set()

    def keep(self) -> None:
        """What there is will do after all."""
        self._replace_by = None

    async def run(self) -> None:
        """Keep a socket while one is wanted. Ends when it is cancelled."""
        self._leave("it is of an earlier run")
        async with trio.open_nursery() as nursery:
            while True:
                now = trio.current_time()
                until = self._nothing_until(now)
                if until > now:
                    with trio.move_on_at(until):
                        await self._changed.changed()
                elif self._is_idle(now):
                    self._wanted = False
                    self._leave("nobody speaks")
                else:
                    await self._open(nursery)

    def _nothing_until(self, now: float) -> float:
        """When there is something to do for `run`; not later than now if now."""
        if self.current is None:
            return self._retry_at if self._wanted else float("inf")
        rotate, last = self._ages(self.current)
        if self._replace_by is None and now >= rotate:
            self._replace_by = last
        if self._replace_by is not None:
            due = now if self.owner.quiet else self._replace_by
            return max(due, self._retry_at)
        if not self.owner.quiet:
            return rotate
        # Back to the model that is to be asked first, if it can be.
        back = max(self.choices.back_at(self.current.at, now), self._retry_at)
        return min(rotate, back, self._active + self.settings.idle)

    def _ages(self, socket: Socket) -> tuple[float, float]:
        """When to replace it if nobody speaks, and when even if somebody does."""
        rotate, lifetime = self.settings.rotate, self.provider.capabilities.lifetime
        last = rotate + 300.0
        if lifetime is not None:
            last = max(lifetime - self.settings.leave, lifetime / 2)
            rotate = min(rotate, last * 0.9)
        return socket.since + rotate, socket.since + last

    def _is_idle(self, now: float) -> bool:
        return (
            self.current is not None
            and self._replace_by is None
            and self.owner.quiet
            and now >= self._active + self.settings.idle
        )

    def _leave(self, why: str) -> None:
        if self.current is not None:
            self.current.scope.cancel(why)
            self.current = None
            self.owner.rested()

    async def _open(self, nursery: trio.Nursery) -> None:
        """Open a socket, and put it in the place of the one there is, if any: with the
        first model that may be asked, and without one also with those that follow."""
        chosen = self.choices.pick(trio.current_time())
        while chosen is not None:
            at, ticket = chosen
            follows = self.current is None
            failure = await self._try(nursery, at, ticket, spare=follows)
            chosen = None
            if failure is not None and follows:
                if failure is self._why:  # else it was the handle
                    chosen = self.choices.pick(trio.current_time(), at)
                if chosen is None:
                    self._lose(None, failure)

    async def _try(
        self, nursery: trio.Nursery, at: int, ticket: Ticket | None, *, spare: bool
    ) -> LinkClosed | None:
        """Open a socket with that model. Returns why it could not be; with ``spare``
        another may be asked, else what is to be done about it has been done."""
        limit = trio.CancelScope(deadline=trio.current_time() + self.settings.connect)
        failure: LinkClosed | None = None
        setup = self.owner.setup(at)
        try:
            with limit:
                await nursery.start(partial(self._serve, setup, at))
        except LinkClosed as closed:
            failure = closed
        except ValueError as error:  # a setup that the wire does not take
            failure = LinkClosed(ErrorKind.BAD_REQUEST, str(error), retryable=False)
        except BaseException:
            self.choices.left(at, ticket)
            raise
        if limit.cancelled_caught:
            failure = LinkClosed(
                ErrorKind.UNREACHABLE,
                f"not set up within {self.settings.connect:g} s",
                retryable=True,
            )
        if failure is None:
            self.choices.answered(at, ticket)
            return None
        if setup.handle is not None and not failure.retryable:
            failure = without_handle(failure)
            self.owner.handle_failed()
            self.choices.left(at, ticket)
        else:
            self._why = failure
            self.choices.failed(at, ticket, failure, trio.current_time())
        self.failed += 1
        if not spare:
            self._back_off(failure)
            if not failure.retryable:
                self._replace_by = None  # the old one serves on, with the tools it has
        return failure

    async def _serve(
        self,
        setup: Setup,
        at: int,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """One socket: until it closes, or another one has taken its place."""
        self.opened += 1
        number, socket = self.opened, None
        try:
            async with self.choices.of[at].provider.connect(setup) as link:
                event = await link.receive()
                while not isinstance(event, Ready):
                    event = await link.receive()
                socket = Socket(number, link, trio.current_time(), setup, at)
                with socket.scope:
                    self._install(socket, resumed=event.resumed)
                    task_status.started()
                    while True:
                        event = await link.receive()
                        if socket is self.current:
                            self._active = trio.current_time()
                            self.owner.take(event, self._active)
        except LinkClosed as closed:
            if socket is None:
                raise
            if socket is self.current:
                self.failed += 1
                self._lose(socket, closed)

    def _install(self, socket: Socket, *, resumed: bool) -> None:
        old, self.current = self.current, socket
        self.fault, self._replace_by, self._gave_up = None, None, False
        self._active = socket.since
        if old is not None:
            old.scope.cancel("another one has taken its place")
        if socket.at == 0:
            self._why = None
        self.owner.opened(socket.at, self._why, resumed=resumed)

    def _lose(self, socket: Socket | None, closed: LinkClosed) -> None:
        self.current = self._replace_by = None
        self.fault = closed
        self._back_off(closed)
        now = trio.current_time()
        if socket is not None and not closed.retryable:
            self._why = closed
            self.choices.failed(socket.at, None, closed, now)
            if self.choices.spare(socket.at, now):  # another one goes on, and now
                closed = _gone_on_with(closed)
                self._retry_at = now
        if socket is not None:
            self.owner.lost(closed)
        tired = len(self._failures) > self.settings.backoff.max_restarts
        if tired or not closed.retryable:
            self._wanted, self._gave_up = False, True
            self.owner.gave_up(closed)
        elif self.owner.quiet:
            self._wanted = False  # nobody waits: the next one who speaks opens it
        self._changed.set()

    def _back_off(self, closed: LinkClosed) -> None:
        now, backoff = trio.current_time(), self.settings.backoff
        self._failures.append(now)
        while self._failures[0] < now - backoff.period:
            self._failures.popleft()
        delay = backoff.delay(len(self._failures), self.settings.chance)
        self._retry_at = now + max(delay, closed.retry_after or 0.0)
