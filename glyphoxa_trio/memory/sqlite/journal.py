"""The journal in a memory file.

Each append is a transaction of its own, except that those which wait at the same time
share one: a commit costs more than what is in it.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import apsw
import attrs
import outcome

import trio

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.memory.entries import (
    Claim,
    Entry,
    EntryKind,
    Holder,
    KeptEntry,
    Line,
    SessionRow,
)
from glyphoxa_trio.memory.errors import Fenced, HeldElsewhere
from glyphoxa_trio.memory.visibility import CampaignKey
from glyphoxa_trio.storage.errors import UnusableFile
from glyphoxa_trio.storage.pool import SqlitePool

from .audiences import audience_row, campaign_row, plain
from .holders import is_alive
from .line_words import add_words

# Appends that share a transaction, at most.
_MOST_AT_ONCE: Final = 64
_json: Final = json.JSONEncoder(separators=(",", ":")).encode
_SNAPSHOT: Final = EntryKind.SNAPSHOT.value

_RESERVE: Final = """
    update session set last = last + ?, last_at = max(last_at, ?)
    where tenant = ? and name = ? and epoch = ? and holder <> ''
    returning id, last, campaign
"""
_ADD: Final = """
    insert into entry (session, n, epoch, kind, at, npc, turn, data)
    values (?, ?, ?, ?, ?, ?, ?, ?)
"""
_ADD_LINE: Final = """
    insert into line (id, session, campaign, evening, audience, at, speaker, player,
        addressee, text, corrected, seconds)
    values (?, ?, ?, (select id from evening where campaign = ? and name = ?),
        ?, ?, ?, ?, ?, ?, ?, ?)
"""
_REPLACED: Final = "delete from entry where session = ? and kind <> 'line' and n < ?"
_ANY_ENTRY: Final = "select exists (select 1 from entry where session = ?)"
_ANY_LINE: Final = """
    select exists (select 1 from entry where session = ? and kind = 'line')
"""
_TO_LOAD: Final = """
    select n, entry.epoch, kind, at, npc, turn, data from entry
    where session = ? and kind <> 'line' order by n
"""
_SESSIONS: Final = """
    select tenant, name, holder, place, last_at, ended,
        (select name from campaign where campaign.id = session.campaign),
        (select count(*) from entry
         where entry.session = session.id and entry.kind = 'line')
    from session where ?1 is null or tenant = ?1
    order by last_at desc, tenant, name
"""


@attrs.define(eq=False)
class _Append:
    """An append that waits, and how it ended."""

    claim: Claim
    last_at: float
    rows: list[tuple[str, float, str, int, str, Line | None]]
    ended: outcome.Outcome[int] | None = None


@attrs.define(eq=False)
class SqliteJournal:
    """The journal of a memory file.

    An append that is cancelled before it has begun is not made. One that has begun is
    waited for, which takes no longer than another program may keep the file locked.
    """

    _pool: SqlitePool
    _holder: Holder
    _waiting: deque[_Append] = attrs.field(factory=deque, init=False)
    _turn: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    async def claim(
        self, tenant: str, session: str, campaign: CampaignKey, *, steal: bool = False
    ) -> Claim:
        return await self._pool.write(self._claim, tenant, session, campaign, steal)

    def _claim(
        self,
        connection: apsw.Connection,
        tenant: str,
        session: str,
        campaign: CampaignKey,
        steal: bool,
    ) -> Claim:
        row = connection.execute(
            "select id, campaign, holder, place, ended from session"
            " where tenant = ? and name = ?",
            (plain(tenant), plain(session)),
        ).get
        if row is None:
            connection.execute(
                "insert into session (tenant, name, campaign) values (?, ?, ?)",
                (plain(tenant), plain(session), campaign_row(connection, campaign)),
            )
            id_, known = connection.last_insert_rowid(), False
        else:
            id_, owner, holder, place, ended = row
            if holder and not steal and self._is_another(holder):
                raise HeldElsewhere(f"the session {session} is open in {place}")
            known = not ended and bool(connection.execute(_ANY_ENTRY, (id_,)).get)
            if connection.execute(_ANY_LINE, (id_,)).get:
                campaign = CampaignKey(
                    *connection.execute(
                        "select name, tenant from campaign where id = ?", (owner,)
                    ).get
                )
            else:
                connection.execute(
                    "update session set campaign = ? where id = ?",
                    (campaign_row(connection, campaign), id_),
                )
        epoch = connection.execute(
            "update session set epoch = epoch + 1, holder = ?, place = ?, ended = 0"
            " where id = ? returning epoch",
            (self._holder.id, plain(self._holder.where), id_),
        ).get
        return Claim(
            tenant=tenant,
            session=session,
            campaign=campaign,
            epoch=epoch,
            known=known,
            row=id_,
        )

    def _is_another(self, holder: str) -> bool:
        return holder != self._holder.id and is_alive(self._pool.path, holder)

    async def append(self, claim: Claim, entries: Sequence[Entry]) -> int:
        mine = _Append(
            claim,
            max((x.at for x in entries), default=0.0),
            [
                (x.kind.value, x.at, x.npc, x.turn, _json(dict(x.data)), x.line)
                for x in entries
            ],
        )
        self._waiting.append(mine)
        try:
            async with self._turn:
                if mine.ended is None:
                    # Others may wait for the same transaction.
                    with trio.CancelScope(shield=True):
                        await self._append_waiting()
        finally:
            if mine in self._waiting:  # cancelled
                self._waiting.remove(mine)
        assert mine.ended is not None
        return mine.ended.unwrap()

    async def _append_waiting(self) -> None:
        several = [
            self._waiting.popleft()
            for _ in range(min(len(self._waiting), _MOST_AT_ONCE))
        ]
        try:
            await self._append_all(several)
        except GlyphoxaError as error:
            for one in several:
                again = type(error)(*error.args)
                again.__cause__ = error
                one.ended = outcome.Error(again)
        except Exception:
            # One of them cannot be written, and the others have nothing to do with it.
            for one in several:
                try:
                    await self._append_all([one])
                except Exception as error:
                    one.ended = outcome.Error(error)

    async def _append_all(self, several: list[_Append]) -> None:
        ends = await self._pool.write(_append_all, several)
        for one, ended in zip(several, ends, strict=True):
            one.ended = ended

    async def load(self, claim: Claim) -> tuple[KeptEntry, ...]:
        return await self._pool.read(_load, claim, self._pool.path)

    async def release(self, claim: Claim, *, ended: bool = False) -> None:
        await self._pool.write(_release, claim, ended)

    async def sessions(self, tenant: str | None = None) -> tuple[SessionRow, ...]:
        return await self._pool.read(self._sessions, tenant)

    def _sessions(
        self, connection: apsw.Connection, tenant: str | None
    ) -> tuple[SessionRow, ...]:
        asked = None if tenant is None else plain(tenant)
        rows = list(connection.execute(_SESSIONS, (asked,)))
        alive = {x: is_alive(self._pool.path, x) for x in {row[2] for row in rows} if x}
        return tuple(
            SessionRow(
                tenant=owner,
                session=name,
                campaign=campaign,
                holder=place if alive.get(holder) else "",
                lines=lines,
                last_at=last_at,
                ended=bool(ended),
            )
            for owner, name, holder, place, last_at, ended, campaign, lines in rows
        )


def _append_all(
    connection: apsw.Connection, several: list[_Append]
) -> list[outcome.Outcome[int]]:
    ends: list[outcome.Outcome[int]] = []
    for one in several:
        try:
            ends.append(outcome.Value(_append(connection, one)))
        except Fenced as error:
            ends.append(outcome.Error(error))
    return ends


def _append(connection: apsw.Connection, one: _Append) -> int:
    claim, rows = one.claim, one.rows
    name = plain(claim.session)
    reserved = connection.execute(
        _RESERVE, (len(rows), one.last_at, plain(claim.tenant), name, claim.epoch)
    ).get
    if reserved is None:
        raise _fenced(claim)
    session, last, campaign = reserved
    snapshot = 0
    n = last - len(rows)
    for kind, at, npc, turn, data, line in rows:
        n += 1
        connection.execute(
            _ADD, (session, n, claim.epoch, kind, at, plain(npc), turn, data)
        )
        if line is not None:
            _add_line(connection, session, campaign, at, line)
        elif kind == _SNAPSHOT:
            snapshot = n
    if snapshot:
        connection.execute(_REPLACED, (session, snapshot))
    return int(last)


def _add_line(
    connection: apsw.Connection, session: int, campaign: int, at: float, line: Line
) -> None:
    id_ = connection.last_insert_rowid()
    audience = audience_row(connection, campaign, line.reach.npcs)
    text, corrected = plain(line.text), plain(line.corrected)
    connection.execute(
        _ADD_LINE,
        (
            id_,
            session,
            campaign,
            campaign,
            plain(line.evening),
            audience,
            at,
            plain(line.speaker),
            plain(line.player),
            plain(line.to),
            text,
            corrected,
            line.seconds,
        ),
    )
    add_words(
        connection,
        line=id_,
        campaign=campaign,
        audience=audience,
        text=text,
        corrected=corrected,
    )


def _load(
    connection: apsw.Connection, claim: Claim, path: Path
) -> tuple[KeptEntry, ...]:
    session = connection.execute(
        "select id from session"
        " where tenant = ? and name = ? and epoch = ? and holder <> ''",
        (plain(claim.tenant), plain(claim.session), claim.epoch),
    ).get
    if session is None:
        raise _fenced(claim)
    try:
        return tuple(_kept(*row) for row in connection.execute(_TO_LOAD, (session,)))
    except ValueError as error:
        raise UnusableFile(f"{path}: it is damaged: {error}") from None


def _kept(
    n: int, epoch: int, kind: str, at: float, npc: str, turn: int, data: str
) -> KeptEntry:
    entry = Entry(
        kind=EntryKind(kind), at=at, npc=npc, turn=turn, data=json.loads(data)
    )
    return KeptEntry(n=n, epoch=epoch, entry=entry)


def _release(connection: apsw.Connection, claim: Claim, ended: bool) -> None:
    session = connection.execute(
        "update session set holder = '', place = '', ended = ?"
        " where tenant = ? and name = ? and epoch = ? and holder <> '' returning id",
        (int(ended), plain(claim.tenant), plain(claim.session), claim.epoch),
    ).get
    if session is not None and ended:
        connection.execute(
            "delete from entry where session = ? and kind <> 'line'", (session,)
        )


def _fenced(claim: Claim) -> Fenced:
    return Fenced(f"the session {claim.session} was taken over")
