"""Records on their way out: a bounded queue, and a thread at its end.

The caller that adds a record continues at once. When the output cannot keep up,
further records are dropped, and a record ``records_lost`` stands where the gap is.
"""

from __future__ import annotations

import datetime as dt
from collections import deque
from collections.abc import Sequence
from typing import Any

import attrs

import trio

from glyphoxa_trio.actors import Signal

from .outputs import LogOutput
from .records import Level, LogRecord


@attrs.frozen(kw_only=True)
class LogStatistics:
    """Records, counted: ``lost`` had no room, ``failed`` the output did not take."""

    written: int
    waiting: int
    lost: int
    failed: int


@attrs.define(eq=False)
class LogWriter:
    """The queue; `run` empties it. ``capacity`` records may wait."""

    _output: LogOutput
    capacity: int = attrs.field(validator=attrs.validators.ge(1))
    _waiting: deque[LogRecord] = attrs.field(factory=deque, init=False)
    _moved: Signal = attrs.field(factory=Signal, init=False)
    _over: bool = attrs.field(default=False, init=False)
    _written: int = attrs.field(default=0, init=False)
    _lost: int = attrs.field(default=0, init=False)
    _failed: int = attrs.field(default=0, init=False)
    # One of its own: an output that is stuck takes no thread from others.
    _limiter: trio.CapacityLimiter = attrs.field(
        factory=lambda: trio.CapacityLimiter(1), init=False
    )

    def put(self, record: LogRecord) -> None:
        """Have it written, if there is room; after `finish` it goes nowhere."""
        if self._over:
            return
        if len(self._waiting) >= self.capacity:
            self._lost += 1
            return
        self._waiting.append(record)
        self._move()

    def lose(self, count: int) -> None:
        """So many records were never made."""
        self._lost += count

    def fail(self, count: int = 1) -> None:
        """So many could not be made or written."""
        self._failed += count

    def finish(self) -> None:
        """Nothing more comes: `run` ends when what waits is written."""
        self._over = True
        self._move()

    def statistics(self) -> LogStatistics:
        return LogStatistics(
            written=self._written,
            waiting=len(self._waiting),
            lost=self._lost,
            failed=self._failed,
        )

    async def run(self) -> None:
        """Hand over what waits, all of it at a time, until `finish`.

        Cancelled, it leaves an output that is stuck to its thread.
        """
        told = 0
        while True:
            await self._moved.until(lambda: bool(self._waiting) or self._over)
            if not self._waiting:
                return
            batch = list(self._waiting)
            self._waiting.clear()
            if self._lost > told:  # the gap is here: nothing came while it was full
                fields = {"at": now(), "count": self._lost - told}
                batch.append(LogRecord(Level.WARNING, "records_lost", fields))
                told = self._lost
            failed = await self._in_thread(batch)
            self._failed += failed
            self._written += len(batch) - failed

    async def _in_thread(self, batch: Sequence[LogRecord]) -> int:
        try:
            return await trio.to_thread.run_sync(
                _hand_over,
                self._output,
                batch,
                abandon_on_cancel=True,
                limiter=self._limiter,
            )
        except RuntimeError:  # no thread is to be had
            return len(batch)

    def _move(self) -> None:
        self._moved.set()


def _hand_over(output: LogOutput, batch: Sequence[LogRecord]) -> int:
    """Give the output each record; how many it did not take."""
    failed = 0
    for record in batch:
        fields: dict[str, Any] = dict(record.fields)
        try:
            getattr(output, record.level.value)(record.event, **fields)
        except BaseException:  # border: even one that calls sys.exit ends nothing
            failed += 1
    return failed


def now() -> str:
    """The time of day, for people: nothing is measured by it."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
