"""Appends to the journal in PostgreSQL.

An append is one statement. It names the number of the entry that it follows. If the
connection is lost meanwhile, that number tells afterwards whether it was made, and an
old one that still wanders to the database comes too late.
"""

from __future__ import annotations

import json
from typing import Any, Final

import attrs
import psycopg

import trio

from glyphoxa_trio.memory.entries import Claim, Entry, EntryKind
from glyphoxa_trio.memory.errors import Fenced, MemoryUnavailable
from glyphoxa_trio.memory.visibility import Reach

from .pool import PATIENCE, OutcomeUnknown, PostgresPool
from .rows import Connection, Known, fit, index_words, known

_MOST_REACHES: Final = 1000
_TRIES: Final = 3
_APPEND: Final = """
    with mine as (
        update session set last = %(last)s,
            last_at = greatest(last_at, %(at)s)
        where id = %(session)s and epoch = %(epoch)s and holder = %(holder)s
            and last = %(before)s
        returning id, campaign
    ), entries as (
        insert into entry (session, n, epoch, kind, at, npc, turn, data)
        select id, x.n, %(epoch)s, x.kind, x.at, x.npc, x.turn, x.data
        from mine, jsonb_to_recordset(%(entries)s::jsonb) as x(
            n bigint, kind text, at double precision, npc text, turn bigint, data text)
    ), lines as (
        insert into line (session, n, epoch, campaign, at, npc, turn, data, evening,
            speaker, player, addressee, text, corrected, seconds,
            audience, topics, secret, words)
        select id, x.n, %(epoch)s, campaign, x.at, x.npc, x.turn, x.data, evening,
            speaker, player, addressee, text, corrected, seconds,
            audience, topics, secret, array_to_tsvector(words || ('@' || campaign))
        from mine, jsonb_to_recordset(%(lines)s::jsonb) as x(
            n bigint, at double precision, npc text, turn bigint, data text,
            evening text, speaker text, player text, addressee text, text text,
            corrected text, seconds double precision,
            audience bigint, topics text[], secret boolean, words text[])
    ), older as (
        delete from entry using mine where session = id and n <= %(older)s
    ), uncut as (
        update evening set whole = false from mine
        where evening.campaign = mine.campaign and name = any(%(evenings)s) and whole
    )
    select from mine
"""


class _Overtaken(Exception):
    """An earlier append, which was thought to be lost, was made after all."""


@attrs.define(eq=False)
class Claimed:
    """A session that this process has claimed.

    ``last`` is the number of its last entry. ``tried`` are entries of an append whose
    end is not known; ``base`` is the number of the entry before them.
    """

    id: int
    campaign: int
    last: int
    tried: tuple[Entry, ...] = ()
    base: int = 0
    turn: trio.Lock = attrs.field(factory=trio.Lock)


@attrs.define(eq=False)
class Appender:
    """Writes entries for one holder, whose lock has the key ``holder``."""

    pool: PostgresPool
    holder: int
    _reaches: dict[tuple[int, Reach], Known] = attrs.field(factory=dict, init=False)

    async def append(
        self, claim: Claim, session: Claimed, entries: tuple[Entry, ...]
    ) -> int:
        """Write entries, all or none, and return the number of the last one.

        If the end of an append is not known, this raises an error. If it is called with
        the same entries again, perhaps with more behind, each is written once.
        """
        with trio.move_on_after(2 * PATIENCE) as waiting:
            await session.turn.acquire()
        if waiting.cancelled_caught:
            raise MemoryUnavailable(f"earlier entries of {claim.session} still wait")
        try:
            for _ in range(_TRIES):
                try:
                    return await self._once(claim, session, entries)
                except (OutcomeUnknown, _Overtaken) as error:
                    # It may be lost to a restart of the database that is over already.
                    said = str(error)
            raise MemoryUnavailable(said)
        finally:
            session.turn.release()

    async def _once(
        self, claim: Claim, session: Claimed, entries: tuple[Entry, ...]
    ) -> int:
        written = 0
        if session.tried:
            session.last = await self.pool.read_one(_last, self.holder, claim, session)
            written = session.last - session.base
            if entries[:written] != session.tried[:written]:
                written = 0
        await self._know(session.campaign, entries)
        rest = entries[written:]
        values = self._values(claim, session, rest)
        session.base, session.tried = session.last - written, entries
        return await self.pool.write_one(_append, claim, session, values)

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
    ) -> dict[str, Any]:
        """Return the parameters of an append."""
        snapshots = [
            n for n, x in enumerate(entries) if x.kind is EntryKind.SNAPSHOT
        ] or [-1]
        plain, lines = [], []
        for n, entry in enumerate(entries):
            row = {
                "n": session.last + 1 + n,
                "kind": entry.kind,
                "at": entry.at,
                "npc": fit(entry.npc),
                "turn": entry.turn,
                "data": json.dumps(dict(entry.data)),
            }
            if entry.line is not None:
                lines.append(row | self._line(entry, session.campaign))
            elif n >= snapshots[-1]:
                plain.append(row)
        return {
            "session": session.id,
            "epoch": claim.epoch,
            "holder": self.holder,
            "before": session.last,
            "last": session.last + len(entries),
            "at": max((x.at for x in entries), default=0.0),
            "older": session.last if snapshots[-1] >= 0 else 0,
            "evenings": list({x["evening"] for x in lines}),
            "entries": json.dumps(plain),
            "lines": json.dumps(lines),
        }

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
            "words": index_words(line.text, line.corrected),
        }


def taken(claim: Claim) -> str:
    """Return the text of an error: the claim is not valid any more."""
    return f"the session {claim.session} was taken over"


def _known(
    connection: Connection, campaign: int, reaches: set[Reach]
) -> dict[tuple[int, Reach], Known]:
    return {(campaign, x): known(connection, campaign, x) for x in reaches}


def _append(
    connection: Connection, claim: Claim, session: Claimed, values: dict[str, Any]
) -> int:
    try:
        done = connection.execute(_APPEND, values).rowcount
    except psycopg.Error:
        if not connection.closed and session.base == session.last:
            session.tried = ()  # the server says no, and has written nothing
        raise
    if not done:
        last = _last(connection, values["holder"], claim, session)
        raise _Overtaken(f"the session {claim.session} has entry {last} already")
    session.last, session.tried = values["last"], ()
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
