"""The lag of the event loop: how long tasks were kept waiting, exact and nearly free.

A deadline that passes while the loop is busy, or while the machine gives the process no
time, says nothing of the work that was waiting. `LoopLag` adds up those times, so that
code that measures a wait can subtract them:

    before = lag.total(now())
    await something()
    waited = now() - start - (lag.total(now()) - before)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

import attrs

import trio

from .watchdog import LoopHold, Watchdog

R = TypeVar("R")

# A normal round of the loop takes less than this, seconds.
STALL: Final = 0.005


@attrs.define(eq=False, slots=False)
class LoopLag(trio.abc.Instrument):
    """The sum of the times in which tasks were kept waiting by the loop, in seconds.

    It counts the rounds of the loop that took longer than `STALL`, and the sleeps of
    the loop that ended late by more than that. Made by `loop_lag`. A virtual clock is
    never late.

    Args:
      clock: reads trio's clock, also in other threads.
      virtual: the clock jumps, or stands still.
    """

    clock: Callable[[], float]
    _virtual: bool = False
    _stalled: float = attrs.field(default=0.0, init=False)
    _awake: float = attrs.field(init=False)
    _asleep: float = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._awake = self._asleep = self.clock()

    @property
    def virtual(self) -> bool:
        return self._virtual

    def total(self) -> float:
        """Return the seconds lost until now, with the present round. The difference of
        two totals is the time lost between them."""
        if self._virtual:
            return 0.0
        ran = self.clock() - self._awake
        return self._stalled + (ran if ran > STALL else 0.0)

    def before_io_wait(self, timeout: float) -> None:
        self._asleep = now = self.clock()
        ran = now - self._awake
        if ran > STALL:
            self._stalled += ran

    def after_io_wait(self, timeout: float) -> None:
        self._awake = now = self.clock()
        overslept = now - self._asleep - timeout
        if overslept > STALL:
            self._stalled += overslept


@contextmanager
def loop_lag() -> Generator[LoopLag]:
    """Yield a `LoopLag` of this run, for as long as the block lasts."""
    clock = trio.lowlevel.current_clock()
    # trio has no public name for its real clock, and asking a virtual one for a sleep
    # may move it.
    virtual = type(clock).__name__ != "SystemClock"
    lag = LoopLag(clock.current_time, virtual)
    if virtual:
        yield lag
        return
    trio.lowlevel.add_instrument(lag)
    try:
        yield lag
    finally:
        trio.lowlevel.remove_instrument(lag)


@attrs.define(eq=False)
class OwnTime(Generic[R]):
    """An awaitable that awaits ``work`` and measures how long it blocked the loop.

    ``seconds`` adds up the steps of the work that blocked the loop for longer than
    `STALL`. `LoopLag` counts these as well, but the work itself has caused them.

    Args:
      watchdog: observes the steps; None for no observation.
      whose: the name by which the watchdog knows the work.
      on_hold: called with each step that blocked the loop by itself.
    """

    _work: Awaitable[R]
    _clock: Callable[[], float]
    _watchdog: Watchdog | None = None
    _whose: str = ""
    _on_hold: Callable[[LoopHold], None] | None = None
    seconds: float = attrs.field(default=0.0, init=False)

    def __await__(self) -> Generator[Any, Any, R]:
        # The same as `yield from`, with the clock read around each step.
        steps: Any = self._work.__await__()
        if not hasattr(steps, "send"):  # a bare iterator, which may be awaited too
            steps = _coroutine(steps)
        step, value = steps.send, None
        watchdog = self._watchdog
        while True:
            began = self._clock()
            if watchdog is not None:
                watchdog.enter(self._whose)
            try:
                waits_for = step(value)
            except StopIteration as end:
                result: R = end.value
                return result
            finally:
                if watchdog is not None:
                    watchdog.leave()
                took = self._clock() - began
                if took > STALL:
                    self.seconds += took
                    if watchdog is not None and (hold := watchdog.judge(took)):
                        self._tell(hold)
            try:
                step, value = steps.send, (yield waits_for)
            except BaseException as error:
                step, value = steps.throw, error

    def _tell(self, hold: LoopHold) -> None:
        if self._on_hold is not None:
            self._on_hold(hold)


def _coroutine(steps: Any) -> Generator[Any, Any, Any]:
    return (yield from steps)
