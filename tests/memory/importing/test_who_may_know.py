"""Who may know what a campaign file states, wherever it is told (G38).

Worlds are random, and so are the NPCs that ask. The model is the dumbest one: an NPC
knows a fact if neither the fact nor the entity above it keeps it from that NPC.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

import trio

from glyphoxa_trio.builtin.memory import tools
from glyphoxa_trio.config.memory import RecallConfig
from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.importing import Drafts
from glyphoxa_trio.memory.importing.archiving import archived, restore
from glyphoxa_trio.memory.importing.files import read_text
from glyphoxa_trio.memory.importing.putting import put
from glyphoxa_trio.memory.in_memory import InMemory
from glyphoxa_trio.memory.visibility import CampaignKey, Viewer
from glyphoxa_trio.npc.hot_context import Moment
from glyphoxa_trio.recall.context import MemoryContext
from glyphoxa_trio.recall.names import NameIndex
from glyphoxa_trio.tools.definition import CallContext

from .support import entity, read, skipped

KEY, COPY = CampaignKey("world"), CampaignKey("copy")
NPCS = ("Mirela", "Bo")
VIEWERS = (Viewer("Mirela"), Viewer("Bo", frozenset({"arcana"})))
MARKER = re.compile(r"zq\d+z")
REACH = st.fixed_dictionaries(
    {},
    optional={
        "secret": st.booleans(),
        "topics": st.sampled_from([[], ["Arcana"]]),
        "known_to": st.lists(st.sampled_from(["Mirela", "bo ", "MIRELA"]), max_size=2),
    },
)
WORLDS = st.lists(
    st.tuples(REACH, st.lists(st.tuples(REACH, st.none() | st.integers(0, 3)))),
    min_size=1,
    max_size=4,
)


def says_nothing(entry: dict[str, Any]) -> bool:
    told = "known_to" in entry, entry.get("secret"), entry.get("topics")
    return not any(told)


def knows(viewer: Viewer, entry: dict[str, Any]) -> bool:
    named = [x.strip().title() for x in entry.get("known_to", ())]
    if "known_to" in entry and viewer.npc not in named:
        return False
    if entry.get("secret") and "known_to" not in entry:
        return False
    return not entry.get("topics") or "arcana" in viewer.topics


@st.composite
def worlds(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
    """A campaign file, and by each marker the entries that guard it."""
    guards: dict[str, list[dict[str, Any]]] = {}
    drawn = draw(WORLDS)
    reaches = [dict(reach) for reach, _ in drawn]
    world: dict[str, Any] = {"entities": [], "facts": [], "relationships": []}

    def marker(*entries: dict[str, Any]) -> str:
        guards[made := f"zq{len(guards)}z"] = list(entries)
        return made

    for at, (reach, facts) in enumerate(drawn):
        name = marker(reach)
        stated = []
        for own, other in facts:
            at_other = None if other is None else other % len(reaches)
            also = [] if at_other is None else [f"Place {at_other}"]
            guard = [own, reach]
            if at_other is not None and says_nothing(own):
                guard.append(reaches[at_other])
            stated.append({"text": f"A fact {marker(*guard)}", "about": also, **own})
            guard = [own, reach] if says_nothing(own) else [own]
            text = f"A fact {marker(*guard)}"
            world["facts"].append({"text": text, "about": [f"Place {at}"], **own})
        one = {"name": f"Place {at}", "summary": name, "facts": stated, **reach}
        world["entities"].append(one)
        for to in range(at):
            edge = marker(reach, reaches[to])
            world["relationships"].append(
                {"from": f"Place {at}", "type": edge, "to": f"Place {to}"}
            )
    return world, guards


async def imported(memory: Memory, world: dict[str, Any]) -> None:
    drafts = Drafts()
    drafts.begin("world.yaml")
    read_text(json.dumps(world), Path("world.json"), drafts, kind=None)
    await put(memory, KEY, drafts, npcs=NPCS)


async def found(
    memory: Memory, key: CampaignKey, viewer: Viewer, places: int
) -> set[str]:
    """The markers that the reading methods and the tools give an NPC."""
    said: list[Any] = [
        await memory.graph.entities(key, viewer, limit=100),
        await memory.graph.relationships(key, viewer),
        await memory.graph.facts(key, viewer, limit=100),
        await memory.graph.facts(key, viewer, "fact", limit=100),
    ]
    by_name = {
        x.definition.name: x.handler
        for x in tools(
            memory,
            campaign_of=lambda _: key,
            viewer_of=lambda _: viewer,
            now=lambda: 0.0,
        )
    }
    context = CallContext(npc=viewer.npc or "")
    search: Any = by_name["search_facts"]({"query": "fact", "top_k": 20}, context)
    said.append((await search).structured)
    for at in range(places):
        asked: Any = by_name["query_entities"]({"name": f"Place {at}"}, context)
        said.append((await asked).structured)
    return set(MARKER.findall(repr(said)))


async def prompted(memory: Memory, viewer: Viewer, text: str) -> set[str]:
    async def names(campaign: CampaignKey) -> NameIndex:
        return NameIndex.of(await memory.graph.names(campaign))

    async with trio.open_nursery() as nursery:
        recall = MemoryContext(
            memory,
            RecallConfig(),
            campaign_of=lambda _: KEY,
            viewer_of=lambda _: viewer,
            names=names,
            nursery=nursery,
            clock=lambda: 0.0,
        )
        moment = Moment(npc=viewer.npc or "", speaker="Aria", text=text, turn=1)
        told = await recall.provide(moment)
        nursery.cancel_scope.cancel()
    return set(MARKER.findall(repr(told)))


CALLED_OTHERWISE = (
    {
        "entities": [
            {
                "name": "Place 0",
                "facts": [{"text": "A fact zq0z", "known_to": ["MIRELA"]}],
                "known_to": ["Mirela"],
            }
        ]
    },
    {"zq0z": [{"known_to": ["Mirela"]}]},
)


@settings(max_examples=60)
@given(worlds())
@example(CALLED_OTHERWISE)
async def test_an_npc_is_told_what_it_may_know_and_nothing_else(
    made: tuple[dict[str, Any], dict[str, list[dict[str, Any]]]],
) -> None:
    world, guards = made
    memory, places = InMemory(), len(world["entities"])
    await imported(memory, world)
    await restore(memory, COPY, await archived(memory, KEY))
    for viewer in VIEWERS:
        may = {
            x for x, entries in guards.items() if all(knows(viewer, y) for y in entries)
        }
        assert await found(memory, KEY, viewer, places) == may
        assert await found(memory, COPY, viewer, places) == may
        text = " and ".join(f"Place {at}" for at in range(places))
        assert await prompted(memory, viewer, f"What fact of {text}?") <= may


async def test_what_a_file_makes_a_secret_later_is_no_longer_known() -> None:
    memory = InMemory()
    vault = {"name": "Vault", "facts": ["A fact zq1z"]}
    await imported(memory, {"entities": [vault]})
    assert "zq1z" in await found(memory, KEY, VIEWERS[0], 0)
    await imported(memory, {"entities": [{**vault, "secret": True}]})
    assert await found(memory, KEY, VIEWERS[0], 0) == set()


def test_a_name_in_known_to_that_no_npc_has_is_told_once_with_the_nearest() -> None:
    world = {
        "entities": [{"name": "Ysolde the Seer", "kind": "npc", "aliases": ["Ysolde"]}],
        "facts": [
            {"text": "One.", "known_to": ["Mirella", "ysolde"]},
            {"text": "Two.", "known_to": ["Mirella"]},
        ],
    }
    (note,) = read(world, npcs=["Mirela", "Bo"]).notes
    assert "no NPC is called 'Mirella'" in note
    assert "did you mean Mirela?" in note


def test_an_actor_whose_name_has_that_of_an_npc_in_it_is_proposed_as_the_same() -> None:
    actors = [
        {"name": "Captain Eliander Fireborn", "type": "npc", "_id": "a", "system": {},
         "items": [], "prototypeToken": {}, "ownership": {"default": 0}},
    ]  # fmt: skip
    got = read(actors, npcs=["Eliander", "Bo"])
    (note,) = got.notes
    assert "'Captain Eliander Fireborn' may be the NPC 'Eliander'" in note
    same = {"Captain Eliander Fireborn": "Eliander"}
    got = read(actors, npcs=["Eliander", "Bo"], same=same)
    one = entity(got, "captain-eliander-fireborn")
    assert (got.notes, skipped(got)) == ((), {})
    assert one.reach.reaches(Viewer("Eliander"))
    assert read(actors, npcs=["Eliander"], existing=[one]).notes == ()
