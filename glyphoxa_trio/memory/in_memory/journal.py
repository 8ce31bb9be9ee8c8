"""The journal of a memory in this process."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress

import attrs

from glyphoxa_trio.memory.entries import (
    Claim,
    Entry,
    EntryKind,
    Holder,
    KeptEntry,
    SessionRow,
    unwritten,
)
from glyphoxa_trio.memory.errors import Fenced, HeldElsewhere, UnknownItem
from glyphoxa_trio.memory.visibility import CampaignKey

from .rows import Rows, SessionData


@attrs.frozen(eq=False)
class InMemoryJournal:
    """The `Journal` of the rows, for one holder."""

    rows: Rows
    holder: Holder

    async def claim(
        self,
        tenant: str,
        session: str,
        campaign: CampaignKey,
        *,
        steal_from: int | None = None,
    ) -> Claim:
        row = self.rows.sessions.setdefault(
            (tenant, session), SessionData(tenant, session, campaign)
        )
        held = row.holder
        alive = held is not None and held.id not in (self.holder.id, *self.rows.dead)
        if held is not None and alive and steal_from != row.epoch:
            raise HeldElsewhere(session, held.id, held.where, row.epoch)
        known = not row.ended and bool(row.entries)
        row.claim(self.holder, campaign)
        return Claim(
            tenant=tenant,
            session=session,
            campaign=row.campaign,
            epoch=row.epoch,
            known=known,
        )

    def _row(self, claim: Claim) -> SessionData:
        row = self.rows.sessions[claim.tenant, claim.session]
        if row.epoch != claim.epoch or row.holder is None:
            raise Fenced(f"the session {claim.session} was taken over")
        return row

    async def append(self, claim: Claim, entries: Sequence[Entry]) -> int:
        row = self._row(claim)
        if row.holder != self.holder:
            raise Fenced(f"another process has the session {claim.session}")
        entries = unwritten(entries, row.written)
        plain = [json.loads(json.dumps(dict(entry.data))) for entry in entries]
        for entry, data in zip(entries, plain, strict=True):
            row.add(attrs.evolve(entry, data=data))
        return row.last

    async def load(self, claim: Claim) -> tuple[KeptEntry, ...]:
        entries = self._row(claim).entries
        return tuple(x for x in entries if x.entry.kind is not EntryKind.LINE)

    async def release(
        self, claim: Claim, *, ended: bool = False, evening: str = "", at: float = 0.0
    ) -> None:
        try:
            row = self._row(claim)
        except Fenced:
            return
        row.release(ended=ended)
        if evening:
            with suppress(UnknownItem):
                self.rows.evening(claim.campaign, evening).end(at)

    async def sessions(self, tenant: str | None = None) -> tuple[SessionRow, ...]:
        rows = [
            SessionRow(
                tenant=row.tenant,
                session=row.name,
                campaign=row.campaign.campaign,
                holder=row.holder.where
                if row.holder and row.holder.id not in self.rows.dead
                else "",
                lines=len(row.lines),
                last_at=row.last_at,
                ended=row.ended,
            )
            for row in self.rows.sessions.values()
            if tenant in (None, row.tenant)
        ]
        return tuple(sorted(rows, key=lambda x: (-x.last_at, x.tenant, x.session)))
