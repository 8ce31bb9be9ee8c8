"""Control of Python's garbage collector, so that it does not delay deadlines.

A full collection walks every object of the process and stops everything meanwhile: 15
to 60 ms beside one MCP server, since the SDK alone is over 100,000 objects, and over
100 ms with a thousand sessions. Every deadline that passes meanwhile is late. There are
three policies:

    leave    change nothing: the collector belongs to the program, and we are a library
    freeze   collect once after start-up; objects that survive are not walked again
    settle   freeze, and run full collections only at moments when no turn runs

The collector belongs to the process, so its users are counted: of several runtimes, the
first one changes it and the last one restores it.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, Literal, TypeAlias, get_args

import attrs

import trio

Collector: TypeAlias = Literal["leave", "freeze", "settle"]

# The threshold of the youngest generation is Python's: a larger one takes longer to
# walk. The oldest one is collected outside of our moments only if there was none for
# hours.
SETTLED: Final = (700, 10, 10_000)
LOOK: Final = 5.0  # seconds between two checks for a moment without turns
APART: Final = 60.0  # least seconds between two full collections that we run
# A full collection is due after this many of the middle generation, as in Python.
WORTH: Final = 10


@attrs.define(eq=False)
class _CollectorState:
    """The state of this process's collector, and how many runtimes use it."""

    lock: threading.Lock = attrs.field(factory=threading.Lock)
    idle: list[Callable[[], bool]] = attrs.field(factory=list)  # one for each user
    settled: int = 0
    frozen: int = 0
    before: tuple[int, int, int] = (0, 0, 0)

    def settle(self) -> None:
        with self.lock:
            if not self.settled:
                self.before = gc.get_threshold()
                gc.set_threshold(*SETTLED)
            self.settled += 1

    def unsettle(self) -> None:
        with self.lock:
            self.settled -= 1
            # Thresholds that the program has set meanwhile are left alone.
            if not self.settled and gc.get_threshold() == SETTLED:
                gc.set_threshold(*self.before)

    def freeze(self) -> bool:
        """Freeze and return True, unless the program has frozen objects of its own."""
        with self.lock:
            if not self.frozen:
                if gc.get_freeze_count():
                    return False
                gc.collect()
                gc.freeze()
            self.frozen += 1
            return True

    def unfreeze(self) -> None:
        with self.lock:
            self.frozen -= 1
            if not self.frozen:
                gc.unfreeze()

    def collect(self) -> None:
        """Collect everything, also frozen objects that have become garbage since."""
        with self.lock:
            if self.frozen:
                gc.unfreeze()
            gc.collect()
            if self.frozen:
                gc.freeze()


_PROCESS: Final = _CollectorState()


@attrs.define(eq=False)
class CollectorHold:
    """One runtime's hold on the collector. Made by `collecting`."""

    _how: Collector
    _froze: bool = attrs.field(default=False, init=False)

    def wired(self) -> None:
        """Freeze the objects that exist now: start-up is over, and they last for the
        run.

        Does nothing if the program has frozen objects already: that is its decision.
        """
        if self._how != "leave" and not self._froze:
            self._froze = _PROCESS.freeze()

    async def tend(self, idle: Callable[[], bool]) -> None:
        """Run full collections at moments when every runtime is idle, until cancelled.

        A runtime with another policy than ``settle`` runs none; it only registers
        ``idle``, which the others ask.

        Args:
          idle: returns True while no turn waits for this runtime. All runtimes of the
            process have to be idle.
        """
        _PROCESS.idle.append(idle)
        try:
            if self._how != "settle":
                await trio.sleep_forever()
            last = trio.current_time()
            while True:
                await trio.sleep(LOOK)
                if trio.current_time() - last >= APART and _worth_it():
                    _PROCESS.collect()
                    last = trio.current_time()
        finally:
            _PROCESS.idle.remove(idle)

    def release(self) -> None:
        """Undo what this hold changed, if it is the last one in the process."""
        if self._froze:
            self._froze = False
            _PROCESS.unfreeze()
        if self._how == "settle":
            _PROCESS.unsettle()


def _worth_it() -> bool:
    return gc.get_count()[2] >= WORTH and all(idle() for idle in _PROCESS.idle)


@contextmanager
def collecting(how: Collector) -> Generator[CollectorHold]:
    """Hold the collector under the policy ``how`` until the block is left.

    Raises:
      ValueError: if ``how`` is not one of the three policies.
    """
    if how not in get_args(Collector):
        known = ", ".join(get_args(Collector))
        raise ValueError(f"collector must be one of {known}, got {how!r}")
    if how == "settle":
        _PROCESS.settle()
    keeper = CollectorHold(how)
    try:
        yield keeper
    finally:
        keeper.release()
