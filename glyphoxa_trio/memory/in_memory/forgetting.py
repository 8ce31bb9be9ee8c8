"""Forgetting in a memory in this process."""

from __future__ import annotations

from collections.abc import Callable

from glyphoxa_trio.memory.contract import Forgotten
from glyphoxa_trio.memory.entries import KeptEntry
from glyphoxa_trio.memory.knowledge import Basis, EntityKind
from glyphoxa_trio.memory.visibility import CampaignKey

from .graph import InMemoryGraph
from .rows import Rows, drop_chunks


async def forget(
    rows: Rows, tenant: str, player: str, campaign: str | None = None
) -> Forgotten:
    """Remove everything that a player has said, and all that was made of it, in one
    campaign or in all."""
    if not player:
        return Forgotten()  # lines of NPCs have no player
    return await _forget(
        rows,
        tenant,
        lambda kept: (
            (line := kept.entry.line) is not None
            and player in (line.player, *line.answers)
        ),
        player,
        campaign,
    )


async def forget_before(rows: Rows, at: float) -> Forgotten:
    """Remove lines said before that time, and what was made of them."""
    return await _forget(rows, None, lambda kept: kept.entry.at < at, "")


async def _forget(
    rows: Rows,
    tenant: str | None,
    gone: Callable[[KeptEntry], bool],
    player: str,
    campaign: str | None = None,
) -> Forgotten:
    def within(key: CampaignKey) -> bool:
        return tenant in (None, key.tenant) and campaign in (None, key.campaign)

    lines, snapshots, summaries = 0, 0, 0
    dropped: set[tuple[CampaignKey, str, int]] = set()
    evenings: set[tuple[CampaignKey, str]] = set()
    for row in rows.sessions.values():
        if not within(row.campaign):
            continue
        mine = [x for x in row.entries if x.entry.line is not None and gone(x)]
        if not mine:
            continue
        lines += len(mine)
        dropped |= {(row.campaign, row.name, x.n) for x in mine}
        evenings |= {(row.campaign, x.entry.line.evening) for x in mine if x.entry.line}
        kept = [x for x in row.lines if x not in mine]
        # What an NPC remembers of the conversation has their words in it, too.
        snapshots += len(row.entries) - len(row.lines)
        row.keep_only(kept)
    for one in rows.evenings:
        if (one.campaign, one.name) in evenings:
            summaries += len(one.summaries)
            one.summaries.clear()
    owned = rows.facts.items()
    facts = [
        id_
        for id_, (owner, fact) in owned
        if within(owner)
        and (
            (player and fact.provenance.player == player)
            or any((owner, *line) in dropped for line in fact.lines)
        )
    ]
    heard = {
        (rows.facts[x][0], about) for x in facts for about in rows.facts[x][1].about
    }
    for id_ in facts:
        del rows.facts[id_]
    chunks = drop_chunks(
        rows,
        lambda x: (
            x.fact in facts
            or any((rows.chunks[x.id][0], *line) in dropped for line in x.lines)
        ),
    )
    entities = [
        key
        for key, one in rows.entities.items()
        if (key in heard and _is_only_heard(rows, *key))
        or (
            player
            and within(key[0])
            and one.kind is EntityKind.PLAYER
            and one.id == player
        )
    ]
    for owner, entity in entities:
        await InMemoryGraph(rows).remove(owner, entity=entity)
    return Forgotten(
        lines=lines,
        facts=len(facts),
        chunks=chunks,
        entities=len(entities),
        snapshots=snapshots,
        summaries=summaries,
    )


def _is_only_heard(rows: Rows, campaign: CampaignKey, id_: str) -> bool:
    """Return True for an inferred name, of no player, that nothing is about."""
    one = rows.entities[campaign, id_]
    ends = [(owner, x) for owner, *key in rows.relationships for x in (key[0], key[2])]
    about = [(owner, x) for owner, fact in rows.facts.values() for x in fact.about]
    return (
        one.provenance.basis is Basis.INFERRED
        and one.kind is not EntityKind.PLAYER
        and not (one.summary or one.attributes or one.aliases)
        and (campaign, id_) not in (*ends, *about)
    )
