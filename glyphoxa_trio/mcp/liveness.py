"""Signs of life: how fast a server answers, and whether it answers at all.

A call that was cut by its turn looks the same whether its tool is slow or its server
hangs. So the server is pinged, once a second, until it has answered anything. A server
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

LONGEST_ROUND_TRIP: Final = 0.05  # seconds; a longer one counts as this
PATIENCE: Final = 1.0  # seconds that a ping waits for its answer
_IN_VAIN: Final = 3  # pings without an answer, at least, before a server is given up
_PINGS: Final = 3  # of a new session: the fastest is its round trip
_NOTABLE: Final = 0.001  # seconds by which a round trip has changed


@attrs.define(eq=False)
class Liveness:
    """The signs of life of one server, through all its sessions.

    ``round_trip`` is how long a ping takes, seconds. It is 50 ms while that is not
    known, and for a server that takes longer or does not answer pings.

    Args:
      timeout: the longest that one call of the server may take, seconds.
    """

    timeout: float
    round_trip: float = attrs.field(default=LONGEST_ROUND_TRIP, init=False)
    _dies_of_pings: bool = attrs.field(default=False, init=False)
    _heard: float = attrs.field(factory=trio.current_time, init=False)
    # When the first of the calls was sent that were cut, with no answer of the server
    # since.
    _silent_since: float | None = attrs.field(default=None, init=False)
    _doubted: Signal = attrs.field(factory=Signal, init=False)

    def heard(self) -> None:
        """The server has answered something; a no is an answer, and so is a new
        session."""
        self._heard = trio.current_time()
        self._silent_since = None

    def cut(self, sent: float) -> None:
        """Time was up for a call that was sent at ``sent``.

        A server that has answered another call since then is slow, but lives.
        """
        if self._heard <= sent and self._silent_since is None:
            self._silent_since = sent
            self._doubted.set()

    async def time(self, session: ServerSession) -> bool:
        """Measure the pings of a new session; returns whether ``round_trip`` changed.

        If its process is lost before it has answered, no later one is pinged: some
        servers exit when they get a request that they do not know.
        """
        if self._dies_of_pings:
            return False
        waits = False
        fastest = LONGEST_ROUND_TRIP
        # Wait also for an answer that is too late to count: if nobody waited for it, it
        # would be shown with the next warning, as a line that belongs to no request.
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
        finally:  # cancelled as well, which is how the loss of a session ends this
            loss, ours = session.loss, session.pid is not None
            lost = loss.why is not None and not loss.forgotten
            self._dies_of_pings = waits and lost and ours
        if abs(fastest - self.round_trip) < _NOTABLE:
            return False
        self.round_trip = fastest
        return True

    async def watch(self, session: ServerSession) -> None:
        """Report the loss of a session whose server hangs; runs until cancelled.

        One that dies of pings is not asked: its slow calls meet their own limits.
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
        try:
            await session.ping()
        except GlyphoxaError:  # no sign of life
            await trio.sleep_forever()
        self.heard()
