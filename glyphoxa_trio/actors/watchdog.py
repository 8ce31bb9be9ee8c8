"""Who holds the event loop: foreign code, step by step, and a thread that looks at it.

A step is what runs between two awaits. While it runs nothing else does, and no deadline
is kept. A step of at least `HOLD` is called a hold, and whose it was is certain, since
nothing else of the loop runs meanwhile. The question is whether it was the code's own
doing. Two kinds of time are:

* *busy*: processor time of the loop's own thread, without that of the collector. A
  machine that is busy, suspended or stopped gives it none. The step measures it itself,
  so it also sees C code that holds the interpreter and lets no other thread look.
* *asleep*: the thread waited in one place in the midst of the step, as in `time.sleep`
  or for a socket, between two looks of a second thread that came in time. Stopped, or
  starved by others, that thread would have been late as well; a loop that waits for
  the processor is not asleep. Only Linux tells. If C code keeps the interpreter while
  it waits, the looks are late; but a thread that is kept from the interpreter wakes
  every few milliseconds to ask for it, and one that is stopped does not, so how often
  the two threads woke says who waited for what.

The looks also say in which line it was, and complain in the log about a step that has
no end. The thread looks 25 times a second while there are steps, and waits otherwise.
"""

from __future__ import annotations

import gc
import logging
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import attrs

from .threads import Waits, processor_time, sleeps

_log = logging.getLogger(__name__)

HOLD: Final = 0.1  # seconds of a step, from which on it is a hold
PERIOD: Final = 0.04  # seconds between two looks
_LATE: Final = 0.02  # a look that comes this much later says nothing of the time before
_QUIET: Final = 1.0  # seconds without a step, after which nobody looks
_NO_END: Final = 2.0  # seconds of a step, after which the log says that it stands
_ASLEEP: Final = 0.02  # of the time between two looks: more work than this is awake

_OURS: Final = str(Path(__file__).parent.parent)
_LIBRARIES: Final = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))
_INSTALLED: Final = ("site-packages", "dist-packages")


@attrs.frozen(kw_only=True)
class LoopHold:
    """One step held the loop for ``seconds``: it was ``busy`` for so many of them and
    ``asleep`` for so many. ``place`` is the line, "file.py:12 in function"; empty if
    nobody could look."""

    seconds: float
    busy: float
    asleep: float
    place: str


@attrs.define
class _Look:
    """What the thread saw of one step, last."""

    step: int
    at: float
    busy: float
    frame: int
    instruction: int
    asleep: float = 0.0
    place: str = ""
    told: bool = False


@attrs.define(eq=False)
class Watchdog:
    """Made by `watchdog`, in the thread of the loop. `enter` and `leave` go around
    every step of the code that is watched."""

    _loop: int = attrs.field(factory=threading.get_ident, init=False)
    _task: int = attrs.field(factory=threading.get_native_id, init=False)
    _cpu: Callable[[], float] | None = attrs.field(init=False)
    _step: int = attrs.field(default=0, init=False)  # counts; odd while one runs
    _whose: str = attrs.field(default="", init=False)
    _began: float = attrs.field(default=0.0, init=False)  # busy, before this step
    _collected: float = attrs.field(default=0.0, init=False)
    _collecting: float | None = attrs.field(default=None, init=False)
    _collected_before: float = attrs.field(default=0.0, init=False)
    _look: _Look | None = attrs.field(default=None, init=False)
    _bell: threading.Event = attrs.field(factory=threading.Event, init=False)
    _thread: threading.Thread | None = attrs.field(default=None, init=False)
    _looking: bool = attrs.field(default=False, init=False)
    _over: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._cpu = processor_time(self._loop)

    # In the loop's thread.

    def enter(self, whose: str) -> None:
        """A step begins."""
        self._whose = whose
        self._step += 1
        if not self._looking:
            self._begin_to_look()
        self._collected_before = self._collected
        self._began = time.thread_time()

    def leave(self) -> None:
        """The step has ended."""
        self._step += 1

    def judge(self, seconds: float) -> LoopHold | None:
        """Whether the step that has just ended, after so many seconds, was a hold."""
        if seconds < HOLD:
            return None
        collected = self._collected - self._collected_before
        busy = max(0.0, time.thread_time() - self._began - collected)
        look = self._look
        if look is None or look.step != self._step - 1:
            look = None
        asleep = 0.0 if look is None else min(look.asleep, max(0.0, seconds - busy))
        if busy + asleep < HOLD:
            return None
        place = "" if look is None else look.place
        return LoopHold(seconds=seconds, busy=busy, asleep=asleep, place=place)

    def end(self) -> None:
        self._over = True
        self._bell.set()
        with suppress(ValueError):
            gc.callbacks.remove(self._on_collection)

    def _begin_to_look(self) -> None:
        self._looking = True
        if self._thread is None:
            gc.callbacks.append(self._on_collection)
            if self._cpu is None:  # nobody can look on this machine
                return
            self._thread = threading.Thread(
                target=self._run, name="glyphoxa-watchdog", daemon=True
            )
            self._thread.start()
        self._bell.set()

    def _on_collection(self, phase: str, info: dict[str, Any]) -> None:
        if threading.get_ident() != self._loop:
            return
        if phase == "start":
            self._collecting = time.thread_time()
        elif self._collecting is not None:
            self._collected += time.thread_time() - self._collecting
            self._collecting = None

    # In its own thread.

    def _run(self) -> None:
        try:
            self._watch()
        except Exception:  # a thread that ends has told nobody; the steps go on
            _log.exception("nobody watches the event loop any more")

    def _watch(self) -> None:
        due, seen, quiet = time.perf_counter(), self._step, 0.0
        own = threading.get_native_id()
        waits = Waits.of(own, self._task)
        while not self._over:
            time.sleep(PERIOD)
            now = time.perf_counter()
            late = now - due - PERIOD
            due = now
            step = self._step
            before, waits = waits, Waits.of(own, self._task)
            if step % 2:
                self._look_at(step, now, in_time=late < _LATE)
                look = self._look
                kept = late > HOLD / 2 and waits.kept_since(before, late)
                if kept and look is not None and look.step == step:
                    look.asleep += late
            quiet = quiet + PERIOD if step == seen and not step % 2 else 0.0
            seen = step
            if quiet >= _QUIET:
                self._bell.clear()
                self._looking = False
                if self._step == seen and not self._over:
                    self._bell.wait()
                self._looking = True
                due, quiet = time.perf_counter(), 0.0
                waits = Waits.of(own, self._task)

    def _look_at(self, step: int, now: float, *, in_time: bool) -> None:
        assert self._cpu is not None
        frame, busy = sys._current_frames().get(self._loop), self._cpu()
        if frame is None:
            return
        look = _Look(step, now, busy, id(frame), frame.f_lasti)
        before = self._look
        if before is not None and before.step == step:
            took = now - before.at
            look.asleep, look.told = before.asleep, before.told
            if (
                in_time
                and before.frame == look.frame
                and before.instruction == look.instruction
                and busy - before.busy < _ASLEEP * took
                and sleeps(self._task)
            ):
                look.asleep += took
        whose = self._whose
        look.place = _place(frame)
        if self._step != step:  # it ended while this looked, and the frame is another's
            return
        self._look = look
        if not look.told and look.asleep + self._busy(busy) > _NO_END:
            look.told = True
            _log.warning(
                "%s holds the event loop, at %s: everything else waits for it",
                whose,
                look.place,
            )

    def _busy(self, busy: float) -> float:
        return busy - self._began - (self._collected - self._collected_before)


@contextmanager
def watchdog() -> Generator[Watchdog]:
    """A `Watchdog` over this thread, for as long as the block lasts. Its own thread
    begins with the first step."""
    watching = Watchdog()
    try:
        yield watching
    finally:
        watching.end()


def place_of(code: CodeType) -> str:
    """Where a function begins, as `LoopHold.place`."""
    name = Path(code.co_filename).name
    return f"{name}:{code.co_firstlineno} in {code.co_qualname}"


def _is_library(file: str) -> bool:
    return file.startswith(_LIBRARIES) or any(part in file for part in _INSTALLED)


def _place(frame: FrameType) -> str:
    """The innermost line that is neither of a library nor ours; else the outermost that
    belongs to the step."""
    chosen: FrameType | None = None
    at: FrameType | None = frame
    while at is not None and at.f_code.co_name != "__await__":
        file = at.f_code.co_filename
        if not _is_library(file) and not file.startswith(_OURS):
            chosen = at
            break
        if not file.startswith(_OURS):
            chosen = at
        at = at.f_back
    found = chosen or frame
    name = Path(found.f_code.co_filename).name
    return f"{name}:{found.f_lineno} in {found.f_code.co_qualname}"
