"""Liveness checks: how fast a server answers, and whether it answers at all.

A call that was cut by its turn looks the same whether its tool is slow or its server
hangs. So the server is pinged once a second, until it has answered anything. A server
that does one thing at a time cannot answer a ping while it works; but no call may take
longer than the server's timeout, so a server that is silent for longer hangs.
"""

from __future__ import annotations

from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import Signal
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.units import in_ms

from .transport import ServerSession

LONGEST_ROUND_TRIP: Final = 0.05  # seconds; a longer round trip counts as this
PATIENCE: Final = 1.0  # seconds that a ping waits for its answer
# Pings without an answer, at least, before a server counts as hanging.
_IN_VAIN: Final = 3
_PINGS: Final = 3  # of a new session: the fastest is its round trip
_NOTABLE: Final = 0.001  # seconds by which a round trip must change to be reported


@attrs.define(eq=False)
class Liveness:
    """The liveness of one server, through all its sessions.

    ``round_trip`` is the time that a ping takes, in seconds. It is 50 ms while that is
    not known, and for a server that takes longer or does not answer pings.

    Args:
      timeout: the longest that one call of the server may take, seconds.
    """

    timeout: float
    round_trip: float = attrs.field(default=LONGEST_ROUND_TRIP, init=False)
    _dies_of_pings: bool = attrs.field(default=False, init=False)
    _heard: float = attrs.field(factory=trio.current_time, init=False)
    # When the first call was sent of those that timed out since the server's last
    # answer.
    _silent_since: float | None = attrs.field(default=None, init=False)
    _doubted: Signal = attrs.field(factory=Signal, init=False)

    def heard(self) -> None:
        """Note that the server answered something; errors and new sessions count."""
        self._heard = trio.current_time()
        self._silent_since = None

    def cut(self, sent: float) -> None:
        """Note that a call timed out, which was sent at ``sent``.

        A server that has answered another call since then is slow, but alive.
        """
        if self._heard <= sent and self._silent_since is None:
            self._silent_since = sent
            self._doubted.set()

    async def time(self, session: ServerSession) -> bool:
        """Measure the pings of a new session; return whether ``round_trip`` changed.

        If its process is lost before it has answered, no later session is pinged: some
        servers exit when they get a request that they do not know.
        """
        if self._dies_of_pings:
            return False
        waits = False
        fastest = LONGEST_ROUND_TRIP
        # Wait also for an answer that is too late to count: otherwise it would appear
        # in the next warning, as a line that belongs to no request.
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
        finally:  # also when cancelled, which is how the loss of a session ends this
            loss, ours = session.loss, session.pid is not None
            lost = loss.why is not None and not loss.forgotten
            self._dies_of_pings = waits and lost and ours
        if abs(fastest - self.round_trip) < _NOTABLE:
            return False
        self.round_trip = fastest
        return True

    async def watch(self, session: ServerSession) -> None:
        """Report the loss of a session whose server hangs; runs until cancelled.

        A server that exits on pings is not pinged: its slow calls have their own
        limits.
        """
        if self._dies_of_pings:
            return
        in_vain = 0
        while True:
            if self._silent_since is None:
                in_vain = 0
                await self._doubted.until(lambda: self._silent_since is not None)
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

    async def _hear_from(self, session: ServerSession) -> None:
        """Return when the server has answered a ping; a failed ping waits for ever."""
        try:
            await session.ping()
        except GlyphoxaError:  # an error of ours is no sign of life
            await trio.sleep_forever()
        self.heard()
