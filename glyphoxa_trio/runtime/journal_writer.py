"""The writer of a journal: a bounded queue of what is to be written, and retries.

What one session leaves is written in order, in as few transactions as possible: a
moment after the first of what waits, or at once if somebody waits for it (`hurry`).
While the store is away it waits.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import count, groupby
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
_AT_ONCE: Final = 64  # sessions: while their entries are made, nothing else runs
RETRY: Final = (0.1, 5.0)  # the first pause while the store is away, and the longest
_LATE: Final = 60.0  # seconds in which another program's line is written
_MOMENT: Final = 0.02  # after a turn, so that its last words count as heard


@attrs.define(eq=False)
class JournalJob:
    """Something to be written. Its entries are made when it is written first.

    ``done`` is called when it was written, with None, or with why it never will be.
    ``ends``: give the claim back after its entries, and if True, end the session.
    ``replaces``: it is a snapshot, which replaces the entries before it. ``until``:
    when it is written, also if more may be heard of it, in a session that is
    ``strict``. ``since``: when it was made, on trio's clock.
    """

    table: KeptTable
    _make: Callable[[], Sequence[Entry]]
    done: Callable[[str | None], None] = lambda _: None
    ends: bool | None = None
    replaces: bool = False
    until: float = 0.0
    number: int = attrs.field(factory=count().__next__, init=False)  # later is more
    since: float = attrs.field(factory=trio.current_time, init=False)
    _made: Sequence[Entry] | None = attrs.field(default=None, init=False)

    def entries(self) -> Sequence[Entry]:
        if self._made is None:
            self._made = self._make()
        return self._made

    @property
    def is_appended(self) -> bool:
        """True if it has no entries that are still to be written."""
        return self._made == ()

    def appended(self) -> None:
        """Record that its entries are written, whatever is still to be done."""
        self._made = ()


@attrs.define(eq=False, repr=False)
class JournalWriter:
    """Writes jobs to a store. `run` does it.

    Args:
      memory: the store.
      warn: called with warnings.
      now: returns the time in seconds since 1970.

    ``lost``: the number of jobs that found no room. ``away``: the store could not be
    written at the last attempt.
    """

    memory: Memory
    warn: Callable[[str], None]
    now: Callable[[], float] = time.time
    lost: int = attrs.field(default=0, init=False)
    away: bool = attrs.field(default=False, init=False)
    _waiting: deque[JournalJob] = attrs.field(factory=deque, init=False)
    _more: trio.Event = attrs.field(factory=trio.Event, init=False)
    _written: Signal = attrs.field(factory=Signal, init=False)
    _in_a_hurry: set[KeptTable] = attrs.field(factory=set, init=False)
    _hurried: Signal = attrs.field(factory=Signal, init=False)

    @property
    def waiting(self) -> int:
        """The number of jobs that are not written yet."""
        return len(self._waiting)

    @property
    def lag(self) -> float:
        """The seconds for which the oldest job that is not written yet waits."""
        return trio.current_time() - self._waiting[0].since if self._waiting else 0.0

    @property
    def is_full(self) -> bool:
        """True if there is no room for another job."""
        return len(self._waiting) >= MOST_WAITING

    @property
    def is_half_full(self) -> bool:
        """True if what can wait elsewhere is to leave the room to turns."""
        return len(self._waiting) >= MOST_WAITING // 2

    def ends(self, key: SessionKey) -> bool:
        """Return True if the end of a session of this id, or of its claim, is still to
        be written."""
        return any(x.ends is not None and x.table.key == key for x in self._waiting)

    def replaces(self, table: KeptTable) -> bool:
        """Return True if a snapshot of a session is still to be written."""
        return any(x.replaces and x.table is table for x in self._waiting)

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
            job.done("too many turns wait to be written")
            return
        self._waiting.append(job)
        self._more.set()
        if job.table.strict and job.until <= trio.current_time():
            self.hurry(job.table)

    def hurry(self, table: KeptTable) -> None:
        """Write what waits of a session at once."""
        self._in_a_hurry.add(table)
        self._hurried.set()

    async def run(self) -> None:
        """Write what waits, until cancelled."""
        while True:
            await self._more.wait()
            self._more = trio.Event()
            until = trio.current_time() + _MOMENT
            while self._waiting:
                with trio.move_on_at(until) as moment:
                    await self._hurried.take()
                if moment.cancelled_caught:
                    break
                tables, self._in_a_hurry = self._in_a_hurry, set()
                await self._write(partial(_is_of, tables))
            await self._write(_is_due)
            if self._waiting:
                self._more.set()

    async def _write(self, due: Callable[[JournalJob], bool]) -> None:
        """Write everything that is due, in order; wait while the store is away."""
        pause, longest = RETRY
        while batch := _in_order(self._waiting, due):
            jobs: dict[int, list[JournalJob]] = {}
            for job in batch:
                jobs.setdefault(id(job.table), []).append(job)
            written: list[JournalJob] = []
            if len(jobs) == 1:  # as mostly: a nursery costs as much as its entries
                await self._write_some(batch, written)
            else:
                async with trio.open_nursery() as nursery:
                    for same in jobs.values():
                        nursery.start_soon(self._write_some, same, written)
            done = set(map(id, written))
            self._waiting = deque(x for x in self._waiting if id(x) not in done)
            if written:
                self._written.set()
                pause, _ = RETRY
            else:
                await trio.sleep(pause)
                pause = min(2 * pause, longest)

    async def _write_some(
        self, jobs: list[JournalJob], written: list[JournalJob]
    ) -> None:
        """Write the jobs of one session, and add those that need no other attempt."""
        table = jobs[0].table
        for some in _together(jobs):
            try:
                errors = await self._write_together(table, some)
            except MemoryUnavailable as away:
                if not self.away:
                    self.away = True
                    self.warn(f"memory cannot be written now: {away}")
                return
            self._back()
            for job, error in zip(some, errors, strict=True):
                written.append(job)
                job.done(error)

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

    def _back(self) -> None:
        if self.away:
            self.away = False
            self.warn("memory can be written again")

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
        if not self._waiting:
            return
        last = self._waiting[-1].number
        while self._waiting and self._waiting[0].number <= last:
            await self._written.changed()


def _in_order(
    waiting: Iterable[JournalJob], due: Callable[[JournalJob], bool]
) -> list[JournalJob]:
    """Return jobs that are due, unless one of their session before them is not: those
    of `_AT_ONCE` sessions at most."""
    found: list[JournalJob] = []
    tables: set[KeptTable] = set()
    held: set[KeptTable] = set()
    for job in waiting:
        if job.table in held or not due(job):
            held.add(job.table)
        elif job.table in tables or len(tables) < _AT_ONCE:
            tables.add(job.table)
            found.append(job)
    return found


def _is_of(tables: Collection[KeptTable], job: JournalJob) -> bool:
    return job.table in tables


def _is_due(job: JournalJob) -> bool:
    """Return True at the end of a moment, unless the job has a time of its own."""
    return not job.table.strict or trio.current_time() >= job.until


def _together(jobs: Iterable[JournalJob]) -> Iterator[list[JournalJob]]:
    """Yield what may be one transaction: neighbours that do not end their session."""
    for _, same in groupby(jobs, lambda job: None if job.ends is None else id(job)):
        yield list(same)
