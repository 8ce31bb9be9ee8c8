"""``glyphoxa memory add``, ``edit`` and ``delete``: single facts, by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from glyphoxa_trio.config import Config
from glyphoxa_trio.control.fact_review import known_to as words_of_reach
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.errors import UnknownItem
from glyphoxa_trio.memory.importing.archiving import ALL, all_facts
from glyphoxa_trio.memory.importing.names import NpcNames
from glyphoxa_trio.memory.knowledge import Fact, Standing
from glyphoxa_trio.memory.visibility import GAME_MASTER, CampaignKey, Reach

from .common import warn
from .console import say, say_json, wide_console
from .memory_store import DEFAULT, campaigns_of, one_campaign, unknown, with_memory
from .render import on_screen


@attrs.frozen(kw_only=True)
class FactChanges:
    """The changes that a command makes to a fact; None leaves it as it is.

    ``about``: ids or names of entities. ``known_to``: names of NPCs; empty for all.
    """

    text: str | None = None
    about: Sequence[str] | None = None
    pinned: bool | None = None
    keywords: Sequence[str] | None = None
    secret: bool | None = None
    known_to: Sequence[str] | None = None
    topics: Sequence[str] | None = None

    def reach(self, before: Reach) -> Reach:
        npcs, topics = before.npcs, before.topics
        if self.known_to is not None:
            npcs = frozenset(self.known_to) or None
        if self.topics is not None:
            topics = frozenset(self.topics)
        secret = before.secret if self.secret is None else self.secret
        return Reach(npcs, topics, secret)


def add(
    where: str,
    changes: FactChanges,
    *,
    campaign: str | None,
    tenant: str | None,
    as_json: bool,
) -> int:
    """Add a fact; the campaign begins with it if there is none."""

    async def main(memory: Memory, config: Config) -> int:
        if await campaigns_of(memory, None, tenant):
            key = await one_campaign(memory, config, campaign, tenant)
        else:
            name = campaign or config.memory.campaign or DEFAULT
            key = CampaignKey(name, tenant or "")
        new = Fact(text=changes.text or "")
        return await _put(memory, config, key, new, changes, as_json)

    return with_memory(where, main, create=True)


def edit(
    where: str,
    fact: int,
    changes: FactChanges,
    *,
    campaign: str | None,
    tenant: str | None,
    as_json: bool,
) -> int:
    """Change a fact: what it says is the game master's word then."""

    async def main(memory: Memory, config: Config) -> int:
        if changes == FactChanges():
            raise GlyphoxaError("nothing is to be changed: give --text, or another")
        for key in await campaigns_of(memory, campaign, tenant):
            known = {x.id: x for x in await all_facts(memory, key)}
            if fact in known:
                # Whose words it was made of stays, so that forgetting finds it.
                told = attrs.evolve(known[fact].provenance, confirmed=True)
                one = attrs.evolve(known[fact], provenance=told)
                if changes.text is not None:
                    one = attrs.evolve(one, standing=Standing.ACCEPTED)
                return await _put(memory, config, key, one, changes, as_json)
        raise unknown("fact", str(fact), ())

    return with_memory(where, main)


async def _put(
    memory: Memory,
    config: Config,
    key: CampaignKey,
    before: Fact,
    changes: FactChanges,
    as_json: bool,
) -> int:
    given: dict[str, Any] = {"text": changes.text, "pinned": changes.pinned}
    given["keywords"] = changes.keywords
    if changes.about is not None:
        given["about"] = [await _entity(memory, key, x) for x in changes.about]
    entities = await memory.graph.entities(key, GAME_MASTER, limit=ALL)
    cast = NpcNames([x.name for x in config.npcs], entities)
    one = attrs.evolve(
        before,
        **{name: value for name, value in given.items() if value is not None},
        reach=cast.reach(changes.reach(before.reach)),
    )
    for note in cast.unknown():
        warn(note)
    (id_,) = await memory.graph.put(key, facts=[one])
    if as_json:
        say_json({"campaign": str(key), "fact": id_})
        return 0
    pinned = ", in every turn" if one.pinned else ""
    who = words_of_reach(one.reach)
    say(
        wide_console(),
        f"fact {id_} of {key}, known to {who}{pinned}: {on_screen(one.text)}",
    )
    return 0


def delete(
    where: str,
    what: Iterable[str],
    *,
    campaign: str | None,
    tenant: str | None,
    as_json: bool,
) -> int:
    """Remove facts by number, and entities by id or name; all of these, or none."""

    async def main(memory: Memory, config: Config) -> int:
        key = await one_campaign(memory, config, campaign, tenant)
        facts = {str(x.id): x for x in await all_facts(memory, key)}
        chosen: list[tuple[str, int]] = []
        for word in dict.fromkeys(what):
            if word in facts:
                chosen.append(("", facts[word].id))
            else:
                chosen.append((await _entity(memory, key, word, "fact or entity"), 0))
        for entity, fact in chosen:
            await memory.graph.remove(key, entity=entity, fact=fact)
        if as_json:
            removed = [entity or str(fact) for entity, fact in chosen]
            say_json({"campaign": str(key), "removed": removed})
            return 0
        for entity, fact in chosen:
            told = facts[str(fact)].text if fact else entity
            say(wide_console(), f"removed: {on_screen(told)}")
        return 0

    return with_memory(where, main)


async def _entity(
    memory: Memory, key: CampaignKey, name: str, what: str = "entity"
) -> str:
    """Return the id of an entity that is named.

    Raises:
      UnknownItem: there is none, with the nearest names.
    """
    try:
        return (await memory.graph.identity(key, GAME_MASTER, name)).entity.id
    except UnknownItem:
        names = [x.name for x in await memory.graph.names(key)]
        raise unknown(what, name, names) from None
