"""The index of meanings: passages and facts, found by those who may know them."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Any
from zlib import crc32

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.memory.contract import Chunk, Memory
from glyphoxa_trio.memory.entries import Claim, Entry, EntryKind, Line
from glyphoxa_trio.memory.errors import QueryRefused
from glyphoxa_trio.memory.in_memory import InMemory
from glyphoxa_trio.memory.knowledge import Fact, Provenance, Standing
from glyphoxa_trio.memory.visibility import (
    EVERYONE,
    GAME_MASTER,
    CampaignKey,
    Reach,
    Viewer,
)

from ..conftest import OpenStore
from ..examples import in_postgres, in_quick_stores

KEY = CampaignKey("mines")
BARTOK, MOIRA = Viewer("Bartok"), Viewer("Moira")
MODEL = "meanings-1"
SIZE = 6


def meaning(text: str, size: int = SIZE) -> tuple[float, ...]:
    """A vector that depends on nothing but the text."""
    chance = random.Random(crc32(text.encode("utf-8", "replace")))
    return tuple(chance.gauss(0, 1) for _ in range(size))


def said(text: str, *, by: str = "Ann", reach: Reach = EVERYONE, **more: Any) -> Line:
    return Line(text=text, speaker=by, reach=reach, **more)


def entries(lines: Sequence[Line], evening: str, at: float) -> list[Entry]:
    return [
        Entry(kind=EntryKind.LINE, at=at + n, line=attrs.evolve(line, evening=evening))
        for n, line in enumerate(lines)
    ]


async def evening(
    store: Memory,
    *lines: Line,
    key: CampaignKey = KEY,
    session: str = "table",
    at: float = 1e9,
    ends: bool = True,
) -> Claim:
    """An evening of these lines."""
    claim = await store.journal.claim(key.tenant, session, key)
    begun = await store.transcripts.begin_evening(claim, at)
    await store.journal.append(claim, entries(lines, begun.id, at))
    if ends:
        await store.transcripts.end_evening(key, begun.id, at + 3600)
    return claim


async def embedded(
    store: Memory, model: str = MODEL, *, size: int = SIZE
) -> list[tuple[CampaignKey, Chunk]]:
    """Embed all that is pending, and return it."""
    found: list[tuple[CampaignKey, Chunk]] = []
    while some := await store.index.pending(model, limit=7):
        found += some
        await store.index.add(model, [(x.id, meaning(x.text, size)) for _, x in some])
    return found


async def all_for(
    store: Memory, viewer: Viewer, key: CampaignKey = KEY
) -> dict[str, Chunk]:
    found = await store.index.search(key, viewer, MODEL, meaning("?"), limit=200)
    assert [x.score for x in found] == sorted((x.score for x in found), reverse=True)
    return {x.chunk.text: x.chunk for x in found}


async def test_an_evening_that_has_ended_is_cut_into_passages(
    open_store: OpenStore,
) -> None:
    async with open_store() as store:
        lines = said("Who goes there?", by="Bartok"), said("Moyra!", corrected="Moira!")
        await evening(store, *lines, ends=False)
        assert await embedded(store) == []
        assert await store.index.progress(MODEL) == (0, 0)
        await evening(store, said("Later."), at=2e9)  # which ends the first
        (key, one), (_, other) = await embedded(store)
        assert (key, one.text) == (KEY, "Bartok: Who goes there?\nAnn: Moira!")
        assert (one.at, one.lines) == (1e9, (("table", 1), ("table", 2)))
        assert (one.reach, one.fact) == (EVERYONE, 0)
        assert one.evening.startswith("table-2001-09-")
        assert (other.text, other.lines) == ("Ann: Later.", (("table", 3),))
        assert await store.index.progress(MODEL) == (2, 2)
        assert await embedded(store) == []


async def test_a_passage_has_neighbours_that_the_same_npcs_heard(
    open_store: OpenStore,
) -> None:
    alone, both = Reach.of("Bartok"), Reach.of("Moira", "Bartok")
    async with open_store() as store:
        await evening(
            store,
            said("1", reach=both),
            said("2", reach=Reach.of("Bartok", "Moira")),
            said("3", reach=alone),
            said("4", reach=both),
        )
        found = [(x.text, x.reach) for _, x in await embedded(store)]
    assert sorted(found, key=str) == [
        ("Ann: 1\nAnn: 2", both),
        ("Ann: 3", alone),
        ("Ann: 4", both),
    ]


async def test_a_passage_is_short(open_store: OpenStore) -> None:
    async with open_store() as store:
        await evening(store, *(said(str(n)) for n in range(30)))
        await evening(store, *(said(400 * "x") for n in range(4)), at=2e9)
        await evening(store, said("y"), said(5000 * "y"), said("y"), at=3e9)
        found = [x.text.count("\n") + 1 for _, x in await embedded(store)]
    assert sorted(found) == sorted([12, 12, 6, 2, 2, 1, 1, 1])


async def test_much_is_cut_bit_by_bit(open_store: OpenStore) -> None:
    async with open_store() as store:
        lines = [
            said(str(n), reach=(EVERYONE, Reach.of("Moira"))[n // 7 % 2])
            for n in range(3000)
        ]
        await evening(store, *lines)
        first = await store.index.pending(MODEL, limit=5)
        assert len(first) == 5
        found = [y for _, x in await embedded(store) for y in x.lines]
    assert sorted(found) == [("table", n) for n in range(1, 3001)]


async def test_an_accepted_fact_is_a_chunk_as_long_as_it_is_accepted(
    open_store: OpenStore,
) -> None:
    fact = Fact(
        text="The dragon fears silver.",
        reach=Reach.of("Bartok"),
        provenance=Provenance(at=7.0),
    )
    claimed = Fact(text="The king is dead.", standing=Standing.CLAIMED)
    async with open_store() as store:
        one, other = await store.graph.put(KEY, facts=[fact, claimed])
        ((key, chunk),) = await embedded(store)
        assert (key, chunk.text, chunk.fact) == (KEY, fact.text, one)
        assert (chunk.reach, chunk.at, chunk.lines) == (fact.reach, 7.0, ())
        assert list(await all_for(store, BARTOK)) == [fact.text]
        assert await all_for(store, MOIRA) == {}

        await store.graph.judge(KEY, other, Standing.ACCEPTED, confirmed=True)
        assert [x.text for _, x in await embedded(store)] == [claimed.text]
        await store.graph.judge(KEY, other, Standing.REJECTED, confirmed=True)
        assert list(await all_for(store, GAME_MASTER)) == [fact.text]

        changed = attrs.evolve(fact, id=one, text="Silver is nothing to it.")
        await store.graph.put(KEY, facts=[changed])
        assert await all_for(store, GAME_MASTER) == {}
        assert [x.text for _, x in await embedded(store)] == [changed.text]
        await store.graph.put(KEY, facts=[attrs.evolve(changed, reach=EVERYONE)])
        assert await all_for(store, GAME_MASTER) == {}
        await embedded(store)
        assert list(await all_for(store, MOIRA)) == [changed.text]

        assert await store.graph.remove(KEY, fact=one)
        assert await all_for(store, GAME_MASTER) == {}
        assert await store.index.progress(MODEL) == (0, 0)


async def test_a_secret_is_found_by_nobody_until_it_is_revealed(
    open_store: OpenStore,
) -> None:
    crown, moss = (
        Fact(text="The crown is a fake.", reach=Reach(secret=True)),
        Fact(text="Moss glows.", reach=Reach(topics=frozenset({"Plants", "light"}))),
    )
    async with open_store() as store:
        known, _ = await store.graph.put(KEY, facts=[crown, moss])
        await embedded(store)
        botanist = Viewer("Bartok", frozenset({"plants"}))
        assert await all_for(store, MOIRA) == {}
        assert list(await all_for(store, botanist)) == [moss.text]
        assert (await all_for(store, botanist))[moss.text].reach == moss.reach
        assert set(await all_for(store, GAME_MASTER)) == {crown.text, moss.text}
        await store.graph.reveal(KEY, fact=known)
        await embedded(store)
        assert list(await all_for(store, MOIRA)) == [crown.text]


async def test_the_limit_counts_what_the_viewer_may_know(
    open_store: OpenStore,
) -> None:
    async with open_store() as store:
        for n in range(40):
            secret = Fact(text=f"secret {n}", reach=Reach.of("Moira"))
            await store.graph.put(KEY, facts=[secret, Fact(text=f"open {n}")])
        pending = await store.index.pending(MODEL, limit=100)
        # Everything secret is nearer than everything that is not.
        await store.index.add(
            MODEL,
            [
                (x.id, (1.0, 0.01 * n, "open" in x.text))
                for n, (_, x) in enumerate(pending)
            ],
        )
        search = partial(store.index.search, KEY, model=MODEL, vector=(1.0, 0.0, 0.0))
        found = await search(viewer=BARTOK, limit=5)
        assert [x.chunk.text for x in found] == [f"open {n}" for n in range(5)]
        found = await search(viewer=MOIRA, limit=5)
        assert [x.chunk.text for x in found] == [f"secret {n}" for n in range(5)]
        assert await search(viewer=BARTOK, limit=0) == ()
        assert await search(viewer=BARTOK, limit=-1) == ()


async def test_the_most_similar_come_first(open_store: OpenStore) -> None:
    vectors = {"same": (2.0, 0.0), "near": (1.0, 1.0), "far": (-3.0, 0.0)}
    async with open_store() as store:
        await store.graph.put(
            KEY, facts=[Fact(text=x) for x in ("far", "same", "near")]
        )
        pending = await store.index.pending(MODEL)
        await store.index.add(MODEL, [(x.id, vectors[x.text]) for _, x in pending])
        found = await store.index.search(KEY, MOIRA, MODEL, (0.5, 0.0))
    assert [x.chunk.text for x in found] == ["same", "near", "far"]
    assert [x.score for x in found] == pytest.approx([1, math.sqrt(0.5), -1], abs=1e-6)


async def test_campaigns_never_find_each_others(open_store: OpenStore) -> None:
    others = CampaignKey("mines", "other"), CampaignKey("castle"), CampaignKey("new")
    async with open_store() as store:
        await evening(store, said("ours"))
        await evening(store, said("theirs"), key=others[0])
        await store.graph.put(others[1], facts=[Fact(text="ours")])
        await embedded(store)
        assert list(await all_for(store, GAME_MASTER)) == ["Ann: ours"]
        assert list(await all_for(store, MOIRA, others[0])) == ["Ann: theirs"]
        assert list(await all_for(store, MOIRA, others[1])) == ["ours"]
        assert await all_for(store, GAME_MASTER, others[2]) == {}


async def test_models_are_beside_each_other_until_the_old_one_is_dropped(
    open_store: OpenStore,
) -> None:
    async with open_store() as store:
        await store.graph.put(KEY, facts=[Fact(text=str(n)) for n in range(5)])
        await embedded(store, "old", size=3)
        ((_, first), *_) = await store.index.pending("new", limit=2)
        await store.index.add("new", [(first.id, (1.0,) * 5)])
        assert await store.index.progress("old") == (5, 5)
        assert await store.index.progress("new") == (1, 5)
        assert await store.index.progress("never seen") == (0, 5)
        search = partial(store.index.search, KEY, MOIRA)
        assert len(await search("old", (1.0, 2.0, 3.0))) == 5
        assert len(await search("new", (1.0,) * 5)) == 1
        assert await search("never seen", (1.0,)) == ()
        with pytest.raises(QueryRefused, match="new"):
            await search("new", (1.0, 2.0, 3.0))
        with pytest.raises(QueryRefused, match="new"):
            await store.index.add("new", [(first.id, (1.0,))])
        assert len(await embedded(store, "new", size=5)) == 4
        await store.index.drop_other_models("new")
        assert await store.index.progress("old") == (0, 5)
        assert await search("old", (1.0, 2.0, 3.0)) == ()
        assert len(await search("new", (1.0,) * 5)) == 5
        # It can come back, with vectors of another length.
        assert len(await embedded(store, "old", size=4)) == 5
        await store.index.drop_other_models("none of them")
        assert await store.index.progress("new") == (0, 5)


async def test_a_vector_can_be_replaced_and_one_of_zeros_is_like_nothing(
    open_store: OpenStore,
) -> None:
    async with open_store() as store:
        await store.graph.put(KEY, facts=[Fact(text=x) for x in ("a", "b", "c")])
        a, b, c = (x.id for _, x in await store.index.pending(MODEL))
        await store.index.add(MODEL, [(a, (1, 0)), (b, (0, 0)), (c, (-1, 0))])
        await store.index.add(MODEL, [(a, (0, 1)), (a, (1, 0))])
        await store.index.add(MODEL, [])
        found = await store.index.search(KEY, MOIRA, MODEL, (1e-30, 0.0))
        assert [x.chunk.id for x in found] == [a, b, c]
        assert [x.score for x in found] == pytest.approx([1, 0, -1], abs=1e-6)
        found = await store.index.search(KEY, MOIRA, MODEL, (0.0, 0.0))
        assert [x.score for x in found] == [0, 0, 0]
        assert await store.index.pending(MODEL) == ()


@pytest.mark.parametrize("vector", [(), (1.0, math.nan), (math.inf, 1.0)], ids=str)
async def test_a_vector_that_has_no_direction_is_refused(
    open_store: OpenStore, vector: tuple[float, ...]
) -> None:
    async with open_store() as store:
        await store.graph.put(KEY, facts=[Fact(text="a")])
        ((_, chunk),) = await store.index.pending(MODEL)
        with pytest.raises(QueryRefused, match="finite numbers"):
            await store.index.add(MODEL, [(chunk.id, vector)])
        with pytest.raises(QueryRefused, match="finite numbers"):
            await store.index.search(KEY, MOIRA, MODEL, vector)
        with pytest.raises(QueryRefused, match=MODEL):
            await store.index.add(MODEL, [(chunk.id, (1.0,)), (0, (1.0, 2.0))])
        assert await store.index.progress(MODEL) == (0, 1)


async def test_numbers_beyond_32_bits_have_a_direction(open_store: OpenStore) -> None:
    async with open_store() as store:
        await store.graph.put(KEY, facts=[Fact(text="a")])
        ((_, chunk),) = await store.index.pending(MODEL)
        await store.index.add(MODEL, [(chunk.id, (1e300, -1e300, 1e-300))])
        (found,) = await store.index.search(KEY, MOIRA, MODEL, (1e-200, -1e-200, 0.0))
    assert found.score == pytest.approx(1)


async def test_a_chunk_that_is_gone_by_now_is_left_out(open_store: OpenStore) -> None:
    async with open_store() as store:
        gone, _ = await store.graph.put(KEY, facts=[Fact(text="a"), Fact(text="b")])
        pending = await store.index.pending(MODEL)
        await store.graph.remove(KEY, fact=gone)
        await store.index.add(MODEL, [(x.id, meaning(x.text)) for _, x in pending])
        assert list(await all_for(store, MOIRA)) == ["b"]
        assert await store.index.progress(MODEL) == (1, 1)


@pytest.mark.parametrize("model", ["x" * 5000, "a'b\"; drop table chunk", "\ud800\0é"])
async def test_a_model_may_have_any_name(open_store: OpenStore, model: str) -> None:
    async with open_store() as store:
        await store.graph.put(KEY, facts=[Fact(text="a")])
        assert len(await embedded(store, model)) == 1
        assert len(await store.index.search(KEY, MOIRA, model, meaning("a"))) == 1
        await store.index.drop_other_models(model)
        assert await store.index.progress(model) == (1, 1)


async def test_another_process_sees_the_same(open_store: OpenStore) -> None:
    async with open_store() as one, open_store() as other:
        await evening(one, said("Hello."))
        await embedded(other)
        assert list(await all_for(one, MOIRA)) == ["Ann: Hello."]
    async with open_store() as later:
        assert list(await all_for(later, MOIRA)) == ["Ann: Hello."]
        assert await later.index.pending(MODEL) == ()


async def test_what_is_forgotten_is_not_found_and_the_others_lines_are(
    open_store: OpenStore,
) -> None:
    async with open_store() as store:
        lines = [said(f"{n}", player=("ann", "ben")[n % 2]) for n in range(4)]
        far = [said("z", player="cy"), said("y", player="cy", reach=Reach.of("Moira"))]
        await evening(store, *lines, *far[:1], said("5", reach=Reach.of("Moira")))
        await embedded(store)
        await store.forget("", "ben")
        assert set(await all_for(store, GAME_MASTER)) == {"Ann: 5"}
        again = [x.text for _, x in await embedded(store)]
        assert again == ["Ann: 0\nAnn: 2\nAnn: z"]


# ------------------------------------------------------------------------- at random

NPCS = ("Bartok", "Moira", "Ezra")
REACH = st.builds(
    Reach, st.none() | st.sets(st.sampled_from(NPCS), max_size=2).map(frozenset)
)
KNOWN = st.builds(
    Reach,
    st.none() | st.sets(st.sampled_from(NPCS), max_size=2).map(frozenset),
    st.sets(st.sampled_from(["moss", "iron ore", "Ä b%"]), max_size=2).map(frozenset),
    st.booleans(),
)
VIEWER = st.builds(
    Viewer,
    st.none() | st.sampled_from(NPCS),
    st.sets(st.sampled_from(["Moss", "iron ore", "ä b%"]), max_size=2).map(frozenset),
)
WORDS = st.sampled_from(["ash", "oak\n", "fir " * 99, "", "' \0 \""]) | st.text(
    max_size=8
)
LINES = st.lists(
    st.builds(said, WORDS, reach=REACH, player=st.sampled_from(["ann", "ben", ""])),
    max_size=20,
)
STANDING = st.sampled_from(Standing)
WHICH = st.integers(0, 9)
STEP = st.one_of(
    st.tuples(st.just("evening"), LINES, st.booleans()),
    st.tuples(st.just("late"), LINES),
    st.tuples(st.just("fact"), WORDS, STANDING, KNOWN),
    st.tuples(st.just("change"), WHICH, WORDS, STANDING, KNOWN),
    st.tuples(st.just("judge"), WHICH, STANDING),
    st.tuples(st.just("reveal"), WHICH),
    st.tuples(st.just("remove"), WHICH),
    st.tuples(st.just("forget"), st.sampled_from(["ann", "ben"])),
    st.tuples(st.just("embed")),
    st.tuples(st.just("search"), VIEWER, WORDS, st.integers(0, 12)),
)
_tenants = count(1)  # of one store, which is opened once for all


@attrs.define
class Played:
    """A store that is played the same steps as another."""

    store: Memory
    key: CampaignKey
    facts: list[int] = attrs.field(factory=list)
    at: float = 1e9
    claim: Claim | None = None
    evening: str = ""

    def which(self, n: int) -> int:
        return self.facts[n % len(self.facts)]

    async def step(self, name: str, *given: Any) -> Any:
        if name in ("change", "judge", "reveal", "remove") and not self.facts:
            return None
        self.at += 10_000
        try:
            return await getattr(self, f"_{name}")(*given)
        except GlyphoxaError as error:
            return type(error)

    async def _evening(self, lines: list[Line], ends: bool) -> None:
        if self.claim is None:
            self.claim = await self.store.journal.claim(
                self.key.tenant, "table", self.key
            )
        begun = await self.store.transcripts.begin_evening(self.claim, self.at)
        self.evening = begun.id
        await self._late(lines)
        if ends:
            await self.store.transcripts.end_evening(self.key, begun.id, self.at + 99)

    async def _late(self, lines: list[Line]) -> None:
        if self.claim is not None and lines:
            said = entries(lines, self.evening, self.at)
            await self.store.journal.append(self.claim, said)

    async def _fact(self, text: str, standing: Standing, reach: Reach) -> None:
        fact = Fact(
            text=text, standing=standing, reach=reach, provenance=Provenance(at=self.at)
        )
        self.facts += await self.store.graph.put(self.key, facts=[fact])

    async def _change(
        self, n: int, text: str, standing: Standing, reach: Reach
    ) -> None:
        fact = Fact(text=text, standing=standing, reach=reach, id=self.which(n))
        await self.store.graph.put(self.key, facts=[fact])

    async def _judge(self, n: int, standing: Standing) -> None:
        judge = self.store.graph.judge
        await judge(self.key, self.which(n), standing, confirmed=True)

    async def _reveal(self, n: int) -> None:
        await self.store.graph.reveal(self.key, fact=self.which(n))

    async def _remove(self, n: int) -> bool:
        return await self.store.graph.remove(self.key, fact=self.which(n))

    async def _forget(self, player: str) -> int:
        return (await self.store.forget(self.key.tenant, player)).lines

    async def _search(self, viewer: Viewer, text: str, limit: int) -> Any:
        search = partial(self.store.index.search, self.key, viewer, MODEL)
        found = await search(meaning(text), limit=limit)
        every = await search(meaning(text), limit=200)
        assert all(x.chunk.reach.reaches(viewer) for x in every)
        assert found == every[:limit]
        order = [(round(x.score, 4), self.plain(x.chunk)) for x in every]
        return sorted(order, key=repr), [x for x, _ in order]

    async def _embed(self) -> Any:
        found = [x for key, x in await embedded(self.store) if key == self.key]
        return sorted((self.plain(x) for x in found), key=repr)

    def plain(self, chunk: Chunk) -> tuple[Any, ...]:
        fact = self.facts.index(chunk.fact) if chunk.fact else None
        reach = chunk.reach
        npcs = None if reach.npcs is None else sorted(reach.npcs)
        known = npcs, sorted(reach.topics), reach.secret
        return chunk.text, repr(known), chunk.evening, chunk.at, chunk.lines, fact


async def finds_what_the_model_finds(
    open_store: OpenStore, steps: list[tuple[Any, ...]]
) -> None:
    # The store outlives the example, and other tenants have nothing to do with it.
    key = CampaignKey("mines", f"tenant {next(_tenants)}")
    ends = [("embed",), ("search", GAME_MASTER, "", 200)]
    ends += [("search", Viewer(npc), "?", 3) for npc in NPCS]
    async with open_store() as store:
        both = Played(store, key), Played(InMemory(), key)
        for step in [*steps, *ends]:
            found, right = [await x.step(*step) for x in both]
            assert found == right, step


@in_quick_stores
@given(steps=st.lists(STEP, min_size=6, max_size=25))
async def test_it_finds_what_the_model_finds(
    open_store: OpenStore, steps: list[tuple[Any, ...]]
) -> None:
    await finds_what_the_model_finds(open_store, steps)


@in_postgres
@given(steps=st.lists(STEP, min_size=6, max_size=25))
async def test_postgres_finds_what_the_model_finds(
    open_store: OpenStore, steps: list[tuple[Any, ...]]
) -> None:
    await finds_what_the_model_finds(open_store, steps)
