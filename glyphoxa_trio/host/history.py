"""What was measured, from run to run: loaded at the start, written behind (G25).

No call ever waits for a disk. A sample goes into a queue; a second later, what has
gathered there is written at once, in a thread. A process that is killed loses that
second. A disk that fails is one warning, and is tried again slowly; meanwhile the
newest samples wait. Without any file everything is as with one, for this run.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

import attrs

import trio

from glyphoxa_trio.actors import Signal
from glyphoxa_trio.storage.errors import UnusableFile
from glyphoxa_trio.tools.history import ASKEW, Measured, ToolPlace, kept, recalled
from glyphoxa_trio.tools.window import Sample

# How long opening waits for what was measured, seconds.
LOADING: Final = 0.5
# From the first sample to its being written, seconds.
GATHERING: Final = 1.0
# Between two attempts at a disk that fails, seconds.
AGAIN: Final = 30.0
# How long closing waits for the last samples, seconds.
SAVING: Final = 1.0
# Waiting to be written: a hundred tools with full windows.
MOST_WAITING: Final = 10_000


class HistoryFile(Protocol):
    """Where samples outlive the process. Used in worker threads, one at a time.

    What it raises is a warning, and tried again; after `UnusableFile` it is not.
    """

    def load(self, since: float, until: float) -> Iterable[Measured]:
        """What was measured between two moments of Unix time, oldest first."""
        ...

    def write(self, batch: Sequence[Measured], *, keep: int) -> None:
        """Add these, all or none; of each tool the last ``keep`` stay."""
        ...

    def close(self) -> None: ...


@attrs.frozen(kw_only=True)
class HistoryStatistics:
    """Samples, counted. ``lost`` were pushed out by newer ones before a failing
    disk took them."""

    loaded: int
    written: int
    waiting: int
    lost: int


def _silent(text: str) -> None: ...


def _one_thread() -> Callable[..., Awaitable[Any]]:
    # One at a time, also after one that hangs was left to itself.
    limiter = trio.CapacityLimiter(1)
    return partial(trio.to_thread.run_sync, abandon_on_cancel=True, limiter=limiter)


@attrs.define(eq=False)
class SampleHistory:
    """Samples on their way to a file, and back from it.

    Args:
      open: opens the file; blocks, in a thread. Called again after a failure.
      keep: so many samples of each tool.
      warn: told what the operator should know. Must not block.
      today: the time of day, seconds of Unix time.
      in_thread: runs a function beside the loop, one at a time. Cancelled, it leaves
        it to itself.
    """

    _open: Callable[[], HistoryFile]
    _keep: int = attrs.field(default=100, kw_only=True)
    _warn: Callable[[str], None] = attrs.field(default=_silent, kw_only=True)
    _today: Callable[[], float] = attrs.field(default=time.time, kw_only=True)
    _in_thread: Callable[..., Awaitable[Any]] = attrs.field(
        factory=_one_thread, kw_only=True
    )
    _file: HistoryFile | None = attrs.field(default=None, init=False)
    _waiting: deque[tuple[ToolPlace, Sample]] = attrs.field(
        factory=lambda: deque(maxlen=MOST_WAITING), init=False
    )
    # Taken from the queue and not on the disk yet. Only the thread touches it, so
    # nothing is written twice, whoever gave up waiting.
    _writing: list[tuple[ToolPlace, Sample]] = attrs.field(factory=list, init=False)
    _came: Signal = attrs.field(factory=Signal, init=False)
    _given_up: bool = attrs.field(default=False, init=False)
    _failing: bool = attrs.field(default=False, init=False)
    _loaded: int = attrs.field(default=0, init=False)
    _written: int = attrs.field(default=0, init=False)
    _lost: int = attrs.field(default=0, init=False)

    def add(self, place: ToolPlace, sample: Sample) -> None:
        """Have it written, in a while; the oldest makes room if a disk is stuck."""
        if self._given_up:
            return
        self._lost += len(self._waiting) == MOST_WAITING
        self._waiting.append((place, sample))
        self._came.set()

    def withdraw(self, since: float) -> None:
        """Do not write the calls from ``since`` on, as far as they wait.

        Samples come in the order of their ends, or nearly. Probes stay, as in windows.
        """
        probes: list[tuple[ToolPlace, Sample]] = []
        with suppress(IndexError):  # a thread may take the last one from under us
            while self._waiting[-1][1].at >= since:
                newest = self._waiting.pop()
                if newest[1].probe:
                    probes.append(newest)
        self._waiting.extend(reversed(probes))

    def statistics(self) -> HistoryStatistics:
        return HistoryStatistics(
            loaded=self._loaded,
            written=self._written,
            waiting=len(self._waiting) + len(self._writing),
            lost=self._lost,
        )

    async def load(self, expiry: float) -> list[tuple[ToolPlace, Sample]]:
        """What earlier runs measured and has not expired, oldest first.

        Takes at most `LOADING` seconds; what cannot be known by then is unknown to
        this run.
        """
        now, today = trio.current_time(), self._today()
        why = f"no answer after {LOADING:g} s"
        with trio.move_on_after(LOADING):
            try:
                samples: list[tuple[ToolPlace, Sample]]
                samples = await self._in_thread(self._read, expiry, now, today)
            except Exception as error:  # border: the file is foreign code
                why = self._failed(error)
            else:
                self._loaded = len(samples)
                return samples
        self._warn(f"what was measured in earlier runs is not known: {why}")
        return []

    async def run(self) -> None:
        """Write what comes, until cancelled."""
        while not self._given_up:
            await self._came.take()
            await trio.sleep(GATHERING)
            while not await self._save():  # noqa: ASYNC110 no disk says that it is back
                await trio.sleep(AGAIN)

    async def close(self) -> None:
        """Write what is left, in at most `SAVING` seconds. After `run`."""
        with trio.move_on_after(SAVING, shield=True) as late:
            await self._save()
            await self._in_thread(self._leave)
        if late.cancelled_caught and (self._waiting or self._writing):
            self._warn("the last measurements could not be saved in time")

    async def _save(self) -> bool:
        """Whether everything is written, or never will be."""
        if not (self._waiting or self._writing):
            return True
        try:
            await self._in_thread(self._write, trio.current_time(), self._today())
        except Exception as error:  # border: the file is foreign code
            why = self._failed(error)
            if not self._failing or self._given_up:  # else it has been said
                self._failing = True
                self._warn(f"what is measured cannot be saved: {why}")
            return self._given_up
        self._failing = False
        return True

    def _failed(self, error: Exception) -> str:
        why = str(error) or type(error).__name__
        if isinstance(error, UnusableFile):
            self._given_up = self._failing = True
            self._waiting.clear()
            self._writing = []
            why += "; what is measured now is for this run only"
        return why

    # In a thread.

    def _opened(self) -> HistoryFile:
        if self._file is None:
            self._file = self._open()
        return self._file

    def _read(
        self, expiry: float, now: float, today: float
    ) -> list[tuple[ToolPlace, Sample]]:
        """``now`` and ``today`` are one moment on two clocks."""
        return [
            (one.place, sample)
            for one in self._opened().load(today - expiry, today + ASKEW)
            if (sample := recalled(one, now=now, today=today, expiry=expiry))
        ]

    def _write(self, now: float, today: float) -> None:
        """``now`` and ``today`` as in `_read`."""
        while self._writing or self._waiting:
            while not self._writing or (
                self._waiting and len(self._writing) < MOST_WAITING
            ):
                self._writing.append(self._waiting.popleft())
            batch = [
                kept(place, sample, now=now, today=today)
                for place, sample in self._writing
            ]
            try:
                self._opened().write(batch, keep=self._keep)
            except BaseException:
                with suppress(Exception):  # the next attempt opens it anew
                    self._leave()
                raise
            self._written += len(batch)
            self._writing = []

    def _leave(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()
