"""Keep to one active response at a time: decide when to request one, without I/O.

The vendor allows one active response in a conversation, and both sides may start one:
the client, with ``response.create``, and the server, when it detects that the user has
finished speaking. So code that wants a response only notes it here, and the response is
requested when none is active and the user does not speak. Wishes that wait together
become one request.

    idle ── create ──▸ creating ── response.created ──▸ active
     ▴                                                    │ cancel, or the user
     └──────────────── response.done ◂── cancelling ◂─────┘ interrupts

Requests of both sides may still cross on the way. Then the server refuses ours; it
waits for the end of the other response and is sent once more, and after that it is
given up: a refusal is no reason to end a session. No state lasts for ever: what the
server does not answer in time is given up, too.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import attrs

from glyphoxa_trio.providers.s2s import Respond

# Seconds for the server to create a response, or to end a cancelled one.
WATCHDOG: Final = 10.0
UTTERANCE: Final = 60.0  # seconds that the user may speak before we stop waiting


class SequencerState(StrEnum):
    """The state of the active response."""

    IDLE = "idle"
    CREATING = "creating"
    ACTIVE = "active"
    CANCELLING = "cancelling"


@attrs.frozen
class Create:
    """An order to request a response now. ``event_id`` comes back if it is refused."""

    event_id: str
    respond: Respond


@attrs.frozen
class CancelResponse:
    """An order to cancel a response now; None if its id is not known."""

    event_id: str
    response: str | None


def merged(one: Respond | None, other: Respond) -> Respond:
    """Join two wishes: the later instructions, and no tools if either forbids them."""
    if one is None:
        return other
    return Respond(
        instructions=other.instructions or one.instructions,
        tools_forbidden=one.tools_forbidden or other.tools_forbidden,
    )


@attrs.define(eq=False)
class _Asked:
    """A request, until the server can no longer refer to it."""

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
    # Until when to wait for the server, and for the user or what follows them.
    _watchdog: float | None = attrs.field(default=None, init=False)
    _held_until: float | None = attrs.field(default=None, init=False)
    _count: int = attrs.field(default=0, init=False)
    _orders: list[Create | CancelResponse] = attrs.field(factory=list, init=False)

    @property
    def alarm(self) -> float | None:
        """When to `wake` it, None for never."""
        times = (self._watchdog, self._held_until)
        return min((time for time in times if time is not None), default=None)

    @property
    def is_wanted(self) -> bool:
        """True if a response waits to be requested, or has been requested."""
        return self._wanted is not None or self.state is SequencerState.CREATING

    def orders(self) -> list[Create | CancelResponse]:
        """Return the orders to carry out now, in this order."""
        orders, self._orders = self._orders, []
        return orders

    # What our side wants

    def open(self, now: float) -> None:
        """Allow requests: the session is set up."""
        self._open = True
        self._go_on(now)

    def want(self, respond: Respond, now: float) -> None:
        """Note that a response is wanted, and request it if that is possible now."""
        self._wanted = merged(self._wanted, respond)
        self._go_on(now)

    def stop(self, now: float) -> None:
        """Forget the response that is wanted, and cancel the active one."""
        self._wanted, self._once_more = None, False
        if self._asked is not None:
            self._asked.unwanted = True
        if (
            self.state is SequencerState.ACTIVE
        ):  # one that is being created has no id yet
            self._stop = CancelResponse(self._event_id("stop"), self.response)
            self._orders.append(self._stop)
            self.state, self._watchdog = SequencerState.CANCELLING, now + WATCHDOG

    # What the server says

    def started(self, response: str, now: float) -> None:
        """Note that a response has begun: ours, or the server's own."""
        # After the user has spoken it is the server's own, and ours will be refused.
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
        """Note that a response has ended."""
        running = self.state in (SequencerState.ACTIVE, SequencerState.CANCELLING)
        if running and self.response in (None, response):
            self._rest(now)

    def refused(self, event_id: str | None, now: float) -> bool:
        """Note that a request was refused because a response is active already.

        Returns True if that needs no report: the request will be sent once more, or is
        not wanted any more.
        """
        asked = self._answered(event_id)
        if asked is None:
            return False
        if (
            self.state is SequencerState.CREATING
        ):  # because of a response that we do not know
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
        """Note that a request was refused for another reason."""
        if self._answered(event_id) and self.state is SequencerState.CREATING:
            self._rest(now)

    def not_active(self, event_id: str | None, now: float) -> bool:
        """Note that there was nothing to cancel; return whether we had asked."""
        ours = event_id is not None and event_id.startswith("stop_")
        if self._stop is None or event_id not in (None, self._stop.event_id):
            return ours
        if self.state is SequencerState.CANCELLING:
            self._rest(now)  # its end was never reported
        return True

    def user_speaks(self, now: float, *, interrupts: bool) -> None:
        """Note that the user speaks; if that ``interrupts``, the server cancels."""
        self._speaking, self._held_until = True, now + UTTERANCE
        if interrupts and self.state is SequencerState.ACTIVE:
            self.state, self._watchdog = SequencerState.CANCELLING, now + WATCHDOG

    def user_finished(self, now: float, *, answered: bool = True) -> None:
        """Note that the user has finished.

        The server is about to start a response of its own; or, if not ``answered``, it
        waits for a request.
        """
        self._speaking, self._held_until = False, now + WATCHDOG if answered else None
        self._go_on(now)

    def user_was_nobody(self, now: float) -> None:
        """Note that the user's audio was dropped: the server starts no response."""
        self._speaking, self._held_until = False, None
        self._go_on(now)

    def wake(self, now: float) -> SequencerState | None:
        """Handle the `alarm`; return the state that was given up, if any."""
        if self._held_until is not None and now >= self._held_until:
            self._speaking, self._held_until = False, None
        given_up: SequencerState | None = None
        if self._watchdog is not None and now >= self._watchdog:
            given_up = self.state
            self._rest(now)
        self._go_on(now)
        return given_up

    def _answered(self, event_id: str | None) -> _Asked | None:
        """Return our request if an error is about it; only once."""
        asked = self._asked
        if asked is None or event_id not in (None, asked.create.event_id):
            return None
        if event_id is None and self.state is not SequencerState.CREATING:
            return None
        self._asked = None
        return asked

    def _rest(self, now: float) -> None:
        """Go back to idle, and request the next response."""
        self.state, self.response = SequencerState.IDLE, None
        self._asked = self._stop = self._watchdog = None
        self._go_on(now)

    def _go_on(self, now: float) -> None:
        """Request the response that is wanted, if that is possible now."""
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
