"""Signs of life: how fast a server answers, and whether it answers at all.

A call that was cut by its turn looks the same whether its tool is slow or its server
hangs. So the server is pinged, once a second, until it has answered anything. One
that does one thing at a time cannot answer while it works; but no call of it may take
longer than the server's timeout, so one that is silent for longer hangs.
"""

from __future__ import annotations

from typing import Final

import attrs

import trio

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.units import in_ms

from .transport import Session

LONGEST_ROUND_TRIP: Final = 0.05  # seconds that are counted
PATIENCE: Final = 1.0  # seconds for a ping in doubt
_IN_VAIN: Final = 3  # pings without an answer, at least, before a server is given up
_PINGS: Final = 3  # of a new session: the fastest is its round trip
_NOTABLE: Final = 0.001  # seconds by which a round trip has changed


@attrs.define(eq=False)
class Liveness:
    """Of one server, through all its sessions.

    ``round_trip`` is what a ping takes, seconds: 50 ms while that is not known, and
    for a server that does not answer pings so fast.

    Args:
      timeout: the longest that one call of the server may take, seconds.
    """

    timeout: float
    round_trip: float = attrs.field(default=LONGEST_ROUND_TRIP, init=False)
    _dies_of_pings: bool = attrs.field(default=False, init=False)
    _heard: float = attrs.field(factory=trio.current_time, init=False)
    # When the first call was sent of those that were cut and followed by no answer.
    _silent_since: float | None = attrs.field(default=None, init=False)
    _doubted: trio.Event = attrs.field(factory=trio.Event, init=False)

    def heard(self) -> None:
        """It has answered something; a no is an answer. So is a new session."""
        self._heard = trio.current_time()
        self._silent_since = None

    def cut(self, sent: float) -> None:
        """Time was up for a call that was sent then.

        Whoever has answered another call since is slow, and lives.
        """
        if self._heard <= sent and self._silent_since is None:
            self._silent_since = sent
            self._doubted.set()

    async def time(self, session: Session) -> bool:
        """Take the time of a new session's pings; whether ``round_trip`` is another.

        If its process is lost before it has answered, no later one is pinged at all:
        there are servers that exit when they do not understand.
        """
        if self._dies_of_pings:
            return False
        waits = False
        fastest = LONGEST_ROUND_TRIP
        # An answer that comes later than it counts is waited for all the same: to
        # nobody it would be a line that is shown with the next warning.
        try:
            with trio.move_on_after(PATIENCE):
                for _ in range(_PINGS):
                    asked, waits = trio.current_time(), True
                    try:
                        answered = await session.ping()
                    except GlyphoxaError:
                        break
                    took, waits = trio.current_time() - asked, False
                    if not answered or took >= LONGEST_ROUND_TRIP:
                        break
                    fastest = min(fastest, took)
        finally:  # cancelled as well: nobody waits for what a lost session says
            loss, ours = session.loss, session.pid is not None
            lost = loss.why is not None and not loss.forgotten
            self._dies_of_pings = waits and lost and ours
        if abs(fastest - self.round_trip) < _NOTABLE:
            return False
        self.round_trip = fastest
        return True

    async def watch(self, session: Session) -> None:
        """Report the loss of a session whose server hangs; runs until cancelled.

        One that dies of pings is not asked: its slow calls meet their own limits.
        """
        if self._dies_of_pings:
            return
        in_vain = 0
        while True:
            if self._silent_since is None:
                in_vain = 0
                self._doubted = trio.Event()
                await self._doubted.wait()
            with trio.move_on_after(PATIENCE):
                await self._hear_from(session)
                continue
            in_vain += 1
            since = self._silent_since
            if since is None or in_vain < _IN_VAIN:
                continue
            if trio.current_time() - since >= self.timeout:
                text = f"{in_vain} pings in a row, each unanswered for"
                session.loss.report(
                    f"it does not answer any more: {text} {in_ms(PATIENCE)}"
                )
                await trio.sleep_forever()

    async def _hear_from(self, session: Session) -> None:
        try:
            await session.ping()
        except GlyphoxaError:  # that was no sign of life
            await trio.sleep_forever()
        self.heard()
