"""The turn keeper: writes what happens in sessions to the journal, behind the turns.

A turn is handed over when it has ended, and is written a moment later by one task, in
the order of the turns. The queue is bounded. While the store cannot be written, turns
go on: what they leave waits, and beyond the bound it is dropped with a warning.

Lines are written once it is known how much of them was heard, a minute after the turn
at the latest. Above 300 lines, because every entry passes through one queue.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import (
    AsyncGenerator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from functools import partial
from itertools import groupby
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import Topic
from glyphoxa_trio.errors import GlyphoxaError, said
from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.entries import IDLE, Claim, Entry, EntryKind, Line
from glyphoxa_trio.memory.errors import Fenced, HeldElsewhere, MemoryUnavailable
from glyphoxa_trio.memory.visibility import CampaignKey, Reach
from glyphoxa_trio.npc import TurnEvent, TurnKept
from glyphoxa_trio.npc.identity import NpcId, SessionKey
from glyphoxa_trio.npc.overheard import Overheard
from glyphoxa_trio.npc.snapshot import ExchangeSnapshot
from glyphoxa_trio.npc.turn.turn_log import EndedTurn
from glyphoxa_trio.tools.outcome import ToolCall

from .idle_sessions import StoreFull
from .session_log import (
    effect_entry,
    heard_entry,
    heard_of,
    restored,
    snapshot_entry,
    turn_entry,
)
from .session_snapshot import SessionSnapshot

MOST_WAITING: Final = 1000  # turns, and other things to be written
_MOMENT: Final = 0.02  # after a turn, so that its last words count as heard
_LOOKS: Final = 0.25  # how often to look whether a turn was heard out
_HEARING: Final = 60.0  # after a turn; later nothing more of it is heard
_BEFORE_A_CALL: Final = 0.1
_CLOSING: Final = 5.0
_TURNS_IN_A_LOG: Final = 100  # after so many turns of a session, a snapshot
_RETRY: Final = (0.1, 5.0)  # the first pause while the store is away, and the longest


@attrs.define(eq=False)
class KeptTable:
    """One session of which turns are kept.

    Args:
      players: the stable ids of players, by the names under which they speak.

    ``claim``: None before the session is used, and if it is not kept.
    """

    key: SessionKey
    campaign: CampaignKey
    players: dict[str, str] = attrs.field(factory=dict)
    claim: Claim | None = attrs.field(default=None, init=False)
    evening: str = attrs.field(default="", init=False)
    spoken_at: float = attrs.field(default=0.0, init=False)
    resting: SessionSnapshot | None = attrs.field(default=None, init=False, repr=False)
    turns: int = attrs.field(default=0, init=False)  # since its last snapshot

    def player(self, speaker: str) -> str:
        """Return the stable id of the player who speaks under this name."""
        return self.players.get(speaker) or speaker.casefold().strip()

    def claimed(self, claim: Claim | None) -> None:
        """Keep the session from now on; with None, keep it no longer."""
        self.claim = claim
        if claim is not None:
            self.campaign = claim.campaign

    def call(self, players: Mapping[str, str]) -> None:
        """Set the stable ids of players."""
        self.players |= players

    def began(self, evening: str, at: float) -> None:
        """Record the evening that its lines belong to, and when the last one came."""
        self.evening, self.spoken_at = evening, at

    def count(self) -> bool:
        """Count a turn; return True if so many were kept that a snapshot is due."""
        self.turns = (self.turns + 1) % _TURNS_IN_A_LOG
        return not self.turns

    def rests(self, kept: SessionSnapshot | None) -> None:
        """Hold the snapshot of a session that is set aside until it is written."""
        self.resting = kept


@attrs.define(eq=False)
class _LoggedTurn:
    """A turn that is to be written, or may have to be corrected."""

    turn: EndedTurn
    at: float
    until: float
    written: tuple[ExchangeSnapshot, ...] | None = None
    lined: bool = False
    asked: bool = False

    @property
    def settled(self) -> bool:
        return self.turn.heard_out or trio.current_time() >= self.until

    def now(self) -> tuple[ExchangeSnapshot, ...]:
        return tuple(x.snapshot() for x in self.turn.exchanges)


@attrs.define(eq=False)
class _Job:
    """Something to be written. Its entries are made when it is written first.

    ``done`` is called when it was written, with None, or with why it never will be.
    ``ends``: give the claim back, and if True, end the session.
    """

    table: KeptTable
    _make: Callable[[], Sequence[Entry]]
    done: Callable[[str | None], None] = lambda _: None
    ends: bool | None = None
    _made: Sequence[Entry] | None = attrs.field(default=None, init=False)

    def entries(self) -> Sequence[Entry]:
        if self._made is None:
            self._made = self._make()
        return self._made


@attrs.define(eq=False, repr=False)
class TurnKeeper:
    """Keeps the turns of a runtime, and brings its sessions back.

    Args:
      memory: the store.
      campaign: the campaign of sessions that name none; None is one for each.
      run: the id of this run.
      events: is told of each `TurnKept`.
      warn: called with warnings.
      now: returns the time in seconds since 1970.
      waits: calls with side effects wait until they are written down. In a recorded run
        they do not, since a replay has no store to wait for.
    """

    memory: Memory
    _campaign: str | None
    _run: str
    _events: Topic[TurnEvent]
    _warn: Callable[[str], None]
    _now: Callable[[], float] = time.time
    _waits: bool = True
    lost: int = attrs.field(default=0, init=False)
    _tables: dict[SessionKey, KeptTable] = attrs.field(factory=dict, init=False)
    _waiting: deque[_Job] = attrs.field(factory=deque, init=False)
    _more: trio.Event = attrs.field(factory=trio.Event, init=False)
    _empty: trio.Event = attrs.field(factory=trio.Event, init=False)
    _settle: trio.Event = attrs.field(factory=trio.Event, init=False)
    _away: bool = attrs.field(default=False, init=False)
    _running: trio.CancelScope = attrs.field(
        factory=lambda: trio.CancelScope(shield=True), init=False
    )
    _settling: dict[SessionKey, dict[str, _LoggedTurn]] = attrs.field(
        factory=dict, init=False
    )
    _snapshot: Callable[[SessionKey], SessionSnapshot | None] = attrs.field(
        default=lambda _: None, init=False
    )
    _correct: Callable[[CampaignKey, str], str] = attrs.field(
        default=lambda _, __: "", init=False
    )
    _aside: dict[tuple[SessionKey, Overheard], set[str]] = attrs.field(
        factory=dict, init=False
    )

    # Sessions.

    def snapshots_by(
        self, snapshot: Callable[[SessionKey], SessionSnapshot | None]
    ) -> None:
        """Have this function take the snapshots of open sessions."""
        self._snapshot = snapshot

    def corrects_by(self, correct: Callable[[CampaignKey, str], str]) -> None:
        """Have this function put names right that were misheard."""
        self._correct = correct

    def table(
        self,
        key: SessionKey,
        campaign: str | None = None,
        players: Mapping[str, str] | None = None,
    ) -> KeptTable:
        """Return the table of a session, which begins now if there is none."""
        table = self._tables.get(key)
        if table is None:
            name = campaign or self._campaign or key.id
            table = KeptTable(key, CampaignKey(name, key.tenant))
            self._tables[key] = table
        if players:
            table.call(players)
        return table

    def campaign_of(self, key: SessionKey) -> CampaignKey:
        """Return the campaign that a session belongs to."""
        table = self._tables.get(key)
        if table is not None:
            return table.campaign
        return CampaignKey(self._campaign or key.id, key.tenant)

    @property
    def waiting(self) -> int:
        """The number of turns and other things that are not written yet."""
        return len(self._waiting)

    async def take(self, key: SessionKey) -> SessionSnapshot | None:
        """Claim a session that is used from now on, and return it as it was kept.

        None means that it begins; a warning says so if it is not kept, because another
        process has it or the store cannot be read.

        Raises:
          SnapshotRefused: it was kept, and cannot be read.
        """
        table = self.table(key)
        if (kept := table.resting) is not None:
            return kept
        if any(x.ends and x.table.key == key for x in self._waiting):
            await self.flush()  # the one of this id before it is still to end
        journal = self.memory.journal
        if table.claim is not None:  # it was set aside by this process
            entries = await journal.load(table.claim)
            return restored(entries, self._nothing(key)).snapshot
        try:
            claim = await journal.claim(key.tenant, key.id, table.campaign)
        except (HeldElsewhere, MemoryUnavailable) as error:
            self._warn(f"{error}: what happens in {key} now is not kept")
            return None
        table.claimed(claim)
        if not claim.known:
            return None
        back = restored(await journal.load(claim), self._nothing(key))
        for npc, turn, at, exchanges in back.unheard:
            lines = partial(self._lines, table, npc, turn, exchanges, (npc,), at)
            self._put(_Job(table, lines))
        # The entries of each run begin with a snapshot: their times are on its clock.
        now = self._now()
        self._put(_Job(table, lambda: [snapshot_entry(back.snapshot, at=now)]))
        return back.snapshot

    def _nothing(self, key: SessionKey) -> SessionSnapshot:
        return SessionSnapshot(
            id=key.id,
            tenant=key.tenant,
            variables={},
            taken_at=self._now(),
            run=self._run,
            clock=trio.current_time(),
            npcs={},
        )

    def rest(self, key: SessionKey, kept: SessionSnapshot) -> None:
        """Keep a session that is set aside.

        Raises:
          StoreFull: too much waits to be written.
        """
        if len(self._waiting) >= MOST_WAITING:
            raise StoreFull(f"{len(self._waiting)} turns wait to be written to memory")
        table = self.table(key)
        self._finish(table)
        table.rests(kept)

        def done(_: str | None) -> None:
            if table.resting is kept and table.claim is not None:
                table.rests(None)

        now = self._now()
        self._put(_Job(table, lambda: [snapshot_entry(kept, at=now)], done))

    def wakes(self, key: SessionKey) -> None:
        """Record that a session is in use again."""
        if (table := self._tables.get(key)) is not None:
            table.rests(None)

    def keep(self, kept: SessionSnapshot) -> None:
        """Keep a session whose state was changed between its turns."""
        now = self._now()
        table = self.table(kept.key)
        self._put(_Job(table, lambda: [snapshot_entry(kept, at=now)]))

    def end(self, key: SessionKey) -> None:
        """End a session: only its lines remain."""
        if (table := self._tables.pop(key, None)) is not None:
            self._finish(table)
            self._put(_Job(table, tuple, ends=True))

    # The log of turns.

    def ended(self, turn: EndedTurn) -> None:
        """Keep a turn (`TurnLog`)."""
        table = self._tables.get(turn.id.session)
        if table is None:  # its session has ended
            return
        self._finish(table, turn.id.npc)
        now = trio.current_time()
        one = _LoggedTurn(turn, at=self._now(), until=now + _HEARING)
        self._settling.setdefault(table.key, {})[turn.id.npc] = one
        self._put(
            _Job(
                table,
                partial(self._turn_entries, table, one),
                partial(self._kept, turn),
            )
        )
        if table.count():
            self._put(_Job(table, partial(self._whole, table.key)))
        self._settle.set()

    def _whole(self, key: SessionKey) -> Sequence[Entry]:
        kept = self._snapshot(key)
        return [] if kept is None else [snapshot_entry(kept, at=self._now())]

    def overheard(self, npc: NpcId, line: Overheard) -> None:
        """Keep words that NPCs overheard (`TurnLog`): one line for all of them."""
        key = npc.session, line
        if key in self._aside:
            self._aside[key].add(npc.npc)
            return
        table = self._tables.get(npc.session)
        if table is None:
            return
        self._aside[key], at = {npc.npc}, self._now()

        def entries() -> Sequence[Entry]:
            heard_by = self._aside.pop(key, {npc.npc})
            return [self._line(table, line.speaker, line.text, line.to, heard_by, at)]

        def done(_: str | None) -> None:
            self._aside.pop(key, None)  # if there was no room for it

        self._put(_Job(table, entries, done))

    async def effects_begin(
        self, npc: NpcId, turn: int, calls: Sequence[tuple[ToolCall, str]]
    ) -> None:
        """Keep that calls with side effects begin (`TurnLog`)."""
        table = self._tables.get(npc.session)
        if table is None or (claim := table.claim) is None or self._away:
            return
        at = self._now()
        entries = [effect_entry(npc.npc, turn, call, key, at=at) for call, key in calls]
        if not self._waits:
            self._put(_Job(table, lambda: entries))
            return
        # To its end: a call that is cancelled here would have no outcome.
        with trio.move_on_after(_BEFORE_A_CALL, shield=True):
            try:
                await self.memory.journal.append(claim, entries)
            except GlyphoxaError as error:
                self._warn(f"a call of {npc.npc} is not kept in memory: {error}")

    def _kept(self, turn: EndedTurn, error: str | None) -> None:
        of = turn.id.of(turn.number)
        self._events.publish(TurnKept(**of, kept=error is None, error=error or ""))

    def _turn_entries(self, table: KeptTable, one: _LoggedTurn) -> Sequence[Entry]:
        turn, exchanges = one.turn, one.now()
        settled = one.settled
        first = one.written is None
        entries = [] if first else self._correction(table, one, exchanges)
        if first:
            entry = turn_entry(
                turn.id.npc,
                turn.number,
                exchanges,
                turn.npc,
                at=one.at,
                heard_out=settled,
            )
            entries.append(entry)
        one.written = exchanges
        entries += self._lines_of(table, one, exchanges, answered=settled)
        if settled:
            self._settled(table, turn.id.npc, one)
        return entries

    def _settled(self, table: KeptTable, npc: str, one: _LoggedTurn) -> None:
        settling = self._settling.get(table.key, {})
        if settling.get(npc) is one:
            del settling[npc]
        if not settling:
            self._settling.pop(table.key, None)

    def _correction(
        self, table: KeptTable, one: _LoggedTurn, now: tuple[ExchangeSnapshot, ...]
    ) -> list[Entry]:
        if now == one.written and one.lined:
            return []
        turn = one.turn
        return [heard_entry(turn.id.npc, turn.number, now, at=self._now())]

    def _lines_of(
        self,
        table: KeptTable,
        one: _LoggedTurn,
        exchanges: tuple[ExchangeSnapshot, ...],
        *,
        answered: bool,
    ) -> list[Entry]:
        """Return the lines that are not written yet, as far as they are certain."""
        turn = one.turn
        among = {turn.id.npc, *turn.listener.present}
        entries: list[Entry] = []
        if not one.asked and any(x.asked and x.text for x in exchanges):
            one.asked = True
            entries += self._questions(table, turn.id.npc, exchanges, among, one.at)
        if answered and not one.lined:
            one.lined = True
            entries += self._answers(table, turn.id.npc, turn.number, exchanges, among)
        return entries

    def _lines(
        self,
        table: KeptTable,
        npc: str,
        turn: int,
        exchanges: tuple[ExchangeSnapshot, ...],
        among: Sequence[str],
        at: float,
    ) -> list[Entry]:
        """Return the answer of a turn whose process ended before it was heard out."""
        heard = heard_entry(npc, turn, exchanges, at=at)
        answers = self._answers(table, npc, turn, exchanges, set(among), at=at)
        return [heard, *answers]

    def _questions(
        self,
        table: KeptTable,
        npc: str,
        exchanges: tuple[ExchangeSnapshot, ...],
        among: set[str],
        at: float,
    ) -> list[Entry]:
        return [
            self._line(table, x.speaker, x.text, npc, among, at, asked=True)
            for x in exchanges
            if x.asked and x.text
        ]

    def _answers(
        self,
        table: KeptTable,
        npc: str,
        turn: int,
        exchanges: tuple[ExchangeSnapshot, ...],
        among: set[str],
        *,
        at: float | None = None,
    ) -> list[Entry]:
        when = self._now() if at is None else at
        entries = []
        for exchange in exchanges:
            if words := heard_of([exchange]):
                to = exchange.speaker if exchange.asked else ""
                line = self._line(table, npc, words, to, among, when)
                entries.append(attrs.evolve(line, npc=npc, turn=turn))
        return entries

    def _line(
        self,
        table: KeptTable,
        speaker: str,
        text: str,
        to: str,
        among: set[str],
        at: float,
        *,
        asked: bool = False,
    ) -> Entry:
        line = Line(
            text=text,
            speaker=speaker,
            player=table.player(speaker) if asked else "",
            corrected=self._correct(table.campaign, text) if asked else "",
            to=to,
            reach=Reach.of(*among),
        )
        return Entry(kind=EntryKind.LINE, at=at, line=line)

    def _finish(self, table: KeptTable, npc: str | None = None) -> None:
        """Write last turns as they were heard by now, since no more will be heard of
        them: another one begins, or the session is set aside or over."""
        settling = self._settling.get(table.key, {})
        for name, one in list(settling.items()):
            if npc in (None, name):
                one.until = trio.current_time()
                self._settled(table, name, one)
                self._put(_Job(table, partial(self._turn_entries, table, one)))

    # The writer.

    def _put(self, job: _Job) -> None:
        if len(self._waiting) >= MOST_WAITING and job.ends is None:
            self.lost += 1
            if self.lost == 1:
                self._warn(
                    f"memory: {MOST_WAITING} turns wait to be written, and what happens"
                    " now is lost to memory"
                )
            job.done("too many turns wait to be written")
            return
        self._waiting.append(job)
        self._more.set()

    async def run(self) -> None:
        """Write what waits, until `stop`: a cancellation from outside does not end it,
        since what the last turns leave is still to be written then."""
        with self._running:
            await self._serve()

    def stop(self) -> None:
        """End `run`."""
        self._running.cancel("the runtime is closed")

    async def _serve(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._look)
            while True:
                await self._more.wait()
                self._more = trio.Event()
                await trio.sleep(_MOMENT)
                await self._write()

    async def _look(self) -> None:
        """Write the rest of turns once it is known how much of them was heard; end
        evenings after half an idle hour."""
        while True:
            with trio.move_on_after(60):
                await self._settle.wait()
            self._settle = trio.Event()
            await self._end_idle_evenings()
            while self._settling:
                await trio.sleep(_LOOKS)
                for key, settling in list(self._settling.items()):
                    for name, one in list(settling.items()):
                        if one.written is not None and one.settled:
                            self._finish(self.table(key), name)

    async def _end_idle_evenings(self) -> None:
        for table in list(self._tables.values()):
            if table.evening and self._now() - table.spoken_at > IDLE:
                await self._end_evening(table)

    async def _end_evening(self, table: KeptTable) -> None:
        evening, at = table.evening, table.spoken_at
        table.began("", at)
        try:
            await self.memory.transcripts.end_evening(table.campaign, evening, at)
        except GlyphoxaError as error:
            self._warn(f"memory: the evening {evening} was not ended: {error}")

    async def _write(self) -> None:
        """Write everything that waits, in order; wait while the store is away."""
        pause, longest = _RETRY
        while self._waiting:
            batch = list(self._waiting)
            jobs: dict[int, list[_Job]] = {}
            for job in batch:
                jobs.setdefault(id(job.table), []).append(job)
            written: list[_Job] = []
            async with trio.open_nursery() as nursery:
                for same in jobs.values():
                    nursery.start_soon(self._write_some, same, written)
            done = set(map(id, written))
            self._waiting = deque(x for x in self._waiting if id(x) not in done)
            if written:
                pause, _ = _RETRY
            else:
                await trio.sleep(pause)
                pause = min(2 * pause, longest)
        self._empty.set()
        self._empty = trio.Event()

    async def _write_some(self, jobs: list[_Job], written: list[_Job]) -> None:
        """Write the jobs of one session, and add those that need no other attempt."""
        table = jobs[0].table
        for some in _together(jobs):
            try:
                errors = await self._write_together(table, some)
            except MemoryUnavailable as away:
                if not self._away:
                    self._away = True
                    self._warn(f"memory cannot be written now: {away}")
                return
            self._back()
            for job, error in zip(some, errors, strict=True):
                written.append(job)
                job.done(error)

    async def _write_together(
        self, table: KeptTable, jobs: list[_Job]
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
            table.claimed(None)
            self._warn(f"{fenced}: what happens in {table.key} is not kept")
            return [str(fenced) for _ in jobs]
        except Exception as bug:  # a bug must not end the keeper
            if len(jobs) > 1:  # one of them is wrong
                each = [await self._write_together(table, [job]) for job in jobs]
                return [error for errors in each for error in errors]
            self._warn(f"memory: an entry of {table.key} was lost: {said(bug)}")
            return [said(bug)]
        return [None for _ in jobs]

    def _back(self) -> None:
        if self._away:
            self._away = False
            self._warn("memory can be written again")

    async def _append(self, table: KeptTable, claim: Claim, jobs: list[_Job]) -> None:
        if (ends := jobs[0].ends) is not None:
            if table.evening:
                await self._end_evening(table)
            await self.memory.journal.release(claim, ended=ends)
            return
        entries = [entry for job in jobs for entry in job.entries()]
        if said_at := [x.at for x in entries if x.line is not None]:
            entries = await self._dated(table, claim, entries, max(said_at))
        if entries:
            await self.memory.journal.append(claim, entries)

    async def _dated(
        self, table: KeptTable, claim: Claim, entries: list[Entry], at: float
    ) -> list[Entry]:
        """Return the entries, with their lines in the evening that it is."""
        evening = table.evening
        if not evening or at - table.spoken_at > IDLE:
            transcripts = self.memory.transcripts
            evening = (await transcripts.begin_evening(claim, at)).id
        table.began(evening, at)
        return [
            x
            if x.line is None
            else attrs.evolve(x, line=attrs.evolve(x.line, evening=evening))
            for x in entries
        ]

    async def flush(self) -> None:
        """Return when everything that waits by now is written, or lost."""
        while self._waiting:
            await self._empty.wait()

    async def close(self) -> None:
        """Keep the open sessions, end their evenings, and give all claims back.

        Takes 5 seconds at most; a warning says what was not written by then.
        """
        for key, table in self._tables.items():
            self._finish(table)
            if table.claim is not None:
                self._put(_Job(table, partial(self._whole, key)))
                self._put(_Job(table, tuple, ends=False))
        with trio.move_on_after(_CLOSING, shield=True):
            await self.flush()
            return
        self._warn(f"memory: {len(self._waiting)} entries were not written")


def _together(jobs: Iterable[_Job]) -> Iterator[list[_Job]]:
    """Yield what may be one transaction: neighbours that do not end their session."""
    for _, same in groupby(jobs, lambda job: None if job.ends is None else id(job)):
        yield list(same)


@asynccontextmanager
async def open_keeper(keeper: TurnKeeper) -> AsyncGenerator[TurnKeeper]:
    """Run the keeper until the block is left; then it keeps the open sessions."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeper.run)
        try:
            yield keeper
        finally:
            with trio.CancelScope(shield=True):
                await keeper.close()
            keeper.stop()
