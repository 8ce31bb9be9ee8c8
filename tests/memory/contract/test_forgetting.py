"""What each store promises when a player, or what is old, is to be forgotten.

The last test forgets players in a random history, in a store and in the model of one.
"""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio

from glyphoxa_trio.memory.contract import Forgotten, Memory
from glyphoxa_trio.memory.entries import Claim, Entry, EntryKind, Line
from glyphoxa_trio.memory.errors import UnknownItem
from glyphoxa_trio.memory.in_memory import InMemory
from glyphoxa_trio.memory.knowledge import (
    Basis,
    Entity,
    EntityKind,
    Fact,
    Provenance,
    Relationship,
    Standing,
)
from glyphoxa_trio.memory.visibility import EVERYONE, GAME_MASTER, CampaignKey
from tests.memory.conftest import OpenStore
from tests.memory.examples import in_postgres, in_quick_stores

BARROW = CampaignKey("barrow")
ELSEWHERE = CampaignKey("barrow", "elsewhere")


def said(
    text: str,
    player: str,
    at: float = 1000.0,
    *,
    speaker: str = "Ann",
    evening: str = "",
    answers: tuple[str, ...] = (),
) -> Entry:
    line = Line(
        text=text,
        speaker=speaker,
        player=player,
        reach=EVERYONE,
        evening=evening,
        answers=answers,
    )
    return Entry(kind=EntryKind.LINE, at=at, line=line)


def turn(text: str, at: float = 1000.0) -> Entry:
    return Entry(kind=EntryKind.TURN, at=at, npc="Bo", turn=1, data={"heard": text})


async def claimed(
    store: Memory, session: str = "table", campaign: CampaignKey = BARROW
) -> Claim:
    return await store.journal.claim(campaign.tenant, session, campaign)


async def lines(store: Memory, campaign: CampaignKey = BARROW) -> list[str]:
    recent = await store.transcripts.recent(campaign, GAME_MASTER, limit=100)
    return [x.line.text for x in recent]


async def found(store: Memory, query: str, campaign: CampaignKey = BARROW) -> list[str]:
    answer = await store.transcripts.search(campaign, GAME_MASTER, query)
    return [x.line.text for x in answer.lines]


async def test_all_names_of_a_player_are_forgotten_and_namesakes_are_not(
    open_store: OpenStore,
) -> None:
    async with open_store() as store:
        claim = await claimed(store)
        entries = [
            said("a dragon", "p1", 1.0, speaker="Ann"),
            said("the dragon again", "p1", 2.0, speaker="Ann the Red"),
            said("my dragon", "p2", 3.0, speaker="Ann"),
            said("no dragon", "", 4.0, speaker="Bo"),
        ]
        await store.journal.append(claim, entries)
        assert await store.forget("", "p1") == Forgotten(lines=2)
        assert await lines(store) == ["my dragon", "no dragon"]
        assert set(await found(store, "dragon")) == {"my dragon", "no dragon"}
        assert await found(store, "again") == []
        assert [x.lines for x in await store.journal.sessions()] == [2]
        assert await store.forget("", "p1") == Forgotten()


async def test_what_answers_a_player_is_forgotten_with_all_that_is_made_of_it(
    open_store: OpenStore,
) -> None:
    async with open_store() as store:
        claim = await claimed(store)
        evening = (await store.transcripts.begin_evening(claim, 1.0)).id
        odd = "p '\"1"  # ids are the host's, and may have anything in them
        entries = [
            said(text, "", at, speaker="Bo", evening=evening, answers=answers)
            for at, (text, answers) in enumerate(
                [
                    ("You buried a crown.", (odd,)),
                    ("She buried a crown, you dug it up.", ("p2", odd)),
                    ("You dug a crown up.", ("p2",)),
                    ("What a crown.", ()),
                ],
                2,
            )
        ]
        first = await store.journal.append(claim, entries) - 3
        await store.journal.append(claim, [turn("You buried a crown.")])
        await store.transcripts.end_evening(BARROW, evening, 9.0)
        await store.transcripts.set_summary(BARROW, evening, "A crown.", EVERYONE)
        fact = Fact(text="A crown lies there.", lines=(("table", first),))
        await store.graph.put(BARROW, facts=[fact])
        await store.index.pending("m")
        recent = await store.transcripts.recent(BARROW, GAME_MASTER)
        assert [x.line.answers for x in recent] == [(odd,), ("p2", odd), ("p2",), ()]
        answer = await store.transcripts.search(BARROW, GAME_MASTER, "buried you")
        assert answer.lines[0].line.answers
        assert await store.forget("", "p") == Forgotten()  # the beginning of an id
        assert await store.forget("", odd) == Forgotten(
            lines=2, facts=1, chunks=2, snapshots=1, summaries=1
        )
        assert await lines(store) == ["You dug a crown up.", "What a crown."]
        assert await found(store, "buried") == []
        assert await store.graph.facts(BARROW, GAME_MASTER) == ()
        assert (await store.forget("", "p2")).lines == 1


async def test_a_player_is_forgotten_in_one_campaign_alone(
    open_store: OpenStore,
) -> None:
    there = CampaignKey("b'arrow 2")
    async with open_store() as store:
        for campaign in (BARROW, there):
            claim = await claimed(store, f"at {campaign}", campaign)
            entries = [said("a dragon", "alex"), turn("a dragon")]
            await store.journal.append(claim, entries)
            told = Provenance(basis=Basis.STATED, player="alex")
            alex = Entity(id="alex", kind=EntityKind.PLAYER, name="Alex")
            fact = Fact(text="He owes me.", provenance=told)
            await store.graph.put(campaign, entities=[alex], facts=[fact])
        assert await store.forget("", "alex", campaign="barr") == Forgotten()
        one = Forgotten(lines=1, facts=1, entities=1, snapshots=1)
        gone = await store.forget("", "alex", campaign=there.campaign)
        assert attrs.evolve(gone, chunks=0) == one
        assert (await lines(store), await lines(store, there)) == (["a dragon"], [])
        assert await store.graph.facts(there, GAME_MASTER) == ()
        assert len(await store.graph.facts(BARROW, GAME_MASTER)) == 1
        async with open_store() as other:
            *_, mark = await other.forgotten(after=0)
            assert mark.is_of("alex", there.campaign)
            assert not mark.is_of("alex")
            assert not mark.is_of("alex", "barrow")
            # An id that looks like another one's in a campaign.
            await store.forget("", "alex 4 barrow")
            *_, mark = await other.forgotten(after=mark.n)
            assert not mark.is_of("alex", "barrow")
        gone = await store.forget("", "alex")
        assert attrs.evolve(gone, chunks=0) == one


async def test_a_player_of_another_tenant_is_left_alone(open_store: OpenStore) -> None:
    async with open_store() as store:
        for campaign in (BARROW, ELSEWHERE):
            claim = await claimed(store, campaign=campaign)
            await store.journal.append(claim, [said("a dragon", "p1"), turn("dragon")])
            ann = Entity(id="p1", kind=EntityKind.PLAYER, name="Ann")
            await store.graph.put(campaign, entities=[ann])
        assert await store.forget("", "p1") == Forgotten(
            lines=1, snapshots=1, entities=1
        )
        assert await lines(store) == []
        assert await lines(store, ELSEWHERE) == ["a dragon"]
        assert await found(store, "dragon", ELSEWHERE) == ["a dragon"]
        assert len(await store.journal.load(claim)) == 1
        assert await store.graph.entities(ELSEWHERE, GAME_MASTER)
        assert await store.forget("nobody", "p1") == Forgotten()


@pytest.mark.parametrize("player", ["", "p3"])
async def test_a_player_who_said_nothing_takes_nothing_along(
    open_store: OpenStore, player: str
) -> None:
    async with open_store() as store:
        claim = await claimed(store)
        await store.journal.append(claim, [said("hm", ""), said("a", "p1"), turn("a")])
        assert await store.forget("", player) == Forgotten()
        assert await lines(store) == ["hm", "a"]
        assert len(await store.journal.load(claim)) == 1


async def test_what_a_session_remembers_goes_with_the_words_in_it(
    open_store: OpenStore,
) -> None:
    async with open_store() as store:
        claim, other = await claimed(store), await claimed(store, "other")
        for one, player in ((claim, "p1"), (other, "p2")):
            snapshot = Entry(kind=EntryKind.SNAPSHOT, at=1.0, data={"said": player})
            await store.journal.append(
                one, [said("hm", player), snapshot, turn(player)]
            )
        assert await store.forget("", "p1") == Forgotten(lines=1, snapshots=2)
        assert await store.journal.load(claim) == ()
        assert len(await store.journal.load(other)) == 2
        # The session goes on, and its numbers as well.
        assert await store.journal.append(claim, [said("more", "p1")]) == 4


async def test_facts_from_a_line_and_claims_of_the_player_are_forgotten(
    open_store: OpenStore,
) -> None:
    async with open_store() as store:
        claim = await claimed(store)
        mine = await store.journal.append(claim, [said("a dragon", "p1", 1.0)])
        other = await store.journal.append(claim, [said("a wyrm", "p2", 2.0)])
        wyrm = Entity(id="wyrm", kind=EntityKind.NPC, name="Red Wyrm")
        player = Entity(id="p1", kind=EntityKind.PLAYER, name="Ann")
        namesake = Entity(id="p2", kind=EntityKind.PLAYER, name="Ann")
        no_player = Entity(id="p3", kind=EntityKind.NPC, name="Ann")
        facts = [
            Fact(text="from a line", about=("wyrm",), lines=(("table", mine),)),
            Fact(text="from both", lines=(("table", other), ("table", mine))),
            Fact(text="from another", lines=(("table", other),)),
            Fact(
                text="a claim",
                standing=Standing.CLAIMED,
                provenance=Provenance(basis=Basis.CLAIMED, player="p1", by="Ann"),
            ),
            Fact(text="authored", about=("wyrm",)),
        ]
        knows = Relationship(source="p1", type="hunts", target="wyrm")
        await store.graph.put(
            BARROW,
            entities=[wyrm, player, namesake, no_player],
            relationships=[knows],
            facts=facts,
        )
        gone = await store.forget("", "p1")
        assert attrs.evolve(gone, chunks=0) == Forgotten(lines=1, facts=3, entities=1)
        left = await store.graph.facts(BARROW, GAME_MASTER)
        assert {x.fact.text for x in left} == {"from another", "authored"}
        assert await store.graph.facts(BARROW, GAME_MASTER, "claim both") == ()
        entities = await store.graph.entities(BARROW, GAME_MASTER)
        assert {x.id for x in entities} == {"wyrm", "p2", "p3"}
        identity = await store.graph.identity(BARROW, GAME_MASTER, "wyrm")
        assert identity.neighbours == ()
        with pytest.raises(UnknownItem):
            await store.graph.identity(BARROW, GAME_MASTER, "p1")


async def test_a_name_that_was_only_heard_goes_with_the_last_fact_about_it(
    open_store: OpenStore,
) -> None:
    heard = Provenance(basis=Basis.INFERRED, at=1.0)

    def entity(id_: str, **more: Any) -> Entity:
        told = {"kind": EntityKind.ITEM, "provenance": heard, **more}
        return Entity(id=id_, name=id_, **told)

    gone = [entity("crown"), entity("cave")]
    left = [
        entity("oak"),  # in another fact as well
        entity("authored", provenance=Provenance()),
        entity("summed up", summary="A well."),
        entity("described", attributes={"depth": 7}),
        entity("other name", aliases=("the well",)),
        entity("source"),
        entity("target"),
        entity("p2", kind=EntityKind.PLAYER),
        entity("alone"),  # no fact was about it
    ]
    ways = [
        Relationship(source="source", type="near", target="oak"),
        Relationship(source="oak", type="near", target="target"),
    ]
    async with open_store() as store:
        line = await store.journal.append(
            await claimed(store), [said("A crown!", "", 1.0, answers=("p1",))]
        )
        about = [x.id for x in (*gone, *left[:-1])]
        facts = [
            Fact(text="a", about=about, lines=(("table", line),)),
            Fact(text="b", about=("cave",), lines=(("table", line),)),
            Fact(text="c", about=("oak",)),
        ]
        for campaign in (BARROW, ELSEWHERE):
            await store.graph.put(
                campaign,
                entities=[*gone, *left],
                relationships=ways,
                facts=facts if campaign == BARROW else (),
            )
        removed = await store.forget("", "p1")
        assert attrs.evolve(removed, chunks=0) == Forgotten(
            lines=1, facts=2, entities=2
        )
        found = await store.graph.entities(BARROW, GAME_MASTER, limit=99)
        assert {x.id for x in found} == {x.id for x in left}
        other = await store.graph.entities(ELSEWHERE, GAME_MASTER, limit=99)
        assert len(other) == len(gone) + len(left)


async def test_summaries_and_passages_of_their_evenings_are_forgotten(
    open_store: OpenStore,
) -> None:
    async with open_store() as store:
        claim = await claimed(store)
        for number, player in enumerate(("p1", "p2")):
            evening = await store.transcripts.begin_evening(claim, number * 1e6)
            entries = [
                said(f"{player} says {text}", player, number * 1e6, evening=evening.id)
                for text in ("a", "b")
            ]
            entries.append(said("I see", "", number * 1e6, evening=evening.id))
            await store.journal.append(claim, entries)
            await store.transcripts.end_evening(BARROW, evening.id, number * 1e6 + 9)
            await store.transcripts.set_summary(BARROW, evening.id, player, EVERYONE)
        chunks = await store.index.pending("m")
        assert len(chunks) == 2
        await store.index.add("m", [(chunk.id, [1.0, 0.0]) for _, chunk in chunks])
        gone = await store.forget("", "p1")
        assert gone == Forgotten(lines=2, chunks=1, summaries=1)
        # What others said in it stays, and is cut into a passage of its own.
        ((_, again),) = await store.index.pending("m")
        assert again.text == "Ann: I see"
        answer = await store.index.search(BARROW, GAME_MASTER, "m", [1.0, 0.0])
        assert ["p2 says a" in x.chunk.text for x in answer] == [True]
        evenings = await store.transcripts.evenings(BARROW, GAME_MASTER)
        assert [x.summary for x in evenings] == ["p2", ""]
        assert await store.transcripts.unsummarised(before=1e9) == (
            (BARROW, evenings[1].id),
        )


async def test_other_processes_learn_whom_to_forget(open_store: OpenStore) -> None:
    async with open_store() as one, open_store() as other:
        assert await other.forgotten(after=0) == ()
        await one.forget("", "p1")  # whose words may be in an open session only
        await one.forget("guild", "p 'é\"")
        await one.forget("", "p2", again=True)
        await one.forget("", "")
        await one.forget_before(1e9)
        first, second = await other.forgotten(after=0)
        assert (first.tenant, second.tenant) == ("", "guild")
        assert [x for x in ("p1", "p2", "p") if first.is_of(x)] == ["p1"]
        assert second.is_of("p 'é\"")
        assert not attrs.evolve(second, tenant="").is_of("p 'é\"")
        assert "p1" not in repr(first)
        assert await other.forgotten(after=first.n) == (second,)
        assert await other.forgotten(after=second.n) == ()
        assert await one.forgotten(after=0) == ()
        await other.forget("", "p1")
        (third,) = await one.forgotten(after=0)
        assert third.n > second.n


async def test_lines_before_a_time_are_forgotten_for_all_tenants(
    open_store: OpenStore,
) -> None:
    async with open_store() as store:
        for campaign in (BARROW, ELSEWHERE):
            claim = await claimed(store, campaign=campaign)
            entries = [said("old", "p1", 10.0), said("old", "", 11.0)]
            await store.journal.append(claim, [*entries, said("new", "p1", 20.0)])
            number = await store.journal.append(claim, [turn("old and new")])
            fact = Fact(text="old", lines=(("table", number - 3),))
            new = Fact(text="new", provenance=Provenance(at=1.0, player="p1"))
            await store.graph.put(campaign, facts=[fact, new])
        assert await store.forget_before(10.0) == Forgotten()
        gone = await store.forget_before(20.0)
        assert attrs.evolve(gone, chunks=0) == Forgotten(lines=4, facts=2, snapshots=2)
        for campaign in (BARROW, ELSEWHERE):
            assert await lines(store, campaign) == ["new"]
            assert await found(store, "old", campaign) == []
            facts = await store.graph.facts(campaign, GAME_MASTER)
            assert [x.fact.text for x in facts] == ["new"]


_SAID = st.lists(
    st.tuples(
        st.integers(0, 2),  # the session
        st.sampled_from(["p1", "p2", ""]),
        st.sampled_from(["dragon", "gold", "dragon gold"]),
        st.booleans(),  # a turn follows
        st.sampled_from([(), ("p1",), ("p2", "p1")]),  # whom it answers
    ),
    max_size=20,
)


def forgets_what_the_model_forgets(
    open_store: OpenStore,
    told: list[tuple[int, str, str, bool, tuple[str, ...]]],
    whom: str | float,
) -> None:
    async def tell(store: Memory, number: int) -> tuple[object, ...]:
        claims = []
        for session, campaign in enumerate(("a", "a", "b")):
            key = CampaignKey(f"{campaign}{number}", f"t{number}")
            claims.append(await claimed(store, f"s{session} {number}", key))
        # Those before are old enough to be forgotten, and those after are not.
        for at, (session, player, text, turns, answers) in enumerate(told):
            entries = [said(text, player, float(at), answers=answers)]
            entries += [turn(text, float(at))] * turns
            await store.journal.append(claims[session], entries)
        if isinstance(whom, str):
            counted = await store.forget(f"t{number}", whom)
        else:
            counted = await store.forget_before(whom)
        left = list[object]()
        for claim in claims:
            recent = await store.transcripts.recent(
                claim.campaign, GAME_MASTER, session=claim.session
            )
            left.append([(x.n, x.line) for x in recent])
            left.append([x.n for x in await store.journal.load(claim)])
            for query in ("dragon", "gold"):
                answer = await store.transcripts.search(
                    claim.campaign, GAME_MASTER, query, limit=100
                )
                left.append(sorted((x.session, x.n) for x in answer.lines))
            # Nothing is left for the next history.
            await store.journal.release(claim, ended=True)
        await store.forget_before(1e9)
        return counted, left

    async def run() -> None:
        async with open_store() as store:
            number = len(await store.journal.sessions())
            assert await tell(store, number) == await tell(InMemory(), number)

    trio.run(run)


@in_quick_stores
@given(
    told=_SAID,
    whom=st.sampled_from(["p1", "p2", 3.0, 7.0]),
)
def test_every_store_forgets_what_the_model_forgets(
    open_store: OpenStore,
    told: list[tuple[int, str, str, bool, tuple[str, ...]]],
    whom: str | float,
) -> None:
    forgets_what_the_model_forgets(open_store, told, whom)


@in_postgres
@given(
    told=_SAID,
    whom=st.sampled_from(["p1", "p2", 3.0, 7.0]),
)
def test_postgres_forgets_what_the_model_forgets(
    open_store: OpenStore,
    told: list[tuple[int, str, str, bool, tuple[str, ...]]],
    whom: str | float,
) -> None:
    forgets_what_the_model_forgets(open_store, told, whom)
