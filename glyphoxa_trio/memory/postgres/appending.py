"""Appends to the journal in PostgreSQL.

An append is one statement, which it shares with others that wait at the same time. It
names the number of the entry that it follows. If the connection is lost meanwhile, that
number tells afterwards whether it was made, and an old one that still wanders to the
database comes too late. One that could not be made together with others, since its
session is locked or the server objects to one of them, is then made by itself.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import attrs
import psycopg

import trio

from glyphoxa_trio.memory.entries import (
    Claim,
    Entry,
    EntryKind,
    last_key,
    unwritten,
)
from glyphoxa_trio.memory.errors import Fenced, MemoryUnavailable
from glyphoxa_trio.memory.visibility import Reach

from .pool import MOST, PATIENCE, OutcomeUnknown, PostgresPool
from .rows import Connection, Known, fit, index_words, known
from .statement import AppendRows, append_statement, as_json, parameters
from .together import Ended, Together

_MOST_REACHES: Final = 1000
_TRIES: Final = 3
# Appends that are made by themselves at once: what they wait for holds up no other use
# of the connections.
_ALONE: Final = MOST // 2
_MADE: Final = 8  # appends; whoever waits for their end tries again soon, or never
_APPEND: Final = append_statement(waits=True).encode()


class _Overtaken(Exception):
    """An earlier append, which was thought to be lost, was made after all."""


@attrs.define(eq=False)
class Claimed:
    """A session that this process has claimed.

    ``last`` is the number of its last entry, ``written`` the key of the last job
    (`Entry.key`). ``tried`` are entries of an append whose
    end is not known; ``base`` is the number of the entry before them. ``made`` are
    entries that turned out to be made when others came, the oldest first.
    """

    id: int
    campaign: int
    last: int
    written: int = 0
    tried: tuple[Entry, ...] = ()
    base: int = 0
    made: deque[tuple[Entry, ...]] = attrs.field(factory=lambda: deque(maxlen=_MADE))
    turn: trio.Lock = attrs.field(factory=trio.Lock)


@attrs.define(eq=False)
class Appender:
    """Writes entries for one holder, whose lock has the key ``holder``."""

    pool: PostgresPool
    holder: int
    together: Together
    _reaches: dict[tuple[int, Reach], Known] = attrs.field(factory=dict, init=False)
    _places: trio.Semaphore = attrs.field(
        factory=lambda: trio.Semaphore(_ALONE), init=False
    )

    async def append(
        self, claim: Claim, session: Claimed, entries: tuple[Entry, ...]
    ) -> int:
        """Write entries, all or none, and return the number of the last one.

        If the end of an append is not known, this raises an error. If it is called with
        the same entries again, perhaps with more behind, each is written once, even if
        others came between.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            session.turn.acquire_nowait()
        except trio.WouldBlock:
            with trio.move_on_after(2 * PATIENCE) as waiting:
                await session.turn.acquire()
            if waiting.cancelled_caught:
                raise MemoryUnavailable(
                    f"earlier entries of {claim.session} still wait"
                ) from None
        try:
            left = _unmade(session, unwritten(entries, session.written))
            if not await self._with_others(claim, session, left):
                await self._alone(claim, session, left)
            session.written = max(session.written, last_key(entries))
            return session.last
        finally:
            session.turn.release()

    async def release(
        self, claim: Claim, session: Claimed, evening: str, at: float
    ) -> bool:
        """Try to give a claim back, and end an evening, together with what others
        write; return True if that was done."""
        try:
            session.turn.acquire_nowait()
        except trio.WouldBlock:
            return False
        try:
            if session.tried:
                return False
            values = self._values(claim, session, ())
            values["sessions"][0].update(released=True, evening=fit(evening), ended=at)
            return await self.together.append(values) is Ended.MADE
        finally:
            session.turn.release()

    async def _with_others(
        self, claim: Claim, session: Claimed, entries: tuple[Entry, ...]
    ) -> bool:
        """Try to make an append together with others; return True if it was made."""
        if session.tried:
            return False
        await self._know(session.campaign, entries)
        values = self._values(claim, session, entries)
        session.base, session.tried = session.last, entries
        ended = Ended.REFUSED
        try:
            ended = await self.together.append(values)
        finally:
            if ended is not Ended.UNKNOWN:
                session.tried = ()
        if ended is Ended.MADE:
            session.last += len(entries)
        return ended is Ended.MADE

    async def _alone(
        self, claim: Claim, session: Claimed, entries: tuple[Entry, ...]
    ) -> None:
        """Make an append by itself, again if its end is not known."""
        with trio.move_on_after(PATIENCE) as waiting:
            await self._places.acquire()
        if waiting.cancelled_caught:
            raise MemoryUnavailable(f"{_ALONE} other sessions are locked or refused")
        try:
            for _ in range(_TRIES):
                try:
                    await self._once(claim, session, entries)
                    return
                except (OutcomeUnknown, _Overtaken) as error:
                    # It may be lost to a restart of the database that is over already.
                    said = str(error)
            raise MemoryUnavailable(said)
        finally:
            self._places.release()

    async def _once(
        self, claim: Claim, session: Claimed, entries: tuple[Entry, ...]
    ) -> int:
        written = 0
        if session.tried:
            session.last = await self.pool.read_one(_last, self.holder, claim, session)
            # Less than none: the database has lost what it had, as after a failover.
            written = max(0, session.last - session.base)
            if entries[:written] != session.tried[:written]:
                session.made.append(session.tried[:written])
                written = 0
        await self._know(session.campaign, entries)
        rest = entries[written:]
        values = self._values(claim, session, rest)
        session.base, session.tried = session.last - written, entries
        return await self.pool.write_one(_append, self.holder, claim, session, values)

    async def _know(self, campaign: int, entries: tuple[Entry, ...]) -> None:
        """Look the reaches of entries up."""
        reaches = {x.line.reach for x in entries if x.line is not None}
        missing = {x for x in reaches if (campaign, x) not in self._reaches}
        if missing:
            if len(self._reaches) > _MOST_REACHES:
                self._reaches.clear()
                missing = reaches
            self._reaches.update(await self.pool.write(_known, campaign, missing))

    def _values(
        self, claim: Claim, session: Claimed, entries: tuple[Entry, ...]
    ) -> AppendRows:
        """Return the rows of an append."""
        snapshots = [
            n for n, x in enumerate(entries) if x.kind is EntryKind.SNAPSHOT
        ] or [-1]
        plain, lines = [], []
        for n, entry in enumerate(entries):
            row = {
                "id": session.id,
                "n": session.last + 1 + n,
                "kind": entry.kind,
                "at": entry.at,
                "npc": fit(entry.npc),
                "turn": entry.turn,
                "data": as_json(dict(entry.data)).decode(),
            }
            if entry.line is not None:
                lines.append(row | self._line(entry, session.campaign))
            elif n >= snapshots[-1]:
                plain.append(row)
        row = {
            "id": session.id,
            "epoch": claim.epoch,
            "before": session.last,
            "upto": session.last + len(entries),
            "newest": max((x.at for x in entries), default=0.0),
            "older": session.last if snapshots[-1] >= 0 else 0,
        }
        return {"sessions": [row], "entries": plain, "lines": lines}

    def _line(self, entry: Entry, campaign: int) -> dict[str, Any]:
        line = entry.line
        assert line is not None
        reach = self._reaches[campaign, line.reach]
        return {
            "evening": fit(line.evening),
            "speaker": fit(line.speaker),
            "player": fit(line.player),
            "addressee": fit(line.to),
            "text": fit(line.text),
            "corrected": fit(line.corrected),
            "seconds": line.seconds,
            "audience": reach.audience,
            "topics": reach.topics,
            "secret": reach.secret,
            "answers": line.answers,
            "words": index_words(line.text, line.corrected),
        }


def _unmade(session: Claimed, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """Return the entries without those in front that turned out to be made."""
    for made in session.made:
        if entries[: len(made)] == made:
            session.made.remove(made)
            return entries[len(made) :]
    return entries


def taken(claim: Claim) -> str:
    """Return the text of an error: the claim is not valid any more."""
    return f"the session {claim.session} was taken over"


def _known(
    connection: Connection, campaign: int, reaches: set[Reach]
) -> dict[tuple[int, Reach], Known]:
    return {(campaign, x): known(connection, campaign, x) for x in reaches}


def _append(
    connection: Connection,
    holder: int,
    claim: Claim,
    session: Claimed,
    values: AppendRows,
) -> int:
    try:
        with psycopg.RawCursor(connection) as cursor:
            done = cursor.execute(_APPEND, parameters(holder, values)).fetchone()
    except psycopg.Error:
        if not connection.closed and session.base == session.last:
            session.tried = ()  # the server says no, and has written nothing
        raise
    if done is None:
        last = _last(connection, holder, claim, session)
        raise _Overtaken(f"the session {claim.session} has entry {last} already")
    session.last, session.tried = values["sessions"][0]["upto"], ()
    return session.last


def _last(connection: Connection, holder: int, claim: Claim, session: Claimed) -> int:
    """Return the number of the last entry.

    Raises:
      Fenced: the session was claimed again.
    """
    row = connection.execute(
        "select last from session where id = %s and epoch = %s and holder = %s",
        (session.id, claim.epoch, holder),
    ).fetchone()
    if row is None:
        raise Fenced(taken(claim))
    return int(row[0])
