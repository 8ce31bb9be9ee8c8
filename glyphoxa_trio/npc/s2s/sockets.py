"""The sockets of a conversation: opened when one is needed, replaced in time, given up.

A new socket is opened before the old one is closed, and if possible at a moment when no
user speaks. One task, `Sockets.run`, opens the sockets; each is read by a task of its
own. The owner is told of every event and must not wait.
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
    # A large random part: conversations cut by a vendor together must not return
    # together.
    return Backoff(first=0.5, ceiling=10.0, jitter=0.8, max_restarts=5)


@attrs.frozen(kw_only=True)
class LiveSettings:
    """The timing of a conversation's sockets. Times are seconds.

    Args:
      connect: how long opening a socket may take.
      rotate: the age at which a socket is replaced.
      idle: the silence after which a socket is closed until one is needed again.
      swap: how long a replacement waits for a moment in which no user speaks.
      leave: how long before the server closes a socket it is replaced in any case.
      audio: how much microphone audio is kept while there is no socket; the oldest is
        dropped first.
      backoff: the delay between attempts. After its number of restarts no more attempts
        are made until a user speaks again. Audio alone does not shorten the delay.
      chance: the source of the random part of the delay.
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
    """One open socket. ``number`` counts from 1."""

    number: int
    link: RealtimeLink
    since: float
    setup: Setup
    at: int  # the index of its model
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)


class SocketOwner(Protocol):
    """The owner of the sockets. None of its methods waits."""

    @property
    def quiet(self) -> bool:
        """True if no user speaks, no turn runs and no call is owed an answer."""
        ...

    def setup(self, at: int) -> Setup:
        """Return what the next socket, with the model number ``at``, is opened with."""
        ...

    def opened(self, at: int, why: LinkClosed | None, *, resumed: bool) -> None:
        """Called when a socket to that model is open; the previous one is being closed.

        ``why``: the last failure of a model that is preferred to this one.
        """
        ...

    def lost(self, closed: LinkClosed) -> None:
        """Called when the socket was lost; another one is tried."""
        ...

    def rested(self) -> None:
        """Called when the socket was closed because it was not needed."""
        ...

    def gave_up(self, closed: LinkClosed) -> None:
        """Called when no socket can be opened; none is tried until one is needed."""
        ...

    def handle_failed(self) -> None:
        """Called when the conversation cannot be resumed and needs its history."""
        ...

    def take(self, event: Event, now: float) -> None:
        """Handle an event of the current socket."""
        ...


def without_handle(closed: LinkClosed) -> LinkClosed:
    """Return the same failure as one to be retried: the handle may have caused it."""
    return LinkClosed(closed.kind, closed.detail, retryable=True, code=closed.code)


def _gone_on_with(closed: LinkClosed) -> LinkClosed:
    """Return the same failure as one after which another model continues."""
    return LinkClosed(closed.kind, closed.detail, retryable=True)


@attrs.define(eq=False)
class Sockets:
    """The sockets of one conversation, of which one is current."""

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
    # the time of the last event or request
    _active: float = attrs.field(default=0.0, init=False)
    # why not the first model
    _why: LinkClosed | None = attrs.field(default=None, init=False)

    @property
    def provider(self) -> S2S:
        """The model of the open socket; without one, the model that is asked first."""
        at = 0 if self.current is None else self.current.at
        return self.choices.of[min(at, len(self.choices.of) - 1)].provider

    @property
    def audio_limit(self) -> int:
        """The bytes of microphone audio that are kept while there is no socket."""
        rate = self.provider.capabilities.input_rate
        return int(self.settings.audio * rate) * 2

    def become(self, choices: Choices, settings: LiveSettings) -> None:
        """Use these models and settings for the next socket."""
        self.choices, self.settings = choices, settings

    def want(self, *, patient: bool = False) -> None:
        """Ask for a socket.

        If the sockets were given up, this makes another attempt at once. A ``patient``
        request waits for the backoff: a microphone that is on is no reason to hurry.
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
        """Wake `run`: something has changed that it may wait for."""
        self._changed.set()

    def replace(self, closes_in: float | None) -> None:
        """Ask for another socket, at the next moment in which no user speaks.

        ``closes_in``: seconds until the server closes this one, if that is known; the
        socket is replaced before that in any case.
        """
        within = self.settings.swap
        if closes_in is not None:
            within = max(0.0, closes_in - self.settings.leave)
        by = trio.current_time() + within
        self._replace_by = by if self._replace_by is None else min(by, self._replace_by)
        self._changed.set()

    def keep(self) -> None:
        """Withdraw the request for another socket."""
        self._replace_by = None

    async def run(self) -> None:
        """Keep a socket open while one is needed. Runs until it is cancelled."""
        self._leave("it is left from an earlier run")
        async with trio.open_nursery() as nursery:
            while True:
                now = trio.current_time()
                until = self._nothing_until(now)
                if until > now:
                    with trio.move_on_at(until):
                        await self._changed.changed()
                elif self._is_idle(now):
                    self._wanted = False
                    self._leave("it is not needed")
                else:
                    await self._open(nursery)

    def _nothing_until(self, now: float) -> float:
        """Return when `run` has something to do; ``now`` or earlier means at once."""
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
        # Return to a model that is preferred, if one can be asked again.
        back = max(self.choices.back_at(self.current.at, now), self._retry_at)
        return min(rotate, back, self._active + self.settings.idle)

    def _ages(self, socket: Socket) -> tuple[float, float]:
        """Return when to replace a socket in a quiet moment, and when in any case."""
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
        """Open a socket, and replace the current one, if any.

        The first model that may be asked is tried. While there is no socket, the models
        after it are tried too.
        """
        chosen = self.choices.pick(trio.current_time())
        while chosen is not None:
            at, ticket = chosen
            follows = self.current is None
            failure = await self._try(nursery, at, ticket, spare=follows)
            chosen = None
            if failure is not None and follows:
                if failure is self._why:  # otherwise the handle failed
                    chosen = self.choices.pick(trio.current_time(), at)
                if chosen is None:
                    self._lose(None, failure)

    async def _try(
        self, nursery: trio.Nursery, at: int, ticket: Ticket | None, *, spare: bool
    ) -> LinkClosed | None:
        """Open a socket with the model number ``at``; return the failure, if it failed.

        With ``spare`` the caller handles a failure; otherwise it has been handled on
        return.
        """
        limit = trio.CancelScope(deadline=trio.current_time() + self.settings.connect)
        failure: LinkClosed | None = None
        setup = self.owner.setup(at)
        try:
            with limit:
                await nursery.start(partial(self._serve, setup, at))
        except LinkClosed as closed:
            failure = closed
        except ValueError as error:  # the wire does not accept the setup
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
                # the old socket stays, with the tools that it has
                self._replace_by = None
        return failure

    async def _serve(
        self,
        setup: Setup,
        at: int,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Read one socket until it closes or another one has replaced it."""
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
            old.scope.cancel("another socket has replaced it")
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
            if self.choices.spare(socket.at, now):  # another model continues at once
                closed = _gone_on_with(closed)
                self._retry_at = now
        if socket is not None:
            self.owner.lost(closed)
        tired = len(self._failures) > self.settings.backoff.max_restarts
        if tired or not closed.retryable:
            self._wanted, self._gave_up = False, True
            self.owner.gave_up(closed)
        elif self.owner.quiet:
            self._wanted = False  # no user waits: the next utterance opens a socket
        self._changed.set()

    def _back_off(self, closed: LinkClosed) -> None:
        now, backoff = trio.current_time(), self.settings.backoff
        self._failures.append(now)
        while self._failures[0] < now - backoff.period:
            self._failures.popleft()
        delay = backoff.delay(len(self._failures), self.settings.chance)
        self._retry_at = now + max(delay, closed.retry_after or 0.0)
