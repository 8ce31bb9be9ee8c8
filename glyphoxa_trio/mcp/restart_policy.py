"""The restart policy of a server: at once, then ever later, then once a minute.

A server is started when it exits, not at the next call. If it has run well for a while,
its earlier failures no longer count.
"""

from __future__ import annotations

import math
import random
from collections.abc import Awaitable, Callable
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import Backoff, OnEvent, supervise
from glyphoxa_trio.config import RestartConfig
from glyphoxa_trio.errors import RestartsExhausted

_NOTABLE: Final = 0.02  # seconds; smaller changes of `ready_at` are not announced
SLOW_RETRY: Final = 60.0  # seconds between attempts once a server has failed
SPARED: Final = 60.0  # seconds; the first failure in so long a time costs no delay


@attrs.define(eq=False)
class StartTimes:
    """The duration of a server's starts, and when it should be ready.

    ``first`` is how long the first start in this run took, in seconds. The first start
    of the next run will be similar, since as much is loaded and started beside it.
    """

    first: float | None = attrs.field(default=None, init=False)
    _usual: float | None = attrs.field(default=None, init=False)
    _sure: bool = attrs.field(default=False, init=False)
    _over_at: float | None = attrs.field(default=None, init=False)

    @property
    def ready_at(self) -> float | None:
        """When the server should be ready, on trio's clock.

        None if it is not starting, or if it may be much faster than last time.
        """
        return self._over_at if self._sure else None

    @property
    def left(self) -> float:
        """Seconds until the server should be ready at the latest; 0 if not known."""
        if self._over_at is None:
            return 0.0
        return max(0.0, self._over_at - trio.current_time())

    def recall(self, took: float | None) -> None:
        """Take over how many seconds the first start of the last run took."""
        self._usual, self._sure = took, took is not None

    def begin(self, *, after: float = 0.0) -> bool:
        """Note that a start begins in ``after`` seconds.

        Returns whether `ready_at` has changed.
        """
        before = self.ready_at
        self._over_at = None
        if self._usual is not None:
            self._over_at = trio.current_time() + after + self._usual
        now = self.ready_at
        if before is None or now is None:
            return before is not now
        return abs(now - before) > _NOTABLE

    def over(self) -> None:
        """Note that the server is not starting."""
        self._over_at = None

    def note(self, took: float, *, timed: bool) -> None:
        """Note that a start took ``took`` seconds; ``timed`` as in `Session`."""
        if timed or self.first is None:
            self._usual, self._sure = took, timed
        if self.first is None:
            self.first = took


async def run_with_restarts(
    life: Callable[[], Awaitable[None]],
    restart: RestartConfig,
    *,
    name: str,
    served: Callable[[], bool],
    on_failed: Callable[[], None],
    on_event: OnEvent | None = None,
    rng: random.Random | None = None,
) -> None:
    """Run one life after another until one returns.

    When restarts are switched off, the first life that raises is the last.

    Args:
      life: starts the server and serves it until it is lost, which raises.
      restart: the delays and limits.
      name: the server's name, for events.
      served: returns whether the last life was ever ready. If it was, and no other life
        ended in the last minute, the next one begins at once. A slow attempt that was
        ready earns quick restarts again.
      on_failed: called whenever the quick restarts, or a slow attempt, have failed.
      on_event: called on starts, failures and restarts.
      rng: the source of jitter for delays.
    """
    often = Backoff(
        first=restart.backoff,
        max_restarts=restart.max_restarts,
        period=restart.period,
    )
    once = attrs.evolve(often, max_restarts=0)
    policy = often if restart.enabled else once
    died = -math.inf

    def at_once() -> bool:
        """Return whether the next life begins without a delay; note this failure."""
        nonlocal died
        now = trio.current_time()
        first_of_late = now - died >= SPARED
        died = now
        return first_of_late and served()

    while True:
        try:
            return await supervise(
                life, policy, name=name, at_once=at_once, on_event=on_event, rng=rng
            )
        except RestartsExhausted:
            pass
        if policy is once and served() and restart.enabled:
            policy = often
            await trio.sleep(0.0 if at_once() else often.delay(1, rng))
            continue
        on_failed()
        if not restart.enabled:
            return None
        policy = once
        await trio.sleep(SLOW_RETRY)
