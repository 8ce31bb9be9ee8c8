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
    SessionRow,
)
from glyphoxa_trio.memory.errors import HeldElsewhere, MemoryUnavailable
from glyphoxa_trio.memory.visibility import CampaignKey
from glyphoxa_trio.storage.errors import UnusableFile
from glyphoxa_trio.storage.pool import SqlitePool

from .appending import Append, ClaimedRow, RowIds, append_all, fenced
from .audiences import campaign_row, plain
from .holders import is_alive

# Appends that share a transaction, at most.
_MOST_AT_ONCE: Final = 64
# Ids of audiences and evenings that are kept in mind.
_MOST_IDS: Final = 10_000

_ANY_ENTRY: Final = "select exists (select 1 from entry where session = ?)"
_ANY_LINE: Final = "select exists (select 1 from line where session = ?)"
_TO_LOAD: Final = """
    select n, entry.epoch, kind, at, npc, turn, data from entry
    where session = ? and kind <> 'line' order by n
"""
_SESSIONS: Final = """
    select tenant, name, holder, place, last_at, ended,
        (select name from campaign where campaign.id = session.campaign),
        (select count(*) from line where line.session = session.id)
    from session where ?1 is null or tenant = ?1
    order by last_at desc, tenant, name
"""


@attrs.define(eq=False)
class SqliteJournal:
    """The journal of a memory file.

    An append that is cancelled before it has begun is not made. One that has begun is
    waited for, which takes no longer than another program may keep the file locked.
    """

    _pool: SqlitePool
    _holder: Holder
    _waiting: deque[Append] = attrs.field(factory=deque, init=False)
    _writing: bool = attrs.field(default=False, init=False)
    _ids: RowIds = attrs.field(factory=dict, init=False)

    async def claim(
        self,
        tenant: str,
        session: str,
        campaign: CampaignKey,
        *,
        steal_from: int | None = None,
    ) -> Claim:
        return await self._pool.write(
            self._claim, tenant, session, campaign, steal_from
        )

    def _claim(
        self,
        connection: apsw.Connection,
        tenant: str,
        session: str,
        campaign: CampaignKey,
        steal_from: int | None,
    ) -> Claim:
        row = connection.execute(
            "select id, campaign, holder, place, ended, epoch from session"
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
            id_, owner, holder, place, ended, before = row
            if holder and steal_from != before and self._is_another(holder):
                raise HeldElsewhere(session, holder, place, before)
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
            row=ClaimedRow(id_),
        )

    def _is_another(self, holder: str) -> bool:
        return holder != self._holder.id and is_alive(self._pool.path, holder)

    async def append(self, claim: Claim, entries: Sequence[Entry]) -> int:
        mine = Append.of(claim, entries)
        await trio.lowlevel.checkpoint_if_cancelled()
        self._waiting.append(mine)
        if self._writing:
            try:
                await mine.turn.wait()
            except BaseException:
                if mine in self._waiting:
                    self._waiting.remove(mine)
                    if mine.turn.is_set():
                        self._pass_on()
                raise
        if mine.ended is None:
            self._writing = True
            # The others wait for the same transaction.
            with trio.CancelScope(shield=True):
                try:
                    # Tasks that write at the same moment share the transaction.
                    await trio.lowlevel.checkpoint()
                    await self._append_waiting()
                finally:
                    self._pass_on()
        assert mine.ended is not None
        return mine.ended.unwrap()

    def _pass_on(self) -> None:
        """Have the append that has waited longest write what waits by then."""
        self._writing = bool(self._waiting)
        if self._waiting:
            self._waiting[0].turn.set()

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
                one.end(outcome.Error(again))
        except Exception:
            # One of them cannot be written, and the others have nothing to do with it.
            self._ids.clear()
            for one in several:
                try:
                    await self._append_all([one])
                except Exception as error:
                    one.end(outcome.Error(error))
        except BaseException:
            # The program is being interrupted.
            for one in several:
                one.end(outcome.Error(MemoryUnavailable(f"{self._pool.path}: closed")))
            raise

    async def _append_all(self, several: list[Append]) -> None:
        ends, found = await self._pool.write(append_all, several, self._ids)
        if len(self._ids) > _MOST_IDS:
            self._ids.clear()
        self._ids.update(found)
        for one, ended in zip(several, ends, strict=True):
            one.end(ended)

    async def load(self, claim: Claim) -> tuple[KeptEntry, ...]:
        return await self._pool.read(_load, claim, self._pool.path)

    async def release(
        self, claim: Claim, *, ended: bool = False, evening: str = "", at: float = 0.0
    ) -> None:
        await self._pool.write(_release, claim, ended, evening, at)

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


def _load(
    connection: apsw.Connection, claim: Claim, path: Path
) -> tuple[KeptEntry, ...]:
    session = connection.execute(
        "select id from session"
        " where tenant = ? and name = ? and epoch = ? and holder <> ''",
        (plain(claim.tenant), plain(claim.session), claim.epoch),
    ).get
    if session is None:
        raise fenced(claim)
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


def _release(
    connection: apsw.Connection, claim: Claim, ended: bool, evening: str, at: float
) -> None:
    session = connection.execute(
        "update session set holder = '', place = '', ended = ?"
        " where tenant = ? and name = ? and epoch = ? and holder <> '' returning id",
        (int(ended), plain(claim.tenant), plain(claim.session), claim.epoch),
    ).get
    if session is not None and evening:
        connection.execute(
            "update evening set ended = ?"
            " where session = ? and name = ? and ended is null",
            (at, session, plain(evening)),
        )
    if session is not None and ended:
        connection.execute(
            "delete from entry where session = ? and kind <> 'line'", (session,)
        )
