"""Supervision: a failing child is restarted, with growing delays, a limited number of
times.

The supervisor logs nothing: it reports typed events to a callback.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Awaitable, Callable
from traceback import format_exception, format_exception_only

import attrs

import trio

from glyphoxa_trio.errors import RestartsExhausted


@attrs.frozen(kw_only=True)
class Backoff:
    """The number and the delays of restarts. All times in seconds.

    The delay grows with the number of failures inside ``period``, so it shrinks again
    as the child stays up, and there is nothing to reset. ``jitter`` is the share of a
    delay that is drawn at random, so that children which failed together do not return
    together; the delay never exceeds the ceiling.
    """

    first: float = 0.5
    factor: float = 2.0
    ceiling: float = 30.0
    jitter: float = 0.2
    max_restarts: int = 5
    period: float = 60.0

    def delay(self, failures: int, rng: random.Random | None = None) -> float:
        """Return the seconds to wait after the ``failures``-th recent failure."""
        # The exponent is capped: 2.0 ** 1100 would overflow.
        full = min(self.ceiling, self.first * self.factor ** min(failures - 1, 64))
        return full * (1 - self.jitter * (rng or random).random())


@attrs.frozen(kw_only=True)
class Started:
    """A life began; ``life`` counts from 1."""

    name: str
    life: int


@attrs.frozen(kw_only=True)
class Failed:
    """A life ended with ``error`` after ``uptime`` seconds."""

    name: str
    life: int
    error: BaseException
    uptime: float


@attrs.frozen(kw_only=True)
class Restarting:
    """The next life begins in ``delay`` seconds; ``failures`` within the period."""

    name: str
    delay: float
    failures: int


@attrs.frozen(kw_only=True)
class GaveUp:
    """There were too many failures within the period: there are no more restarts."""

    name: str
    failures: int


def crash_report(failed: Failed) -> str:
    """Return a line with the failed child and its error, then the traceback."""
    error: BaseException = failed.error
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    what = "".join(format_exception_only(error)).strip().partition("\n")[0]
    trace = "".join(format_exception(error)).rstrip()
    return f"{failed.name} crashed and is started anew: {what}\n{trace}"


SupervisionEvent = Started | Failed | Restarting | GaveUp
OnEvent = Callable[[SupervisionEvent], None]


def _ignore(_: SupervisionEvent) -> None:
    pass


def _never() -> bool:
    return False


async def supervise(
    child: Callable[[], Awaitable[None]],
    backoff: Backoff,
    *,
    name: str = "child",
    idle: Callable[[float], Awaitable[None]] = trio.sleep,
    at_once: Callable[[], bool] = _never,
    on_event: OnEvent | None = None,
    rng: random.Random | None = None,
) -> None:
    """Run ``child`` until it returns, restarting it when it raises.

    Args:
      child: runs one life; called again for every restart.
      idle: called with the seconds to wait between two lives.
      at_once: called after each failure but the last. If it returns True, the next life
        starts without a delay, and the failure does not lengthen later delays. It
        counts towards ``max_restarts`` like any other.
      on_event: called with every life, failure and restart; must not block.

    Raises:
      RestartsExhausted: after more than ``max_restarts`` failures in ``period``.
    """
    report = on_event or _ignore
    failures: deque[float] = deque()
    excused: deque[float] = deque()  # the failures that cost no delay
    life = 0
    while True:
        life += 1
        born = trio.current_time()
        report(Started(name=name, life=life))
        try:
            return await child()
        except Exception as error:  # any exception of a child is a failure
            now = trio.current_time()
            report(Failed(name=name, life=life, error=error, uptime=now - born))
            failures.append(now)
            while failures[0] < now - backoff.period:
                failures.popleft()
            while excused and excused[0] < now - backoff.period:
                excused.popleft()
            if len(failures) > backoff.max_restarts:
                report(GaveUp(name=name, failures=len(failures)))
                raise RestartsExhausted(
                    f"{name}: {len(failures)} failures in {backoff.period:g}s"
                ) from error
        except BaseExceptionGroup as both:
            # It failed in the moment in which it was cancelled: the cancellation ends
            # it, and the failure no longer matters.
            _, end = both.split(Exception)
            assert end is not None
            raise end from None
        if at_once():
            excused.append(now)
            delay = 0.0
        else:
            delay = backoff.delay(len(failures) - len(excused), rng)
        report(Restarting(name=name, delay=delay, failures=len(failures)))
        await idle(delay)
