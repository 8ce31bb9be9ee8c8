"""A memory store in this process: every method does the simplest thing that is right.

It loses everything with the process. Searches look at everything.
"""

from __future__ import annotations

import os
from pathlib import Path
from secrets import token_hex

import attrs

from glyphoxa_trio.memory.contract import Forgotten
from glyphoxa_trio.memory.entries import Holder
from glyphoxa_trio.memory.errors import MemoryUnavailable
from glyphoxa_trio.memory.forgotten import ForgottenPlayer, digest_of
from glyphoxa_trio.memory.visibility import CampaignKey

from .forgetting import forget, forget_before
from .graph import InMemoryGraph
from .index import InMemoryIndex
from .journal import InMemoryJournal
from .rows import Rows
from .transcripts import InMemoryTranscripts


@attrs.define(eq=False)
class InMemory:
    """A `Memory` without a file."""

    rows: Rows = attrs.field(factory=Rows)
    holder: Holder = attrs.field(
        factory=lambda: Holder(id=token_hex(8), where=f"process {os.getpid()}")
    )
    place: str = "this process"
    journal: InMemoryJournal = attrs.field(init=False)
    transcripts: InMemoryTranscripts = attrs.field(init=False)
    index: InMemoryIndex = attrs.field(init=False)
    graph: InMemoryGraph = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.journal = InMemoryJournal(self.rows, self.holder)
        self.transcripts = InMemoryTranscripts(self.rows, self.holder)
        self.index = InMemoryIndex(self.rows)
        self.graph = InMemoryGraph(self.rows)

    def beside(self) -> InMemory:
        """Return a store on the same data, as another process would have it."""
        return InMemory(self.rows)

    def die(self) -> None:
        """Have the other stores on the same data consider this process as dead."""
        self.rows.dead.add(self.holder.id)

    async def campaigns(self, tenant: str | None = None) -> tuple[CampaignKey, ...]:
        found = {x.campaign for x in self.rows.sessions.values()}
        found |= {owner for owner, _ in self.rows.entities}
        found |= {owner for owner, _ in self.rows.facts.values()}
        here = (x for x in found if tenant in (None, x.tenant))
        return tuple(sorted(here, key=lambda x: (x.tenant, x.campaign)))

    async def forget(
        self,
        tenant: str,
        player: str,
        *,
        campaign: str | None = None,
        again: bool = False,
    ) -> Forgotten:
        if player and not again:
            digest = digest_of(tenant, player, campaign)
            mark = ForgottenPlayer(n=self.rows.ids(), tenant=tenant, digest=digest)
            self.rows.forgotten.append((self.holder.id, mark))
        return await forget(self.rows, tenant, player, campaign)

    async def forgotten(self, *, after: int) -> tuple[ForgottenPlayer, ...]:
        return tuple(
            mark
            for by, mark in self.rows.forgotten
            if mark.n > after and by != self.holder.id
        )

    async def forget_before(self, at: float) -> Forgotten:
        return await forget_before(self.rows, at)

    async def backup(self, to: Path) -> None:
        raise MemoryUnavailable("a memory without a file has no backup")
