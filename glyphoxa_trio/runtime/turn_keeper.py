"""The turn keeper: writes what happens in sessions to the journal, behind the turns.

A turn is handed over when it has ended, and is written a moment later by one task, in
the order of the turns. The queue is bounded. While the store cannot be written, turns
go on: what they leave waits, and beyond the bound it is dropped with a warning.

Answers become lines once it is known how much of them was heard, a minute after the
turn at the latest. What changes between turns is written at once, and at most once a
second.
"""

from __future__ import annotations

import time
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Generator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Final, Protocol, TypeVar

import attrs

import trio

from glyphoxa_trio.actors import Topic
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.entries import Claim, Entry, KeptEntry
from glyphoxa_trio.memory.errors import Fenced, HeldElsewhere, MemoryUnavailable
from glyphoxa_trio.memory.visibility import CampaignKey
from glyphoxa_trio.npc import TurnEvent, TurnKept
from glyphoxa_trio.npc.identity import NpcId, SessionKey
from glyphoxa_trio.npc.overheard import Overheard
from glyphoxa_trio.npc.turn.turn_log import EndedTurn
from glyphoxa_trio.tools.outcome import ToolCall
from glyphoxa_trio.units import many

from .idle_sessions import StoreFull
from .journal_writer import MOST_WAITING, RETRY, JournalJob, JournalWriter
from .kept_table import KeptTable, id_by_name
from .logged_turn import LoggedTurn, overheard_line, rest_of
from .session_log import (
    UnheardTurn,
    effect_entry,
    restored,
    snapshot_entry,
    state_entry,
)
from .session_snapshot import SessionSnapshot

_LOOKS: Final = 0.25  # how often to look whether a turn was heard out
_HEARING: Final = 60.0  # after a turn; later nothing more of it is heard
# What is heard later is written later, in a session that others may claim. Below the
# time for which a worker of a cluster waits to tell the end of a turn.
_HEARD_BEFORE: Final = 0.15
_BEFORE_A_CALL: Final = 0.1
_CLOSING: Final = 5.0
_BETWEEN_CHANGES: Final = 1.0  # changes that come sooner are written together
_LOADING: Final = 2.0
_BETWEEN_LOOKS: Final = 60.0  # for evenings that are over
A = TypeVar("A")
R = TypeVar("R")


class TakeSnapshot(Protocol):
    """A function that returns a snapshot of an open session, with or without its turns;
    None if it is not open."""

    def __call__(
        self, key: SessionKey, *, history: bool = True
    ) -> SessionSnapshot | None: ...


def _no_snapshot(key: SessionKey, *, history: bool = True) -> SessionSnapshot | None:
    return None


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
    writer: JournalWriter = attrs.field(init=False)
    _tables: dict[SessionKey, KeptTable] = attrs.field(factory=dict, init=False)
    # Sessions whose turns are ending, and those of the same names that begin meanwhile.
    _ending: dict[SessionKey, trio.Event] = attrs.field(factory=dict, init=False)
    _next: dict[SessionKey, KeptTable] = attrs.field(factory=dict, init=False)
    _settle: trio.Event = attrs.field(factory=trio.Event, init=False)
    _running: trio.CancelScope = attrs.field(
        factory=lambda: trio.CancelScope(shield=True), init=False
    )
    _settling: dict[SessionKey, dict[str, LoggedTurn]] = attrs.field(
        factory=dict, init=False
    )
    _snapshot: TakeSnapshot = attrs.field(default=_no_snapshot, init=False)
    _changed: set[SessionKey] = attrs.field(factory=set, init=False)
    # Sessions that are set aside here alone, since nothing of them could be kept.
    _unkept: set[SessionKey] = attrs.field(factory=set, init=False)
    _change: trio.Event = attrs.field(factory=trio.Event, init=False)
    _correct: Callable[[CampaignKey, str], str] = attrs.field(
        default=lambda _, __: "", init=False
    )
    _aside: dict[tuple[SessionKey, Overheard], set[str]] = attrs.field(
        factory=dict, init=False
    )

    def __attrs_post_init__(self) -> None:
        self.writer = JournalWriter(self.memory, self._warn, self._now)

    # Sessions.

    def snapshots_by(self, snapshot: TakeSnapshot) -> None:
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
        """Return the table of a session, which begins now if there is none, or if the
        one of this name is ending.

        Raises:
          ValueError: it belongs to another campaign.
        """
        tables = self._tables_of(key)
        table = tables.get(key)
        if table is None:
            name = campaign or self._campaign or key.id
            table = tables[key] = KeptTable(key, CampaignKey(name, key.tenant))
        elif campaign and campaign != table.campaign.campaign:
            raise ValueError(
                f"the session {key} belongs to the campaign"
                f" {table.campaign.campaign!r}, and cannot be moved to {campaign!r}"
            )
        if players:
            table.call(players)
        return table

    def campaign_of(self, key: SessionKey) -> CampaignKey:
        """Return the campaign that a session belongs to."""
        table = self._tables.get(key)
        if table is not None:
            return table.campaign
        return CampaignKey(self._campaign or key.id, key.tenant)

    def player_of(self, key: SessionKey, speaker: str) -> str:
        """Return the stable id of the player who speaks under this name."""
        table = self._tables_of(key).get(key)
        return id_by_name(speaker) if table is None else table.player(speaker)

    def _tables_of(self, key: SessionKey) -> dict[SessionKey, KeptTable]:
        return self._next if key in self._ending else self._tables

    def asks(self, npc: NpcId, speaker: str) -> None:
        """Note who speaks to an NPC, in a turn that begins."""
        if (table := self._tables.get(npc.session)) is not None:
            table.asking[npc.npc] = speaker

    def asker(self, npc: NpcId) -> tuple[str, str]:
        """Return the id and the name of the player who spoke to an NPC last; two empty
        texts if none did."""
        table = self._tables.get(npc.session)
        speaker = "" if table is None else table.asking.get(npc.npc, "")
        if table is None or not speaker:
            return "", ""
        return table.player(speaker), speaker

    async def take(self, key: SessionKey) -> SessionSnapshot | None:
        """Claim a session that is used from now on, and return it as it was kept.

        If another process has it, what that has written by now is returned. None means
        that the session begins. A warning says so if it is not kept from now on,
        because another process has it or the store cannot be reached.

        Raises:
          SnapshotRefused: it was kept, and cannot be read.
          MemoryUnavailable: it was kept, and the store is away; the next use may
            succeed.
        """
        await self.namesake_ended(key)
        table = self.table(key)
        held = table.claim
        try:
            claim = await self._patiently(
                self.claim, key, until=_LOADING if table.was_kept else 0.0
            )
        except HeldElsewhere as error:
            self._warn(f"{error}: what happens in {key} now is not kept")
            return await self._elsewhere(table, error) or table.resting
        except MemoryUnavailable as error:
            if table.was_kept:
                raise
            self._warn(f"{error}: what happens in {key} now is not kept")
            return table.resting
        kept = table.resting
        if kept is not None and claim is held:  # it was not given back yet
            return kept
        if not (claim.known or table.loaded):
            table.was_loaded()
            if kept is not None:  # nobody has kept it
                self.keep(kept)
            return kept
        back = restored(await self._load(claim), self._nothing(key))
        if table.loaded:  # it was set aside by this process
            return back.snapshot
        table.was_loaded(back.cut_short)
        for turn in back.unheard:
            self.writer.put(JournalJob(table, partial(rest_of, table, turn)))
        # The entries of each run begin with a snapshot: their times are on its clock.
        now = self._now()
        self._put_snapshot(table, lambda: _whole(table, back.snapshot, now))
        return back.snapshot

    async def _elsewhere(
        self, table: KeptTable, held: HeldElsewhere
    ) -> SessionSnapshot | None:
        """Return a session that another process has, as far as it is written."""
        key = table.key
        theirs = Claim(
            tenant=key.tenant,
            session=key.id,
            campaign=table.campaign,
            epoch=held.epoch,
            known=True,
        )
        try:
            entries = await self._load(theirs)
        except (Fenced, MemoryUnavailable) as error:
            self._warn(f"what was kept of {key} cannot be read: {error}")
            return None
        return restored(entries, self._nothing(key)).snapshot if entries else None

    async def claim(self, key: SessionKey, *, steal_from: int | None = None) -> Claim:
        """Return the claim of a session, made now if there is none; see
        `Journal.claim`.

        Raises:
          HeldElsewhere: another living process has it.
          MemoryUnavailable: the store is away.
        """
        await self.namesake_ended(key)
        table = self.table(key)
        self.writer.keeps(table)
        await self.writer.ended(key)  # the one of this id before it is still to end
        if (claim := table.claim) is None:
            claim = await self.memory.journal.claim(
                key.tenant, key.id, table.campaign, steal_from=steal_from
            )
            table.claimed(claim)
        return claim

    async def _load(self, claim: Claim) -> Sequence[KeptEntry]:
        """Return a session's entries; try for two seconds if the store is away."""
        return await self._patiently(self.memory.journal.load, claim)

    async def _patiently(
        self, ask: Callable[[A], Awaitable[R]], about: A, *, until: float = _LOADING
    ) -> R:
        """Ask the store; ask again for so many seconds if it is away."""
        pause, _ = RETRY
        until += trio.current_time()
        while True:
            try:
                return await ask(about)
            except MemoryUnavailable:
                if trio.current_time() + pause > until:
                    raise
            await trio.sleep(pause)
            pause *= 2

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
        """Keep a session that is set aside, and give its claim back: others may use it.
        One that is `strict` stays claimed.

        Raises:
          StoreFull: too much waits to be written, or too many sessions that are set
            aside could not be kept.
        """
        if self.writer.is_full:
            raise StoreFull(
                f"{many(self.writer.waiting, 'turn waits', 'turns wait')} to be"
                " written to memory"
            )
        if len(self._unkept) >= MOST_WAITING:
            raise StoreFull(f"{MOST_WAITING} sessions that are set aside are not kept")
        table = self.table(key)
        table.rests(kept)

        def done(error: str | None) -> None:
            if table.resting is not kept:  # it is in use again
                return
            if error is None:
                table.rests(None, written=True)
            else:
                self._unkept.add(key)

        if table.strict:
            now = self._now()
            self._finish(table)
            self._put_snapshot(table, lambda: _whole(table, kept, now), done)
        else:
            self._put_end(table, kept, ends=False, rests=True, done=done)

    def wakes(self, key: SessionKey) -> None:
        """Record that a session is in use again."""
        self._unkept.discard(key)
        if (table := self._tables.get(key)) is not None:
            table.rests(None)

    def unkept(self) -> list[SessionSnapshot]:
        """Return the sessions that are set aside here alone."""
        tables = (self._tables.get(key) for key in self._unkept)
        return [x.resting for x in tables if x is not None and x.resting is not None]

    def forget_unused(self, is_used: Callable[[SessionKey], bool]) -> None:
        """Forget what is known here of sessions that are written, given back and not
        used any more."""
        for key, table in list(self._tables.items()):
            if table.claim is None and table.resting is None and not is_used(key):
                del self._tables[key]

    def keep(self, kept: SessionSnapshot) -> None:
        """Keep a session that continues from this snapshot."""
        now = self._now()
        table = self.table(kept.key)
        self._put_snapshot(table, lambda: _whole(table, kept, now))

    def changed(self, session: SessionKey) -> None:
        """Keep what was changed in a session outside of its turns (`TurnLog`)."""
        if session in self._tables:
            self._changed.add(session)
            self._change.set()

    def _put_changes(self) -> set[SessionKey]:
        """Write changed sessions, and return them; those that find no room beside turns
        are left for the next time, since what they are then is what is written."""
        put: set[SessionKey] = set()
        while self._changed and not self.writer.is_half_full:
            key = self._changed.pop()
            put.add(key)
            if (table := self._tables.get(key)) is None:
                continue
            if table.count():
                self._put_whole(table)
            else:
                self.writer.put(JournalJob(table, partial(self._state, key)))
        return put

    def _state(self, key: SessionKey) -> Sequence[Entry]:
        kept = self._snapshot(key, history=False)
        return [] if kept is None else [state_entry(kept, at=self._now())]

    @contextmanager
    def ending(self, key: SessionKey) -> Generator[None]:
        """End the turns of a session in this block, and then its table (`release`,
        `drop`, `end`). What those turns leave is its own: one of the same name that
        begins meanwhile has another table, and is claimed afterwards."""
        over = self._ending[key] = trio.Event()
        try:
            yield
        finally:
            del self._ending[key]
            if (successor := self._next.pop(key, None)) is not None:
                self._tables[key] = successor
            over.set()

    def waits_for_namesake(self, key: SessionKey) -> bool:
        """Return True while another session of this name is `ending`."""
        return key in self._ending

    async def namesake_ended(self, key: SessionKey) -> None:
        """Return when no other session of this name is `ending`."""
        while (over := self._ending.get(key)) is not None:
            await over.wait()

    def release(self, key: SessionKey, kept: SessionSnapshot | None) -> trio.Event:
        """Give the claim of a session back, once all of it is written, and return what
        is set then.

        Args:
          kept: the session as it is now; None if it was set aside.
        """
        written = trio.Event()
        if (table := self._tables.pop(key, None)) is None:
            written.set()
        else:
            self._put_end(table, kept, ends=False, done=lambda _: written.set())
        return written

    def _put_end(
        self,
        table: KeptTable,
        kept: SessionSnapshot | None,
        *,
        ends: bool,
        rests: bool = False,
        done: Callable[[str | None], None] = lambda _: None,
    ) -> None:
        """Write what is left of a session, and give its claim back: one job, which
        finds room in any case."""
        now, left = self._now(), self._settled_now(table)
        self._changed.discard(table.key)
        if not rests:
            self._unkept.discard(table.key)

        def make() -> Sequence[Entry]:
            entries = [x for one in left for x in self._turn_entries(one)]
            return entries if kept is None else [*entries, _whole(table, kept, now)]

        replaces = kept is not None
        self.writer.put(
            JournalJob(table, make, done, ends=ends, rests=rests, replaces=replaces)
        )

    def drop(self, key: SessionKey) -> None:
        """Write nothing more of a session, which belongs to another process."""
        if (table := self._tables.pop(key, None)) is not None:
            table.claimed(None)
            self._settling.pop(key, None)
            self._unkept.discard(key)
            self._changed.discard(key)

    def end(self, key: SessionKey) -> None:
        """End a session: only its lines remain."""
        if (table := self._tables.pop(key, None)) is not None:
            self._put_end(table, None, ends=True)

    # The log of turns.

    def ended(self, turn: EndedTurn) -> None:
        """Keep a turn (`TurnLog`)."""
        table = self._tables.get(turn.id.session)
        if table is None:  # its session has ended
            return
        self._finish(table, turn.id.npc)
        now = trio.current_time()
        one = LoggedTurn(table, turn, at=self._now(), until=now + _HEARING)
        self._settling.setdefault(table.key, {})[turn.id.npc] = one
        self.writer.put(
            JournalJob(
                table,
                partial(self._turn_entries, one),
                partial(self._kept, turn),
                until=now + _HEARD_BEFORE,
            )
        )
        if table.strict:  # who listens learns of the end only when it is written
            hurry = partial(self.writer.hurry, table)
            turn.listener.stream.when_heard_out(hurry)
        table.effects.discard((turn.id.npc, turn.number))
        if table.count():
            self._put_whole(table)
        self._settle.set()

    def _put_whole(self, table: KeptTable) -> None:
        """Write the session as it is now: turns that end later are not in it, and are
        added to it."""
        if (kept := self._snapshot(table.key)) is None:
            return
        at, settling = self._now(), self._settling.get(table.key, {})
        unheard = [
            UnheardTurn(npc, x.turn.number, x.at, x.heard_by_now())
            for npc, x in settling.items()
            if not x.answered
        ]
        self._put_snapshot(table, partial(_whole, table, kept, at, unheard))

    def _put_snapshot(
        self,
        table: KeptTable,
        make: Callable[[], Entry],
        done: Callable[[str | None], None] = lambda _: None,
    ) -> None:
        self.writer.put(JournalJob(table, lambda: [make()], done, replaces=True))

    def overheard(self, npc: NpcId, line: Overheard) -> None:
        """Keep words that NPCs overheard (`TurnLog`): one line for all of them."""
        key = npc.session, line
        heard = self._aside.get(key)
        if heard is not None and npc.npc not in heard:
            heard.add(npc.npc)
            return
        table = self._tables.get(npc.session)
        if table is None:
            return
        # One that has heard it already hears it again: that is another line.
        self._aside[key] = heard_by = {npc.npc}
        at = self._now()

        def done(_: str | None = None) -> None:
            if self._aside.get(key) is heard_by:
                del self._aside[key]

        def entries() -> Sequence[Entry]:
            done()
            return [overheard_line(table, line, heard_by, at)]

        self.writer.put(JournalJob(table, entries, done))

    def epoch(self, session: SessionKey) -> int:
        """Return the epoch of a session's last claim here; 0 if it had none
        (`TurnLog`)."""
        table = self._tables.get(session)
        return 0 if table is None else table.epoch

    async def effects_begin(
        self,
        npc: NpcId,
        turn: int,
        calls: Sequence[tuple[ToolCall, str]],
        utterance: str,
    ) -> bool:
        """Keep that calls with side effects begin (`TurnLog`)."""
        table = self._tables.get(npc.session)
        if table is None:  # another process has the session
            return False
        if (claim := table.claim) is None or self.writer.fails(table.key):
            return not table.strict
        table.effects.add((npc.npc, turn))
        at = self._now()
        entries = [
            effect_entry(npc.npc, turn, call, key, at=at, utterance=utterance)
            for call, key in calls
        ]
        if not self._waits:
            self.writer.put(JournalJob(table, lambda: entries))
            return True
        # To its end: a call that is cancelled here would have no outcome.
        with trio.move_on_after(_BEFORE_A_CALL, shield=True):
            if self.writer.replaces(table):
                # A snapshot that waits does not know of them, and would replace them.
                if await self._written(table, entries):
                    return True
                return not table.strict
            try:
                await self.memory.journal.append(claim, entries)
                return True
            except GlyphoxaError as error:
                if isinstance(error, Fenced):
                    table.fenced()
                self._warn(f"a call of {npc.npc} is not kept in memory: {error}")
        return not table.strict

    async def _written(self, table: KeptTable, entries: Sequence[Entry]) -> bool:
        """Write entries behind everything that waits; return False if they are lost."""
        ends: list[str | None] = []
        over = trio.Event()

        def done(error: str | None) -> None:
            ends.append(error)
            over.set()

        self.writer.put(JournalJob(table, lambda: entries, done))
        await over.wait()
        return ends == [None]

    def _kept(self, turn: EndedTurn, error: str | None) -> None:
        of = turn.id.of(turn.number)
        self._events.publish(TurnKept(**of, kept=error is None, error=error or ""))

    def _turn_entries(self, one: LoggedTurn) -> Sequence[Entry]:
        settled = one.settled
        entries = one.entries(self._correct, self._now(), settled=settled)
        if settled:
            self._settled(one)
        return entries

    def _settled(self, one: LoggedTurn) -> None:
        key, npc = one.table.key, one.turn.id.npc
        settling = self._settling.get(key, {})
        if settling.get(npc) is one:
            del settling[npc]
        if not settling:
            self._settling.pop(key, None)

    def _finish(self, table: KeptTable, npc: str | None = None) -> None:
        """Write last turns as they were heard by now, since no more will be heard of
        them: another one begins, or the session is set aside or over."""
        for one in self._settled_now(table, npc):
            self.writer.put(JournalJob(table, partial(self._turn_entries, one)))

    def _settled_now(
        self, table: KeptTable, npc: str | None = None
    ) -> list[LoggedTurn]:
        """Return last turns, of which no more will be heard."""
        settling = self._settling.get(table.key, {})
        found = [one for name, one in settling.items() if npc in (None, name)]
        for one in found:
            one.settle()
            self._settled(one)
        return found

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
            nursery.start_soon(self._end_evenings)
            nursery.start_soon(self._keep_changes)
            await self.writer.run()

    async def _keep_changes(self) -> None:
        while True:
            await self._change.wait()
            self._change = trio.Event()
            self._put_changes()
            if self._changed:
                self._change.set()
            await trio.sleep(_BETWEEN_CHANGES)

    async def _look(self) -> None:
        """Write the rest of turns once it is known how much of them was heard."""
        while True:
            await self._settle.wait()
            self._settle = trio.Event()
            while self._settling:
                await trio.sleep(_LOOKS)
                for settling in list(self._settling.values()):
                    for name, one in list(settling.items()):
                        if one.written is not None and one.settled:
                            self._finish(one.table, name)

    async def _end_evenings(self) -> None:
        """End evenings after half an idle hour: also in a program that runs for less
        than a minute."""
        while True:
            await self.writer.end_idle_evenings(self._tables.values())
            await trio.sleep(_BETWEEN_LOOKS)

    async def flush(self) -> None:
        """Return when everything that waits by now is written, or lost."""
        waiting = set(self._changed)
        while True:
            waiting -= self._put_changes()
            await self.writer.flush()
            if not waiting:  # what has changed since is not waited for
                return

    async def close(self) -> None:
        """Keep the open sessions, end their evenings, and give all claims back.

        Takes 5 seconds at most; a warning says what was not written by then.
        """
        for table in self._tables.values():
            if table.claim is not None:
                self._put_end(table, self._snapshot(table.key), ends=False)
            else:
                self._finish(table)
        with trio.move_on_after(_CLOSING, shield=True):
            await self.flush()
            return
        self._warn(
            f"memory: {many(self.writer.waiting, 'entry was', 'entries were')} not"
            " written"
        )


def _whole(
    table: KeptTable,
    kept: SessionSnapshot,
    at: float,
    unheard: Sequence[UnheardTurn] = (),
) -> Entry:
    return snapshot_entry(kept, at=at, unheard=unheard, cut_short=table.cut_short)


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
