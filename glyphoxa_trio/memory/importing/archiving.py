"""A campaign's memory out of a store, as an archive, and into one."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from typing import Final

import attrs

from glyphoxa_trio.memory.contract import FoundLine, Memory
from glyphoxa_trio.memory.entries import Claim, Entry, EntryKind, Line
from glyphoxa_trio.memory.errors import HeldElsewhere
from glyphoxa_trio.memory.knowledge import (
    EntityKind,
    Fact,
    Relationship,
    Standing,
)
from glyphoxa_trio.memory.visibility import GAME_MASTER, CampaignKey, Reach, Viewer
from glyphoxa_trio.units import many

from .archive import Archive, ArchivedEvening, ArchivedLine
from .data import Skipped

ALL: Final = 1_000_000  # more than a campaign has
_PAGE: Final = 2_000  # lines, or relationships
_MOST_PAGE: Final = 100_000


async def lines_of(
    memory: Memory, campaign: CampaignKey, session: str
) -> AsyncIterator[FoundLine]:
    """Yield all lines of a session, the newest first."""
    before, size = math.inf, _PAGE
    while True:
        page = await memory.transcripts.recent(
            campaign, GAME_MASTER, session=session, before=before, limit=size
        )
        oldest = page[0].at if page else before
        is_last = len(page) < size
        # Lines of the oldest time may go on in the next page.
        done = [x for x in page if is_last or x.at > oldest]
        for line in reversed(done):
            yield line
        if is_last:
            return
        if not done and size >= _MOST_PAGE:
            return  # more lines of one moment than a store returns
        size = _PAGE if done else min(size * 10, _MOST_PAGE)
        before = math.nextafter(oldest, math.inf)


async def archived(
    memory: Memory, campaign: CampaignKey, *, session: str = ""
) -> Archive:
    """Return everything of a campaign, or the lines and evenings of one session."""
    rows = await memory.journal.sessions(campaign.tenant)
    names = [
        x.session
        for x in rows
        if x.campaign == campaign.campaign and session in ("", x.session)
    ]
    lines: list[ArchivedLine] = []
    for name in sorted(names):
        said = [x async for x in lines_of(memory, campaign, name)]
        lines += [
            ArchivedLine(session=x.session, n=x.n, at=x.at, line=x.line)
            for x in reversed(said)
        ]
    evenings = await _evenings(memory, campaign, session, lines)
    found = Archive(
        campaign=campaign.campaign,
        tenant=campaign.tenant,
        evenings=evenings,
        lines=tuple(lines),
    )
    if session:
        return found
    return attrs.evolve(
        found,
        entities=await memory.graph.entities(campaign, GAME_MASTER, limit=ALL),
        relationships=await all_edges(memory, campaign),
        facts=await all_facts(memory, campaign),
    )


async def all_facts(memory: Memory, campaign: CampaignKey) -> tuple[Fact, ...]:
    """Return all facts of a campaign, of every standing, by their ids."""
    found = await memory.graph.facts(
        campaign, GAME_MASTER, standings=tuple(Standing), limit=ALL
    )
    return tuple(sorted((x.fact for x in found), key=lambda x: x.id))


async def _evenings(
    memory: Memory, campaign: CampaignKey, session: str, lines: Sequence[ArchivedLine]
) -> tuple[ArchivedEvening, ...]:
    """Return the evenings. A store shows each viewer one summary, so all are asked."""
    npcs = {x for y in lines for x in y.line.reach.npcs or ()}
    known = await memory.graph.entities(
        campaign, GAME_MASTER, kind=EntityKind.NPC, limit=ALL
    )
    npcs |= {x.name for x in known}
    # An NPC without a name knows what is for all of them, and nothing else.
    viewers = [GAME_MASTER, *(Viewer(x) for x in sorted({"", *npcs}))]
    summaries: dict[str, dict[Reach, str]] = defaultdict(dict)
    found = {}
    for viewer in viewers:
        for one in await memory.transcripts.evenings(campaign, viewer, limit=ALL):
            if session not in ("", one.session):
                continue
            if viewer is GAME_MASTER:
                found[one.id] = attrs.evolve(one, summary="", reach=None)
            if one.summary and one.reach is not None:
                summaries[one.id][one.reach] = one.summary
    return tuple(
        ArchivedEvening(evening=x, summaries=tuple(summaries[x.id].items()))
        for x in sorted(found.values(), key=lambda x: (x.began, x.id))
    )


async def all_edges(memory: Memory, campaign: CampaignKey) -> tuple[Relationship, ...]:
    """Return all relationships of a campaign."""
    edges: list[Relationship] = []
    after: tuple[str, str, str] | None = None
    while page := await memory.graph.relationships(
        campaign, GAME_MASTER, after=after, limit=_PAGE
    ):
        edges += page
        after = page[-1].source, page[-1].type, page[-1].target
    return tuple(edges)


@attrs.frozen(kw_only=True)
class Restored:
    """The counts of what was added of an archive, and what was not added."""

    lines: int = 0
    evenings: int = 0
    entities: int = 0
    relationships: int = 0
    facts: int = 0
    skipped: tuple[Skipped, ...] = ()


async def restore(memory: Memory, campaign: CampaignKey, archive: Archive) -> Restored:
    """Add an archive to a campaign. Doing it again adds nothing.

    The lines of an evening are added together, and so are all entities, relationships
    and facts, at the end. Sessions that are new have ended. A session of another
    campaign, or one that another process has open, is left out.
    """
    known = {x.session: x for x in await memory.journal.sessions(campaign.tenant)}
    of_session: dict[str, list[ArchivedLine]] = defaultdict(list)
    for line in archive.lines:
        of_session[line.session].append(line)
    for one in archive.evenings:
        of_session.setdefault(one.evening.session, [])
    skipped: list[Skipped] = []
    numbers: dict[tuple[str, int], int] = {}
    lines = evenings = 0
    for name, said in of_session.items():
        row = known.get(name)
        if row is not None and row.lines and row.campaign != campaign.campaign:
            why = f"there is one of that name in the campaign {row.campaign}"
            skipped.append(Skipped(f"session {name}", why))
            continue
        try:
            claim = await memory.journal.claim(campaign.tenant, name, campaign)
        except HeldElsewhere as error:
            skipped.append(Skipped(f"session {name}", str(error)))
            continue
        try:
            made = await _restore_session(memory, claim, archive, said, numbers)
        finally:
            await memory.journal.release(claim, ended=row is None or row.ended)
        lines, evenings = lines + made[0], evenings + made[1]
    before = {x.id for x in await all_facts(memory, campaign)}
    facts = [
        attrs.evolve(x, id=0, lines=tuple((s, numbers[s, n]) for s, n in x.lines))
        for x in archive.facts
        if all(y in numbers for y in x.lines)
    ]
    if missing := len(archive.facts) - len(facts):
        skipped.append(Skipped(many(missing, "fact"), "their lines were not imported"))
    ids = await memory.graph.put(
        campaign,
        entities=archive.entities,
        relationships=archive.relationships,
        facts=facts,
    )
    return Restored(
        lines=lines,
        evenings=evenings,
        entities=len(archive.entities),
        relationships=len(archive.relationships),
        facts=len(set(ids) - before),
        skipped=tuple(skipped),
    )


async def _restore_session(
    memory: Memory,
    claim: Claim,
    archive: Archive,
    said: Sequence[ArchivedLine],
    numbers: dict[tuple[str, int], int],
) -> tuple[int, int]:
    """Add the evenings of one session that are new, and return how many lines and
    evenings; ``numbers`` gets the new number of each line."""
    session, campaign = claim.session, claim.campaign
    there = {
        (x.at, x.line.speaker, x.line.text): x.n
        async for x in lines_of(memory, campaign, session)
    }
    by_evening: dict[str, list[ArchivedLine]] = defaultdict(list)
    for line in said:
        by_evening[line.line.evening].append(line)
    mine = [x for x in archive.evenings if x.evening.session == session]
    begun = await memory.transcripts.evenings(campaign, GAME_MASTER, limit=ALL)
    by_time = {x.began: x for x in begun if x.session == session}
    lines = evenings = 0
    for one in sorted(mine, key=lambda x: x.evening.began):
        began = one.evening.began
        evening = by_time.get(began)
        if evening is None:
            evening = await memory.transcripts.begin_evening(claim, began)
            evenings += 1
        new = by_evening.pop(one.evening.id, [])
        lines += await _append(memory, claim, new, evening.id, there)
        if evening.ended is None:
            last = max((x.at for x in new), default=began)
            ended = last if one.evening.ended is None else one.evening.ended
            await memory.transcripts.end_evening(campaign, evening.id, ended)
        for reach, text in one.summaries:
            await memory.transcripts.set_summary(campaign, evening.id, text, reach)
    for rest in by_evening.values():
        lines += await _append(memory, claim, rest, "", there)
    for line in said:
        number = there.get((line.at, line.line.speaker, line.line.text))
        if number is not None:
            numbers[session, line.n] = number
    return lines, evenings


async def _append(
    memory: Memory,
    claim: Claim,
    said: Sequence[ArchivedLine],
    evening: str,
    there: dict[tuple[float, str, str], int],
) -> int:
    """Append the lines that are not there yet, all or none; return how many."""
    new: list[tuple[ArchivedLine, Line]] = [
        (x, attrs.evolve(x.line, evening=evening))
        for x in said
        if (x.at, x.line.speaker, x.line.text) not in there
    ]
    if not new:
        return 0
    entries = [Entry(kind=EntryKind.LINE, at=x.at, line=line) for x, line in new]
    last = await memory.journal.append(claim, entries)
    for number, (x, _) in enumerate(new, last - len(new) + 1):
        there[x.at, x.line.speaker, x.line.text] = number
    return len(new)
