"""The writer of a journal: bounded queues of what is to be written, and retries.

Each session has a line of its own, which is written in order, in as few transactions as
possible: a moment after the first of what waits, or at once if somebody waits for it
(`JournalWriter.hurry`). A line that cannot be written is tried again after a pause, and
holds up no other.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from heapq import heappop, heappush
from itertools import count, groupby
from math import inf
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import Signal
from glyphoxa_trio.errors import GlyphoxaError, said
from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.entries import IDLE, Claim, Entry
from glyphoxa_trio.memory.errors import Fenced, MemoryUnavailable
from glyphoxa_trio.npc.identity import SessionKey

from .kept_table import KeptTable

MOST_WAITING: Final = 1000  # turns, and other things to be written
_TASKS: Final = 512  # sessions that are being written
_AT_ONCE: Final = 64  # that begin together: while entries are made, nothing else runs
RETRY: Final = (0.1, 5.0)  # the first pause of what cannot be written, and the longest
_LATE: Final = 60.0  # seconds in which another program's line is written
_MOMENT: Final = 0.02  # after a turn, so that its last words count as heard


@attrs.define(eq=False)
class JournalJob:
    """Something to be written. Its entries are made when it is written first.

    ``done`` is called when it was written, with None, or with why it never will be.
    ``ends``: give the claim back after its entries, and if True, end the session.
    ``rests``: the claim is given back because the session is set aside. ``replaces``:
    it is a snapshot, which replaces the entries before it.
    ``until``: when it is written, also if more may be heard of it, in a session that is
    ``strict``. ``since``: when it was made, on trio's clock. ``over``: it waits no
    more.
    """

    table: KeptTable
    _make: Callable[[], Sequence[Entry]]
    done: Callable[[str | None], None] = lambda _: None
    ends: bool | None = None
    rests: bool = False
    replaces: bool = False
    until: float = 0.0
    number: int = attrs.field(factory=count(1).__next__, init=False)  # later is more
    since: float = attrs.field(factory=trio.current_time, init=False)
    over: bool = attrs.field(default=False, init=False)
    _made: Sequence[Entry] | None = attrs.field(default=None, init=False)

    def entries(self) -> Sequence[Entry]:
        if self._made is None:
            self._made = made = list(self._make())
            made[:1] = [attrs.evolve(x, key=self.number) for x in made[:1]]
        return self._made

    @property
    def is_appended(self) -> bool:
        """True if it has no entries that are still to be written."""
        return not self._made and self._made is not None

    def appended(self) -> None:
        """Record that its entries are written, whatever is still to be done."""
        self._made = ()

    def stays(self) -> None:
        """Keep the claim of a session that is set aside, which is used again, unless it
        is being given back by now."""
        if self.rests and not self.is_appended:
            self.ends, self.rests = None, False

    def finish(self, error: str | None) -> None:
        """Tell that it was written, or why it never will be."""
        self.over = True
        self.done(error)


@attrs.define(eq=False)
class _SessionLine:
    """The jobs of one session that are not written yet, in order.

    ``due``: when it is written; infinite if that is not known. ``at_once``: the number
    of the last job that somebody waits for. ``pause``: after an attempt that failed.
    """

    key: SessionKey
    jobs: deque[JournalJob] = attrs.field(factory=deque)
    due: float = inf
    writing: bool = False
    at_once: int = 0
    pause: float = 0.0

    def of(self, job: JournalJob, moment: Callable[[], float]) -> float:
        """Return when a job of the line is to be written."""
        if job.number <= self.at_once:
            return 0.0
        return job.until if job.table.strict else moment()

    def taken(self) -> list[JournalJob]:
        """Return the jobs that are due, unless one before them is not."""
        now, found = trio.current_time(), list[JournalJob]()
        for job in self.jobs:
            if self.of(job, lambda: 0.0) > now:
                break
            found.append(job)
        return found


@attrs.define(eq=False, repr=False)
class JournalWriter:
    """Writes jobs to a store. `run` does it.

    Args:
      memory: the store.
      warn: called with warnings.
      now: returns the time in seconds since 1970.

    ``waiting``: the number of jobs that are not written yet. ``lost``: of those that
    found no room.
    """

    memory: Memory
    warn: Callable[[str], None]
    now: Callable[[], float] = time.time
    waiting: int = attrs.field(default=0, init=False)
    lost: int = attrs.field(default=0, init=False)
    _lines: dict[SessionKey, _SessionLine] = attrs.field(factory=dict, init=False)
    # Lines by the time when they are due; an entry whose line is due at another time is
    # of no use any more.
    _due: list[tuple[float, int, _SessionLine]] = attrs.field(factory=list, init=False)
    _numbers: Iterator[int] = attrs.field(factory=count, init=False)
    _moment: float = attrs.field(default=0.0, init=False)
    _writing: int = attrs.field(default=0, init=False)
    _failing: set[_SessionLine] = attrs.field(factory=set, init=False)
    _more: Signal = attrs.field(factory=Signal, init=False)
    _written: Signal = attrs.field(factory=Signal, init=False)

    @property
    def lag(self) -> float:
        """The seconds for which the oldest job that is not written yet waits."""
        now = trio.current_time()
        heads = (x.jobs[0].since for x in self._lines.values() if x.jobs)
        return now - min(heads, default=now)

    @property
    def is_full(self) -> bool:
        """True if there is no room for another job."""
        return self.waiting >= MOST_WAITING

    @property
    def is_half_full(self) -> bool:
        """True if what can wait elsewhere is to leave the room to turns."""
        return self.waiting >= MOST_WAITING // 2

    def fails(self, key: SessionKey) -> bool:
        """Return True if the last attempt to write a session failed."""
        return self._lines.get(key) in self._failing

    def _of(self, key: SessionKey) -> Iterable[JournalJob]:
        line = self._lines.get(key)
        return () if line is None else line.jobs

    def replaces(self, table: KeptTable) -> bool:
        """Return True if a snapshot of a session is still to be written."""
        return any(x.replaces and x.table is table for x in self._of(table.key))

    def keeps(self, table: KeptTable) -> None:
        """Keep the claim of a session that is set aside and used again, unless it is
        being given back by now."""
        for job in self._of(table.key):
            if job.table is table:
                job.stays()

    async def ended(self, key: SessionKey) -> None:
        """Return when no end of a session of this id, or of its claim, is still to be
        written."""
        await self._written.until(lambda: all(x.ends is None for x in self._of(key)))

    def put(self, job: JournalJob) -> None:
        """Write a job behind those that wait. If too many do, it is lost, with a
        warning. A job that ends something is not: it takes less room than what it
        ends."""
        if self.is_full and job.ends is None:
            self.lost += 1
            if self.lost == 1:
                self.warn(
                    f"memory: {MOST_WAITING} turns wait to be written, and what happens"
                    " now is lost to memory"
                )
            job.finish("too many turns wait to be written")
            return
        key = job.table.key
        if (line := self._lines.get(key)) is None:
            line = self._lines[key] = _SessionLine(key)
        line.jobs.append(job)
        self.waiting += 1
        if job.table.strict and job.until <= trio.current_time():
            self.hurry(job.table)
        else:
            self._schedule(line)

    def hurry(self, table: KeptTable) -> None:
        """Write what waits of a session at once."""
        if (line := self._lines.get(table.key)) is not None and line.jobs:
            line.at_once = line.jobs[-1].number
            self._schedule(line)

    def _schedule(self, line: _SessionLine) -> None:
        """Have a line written when its first job is due."""
        if not (line.writing or line.pause):
            self._put_due(line, line.of(line.jobs[0], self._this_moment))

    def _this_moment(self) -> float:
        """Return the end of the moment in which what waits is gathered, so that
        sessions share a transaction."""
        now = trio.current_time()
        if self._moment <= now:
            self._moment = now + _MOMENT
        return self._moment

    def _put_due(self, line: _SessionLine, due: float) -> None:
        if due < line.due:
            line.due = due
            heappush(self._due, (due, next(self._numbers), line))
            self._more.set()

    async def run(self) -> None:
        """Write what waits, until cancelled: in `_TASKS` tasks at most."""
        async with trio.open_nursery() as nursery:
            while True:
                with trio.move_on_at(self._next_due()):
                    await self._more.take()
                now = trio.current_time()
                for _ in range(_AT_ONCE):
                    if self._next_due() > now:
                        break
                    due, _, line = heappop(self._due)
                    if line.due == due:
                        line.due, line.writing = inf, True
                        self._writing += 1
                        nursery.start_soon(self._write, line)

    def _next_due(self) -> float:
        """Return when another line can be written; infinite if it is not known."""
        return self._due[0][0] if self._due and self._writing < _TASKS else inf

    async def _write(self, line: _SessionLine) -> None:
        """Write what is due of a line, in order."""
        failed = False
        for some in _together(line.taken()):
            try:
                errors = await self._write_together(some[0].table, some)
            except MemoryUnavailable as away:
                failed = True
                self._failed(line, some[0].table, away)
                break
            self._back(line)
            for job, error in zip(some, errors, strict=True):
                line.jobs.popleft()
                self.waiting -= 1
                job.finish(error)
            self._written.set()
        line.writing = False
        self._writing -= 1
        self._more.set()  # there is room for another line
        if failed:
            self._put_due(line, trio.current_time() + line.pause)
        elif line.jobs:
            self._schedule(line)
        else:
            del self._lines[line.key]

    def _failed(
        self, line: _SessionLine, table: KeptTable, away: MemoryUnavailable
    ) -> None:
        first, longest = RETRY
        line.pause = min(2 * line.pause, longest) or first
        if not self._failing:
            self.warn(f"memory: {table.key} cannot be written now: {away}")
        self._failing.add(line)

    def _back(self, line: _SessionLine) -> None:
        line.pause = 0.0
        if line in self._failing:
            self._failing.remove(line)
            if not self._failing:
                self.warn("memory can be written again")

    async def _write_together(
        self, table: KeptTable, jobs: list[JournalJob]
    ) -> list[str | None]:
        """Write jobs in one transaction; return why each is lost, None if it is not.

        Raises:
          MemoryUnavailable: none was written, and another attempt may succeed.
        """
        claim = table.claim
        if claim is None:
            for job in jobs:
                with suppress(Exception):  # as below, and nothing is lost by it
                    job.entries()  # what they would correct later counts as written
            return [f"the session {table.key} is not kept" for _ in jobs]
        try:
            await self._append(table, claim, jobs)
        except MemoryUnavailable:
            raise
        except Fenced as fenced:
            table.fenced()
            self.warn(f"{fenced}: what happens in {table.key} is not kept")
            return [str(fenced) for _ in jobs]
        except Exception as bug:  # a bug must not end the keeper
            if len(jobs) > 1:  # one of them is wrong
                each = [await self._write_together(table, [job]) for job in jobs]
                return [error for errors in each for error in errors]
            self.warn(f"memory: an entry of {table.key} was lost: {said(bug)}")
            if jobs[0].ends is not None and not jobs[0].is_appended:
                jobs[0].appended()  # the claim is given back all the same
                await self._write_together(table, jobs)
            return [said(bug)]
        return [None for _ in jobs]

    async def _append(
        self, table: KeptTable, claim: Claim, jobs: list[JournalJob]
    ) -> None:
        entries = [entry for job in jobs for entry in job.entries()]
        if said_at := [x.at for x in entries if x.line is not None]:
            entries = await self._dated(table, claim, entries, max(said_at))
        if entries:
            await self.memory.journal.append(claim, entries)
        if (ends := jobs[0].ends) is not None:
            jobs[0].appended()  # the rest may need another attempt
            # The evening of a session that only rests goes on when it comes back.
            evening = table.evening if ends else ""
            await self.memory.journal.release(
                claim, ended=ends, evening=evening, at=table.spoken_at
            )
            table.began("", table.spoken_at)
            table.claimed(None)

    async def _dated(
        self, table: KeptTable, claim: Claim, entries: list[Entry], at: float
    ) -> list[Entry]:
        """Return the entries, with their lines in the evening that it is."""
        evening = table.evening
        if not evening or at - table.spoken_at > IDLE:
            transcripts = self.memory.transcripts
            evening = (await transcripts.begin_evening(claim, at, within=IDLE)).id
        table.began(evening, at)
        return [
            x
            if x.line is None or x.line.evening == evening
            else attrs.evolve(x, line=attrs.evolve(x.line, evening=evening))
            for x in entries
        ]

    async def end_idle_evenings(self, tables: Iterable[KeptTable]) -> None:
        """End the evenings in which nothing was said for half an hour: those of these
        tables, and those that programs left which have ended since."""
        now = self.now()
        for table in tables:
            if now - table.spoken_at > IDLE:
                table.began("", table.spoken_at)
        try:
            await self.memory.transcripts.end_idle(before=now - IDLE - _LATE)
        except GlyphoxaError as error:
            self.warn(f"memory: evenings that are over were not ended: {error}")

    async def flush(self) -> None:
        """Return when everything that waits by now is written, or lost."""
        for job in [x.jobs[-1] for x in self._lines.values() if x.jobs]:
            await self._written.until(partial(_is_over, job))


def _is_over(job: JournalJob) -> bool:
    return job.over


def _together(jobs: Iterable[JournalJob]) -> Iterator[list[JournalJob]]:
    """Yield what may be one transaction: neighbours that do not end their session."""

    def key(job: JournalJob) -> tuple[int, int]:
        return id(job.table), 0 if job.ends is None else id(job)

    for _, same in groupby(jobs, key):
        yield list(same)
