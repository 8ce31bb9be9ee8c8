"""The memory that a command works on: found, opened, and its names resolved."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import trio

from glyphoxa_trio.config import Config
from glyphoxa_trio.config.memory import Durability
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.entries import SessionRow
from glyphoxa_trio.memory.errors import UnknownItem
from glyphoxa_trio.memory.knowledge import EntityKind
from glyphoxa_trio.memory.opening import POSTGRES, open_memory
from glyphoxa_trio.memory.visibility import GAME_MASTER, CampaignKey, Viewer
from glyphoxa_trio.recall.place import place_of
from glyphoxa_trio.tools.naming import nearest

from .common import Model, run, run_orderly

# The campaign of the session `default`, which `play` and `demo` use.
DEFAULT: Final = "default"
_CONFIGURATIONS: Final = (".yaml", ".yml", ".toml", ".json")
_SEEN: Final = 500  # entities that are looked through for names

Main = Callable[[Memory, Config], Awaitable[int]]


def with_memory(where: str, main: Main, *, create: bool = False) -> int:
    """Open the memory of a configuration, or the one at a place, and run ``main``.

    Returns the exit status: 2 if there is no memory, and `create` does not make one.
    """
    if not is_configuration(where):
        return run_orderly(partial(_opened, where, Config(), main, create))

    async def configured(config: Config) -> int:
        place = place_of(config, Path(where))
        if place is None:
            raise GlyphoxaError("memory is switched off @ memory.store")
        return await _opened(place, config, main, create)

    return run(configured, Path(where), Model(), starts=False)


def is_configuration(where: str) -> bool:
    """Return True if it names a configuration, and no place of a memory."""
    return (
        not where.startswith(POSTGRES) and Path(where).suffix.lower() in _CONFIGURATIONS
    )


async def _opened(place: str, config: Config, main: Main, create: bool) -> int:
    is_there = create or place.startswith(POSTGRES) or await trio.Path(place).exists()
    if not is_there:
        raise GlyphoxaError(f"nothing is remembered yet: there is no {place}")
    durable = config.memory.durability is Durability.FULL
    async with open_memory(place, durable=durable) as memory:
        return await main(memory, config)


def unknown(what: str, name: str, known: Iterable[str]) -> UnknownItem:
    """Return an error about a name that does not exist, with the nearest ones."""
    every = sorted({x for x in known if x})
    folded = {x.casefold(): x for x in every}
    near = [folded[x] for x in nearest(name.casefold(), folded)]
    if near:
        hint = f", did you mean {' or '.join(near)}?"
    elif 0 < len(every) <= 5:
        hint = f"; there {'is' if len(every) == 1 else 'are'} {', '.join(every)}"
    else:
        hint = ""
    return UnknownItem(f"there is no {what} {name!r}{hint}")


async def campaigns_of(
    memory: Memory, name: str | None, tenant: str | None
) -> tuple[CampaignKey, ...]:
    """Return the campaigns that the options of a command mean; without them all.

    Raises:
      UnknownItem: there is none of that name.
    """
    every = await memory.campaigns(tenant)
    if name is None:
        return every
    meant = tuple(x for x in every if name in (x.campaign, str(x)))
    if not meant:
        raise unknown("campaign", name, [str(x) for x in every])
    return meant


async def one_campaign(
    memory: Memory, config: Config, name: str | None, tenant: str | None
) -> CampaignKey:
    """Return the one campaign that is meant: named, configured, or the only one.

    Raises:
      UnknownItem: there is none.
      GlyphoxaError: there are several.
    """
    found = await campaigns_of(memory, name, tenant)
    if name is None and config.memory.campaign is not None:
        configured = [x for x in found if x.campaign == config.memory.campaign]
        found = tuple(configured) or found
    if not found:
        raise UnknownItem("there is no campaign in this memory yet")
    if len(found) > 1:
        names = ", ".join(str(x) for x in found[:10])
        raise GlyphoxaError(f"there are several campaigns, give --campaign: {names}")
    return found[0]


async def viewer_of(
    memory: Memory,
    config: Config,
    campaigns: Sequence[CampaignKey],
    npc: str | None,
    topics: Iterable[str],
) -> Viewer:
    """Return the viewer that the options mean; without them the game master.

    Raises:
      UnknownItem: there is no NPC of that name.
    """
    if npc is None:
        return GAME_MASTER
    names = {x.name for x in config.npcs}
    for campaign in campaigns:
        entities = await memory.graph.entities(
            campaign, GAME_MASTER, kind=EntityKind.NPC, limit=_SEEN
        )
        names |= {x.name for x in entities}
        lines = await memory.transcripts.recent(campaign, GAME_MASTER, limit=_SEEN)
        names |= {x for y in lines for x in y.line.reach.npcs or ()}
    same = {x.casefold(): x for x in sorted(names)}
    name = npc if npc in names else same.get(npc.casefold())
    begun = [x for x in names if x.casefold().startswith(npc.casefold())]
    if name is None and npc and len(begun) == 1:
        (name,) = begun
    if name is None:
        raise unknown("NPC", npc, names)
    return Viewer(name, frozenset(topics))


async def session_of(memory: Memory, name: str, tenant: str | None) -> SessionRow:
    """Return the session of that id.

    Raises:
      UnknownItem: there is none.
      GlyphoxaError: several tenants have one.
    """
    every = await memory.journal.sessions(tenant)
    found = [x for x in every if x.session == name]
    if not found:
        raise unknown("session", name, [x.session for x in every])
    if len(found) > 1:
        tenants = ", ".join(repr(x.tenant) for x in found[:10])
        raise GlyphoxaError(f"several tenants have one, give --tenant: {tenants}")
    return found[0]
