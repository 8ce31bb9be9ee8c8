"""The knowledge graph of each store does what the model in this process does (G38)."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from uuid import uuid4

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.memory.contract import MOST_FACTS, MOST_NEIGHBOURS, KnowledgeGraph
from glyphoxa_trio.memory.entries import Entry, EntryKind, Line
from glyphoxa_trio.memory.errors import QueryRefused, UnknownItem
from glyphoxa_trio.memory.in_memory import InMemory
from glyphoxa_trio.memory.knowledge import (
    Basis,
    Entity,
    EntityKind,
    Fact,
    Identity,
    Provenance,
    Relationship,
    Standing,
)
from glyphoxa_trio.memory.visibility import (
    GAME_MASTER,
    CampaignKey,
    Reach,
    Viewer,
)
from glyphoxa_trio.memory.words import folded
from tests.memory.conftest import OpenStore
from tests.memory.examples import in_postgres, in_quick_stores

BARTOK, ANN = Viewer("Bartok"), Viewer("Ann", frozenset({"Magic"}))
VIEWERS = (GAME_MASTER, BARTOK, ANN, Viewer("Nix", frozenset({"war", "magic ", ""})))
WYRM = Entity(
    id="red-wyrm", kind=EntityKind.NPC, name="Red Wyrm", aliases=("the Dragon",)
)
PEAK = Entity(id="peak", kind=EntityKind.LOCATION, name="Black Peak")
LIVES = Relationship(source="red-wyrm", type="lives_in", target="peak")


def fresh(tenant: str = "") -> CampaignKey:
    """A campaign that no other example has used."""
    return CampaignKey(uuid4().hex, tenant)


def names(found: tuple[Entity, ...]) -> list[str]:
    return [x.name for x in found]


async def test_an_entity_is_found_as_it_was_put(open_store: OpenStore) -> None:
    key = fresh()
    told = Provenance(
        basis=Basis.CLAIMED, at=12.5, evening="e", player="p", by="Ann", confidence=0.3
    )
    one = attrs.evolve(
        WYRM,
        summary="Old — and 山田.",
        attributes={"age": 900, "gear": [{"x": None}, 1.5, True], "ä": "\\u0000'"},
        reach=Reach(frozenset({"Bartok", "Änn"}), frozenset({"A b", "100%"})),
        provenance=told,
    )
    edge = attrs.evolve(LIVES, attributes={"since": "ever"}, provenance=told)
    async with open_store() as store:
        await store.graph.put(key, entities=[one, PEAK], relationships=[edge])
    async with open_store() as store:
        found = await store.graph.identity(key, GAME_MASTER, "red-wyrm")
        assert found.entity == one
        assert [x.relationship for x in found.neighbours] == [edge]
        await store.graph.put(key, entities=[PEAK, WYRM])
        assert await store.graph.entities(key, GAME_MASTER) == (PEAK, WYRM)
        again = await store.graph.identity(key, GAME_MASTER, "peak")
        assert [x.entity for x in again.neighbours] == [WYRM]


async def test_whole_names_come_first_then_beginnings(open_store: OpenStore) -> None:
    key = fresh()
    called = ["Old Red", "Red Wyrm", "Red", "Wyrm, red", "Bered", "Réd Aunt"]
    async with open_store() as store:
        await store.graph.put(
            key,
            entities=[
                Entity(id=f"e{at}", kind=EntityKind.NPC, name=name)
                for at, name in enumerate(called)
            ],
        )
        found = await store.graph.entities(key, BARTOK, name="RED")
        assert names(found) == ["Red", "Réd Aunt", "Red Wyrm", "Old Red", "Wyrm, red"]
        found = await store.graph.entities(key, BARTOK, name="wyrm red")
        assert names(found) == ["Wyrm, red", "Red Wyrm"]
        assert not await store.graph.entities(key, BARTOK, name="?!")
        assert not await store.graph.entities(key, BARTOK, name="red " * 1000)
        assert len(await store.graph.entities(key, BARTOK, limit=2)) == 2
        for none in (0, -1):
            assert not await store.graph.entities(key, BARTOK, limit=none)
        every = await store.graph.entities(key, BARTOK, limit=10**30)
        assert names(every) == sorted(called, key=folded)


async def test_a_relationship_shows_only_with_both_ends(open_store: OpenStore) -> None:
    key = fresh()
    hidden = attrs.evolve(PEAK, reach=Reach.of("Bartok"))
    async with open_store() as store:
        await store.graph.put(key, entities=[WYRM, hidden], relationships=[LIVES])
        seen = await store.graph.identity(key, BARTOK, "the dragon")
        assert [x.entity for x in seen.neighbours] == [hidden]
        assert not (await store.graph.identity(key, ANN, "red-wyrm")).neighbours
        messages = []
        for name in ("peak", "Black Peak", "nothing"):
            with pytest.raises(UnknownItem) as caught:
                await store.graph.identity(key, ANN, name)
            messages.append(str(caught.value).replace(name, "?"))
        assert len(set(messages)) == 1


async def test_a_fact_does_not_name_what_its_viewer_may_not_see(
    open_store: OpenStore,
) -> None:
    key = fresh()
    hidden = attrs.evolve(PEAK, reach=Reach(secret=True))
    fact = Fact(text="It sleeps.", about=("peak", "red-wyrm"))
    async with open_store() as store:
        await store.graph.put(key, entities=[WYRM, hidden], facts=[fact])
        (found,) = await store.graph.facts(key, BARTOK)
        assert found.fact.about == ("red-wyrm",)
        assert not await store.graph.facts(key, BARTOK, about=["peak"])
        (found,) = await store.graph.facts(key, GAME_MASTER, about=["peak"])
        assert found.fact.about == ("peak", "red-wyrm")
        await store.graph.reveal(key, entity="peak")
        assert len(await store.graph.facts(key, BARTOK, about=["peak"])) == 1


async def test_nothing_is_put_if_a_part_of_it_cannot_be(open_store: OpenStore) -> None:
    key, other = fresh(), fresh()
    async with open_store() as store:
        (theirs,) = await store.graph.put(other, facts=[Fact(text="Theirs.")])
        for wrong in (
            {"relationships": [attrs.evolve(LIVES, target="gone")]},
            {"facts": [Fact(text="x", about=("gone",))]},
            {"facts": [Fact(text="x", lines=(("never", 1),))]},
            {"facts": [Fact(text="Mine now.", id=theirs)]},
            {"facts": [Fact(text="x", id=10**30)]},
        ):
            with pytest.raises(UnknownItem):
                await store.graph.put(key, entities=[WYRM], **wrong)
        assert not await store.graph.entities(key, GAME_MASTER)
        assert not await store.graph.facts(key, GAME_MASTER)
        (kept,) = await store.graph.facts(other, GAME_MASTER)
        assert kept.fact.text == "Theirs."


async def test_what_the_game_master_has_judged_is_not_queued_again(
    open_store: OpenStore,
) -> None:
    key = fresh()
    heard = Provenance(basis=Basis.STATED, confidence=0.5)
    fact = Fact(text="The king is dead.", standing=Standing.QUEUED, provenance=heard)
    async with open_store() as store:
        (id_,) = await store.graph.put(key, facts=[fact])
        assert await store.graph.put(key, facts=[fact]) == (id_,)
        no = await store.graph.judge(key, id_, Standing.REJECTED, confirmed=True)
        assert no.standing is Standing.REJECTED
        assert no.provenance.confirmed
        sure = attrs.evolve(fact, standing=Standing.ACCEPTED)
        assert await store.graph.put(key, facts=[fact, sure]) == (id_, id_)
        assert not await store.graph.facts(key, GAME_MASTER)
        elsewhere = attrs.evolve(fact, reach=Reach.of("Bartok"))
        assert await store.graph.put(key, facts=[elsewhere]) != (id_,)
        with pytest.raises(UnknownItem):
            await store.graph.judge(fresh(), id_, Standing.ACCEPTED, confirmed=True)
        for never in (0, -1, 10**30):
            with pytest.raises(UnknownItem):
                await store.graph.judge(key, never, Standing.ACCEPTED, confirmed=True)


async def test_the_id_of_a_fact_is_not_given_twice(open_store: OpenStore) -> None:
    key = fresh()
    async with open_store() as store:
        (id_,) = await store.graph.put(key, facts=[Fact(text="One.")])
        assert await store.graph.remove(key, fact=id_)
        assert not await store.graph.remove(key, fact=id_)
        (later,) = await store.graph.put(key, facts=[Fact(text="Two.")])
        assert later > id_


async def test_rare_words_count_for_more(open_store: OpenStore) -> None:
    key = fresh()
    async with open_store() as store:
        texts = ["The dragon fears silver."] + [f"A dragon of {x}." for x in "abcdefgh"]
        await store.graph.put(key, facts=[Fact(text=x) for x in texts])
        found = await store.graph.facts(key, BARTOK, "What SILVER does a Drágon fear?")
        assert found[0].fact.text == texts[0]
        assert found[0].score > found[1].score
        assert len(found) == 9
        for words in ("NEAR(", "x' ; drop", "silver AND NOT", "{text scope} : c1"):
            await store.graph.facts(key, BARTOK, words)
        for words in ('"', "* - ^", "silver " * 1000):
            with pytest.raises(QueryRefused):
                await store.graph.facts(key, BARTOK, words)


async def test_what_is_pinned_is_for_those_who_may_know_it(
    open_store: OpenStore,
) -> None:
    key = fresh()
    bartoks, hidden = Reach.of("Bartok"), Reach(secret=True)
    known = [
        Fact(text="Aria seeks Kael.", pinned=True),
        Fact(text="Mushrooms make Aria ill.", pinned=True, reach=bartoks),
        Fact(text="Aria is a spy.", pinned=True, reach=hidden),
        Fact(text="Ann knows magic.", pinned=True, reach=Reach(topics={"magic"})),
        Fact(text="It is not so.", pinned=True, standing=Standing.REJECTED),
        Fact(text="It rains."),
    ]
    async with open_store() as store:
        await store.graph.put(key, facts=known)
        await store.graph.put(fresh(), facts=known)

        async def pinned(viewer: Viewer, limit: int = 12) -> list[str]:
            found = await store.graph.pinned(key, viewer, limit=limit)
            assert all(x.pinned for x in found)
            return [x.text for x in found]

        assert await pinned(BARTOK) == ["Mushrooms make Aria ill.", "Aria seeks Kael."]
        assert await pinned(BARTOK, 1) == ["Mushrooms make Aria ill."]
        assert await pinned(BARTOK, 0) == []
        assert await pinned(ANN) == ["Ann knows magic.", "Aria seeks Kael."]
        assert len(await pinned(GAME_MASTER)) == 4
        (one, *_) = await store.graph.pinned(key, BARTOK)
        await store.graph.put(key, facts=[attrs.evolve(one, pinned=False)])
        assert await pinned(BARTOK) == ["Aria seeks Kael."]
        assert await store.graph.pinned(fresh(), BARTOK) == ()


async def test_a_fact_is_found_by_its_keywords_too(open_store: OpenStore) -> None:
    key = fresh()
    fact = Fact(text="Wenna hears bells.", keywords=("the Drowned Chapel", "Straße"))
    async with open_store() as store:
        (id_,) = await store.graph.put(key, facts=[fact])
        for query in ("bells", "What of the chapel?", "strasse"):
            (found,) = await store.graph.facts(key, BARTOK, query)
            assert found.fact == attrs.evolve(fact, id=id_)
        await store.graph.put(key, facts=[attrs.evolve(fact, id=id_, keywords=())])
        assert await store.graph.facts(key, BARTOK, "chapel") == ()


async def test_the_chunk_of_a_fact_goes_when_the_fact_has_changed(
    open_store: OpenStore,
) -> None:
    key = fresh()
    async with open_store() as store:
        (id_,) = await store.graph.put(key, facts=[Fact(text="It is so.")])
        (_, chunk), *_ = [x for x in await store.index.pending("m") if x[0] == key]
        await store.index.add("m", [(chunk.id, [1.0, 0.0])])
        assert await store.index.search(key, BARTOK, "m", [1.0, 0.0])
        only = Fact(text="It is so.", id=id_, reach=Reach.of("Ann"))
        await store.graph.put(key, facts=[only])
        assert not await store.index.search(key, BARTOK, "m", [1.0, 0.0])
        await store.graph.judge(key, id_, Standing.REJECTED, confirmed=True)
        assert key not in [x for x, _ in await store.index.pending("m")]


async def test_the_lines_of_a_fact_are_those_that_its_viewer_heard(
    open_store: OpenStore,
) -> None:
    key = fresh()
    said = [
        Line(text="Hm.", speaker="Dan", player="p", reach=Reach.of("Bartok", "Ann")),
        Line(text="Oh.", speaker="Dan", player="p", reach=Reach.of("Ann")),
    ]
    async with open_store() as store:
        claim = await store.journal.claim("", key.campaign, key)
        entries = [Entry(kind=EntryKind.LINE, at=1.0, line=x) for x in said]
        last = await store.journal.append(claim, entries)
        lines = ((key.campaign, last - 1), (key.campaign, last))
        await store.graph.put(key, facts=[Fact(text="He hums.", lines=lines)])
        for viewer, some in ((GAME_MASTER, lines), (ANN, lines), (BARTOK, lines[:1])):
            (found,) = await store.graph.facts(key, viewer)
            assert found.fact.lines == some
        with pytest.raises(UnknownItem):
            await store.graph.put(fresh(), facts=[Fact(text="x", lines=lines)])


async def test_a_dense_graph_is_walked_as_far_as_200_neighbours(
    open_store: OpenStore,
) -> None:
    key, model = fresh(), InMemory()
    many = [Entity(id=f"e{x}", kind=EntityKind.ITEM, name=f"E {x}") for x in range(60)]
    edges = [
        Relationship(source=f"e{x}", type=f"t{(x * y) % 3}", target=f"e{(x * y) % 60}")
        for x, y in itertools.product(range(60), range(1, 12))
    ]
    facts = [Fact(text=f"{x}", about=("e7",)) for x in range(MOST_FACTS + 1)]
    async with open_store() as store:
        for graph in (store.graph, model.graph):
            await graph.put(key, entities=many, relationships=edges, facts=facts)
        for depth in range(5):
            found = await store.graph.identity(key, BARTOK, "e7", depth=depth)
            known = await model.graph.identity(key, BARTOK, "e7", depth=depth)
            assert found.neighbours == known.neighbours
            assert found.more == known.more
        assert found.more
        assert len(found.neighbours) == MOST_NEIGHBOURS
        assert len(found.facts) == MOST_FACTS
        assert found.facts[0].text == f"{MOST_FACTS}"


# Random changes of two campaigns, one of another tenant.

IDS = ["red-wyrm", "ann", "x", "山田"]
CALLED = ["Red Wyrm", "wyrm red", "Ännchen", "annchen of Red", "山田", "???", "'"]
TEXTS = ["The red dragon.", "Ann fears red", "silver", "-", "the of", "Red red silver"]
REACHES = st.builds(
    Reach,
    st.none() | st.frozensets(st.sampled_from(["Bartok", "Ann", "Nix"]), max_size=2),
    st.frozensets(st.sampled_from(["magic", "WAR", "a b"]), max_size=2),
    st.booleans(),
)
TOLD = st.builds(
    Provenance,
    at=st.integers(0, 2).map(float),
    confirmed=st.booleans(),
    basis=st.sampled_from(Basis),
)
ENTITIES = st.builds(
    Entity,
    id=st.sampled_from(IDS),
    kind=st.sampled_from([EntityKind.NPC, EntityKind.LORE]),
    name=st.sampled_from(CALLED),
    aliases=st.lists(st.sampled_from(CALLED), max_size=2),
    attributes=st.sampled_from([{}, {"a": [1]}]),
    reach=REACHES,
    provenance=TOLD,
)
RELATIONSHIPS = st.builds(
    Relationship,
    source=st.sampled_from(IDS),
    type=st.sampled_from(["a", "b"]),
    target=st.sampled_from(IDS),
    reach=REACHES,
    provenance=TOLD,
)
FACTS = st.builds(
    Fact,
    text=st.sampled_from(TEXTS),
    about=st.lists(st.sampled_from(IDS), max_size=2),
    standing=st.sampled_from(Standing),
    reach=REACHES,
    provenance=TOLD,
    id=st.sampled_from([0, 0, 1, 2]),  # 1: the first that was put, and so on
)
CHANGES = st.one_of(
    st.tuples(st.just("put"), st.lists(ENTITIES, max_size=4), st.just([]), st.just([])),
    st.tuples(
        st.just("put"),
        st.lists(ENTITIES, max_size=1),
        st.lists(RELATIONSHIPS, max_size=4),
        st.lists(FACTS, max_size=3),
    ),
    st.tuples(st.just("entity gone"), st.sampled_from(IDS)),
    st.tuples(st.just("fact gone"), st.integers(1, 4)),
    st.tuples(
        st.just("judge"), st.integers(1, 4), st.sampled_from(Standing), st.booleans()
    ),
    st.tuples(st.just("reveal entity"), st.sampled_from(IDS)),
    st.tuples(st.just("reveal fact"), st.integers(1, 4)),
)


async def test_a_page_of_relationships_begins_behind_the_last(
    open_store: OpenStore,
) -> None:
    key = fresh()
    ann, bob, odd = (
        Entity(id=x, kind=EntityKind.NPC, name=x) for x in ("ann", "Bob", "älf '\"")
    )
    hidden = Entity(id="z", kind=EntityKind.NPC, name="z", reach=Reach.of("Bob"))
    ends = [(x.id, type_, y.id) for x in (ann, bob, odd) for y in (ann, bob, odd)
            for type_ in ("knows", "Fears", "é") if x is not y]  # fmt: skip
    edges = [Relationship(source=x, type=t, target=y) for x, t, y in ends]
    edges += [
        Relationship(source="ann", type="knows", target="z"),
        Relationship(source="z", type="knows", target="ann"),
        Relationship(source="ann", type="a", target="Bob", reach=Reach(secret=True)),
    ]
    async with open_store() as store:
        graph = store.graph
        await graph.put(key, entities=[ann, bob, odd, hidden], relationships=edges)
        assert await graph.relationships(fresh(), GAME_MASTER) == ()
        assert await graph.relationships(key, GAME_MASTER, limit=0) == ()
        assert len(await graph.relationships(key, GAME_MASTER)) == len(edges)
        for size in (1, 4, len(ends), 100):
            found: list[tuple[str, str, str]] = []
            while page := await graph.relationships(
                key, Viewer("Ann"), after=found[-1] if found else None, limit=size
            ):
                assert len(page) <= size
                found += [(x.source, x.type, x.target) for x in page]
            assert found == sorted(ends)
        behind = "\U0010ffff", "\ud800", "\0"  # no entity has such an id
        assert await graph.relationships(key, GAME_MASTER, after=behind) == ()


# Most is about entities: all of one campaign are there to begin with.
FIRST = st.lists(ENTITIES, min_size=len(IDS), max_size=len(IDS)).map(
    lambda some: [attrs.evolve(x, id=id_) for x, id_ in zip(some, IDS, strict=True)]
)
PROGRAMS = st.builds(
    lambda first, edges, more: [(0, ("put", first, edges, [])), *more],
    FIRST,
    st.lists(RELATIONSHIPS, min_size=4, max_size=8),
    st.lists(st.tuples(st.integers(0, 1), CHANGES), max_size=25),
)


class Told:
    """A graph, with the ids of facts replaced by the order in which they appeared."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self.graph = graph
        self.ids: list[int] = []

    def id(self, number: int) -> int:
        return self.ids[number - 1] if number <= len(self.ids) else 10**9

    def number(self, id_: int) -> int:
        if id_ not in self.ids:
            self.ids.append(id_)
        return self.ids.index(id_) + 1

    def seen(self, fact: Fact) -> Fact:
        return attrs.evolve(fact, id=self.number(fact.id))

    async def change(self, key: CampaignKey, what: str, *more: Any) -> Any:
        graph = self.graph
        match what:
            case "put":
                entities, relationships, facts = more
                made = await graph.put(
                    key,
                    entities=entities,
                    relationships=relationships,
                    facts=[attrs.evolve(x, id=x.id and self.id(x.id)) for x in facts],
                )
                return [self.number(x) for x in made]
            case "entity gone":
                return await graph.remove(key, entity=more[0])
            case "fact gone":
                return await graph.remove(key, fact=self.id(more[0]))
            case "judge":
                fact, standing, confirmed = more
                id_ = self.id(fact)
                return self.seen(
                    await graph.judge(key, id_, standing, confirmed=confirmed)
                )
            case "reveal entity":
                return await graph.reveal(key, entity=more[0])
            case _:
                return await graph.reveal(key, fact=self.id(more[0]))

    async def known(
        self, key: CampaignKey, viewer: Viewer, name: str, depth: int
    ) -> Identity:
        whole = await self.graph.identity(key, viewer, name, depth=depth)
        return attrs.evolve(whole, facts=tuple(map(self.seen, whole.facts)))

    async def look(self, key: CampaignKey) -> list[Any]:
        """Everything that can be read."""
        graph, found = self.graph, list[Any]([await self.graph.names(key)])
        for viewer in VIEWERS:
            for name in ("", "red", *CALLED):
                found.append(await graph.entities(key, viewer, name=name))
            edges = await graph.relationships(key, viewer)
            pages = await graph.relationships(key, viewer, limit=2)
            while len(page := pages[-2:]) == 2 and (last := page[-1]):
                after = last.source, last.type, last.target
                more = await graph.relationships(key, viewer, after=after, limit=2)
                pages += more
                if len(more) < 2:
                    break
            assert pages == edges
            found.append(edges)
            lore = EntityKind.LORE
            found.append(await graph.entities(key, viewer, kind=lore, limit=2))
            for name, depth in itertools.product((*IDS, "Red Wyrm", "annchen"), (1, 3)):
                found.append(
                    await outcome(partial(self.known, key, viewer, name, depth))
                )
            for query, about, standings, limit in (
                ("", (), tuple(Standing), 9),
                ("", ("ann", "x"), (Standing.ACCEPTED,), 9),
                ("", (), (Standing.QUEUED, Standing.REJECTED), 1),
                ("red silver of dragon", (), tuple(Standing), 9),
                ("RED silver", ("red-wyrm", "\ud800"), (Standing.CLAIMED,), 2),
            ):
                facts = await graph.facts(
                    key, viewer, query, about=about, standings=standings, limit=limit
                )
                found.append([(x.score, self.seen(x.fact)) for x in facts])
        return found


async def outcome(act: Callable[[], Awaitable[Any]]) -> Any:
    try:
        return await act()
    except GlyphoxaError as error:
        # The id of a fact is not the same in two stores.
        return type(error), str(error).split(" fact ")[0]


async def is_as_the_model_says(
    open_store: OpenStore, program: list[tuple[int, Any]]
) -> None:
    keys = [fresh(), fresh("other")]
    model = Told(InMemory().graph)
    async with open_store() as store:
        told = Told(store.graph)
        for which, change in program:
            one, other = [
                await outcome(partial(x.change, keys[which], *change))
                for x in (told, model)
            ]
            assert one == other
        for key in keys:
            for one, other in zip(
                await told.look(key), await model.look(key), strict=True
            ):
                assert one == other


@in_quick_stores
@given(PROGRAMS)
async def test_a_graph_is_as_the_model_says(
    open_store: OpenStore, program: list[tuple[int, Any]]
) -> None:
    await is_as_the_model_says(open_store, program)


@in_postgres
@given(PROGRAMS)
async def test_a_graph_in_postgres_is_as_the_model_says(
    open_store: OpenStore, program: list[tuple[int, Any]]
) -> None:
    await is_as_the_model_says(open_store, program)
