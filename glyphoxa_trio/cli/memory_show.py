"""``glyphoxa memory show`` and ``search``: the contents of a memory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from glyphoxa_trio.config import Config
from glyphoxa_trio.control.fact_review import known_to, source_of
from glyphoxa_trio.extras import ExtraMissing
from glyphoxa_trio.memory.claims import waits
from glyphoxa_trio.memory.contract import FoundLine, Memory
from glyphoxa_trio.memory.importing.archiving import ALL, all_facts
from glyphoxa_trio.memory.knowledge import Entity, Fact, Standing
from glyphoxa_trio.memory.visibility import GAME_MASTER, CampaignKey
from glyphoxa_trio.recall.embedding import embedder_of

from .console import say, say_json, wide_console
from .grids import HELD, Cell, Column, Grid
from .grids import show as show_grid
from .memory_store import campaigns_of, viewer_of, with_memory

_COLUMNS: Final = (
    Column("campaign"),
    Column("sessions", right=True, spare=2),
    Column("evenings", right=True, spare=3),
    Column("lines", right=True),
    Column("entities", right=True, spare=1),
    Column("facts", right=True),
    Column("to review", right=True),
)
_FOUND: Final = (
    Column("campaign", spare=2),
    Column("kind"),
    Column("when", spare=1),
    Column("who"),
    Column("text", whole=False),
)
_BESIDE: Final = ("", "-wal", "-shm")


def day(at: float) -> str:
    """Return the date and time of a moment, in this machine's zone; "" of none."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at)) if at else ""


@attrs.frozen(kw_only=True)
class _CampaignRow:
    campaign: str
    tenant: str
    sessions: int
    evenings: int
    lines: int
    entities: int
    facts: int
    to_review: int

    def cells(self) -> list[Cell]:
        queue: Cell = (str(self.to_review), HELD) if self.to_review else "0"
        name = str(CampaignKey(self.campaign, self.tenant))
        rest = (self.sessions, self.evenings, self.lines, self.entities, self.facts)
        return [name, *map(str, rest), queue]


async def _row(memory: Memory, campaign: CampaignKey) -> _CampaignRow:
    rows = [
        x
        for x in await memory.journal.sessions(campaign.tenant)
        if x.campaign == campaign.campaign
    ]
    evenings = await memory.transcripts.evenings(campaign, GAME_MASTER, limit=ALL)
    entities = await memory.graph.entities(campaign, GAME_MASTER, limit=ALL)
    facts = await all_facts(memory, campaign)
    used = sum(x.standing in (Standing.ACCEPTED, Standing.CLAIMED) for x in facts)
    return _CampaignRow(
        campaign=campaign.campaign,
        tenant=campaign.tenant,
        sessions=len(rows),
        evenings=len(evenings),
        lines=sum(x.lines for x in rows),
        entities=len(entities),
        facts=used,
        to_review=sum(map(waits, facts)),
    )


def show(where: str, *, as_json: bool) -> int:
    """Print the campaigns of a memory, and how large it is."""

    async def main(memory: Memory, config: Config) -> int:
        rows = [await _row(memory, x) for x in await memory.campaigns()]
        size = _bytes(memory.place)
        model = await _model(config)
        done, chunks = await memory.index.progress(model) if model else (0, 0)
        if as_json:
            said: dict[str, Any] = {"place": memory.place, "bytes": size}
            said["campaigns"] = [attrs.asdict(x) for x in rows]
            said["embeddings"] = (
                {"model": model, "done": done, "of": chunks} if model else None
            )
            say_json(said)
            return 0
        console = wide_console()
        large = "" if size is None else f", {size / 2**20:.1f} MiB"
        say(console, f"memory: {memory.place}{large}")
        if model:
            say(console, f"embeddings of {model}: {done} of {chunks} passages")
        if not rows:
            say(console, "nothing is remembered yet")
            return 0
        cells = [row.cells() for row in rows]
        show_grid(console, Grid(columns=_COLUMNS, rows=cells))
        if any(row.to_review for row in rows):
            say(console, "facts wait for you: glyphoxa memory review", "dim")
        return 0

    return with_memory(where, main)


async def _model(config: Config) -> str | None:
    """Return the name of the model that embeds; None without one."""
    if config.memory.embeddings is None:
        return None
    try:
        async with embedder_of(config.memory.embeddings) as embedder:
            return embedder.model
    except (ExtraMissing, ValueError):  # `check` says so
        return None


def _bytes(place: str) -> int | None:
    """Return the size of a memory file with its log; None of a database."""
    files = [Path(place + x) for x in _BESIDE]
    if not files[0].exists():
        return None
    return sum(x.stat().st_size for x in files if x.exists())


@attrs.frozen(kw_only=True)
class _FoundRow:
    """Something that was found. ``at`` is its time, 0 if that is not known."""

    campaign: str
    kind: str
    id: str
    at: float
    who: str
    text: str
    known_to: str

    def cells(self) -> list[Cell]:
        return [self.campaign, self.kind, day(self.at), self.who, self.text]


def _entity_hit(campaign: CampaignKey, entity: Entity) -> _FoundRow:
    return _FoundRow(
        campaign=str(campaign),
        kind=entity.kind.value,
        id=entity.id,
        at=entity.provenance.at,
        who=entity.name,
        text=entity.summary,
        known_to=known_to(entity.reach),
    )


def _fact_hit(campaign: CampaignKey, fact: Fact) -> _FoundRow:
    return _FoundRow(
        campaign=str(campaign),
        kind="claim" if fact.standing is Standing.CLAIMED else "fact",
        id=str(fact.id),
        at=fact.provenance.at,
        who=source_of(fact),
        text=fact.text,
        known_to=known_to(fact.reach),
    )


def _line_hit(campaign: CampaignKey, found: FoundLine) -> _FoundRow:
    return _FoundRow(
        campaign=str(campaign),
        kind="line",
        id=f"{found.session}/{found.n}",
        at=found.at,
        who=found.line.speaker,
        text=found.snippet,
        known_to=known_to(found.line.reach),
    )


def search(
    where: str,
    query: str,
    *,
    npc: str | None,
    topics: Sequence[str],
    campaign: str | None,
    tenant: str | None,
    limit: int,
    as_json: bool,
) -> int:
    """Print the lines, facts and entities that match the words of a query."""

    async def main(memory: Memory, config: Config) -> int:
        campaigns = await campaigns_of(memory, campaign, tenant)
        viewer = await viewer_of(memory, config, campaigns, npc, topics)
        hits: list[_FoundRow] = []
        partial = False
        for key in campaigns:
            entities = await memory.graph.entities(key, viewer, name=query, limit=limit)
            hits += [_entity_hit(key, x) for x in entities]
            facts = await memory.graph.facts(key, viewer, query, limit=limit)
            hits += [_fact_hit(key, x.fact) for x in facts]
            found = await memory.transcripts.search(key, viewer, query, limit=limit)
            hits += [_line_hit(key, x) for x in found.lines]
            partial = partial or found.partial
        if as_json:
            found_json = [attrs.asdict(x) for x in hits]
            say_json({"query": query, "partial": partial, "found": found_json})
            return 0
        console = wide_console()
        if not hits:
            by = "" if viewer.npc is None else f" that {viewer.npc} knows"
            say(console, f"nothing{by} matches {query!r}")
        else:
            rows = [x.cells() for x in hits]
            show_grid(console, Grid(columns=_FOUND, rows=rows))
        if partial:
            say(console, "so many lines match that only the newest were ranked", "dim")
        return 0

    return with_memory(where, main)
