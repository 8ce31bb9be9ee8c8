"""Nothing that a viewer may not see is in anything that a store returns (G38).

Every text that is put carries a marker of its own. After random changes of several
campaigns, each reading method is asked by each viewer, also for what the viewer cannot
know; and no marker is in an answer, or in an error, that the viewer may not see.

The second test is stricter: a campaign with secrets answers a viewer as one without
them does.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from itertools import count
from typing import Any
from uuid import uuid4

import attrs
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.memory.contract import KnowledgeGraph, Memory
from glyphoxa_trio.memory.entries import Claim, Entry, EntryKind, Line
from glyphoxa_trio.memory.knowledge import (
    Entity,
    EntityKind,
    Fact,
    Relationship,
    Standing,
)
from glyphoxa_trio.memory.visibility import (
    GAME_MASTER,
    CampaignKey,
    Reach,
    Viewer,
)
from tests.memory.conftest import OpenStore
from tests.memory.examples import in_postgres, in_quick_stores

VIEWERS = (
    Viewer("Ann"),
    Viewer("Bartok", frozenset({"magic"})),
    Viewer("Nix", frozenset({"war", "Magic"})),
    Viewer("Unheard-of", frozenset({"magic", "war"})),
)
NPCS = st.sampled_from(["Ann", "Bartok", "Nix"])
REACHES = st.builds(
    Reach,
    st.none() | st.frozensets(NPCS, max_size=3),
    st.frozensets(st.sampled_from(["magic", "war"]), max_size=1),
    st.booleans(),
)
# A line is known to the NPCs that heard it, and has neither topics nor secrets.
HEARD = st.builds(Reach, st.none() | st.frozensets(NPCS, max_size=3))
PLACES = st.sampled_from([0, 0, 1, 2])  # campaigns: the third is of another tenant
PICK = st.integers(0, 7)  # one of those that are there, in turn
ENTITY = st.tuples(st.just("entity"), PLACES, REACHES)
EDGE = st.tuples(st.just("edge"), PLACES, REACHES, PICK, PICK)
FACT = st.tuples(st.just("fact"), PLACES, REACHES, PICK, PICK)
LINE = st.tuples(st.just("line"), PLACES, HEARD)
RANDOM = st.one_of(
    ENTITY,
    EDGE,
    FACT,
    LINE,
    st.tuples(st.just("narrower"), PLACES, REACHES, PICK),
    st.tuples(st.just("reveal entity"), PLACES, PICK),
    st.tuples(st.just("reveal fact"), PLACES, PICK),
    st.tuples(st.just("entity gone"), PLACES, PICK),
    st.tuples(st.just("summary"), PLACES, HEARD),
)
# Some of each to begin with, so that there is something to hide.
CHANGES = st.tuples(
    *(st.lists(x, min_size=5, max_size=7) for x in (ENTITY, EDGE, LINE, FACT)),
    st.just([("embedded", 0)]),
    st.lists(RANDOM, max_size=15),
).map(lambda parts: [x for part in parts for x in part])
MARKER = re.compile(r"q\d+q")
MODEL = "m"


@attrs.define
class Told:
    """A campaign as it was told: what it has, and who may know each marker."""

    key: CampaignKey
    claim: Claim
    evening: str
    entities: dict[str, Entity] = attrs.field(factory=dict)
    edges: list[Relationship] = attrs.field(factory=list)
    facts: dict[int, Fact] = attrs.field(factory=dict)
    # Of lines and summaries. A summary is replaced by one of the same reach.
    texts: dict[str, Reach] = attrs.field(factory=dict)
    lines: list[tuple[str, int]] = attrs.field(factory=list)

    def known(self, viewer: Viewer) -> set[str]:
        """The markers that a viewer may see."""
        seen = {x.id for x in self.entities.values() if x.reach.reaches(viewer)}
        found = set(seen)
        found |= {
            x.type
            for x in self.edges
            if x.reach.reaches(viewer) and {x.source, x.target} <= seen
        }
        for fact in self.facts.values():
            if fact.reach.reaches(viewer):
                found |= set(MARKER.findall(fact.text))
        return found | {m for m, reach in self.texts.items() if reach.reaches(viewer)}

    def markers(self) -> set[str]:
        """All of them."""
        return self.known(GAME_MASTER)


def pick(some: Iterable[Any], at: int) -> Any:
    listed = list(some)
    return listed[at % len(listed)] if listed else None


async def change(store: Memory, told: Told, marker: str, what: str, *more: Any) -> None:
    graph, key = store.graph, told.key
    match what:
        case "line":
            (reach,) = more
            line = Line(
                text=f"word {marker}",
                corrected=f"words {marker}",
                speaker=f"Dan{marker}",
                player="p1",
                reach=reach,
                evening=told.evening,
            )
            entry = Entry(kind=EntryKind.LINE, at=float(len(told.lines)), line=line)
            n = await store.journal.append(told.claim, [entry])
            told.lines.append((told.claim.session, n))
            told.texts[marker] = reach
        case "entity":
            (reach,) = more
            one = Entity(
                id=marker,
                kind=EntityKind.LORE,
                name=f"word {marker}",
                aliases=(f"{marker} too",),
                summary=marker,
                attributes={marker: [marker]},
                reach=reach,
            )
            await graph.put(key, entities=[one])
            told.entities[marker] = one
        case "edge" if told.entities:
            reach, source, target = more
            edge = Relationship(
                source=pick(told.entities, source),
                type=marker,
                target=pick(told.entities, target),
                attributes={"a": marker},
                reach=reach,
            )
            await graph.put(key, relationships=[edge])
            told.edges.append(edge)
        case "fact":
            reach, about, line = more
            fact = Fact(
                text=f"word {marker}",
                about=tuple(x for x in (pick(told.entities, about),) if x),
                lines=tuple(x for x in (pick(told.lines, line),) if x),
                reach=reach,
            )
            (id_,) = await graph.put(key, facts=[fact])
            told.facts[id_] = attrs.evolve(fact, id=id_)
        case "narrower" if told.facts:
            reach, which = more
            fact = attrs.evolve(pick(told.facts.values(), which), reach=reach)
            await graph.put(key, facts=[fact])
            told.facts[fact.id] = fact
        case "reveal entity" if told.entities:
            one = pick(told.entities.values(), *more)
            await graph.reveal(key, entity=one.id)
            reach = Reach(topics=one.reach.topics)
            told.entities[one.id] = attrs.evolve(one, reach=reach)
        case "reveal fact" if told.facts:
            fact = pick(told.facts.values(), *more)
            await graph.reveal(key, fact=fact.id)
            reach = Reach(topics=fact.reach.topics)
            told.facts[fact.id] = attrs.evolve(fact, reach=reach)
        case "entity gone" if told.entities:
            gone = pick(told.entities, *more)
            assert await graph.remove(key, entity=gone)
            del told.entities[gone]
            told.edges = [x for x in told.edges if gone not in (x.source, x.target)]
            for id_, fact in told.facts.items():
                left = tuple(x for x in fact.about if x != gone)
                told.facts[id_] = attrs.evolve(fact, about=left)
        case "summary":
            (reach,) = more
            await store.transcripts.set_summary(key, told.evening, marker, reach)
            told.texts[marker] = reach
        case "embedded":
            await embedded(store)


async def answers(
    store: Memory, told: Told, viewer: Viewer, guesses: Iterable[str]
) -> list[Any]:
    """What every reading method says to a viewer; errors by their text."""
    graph, transcripts, key = store.graph, store.transcripts, told.key
    asked: list[Callable[[], Awaitable[Any]]] = [
        partial(graph.entities, key, viewer, limit=100),
        partial(graph.entities, key, viewer, name="word"),
        partial(graph.facts, key, viewer, limit=100, standings=tuple(Standing)),
        partial(graph.facts, key, viewer, "word words", limit=100),
        partial(transcripts.search, key, viewer, "word words", limit=100),
        partial(transcripts.recent, key, viewer, limit=100),
        partial(transcripts.recent, key, viewer, session=told.claim.session),
        partial(transcripts.evenings, key, viewer),
        partial(transcripts.evening, key, viewer, told.evening),
        partial(store.index.search, key, viewer, MODEL, [1.0, 0.5], limit=100),
    ]
    for guess in guesses:
        asked += [
            partial(graph.entities, key, viewer, name=guess),
            partial(graph.identity, key, viewer, guess, depth=3),
            partial(graph.identity, key, viewer, f"word {guess}", depth=3),
            partial(graph.facts, key, viewer, guess),
            partial(graph.facts, key, viewer, about=[guess]),
            partial(transcripts.search, key, viewer, guess),
        ]
    found = []
    for ask in asked:
        try:
            found.append(await ask())
        except GlyphoxaError as error:
            # It may repeat what the viewer has asked for.
            found.append(MARKER.sub("?", str(error)))
    return found


async def begun(store: Memory, key: CampaignKey) -> Told:
    session = f"{key.campaign}-{key.tenant}"
    claim = await store.journal.claim(key.tenant, session, key)
    evening = await store.transcripts.begin_evening(claim, 0.0)
    return Told(key, claim, evening.id)


async def embedded(store: Memory) -> None:
    while pending := await store.index.pending(MODEL):
        await store.index.add(MODEL, [(chunk.id, [1.0, 0.5]) for _, chunk in pending])


async def shows_only_what_is_visible(open_store: OpenStore, changes: list[Any]) -> None:
    numbers, name = count(), uuid4().hex
    async with open_store() as store:
        keys = CampaignKey(name), CampaignKey(f"{name}-2"), CampaignKey(name, "other")
        places = [await begun(store, key) for key in keys]
        for what, place, *more in changes:
            await change(store, places[place], f"q{next(numbers)}q", what, *more)
        # Some are read before the evening is cut into passages, and all after it.
        for told in places:
            await store.transcripts.end_evening(told.key, told.evening, 1000.0)
        await embedded(store)
        every = {x for told in places for x in told.markers()}
        for told in places:
            for viewer in VIEWERS:
                hidden = every - told.known(viewer)
                guesses = [*told.entities, *sorted(every)[:: len(every) // 3 or 1]]
                for said in await answers(store, told, viewer, guesses):
                    shown = set(MARKER.findall(repr(said)))
                    assert not shown & hidden, (viewer, said)
            shown = {x.entity for x in await store.graph.names(told.key)}
            assert shown == set(told.entities)


@in_quick_stores
@given(CHANGES)
async def test_no_viewer_sees_what_is_not_visible_to_it(
    open_store: OpenStore, changes: list[Any]
) -> None:
    await shows_only_what_is_visible(open_store, changes)


@in_postgres
@given(CHANGES)
async def test_no_viewer_of_postgres_sees_what_is_not_visible_to_it(
    open_store: OpenStore, changes: list[Any]
) -> None:
    await shows_only_what_is_visible(open_store, changes)


def without_ids(said: Any) -> str:
    """An answer without the numbers that a store has given."""
    return re.sub(r"\b(id|n)=\d+|\('[0-9a-f]{32}-', \d+\)", "", repr(said))


async def answers_as_without_secrets(
    open_store: OpenStore, changes: list[Any], viewer: Viewer
) -> None:
    numbers = count()
    async with open_store() as store:
        whole = await begun(store, CampaignKey(uuid4().hex))
        for what, _, *more in changes:
            if what not in ("line", "summary", "embedded"):
                await change(store, whole, f"q{next(numbers)}q", what, *more)
        part = CampaignKey(uuid4().hex)
        await put_what_is_seen(store.graph, whole, part, viewer)
        seen = Told(part, whole.claim, whole.evening)
        guesses = sorted(whole.markers())[::2]
        for one, other in zip(
            await answers(store, whole, viewer, guesses),
            await answers(store, seen, viewer, guesses),
            strict=True,
        ):
            assert without_ids(one) == without_ids(other)


@in_quick_stores
@given(CHANGES, st.sampled_from(VIEWERS))
async def test_a_campaign_with_secrets_answers_as_one_without_them(
    open_store: OpenStore, changes: list[Any], viewer: Viewer
) -> None:
    await answers_as_without_secrets(open_store, changes, viewer)


@in_postgres
@given(CHANGES, st.sampled_from(VIEWERS))
async def test_a_campaign_with_secrets_in_postgres_answers_as_one_without_them(
    open_store: OpenStore, changes: list[Any], viewer: Viewer
) -> None:
    await answers_as_without_secrets(open_store, changes, viewer)


async def put_what_is_seen(
    graph: KnowledgeGraph, whole: Told, part: CampaignKey, viewer: Viewer
) -> None:
    entities = [x for x in whole.entities.values() if x.reach.reaches(viewer)]
    ids = {x.id for x in entities}
    await graph.put(
        part,
        entities=entities,
        relationships=[
            x
            for x in whole.edges
            if x.reach.reaches(viewer) and {x.source, x.target} <= ids
        ],
        facts=[
            attrs.evolve(x, id=0, about=[y for y in x.about if y in ids])
            for x in whole.facts.values()
            if x.reach.reaches(viewer)
        ],
    )
