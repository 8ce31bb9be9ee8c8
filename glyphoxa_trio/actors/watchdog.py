"""The watchdog of the event loop, which detects steps of foreign code that block it.

A step is the code that runs between two awaits. Nothing else of the loop runs
meanwhile, and no deadline is kept. A step of at least `HOLD` is called a hold. It is
certain whose code ran; the question is if that code has caused the delay. It has
caused two kinds of time:

* *busy*: processor time of the loop's own thread, without that of the garbage
  collector. A machine that is busy, suspended or stopped gives the thread none. The
  step measures it itself, so this includes C code that holds the interpreter and lets
  no other thread look.
* *asleep*: the thread waited in one place in the midst of the step, as in `time.sleep`
  or for a socket, between two looks of a second thread that were on time. Were the
  process stopped, or starved by others, that thread would have been late as well; a
  loop that waits for the processor is not asleep. Only Linux has these figures. If C
  code keeps the interpreter while it waits, the looks are late; but a thread that is
  kept from the interpreter wakes every few milliseconds to ask for it, and one that is
  stopped does not, so the numbers of wake-ups of both threads decide.

The looks also find the line, and warn in the log about a step that has no end. The
thread looks 25 times a second while there are steps, and sleeps otherwise.
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

HOLD: Final = 0.1  # seconds: the shortest step that is a hold
PERIOD: Final = 0.04  # seconds between two looks
_LATE: Final = 0.02  # a look later by this (seconds) tells nothing of the time before
_QUIET: Final = 1.0  # seconds without a step until the looks stop
_NO_END: Final = 2.0  # seconds of a step until the log says that it does not end
_ASLEEP: Final = 0.02  # of the time between two looks: a thread with more work is awake

_OURS: Final = str(Path(__file__).parent.parent)
_LIBRARIES: Final = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))
_INSTALLED: Final = ("site-packages", "dist-packages")


@attrs.frozen(kw_only=True)
class LoopHold:
    """A step that blocked the loop for ``seconds``, ``busy`` of them computing and
    ``asleep`` of them waiting. ``place`` is the line, "file.py:12 in function"; empty
    if no look was possible."""

    seconds: float
    busy: float
    asleep: float
    place: str


@attrs.define
class _Look:
    """The last observation of a step by the second thread."""

    step: int
    at: float
    busy: float
    frame: int
    instruction: int
    asleep: float = 0.0
    place: str = ""
    told: bool = False


@attrs.frozen
class _Collected:
    """Seconds spent by the garbage collector: on the processor, and with its waiting
    for one."""

    busy: float = 0.0
    seconds: float = 0.0

    @classmethod
    def now(cls) -> _Collected:
        return cls(time.thread_time(), time.perf_counter())

    def __add__(self, other: _Collected) -> _Collected:
        return _Collected(self.busy + other.busy, self.seconds + other.seconds)

    def __sub__(self, other: _Collected) -> _Collected:
        return _Collected(self.busy - other.busy, self.seconds - other.seconds)


@attrs.define(eq=False)
class Watchdog:
    """The watchdog of one loop, made by `watchdog` in its thread. Call `enter` and
    `leave` around every step of the code that is watched."""

    _loop: int = attrs.field(factory=threading.get_ident, init=False)
    _task: int = attrs.field(factory=threading.get_native_id, init=False)
    _cpu: Callable[[], float] | None = attrs.field(init=False)
    _step: int = attrs.field(default=0, init=False)  # counts; odd while one runs
    _whose: str = attrs.field(default="", init=False)
    _began: float = attrs.field(default=0.0, init=False)  # busy, before this step
    _collected: _Collected = attrs.field(factory=_Collected, init=False)
    _collected_before: _Collected = attrs.field(factory=_Collected, init=False)
    _collecting: _Collected | None = attrs.field(default=None, init=False)
    _look: _Look | None = attrs.field(default=None, init=False)
    _bell: threading.Event = attrs.field(factory=threading.Event, init=False)
    _thread: threading.Thread | None = attrs.field(default=None, init=False)
    _looking: bool = attrs.field(default=False, init=False)
    _over: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._cpu = processor_time(self._loop)

    # These run in the loop's thread.

    def enter(self, whose: str) -> None:
        """Note that a step begins."""
        self._whose = whose
        self._step += 1
        if not self._looking:
            self._begin_to_look()
        self._collected_before = self._collected
        self._began = time.thread_time()

    def leave(self) -> None:
        """Note that the step has ended."""
        self._step += 1

    def judge(self, seconds: float) -> LoopHold | None:
        """Return the hold that the step of so many seconds was; None if it was none."""
        if seconds < HOLD:
            return None
        collected = self._collected - self._collected_before
        busy = max(0.0, time.thread_time() - self._began - collected.busy)
        look = self._look
        if look is None or look.step != self._step - 1:
            look = None
        waited = max(0.0, seconds - busy - collected.seconds)
        asleep = 0.0 if look is None else min(look.asleep, waited)
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
            if self._cpu is None:  # this system has no figures to look at
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
            self._collecting = _Collected.now()
        elif self._collecting is not None:
            self._collected += _Collected.now() - self._collecting
            self._collecting = None

    # These run in the second thread.

    def _run(self) -> None:
        try:
            self._watch()
        except Exception:  # else the thread would end unnoticed; the steps go on
            _log.exception("the watchdog of the event loop has failed")

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
        if self._step != step:  # it ended meanwhile, and the frame is of another step
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
        return busy - self._began - (self._collected - self._collected_before).busy


@contextmanager
def watchdog() -> Generator[Watchdog]:
    """Yield a `Watchdog` of this thread, for as long as the block lasts. Its own thread
    starts with the first step."""
    watching = Watchdog()
    try:
        yield watching
    finally:
        watching.end()


def place_of(code: CodeType) -> str:
    """Return the place where a function begins, as `LoopHold.place`."""
    name = Path(code.co_filename).name
    return f"{name}:{code.co_firstlineno} in {code.co_qualname}"


def _is_library(file: str) -> bool:
    return file.startswith(_LIBRARIES) or any(part in file for part in _INSTALLED)


def _place(frame: FrameType) -> str:
    """Return the innermost line that is neither of a library nor of this package; else
    the outermost line of the step."""
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
