"""One active response at a time: when a wanted response is asked for, free of I/O.

The vendor allows one active response in a conversation, and two sides may begin
one: we, with ``response.create``, and the server, when it hears that somebody has
finished speaking. So whatever wants a response only says so here, and it is asked
for when nothing runs and nobody speaks. Wants that wait together are one.

    idle ── create ──▸ creating ── response.created ──▸ active
     ▴                                                    │ cancel, or the user
     └──────────────── response.done ◂── cancelling ◂─────┘ interrupts

Both sides may still cross on the wire. Then the server refuses ours; it waits for
the end of theirs and is asked for once more, and after that it is given up: a
refusal is no reason to end a session. No state lasts for ever: what the server
does not answer in time is given up, too.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import attrs

from glyphoxa_trio.providers.s2s import Respond

WATCHDOG: Final = 10.0  # seconds for the server to create, or to end what is cancelled
UTTERANCE: Final = 60.0  # seconds that somebody may speak before we stop waiting


class SequencerState(StrEnum):
    IDLE = "idle"
    CREATING = "creating"
    ACTIVE = "active"
    CANCELLING = "cancelling"


@attrs.frozen
class Create:
    """Ask for a response now. ``event_id`` comes back if it is refused."""

    event_id: str
    respond: Respond


@attrs.frozen
class CancelResponse:
    """Cancel that response now; None if its name is not known."""

    event_id: str
    response: str | None


def merged(one: Respond | None, other: Respond) -> Respond:
    """Two wants as one: the later instructions, and words only if either says so."""
    if one is None:
        return other
    return Respond(
        instructions=other.instructions or one.instructions,
        tools_forbidden=one.tools_forbidden or other.tools_forbidden,
    )


@attrs.define(eq=False)
class _Asked:
    """What was asked for, until nothing can be said about it any more."""

    create: Create
    twice: bool
    unwanted: bool = False


@attrs.define(eq=False)
class Sequencer:
    """The responses of one socket. ``response`` is the active one, as far as known."""

    state: SequencerState = SequencerState.IDLE
    response: str | None = None
    _open: bool = attrs.field(default=False, init=False)
    _wanted: Respond | None = attrs.field(default=None, init=False)
    _once_more: bool = attrs.field(default=False, init=False)
    _asked: _Asked | None = attrs.field(default=None, init=False)
    _stop: CancelResponse | None = attrs.field(default=None, init=False)
    _speaking: bool = attrs.field(default=False, init=False)
    # Until when we wait for the server, and for the user or what follows them.
    _watchdog: float | None = attrs.field(default=None, init=False)
    _held_until: float | None = attrs.field(default=None, init=False)
    _count: int = attrs.field(default=0, init=False)
    _orders: list[Create | CancelResponse] = attrs.field(factory=list, init=False)

    @property
    def alarm(self) -> float | None:
        """When to `wake` it."""
        times = (self._watchdog, self._held_until)
        return min((time for time in times if time is not None), default=None)

    @property
    def is_wanted(self) -> bool:
        """Whether a response waits to be asked for, or has been."""
        return self._wanted is not None or self.state is SequencerState.CREATING

    def orders(self) -> list[Create | CancelResponse]:
        """What is to be sent now, in this order."""
        orders, self._orders = self._orders, []
        return orders

    # What our side wants

    def open(self, now: float) -> None:
        """The session is set up: responses may be asked for."""
        self._open = True
        self._go_on(now)

    def want(self, respond: Respond, now: float) -> None:
        self._wanted = merged(self._wanted, respond)
        self._go_on(now)

    def stop(self, now: float) -> None:
        """Nothing that is wanted, or runs, is wanted any more."""
        self._wanted, self._once_more = None, False
        if self._asked is not None:
            self._asked.unwanted = True
        if (
            self.state is SequencerState.ACTIVE
        ):  # one that is being created has no name yet
            self._stop = CancelResponse(self._event_id("stop"), self.response)
            self._orders.append(self._stop)
            self.state, self._watchdog = SequencerState.CANCELLING, now + WATCHDOG

    # What the server says

    def started(self, response: str, now: float) -> None:
        """A response has begun: ours, or the server's own."""
        # After somebody has spoken it is the server's own, and ours will be refused.
        owed = self._held_until is not None and not self._speaking
        asked = (
            self._asked if self.state is SequencerState.CREATING and not owed else None
        )
        self.state, self.response, self._watchdog = (
            SequencerState.ACTIVE,
            response,
            None,
        )
        if not self._speaking:
            self._held_until = None
        if asked is not None and asked.unwanted:
            self.stop(now)

    def ended(self, response: str, now: float) -> None:
        running = self.state in (SequencerState.ACTIVE, SequencerState.CANCELLING)
        if running and self.response in (None, response):
            self._rest(now)

    def refused(self, event_id: str | None, now: float) -> bool:
        """There is an active response already. Returns whether that is nothing to
        complain of: it will be asked for once more, or is not wanted any more."""
        asked = self._answered(event_id)
        if asked is None:
            return False
        if (
            self.state is SequencerState.CREATING
        ):  # by something that we know nothing of
            self.state, self.response = SequencerState.ACTIVE, None
            self._watchdog = now + WATCHDOG
            if asked.unwanted:
                self.stop(now)
        if asked.unwanted:
            return True
        if asked.twice:
            return False
        self._wanted = merged(asked.create.respond, self._wanted or Respond())
        self._once_more = True
        return True

    def failed(self, event_id: str | None, now: float) -> None:
        """What was asked for is not taken, for another reason."""
        if self._answered(event_id) and self.state is SequencerState.CREATING:
            self._rest(now)

    def not_active(self, event_id: str | None, now: float) -> bool:
        """Nothing was active that could be cancelled. Returns whether we asked."""
        ours = event_id is not None and event_id.startswith("stop_")
        if self._stop is None or event_id not in (None, self._stop.event_id):
            return ours
        if self.state is SequencerState.CANCELLING:
            self._rest(now)  # its end was never said
        return True

    def user_speaks(self, now: float, *, interrupts: bool) -> None:
        """The server hears somebody. If that ``interrupts``, it cancels by itself."""
        self._speaking, self._held_until = True, now + UTTERANCE
        if interrupts and self.state is SequencerState.ACTIVE:
            self.state, self._watchdog = SequencerState.CANCELLING, now + WATCHDOG

    def user_finished(self, now: float, *, answered: bool = True) -> None:
        """The server is about to begin a response of its own; or, unless it is
        ``answered`` so, to wait for one to be asked for."""
        self._speaking, self._held_until = False, now + WATCHDOG if answered else None
        self._go_on(now)

    def user_was_nobody(self, now: float) -> None:
        """What was heard is thrown away: there will be no such response."""
        self._speaking, self._held_until = False, None
        self._go_on(now)

    def wake(self, now: float) -> SequencerState | None:
        """The `alarm` was reached. Returns the state that was given up, if any."""
        if self._held_until is not None and now >= self._held_until:
            self._speaking, self._held_until = False, None
        given_up: SequencerState | None = None
        if self._watchdog is not None and now >= self._watchdog:
            given_up = self.state
            self._rest(now)
        self._go_on(now)
        return given_up

    def _answered(self, event_id: str | None) -> _Asked | None:
        """What we asked for, if that is what an error is about; only once."""
        asked = self._asked
        if asked is None or event_id not in (None, asked.create.event_id):
            return None
        if event_id is None and self.state is not SequencerState.CREATING:
            return None
        self._asked = None
        return asked

    def _rest(self, now: float) -> None:
        self.state, self.response = SequencerState.IDLE, None
        self._asked = self._stop = self._watchdog = None
        self._go_on(now)

    def _go_on(self, now: float) -> None:
        held = not self._open or self._held_until is not None
        if self._wanted is None or held or self.state is not SequencerState.IDLE:
            return
        create = Create(self._event_id("create"), self._wanted)
        self._asked = _Asked(create, self._once_more)
        self._orders.append(create)
        self._wanted, self._once_more = None, False
        self.state, self._watchdog = SequencerState.CREATING, now + WATCHDOG

    def _event_id(self, what: str) -> str:
        self._count += 1
        return f"{what}_{self._count}"
