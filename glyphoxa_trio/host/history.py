"""The history of samples across runs: loaded at the start, written in the background.

No call ever waits for a disk. A sample goes into a queue; a second later, all queued
samples are written at once, in a thread. A killed process loses that second. A failing
disk causes one warning and is tried again at long intervals; meanwhile the newest
samples are kept in the queue. Without a file, measurements last for this run only.
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

# The longest wait for the file at opening, seconds.
LOADING: Final = 0.5
# The time from the first queued sample to the write, seconds.
GATHERING: Final = 1.0
# The pause between two attempts at a disk that fails, seconds.
AGAIN: Final = 30.0
# The longest wait for the last write at closing, seconds.
SAVING: Final = 1.0
# The limit of the queue: a hundred tools with full windows.
MOST_WAITING: Final = 10_000


class HistoryFile(Protocol):
    """The file in which samples outlive the process. Used in threads, one at a time.

    An exception becomes a warning, and the call is retried; not after `UnusableFile`.
    """

    def load(self, since: float, until: float) -> Iterable[Measured]:
        """Return the samples between two moments of Unix time, oldest first."""
        ...

    def write(self, batch: Sequence[Measured], *, keep: int) -> None:
        """Add these, all or none; keep the last ``keep`` samples of each tool."""
        ...

    def close(self) -> None: ...


@attrs.frozen(kw_only=True)
class HistoryStatistics:
    """Counts of samples. ``lost`` were pushed out of the queue by newer ones while the
    disk was failing."""

    loaded: int
    written: int
    waiting: int
    lost: int


def _silent(text: str) -> None: ...


def _one_thread() -> Callable[..., Awaitable[Any]]:
    # One thread at a time, even if an earlier one hangs and was abandoned.
    limiter = trio.CapacityLimiter(1)
    return partial(trio.to_thread.run_sync, abandon_on_cancel=True, limiter=limiter)


@attrs.define(eq=False)
class SampleHistory:
    """The queue of samples to be written to a file, and the loading of that file.

    Args:
      open: opens the file; it blocks, in a thread. Called again after a failure.
      keep: the number of samples to keep of each tool.
      warn: called with a warning for the operator. Must not block.
      today: returns the time of day, in seconds of Unix time.
      in_thread: runs a function in a thread, one at a time. If it is cancelled, the
        thread is abandoned.
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
    # that nothing is written twice after a cancelled wait.
    _writing: list[tuple[ToolPlace, Sample]] = attrs.field(factory=list, init=False)
    _came: Signal = attrs.field(factory=Signal, init=False)
    _given_up: bool = attrs.field(default=False, init=False)
    _failing: bool = attrs.field(default=False, init=False)
    _loaded: int = attrs.field(default=0, init=False)
    _written: int = attrs.field(default=0, init=False)
    _lost: int = attrs.field(default=0, init=False)

    def add(self, place: ToolPlace, sample: Sample) -> None:
        """Queue a sample to be written; if the queue is full, drop the oldest."""
        if self._given_up:
            return
        self._lost += len(self._waiting) == MOST_WAITING
        self._waiting.append((place, sample))
        self._came.set()

    def withdraw(self, since: float) -> None:
        """Remove the queued samples of calls from ``since`` on (trio's clock).

        The queue is nearly in the order of the calls' ends. Probes stay, as in windows.
        """
        probes: list[tuple[ToolPlace, Sample]] = []
        with suppress(IndexError):  # a thread may take the last one concurrently
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
        """Return the unexpired samples of earlier runs, oldest first.

        Takes at most `LOADING` seconds; if that is not enough, or the file fails, it
        warns and returns nothing.
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
        self._warn(f"measurements of earlier runs are not loaded: {why}")
        return []

    async def run(self) -> None:
        """Write samples as they come, until cancelled."""
        while not self._given_up:
            await self._came.take()
            await trio.sleep(GATHERING)
            while not await self._save():  # noqa: ASYNC110 no disk says that it is back
                await trio.sleep(AGAIN)

    async def close(self) -> None:
        """Write the remaining samples, in at most `SAVING` seconds; after `run`."""
        with trio.move_on_after(SAVING, shield=True) as late:
            await self._save()
            await self._in_thread(self._leave)
        if late.cancelled_caught and (self._waiting or self._writing):
            self._warn("the last measurements could not be saved in time")

    async def _save(self) -> bool:
        """Return True if the queue is written, or the file has been given up."""
        if not (self._waiting or self._writing):
            return True
        try:
            await self._in_thread(self._write, trio.current_time(), self._today())
        except Exception as error:  # border: the file is foreign code
            why = self._failed(error)
            if not self._failing or self._given_up:  # warn once per failure
                self._failing = True
                self._warn(f"measurements cannot be saved: {why}")
            return self._given_up
        self._failing = False
        return True

    def _failed(self, error: Exception) -> str:
        why = str(error) or type(error).__name__
        if isinstance(error, UnusableFile):
            self._given_up = self._failing = True
            self._waiting.clear()
            self._writing = []
            why += "; measurements are kept for this run only"
        return why

    # The methods below run in a thread.

    def _opened(self) -> HistoryFile:
        if self._file is None:
            self._file = self._open()
        return self._file

    def _read(
        self, expiry: float, now: float, today: float
    ) -> list[tuple[ToolPlace, Sample]]:
        """Read the file. ``now`` and ``today`` are one moment on two clocks."""
        return [
            (one.place, sample)
            for one in self._opened().load(today - expiry, today + ASKEW)
            if (sample := recalled(one, now=now, today=today, expiry=expiry))
        ]

    def _write(self, now: float, today: float) -> None:
        """Write all queued samples. ``now`` and ``today`` as in `_read`."""
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
                with suppress(Exception):  # the next attempt opens it again
                    self._leave()
                raise
            self._written += len(batch)
            self._writing = []

    def _leave(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()
