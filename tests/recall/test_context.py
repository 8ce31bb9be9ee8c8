"""What an NPC is told of what it remembers. Times are virtual and exact."""

from __future__ import annotations

import math

import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio.config.memory import RecallConfig
from glyphoxa_trio.memory.errors import MemoryUnavailable
from glyphoxa_trio.memory.knowledge import Fact
from glyphoxa_trio.memory.visibility import EVERYONE, Reach, Viewer

from .support import KEY, NOW, evening, moment, open_recall, person, says


def without(**parts: int) -> RecallConfig:
    """Only the named parts."""
    none = dict.fromkeys(
        ("identity", "relationships", "summaries", "transcript", "facts"), 0
    )
    return RecallConfig(**(none | parts))


async def test_an_npc_is_told_who_it_is(autojump_clock: MockClock) -> None:
    async with open_recall(without(identity=200)) as table:
        assert await table.told("Good evening!") == [
            "You are Bartok, also called Bart: \u201cThe keeper of the Heron.\u201d",
            "You know: \u201cBartok waters his ale.\u201d",
        ]


async def test_what_is_pinned_is_told_in_every_turn_and_once(
    autojump_clock: MockClock,
) -> None:
    async with open_recall(without(identity=200, facts=200)) as table:
        facts = [
            Fact(text="Bartok limps.", about=("bartok",), pinned=True),
            Fact(text="Aria seeks Kael.", about=("aria",), pinned=True),
            Fact(text="Aria is a spy.", pinned=True, reach=Reach(secret=True)),
        ]
        await table.memory.store.graph.put(KEY, facts=facts)
        for text in ("Good evening!", "What do you know of Kael?"):
            told = await table.told(text)
            assert told[1:3] == [
                "You know: \u201cAria seeks Kael.\u201d",
                "You know: \u201cBartok limps.\u201d",
            ]
            assert sum("Kael" in x for x in told) == 1
            assert not any("spy" in x for x in told)


async def test_a_keyword_counts_however_frequent_it_is(
    autojump_clock: MockClock,
) -> None:
    async with open_recall(without(facts=200)) as table:
        facts = [Fact(text=f"Crown number {n} is of tin.") for n in range(30)]
        facts.append(Fact(text="It drowns its wearer.", keywords=("sea", "the crown")))
        await table.memory.store.graph.put(KEY, facts=facts)
        told = ["You know: \u201cIt drowns its wearer.\u201d"]
        assert await table.told("I wear the crown.") == told
        assert await table.told("I wear a crown.") == []  # not the whole keyword
        assert (await table.told("What do you know of the crown?"))[:1] == told


async def test_it_is_told_how_it_is_related_to_who_speaks_and_is_named(
    autojump_clock: MockClock,
) -> None:
    async with open_recall(without(relationships=200)) as table:
        assert await table.told("What do you owe gray mantel?") == [
            "About Aria: \u201cA young thief.\u201d",
            "Bartok: brother of Aria.",
            "Greymantle the Sage: owes Bartok.",
        ]
        assert await table.told("Hm?", speaker="A stranger") == []


async def test_it_is_told_what_was_said_on_earlier_evenings_and_not_on_this_one(
    autojump_clock: MockClock,
) -> None:
    async with open_recall(without(transcript=400)) as table:
        store = table.memory.store
        await evening(store, 8, says("Aria", "I am A.", "Bartok"))
        await evening(
            store,
            3,
            says("Aria", "The key is mine.", "Bartok"),
            says("Bartok", "Prove it.", "Aria"),
        )
        await evening(store, 0, says("Aria", "Good evening.", "Bartok"), over=False)
        assert await table.told("Hm?") == [
            "Two evenings ago, on 12 November, Aria said to you: \u201cI am A.\u201d",
            "Last time, on 17 November, Aria said to you: \u201cThe key is mine.\u201d",
            "You said to Aria: \u201cProve it.\u201d",
        ]


async def test_the_conversation_itself_may_begin_earlier(
    autojump_clock: MockClock,
) -> None:
    since = NOW - 4 * 86400
    async with open_recall(without(transcript=400), since=lambda _: since) as table:
        await evening(table.memory.store, 8, says("Aria", "Old."))
        await evening(table.memory.store, 3, says("Aria", "In the history."))
        (line,) = await table.told("Hm?")
        assert line.endswith("\u201cOld.\u201d")


async def test_it_is_told_what_is_known_of_what_is_named(
    autojump_clock: MockClock,
) -> None:
    async with open_recall(without(facts=400)) as table:
        assert await table.told("Is gray mantel rich?") == [
            "About Greymantle the Sage: \u201cAn old scholar.\u201d (age: 80)",
            "You know: \u201cThe sage fears fire.\u201d",
            "Aria claims that \u201cThe sage has a silver key.\u201d (on 18 November)",
        ]


async def test_a_question_finds_facts_and_lines_without_a_name(
    autojump_clock: MockClock,
) -> None:
    async with open_recall(without(facts=400)) as table:
        await evening(table.memory.store, 3, says("Aria", "The key is silver."))
        key = "Aria claims that \u201cThe sage has a silver key.\u201d (on 18 November)"
        said = "Last time, on 17 November, Aria said: \u201cThe key is silver.\u201d"
        assert await table.told("Tell me about the silver key") == [key, said]
        # What was said comes first if it was asked for.
        assert await table.told("What did I say about the silver key?") == [said, key]
        # A rare word finds both without a question.
        assert await table.told("I take the silver key.") == [key, said]
        facts = [Fact(text=f"Cheer number {n} was loud.") for n in range(20)]
        await table.memory.store.graph.put(KEY, facts=facts)
        cheers = [says("Aria", f"Hurrah {n}, how loud!") for n in range(20)]
        await evening(table.memory.store, 2, *cheers)
        assert await table.told("Three cheers, loud ones!") == []


async def test_the_answer_comes_with_its_question(autojump_clock: MockClock) -> None:
    async with open_recall(without(facts=400)) as table:
        await evening(
            table.memory.store,
            3,
            says("Aria", "Rain again.", "Bartok"),
            says("Aria", "Who broke the drowned bell?", "Bartok"),
            says("Bartok", "It was Fenn, with a hammer.", "Aria"),
            says("Bartok", "More ale?", "Aria"),
        )
        told = await table.told("What do you know of the drowned bell?")
        assert [line.partition(": ")[2] for line in told] == [
            "“Who broke the drowned bell?”",
            "“It was Fenn, with a hammer.”",
        ]


@pytest.mark.parametrize("to", ["Bartok", ""])
async def test_a_rare_word_brings_the_answer_however_fast_it_was_said(
    autojump_clock: MockClock, to: str
) -> None:
    async with open_recall(without(facts=400)) as table:
        talk = [says("Aria", f"Rain, rain, {n} times.", "Bartok") for n in range(40)]
        asked = says("Aria", "Who broke the drowned bell?", to)
        answer = says("Bartok", "It was Fenn, with a hammer.", "Aria" if to else "")
        store = table.memory.store
        name = await evening(store, 3, *talk, asked, answer, *talk, step=0.01)
        assert name
        for text in ("I ring the bell.", "What of the bell, last time?"):
            told = await table.told(text)
            assert [line.partition(": ")[2] for line in told] == [
                "“Who broke the drowned bell?”",
                "“It was Fenn, with a hammer.”",
            ]


async def test_what_the_conversation_has_is_not_told_again(
    autojump_clock: MockClock,
) -> None:
    async with open_recall(without(facts=400, transcript=200)) as table:
        await evening(
            table.memory.store,
            3,
            says("Aria", "Who broke the drowned bell?", "Bartok"),
            says("Bartok", "It was Fenn, with a hammer.", "Aria"),
        )
        said = {"Who broke the drowned bell?"}
        told = await table.told("Tell me of the drowned bell.", said=lambda: said)
        assert [line.partition(": ")[2] for line in told] == [
            "“It was Fenn, with a hammer.”",
        ]


async def test_summaries_come_instead_of_the_lines(autojump_clock: MockClock) -> None:
    async with open_recall(without(summaries=60, transcript=200)) as table:
        transcripts = table.memory.store.transcripts
        for days, summary in (
            (9, "Aria bought a boat. The boat is called Heron. Fenn paid."),
            (5, "It rained all night. Nobody came."),
            (2, "Aria asked for the mayor's seal."),
        ):
            one = await evening(table.memory.store, days, says("Aria", "Well.", "B"))
            await transcripts.set_summary(KEY, one, summary, EVERYONE)
        await evening(table.memory.store, 1, says("Aria", "No summary yet.", "B"))
        told = await table.told("Who paid for my boat?")
        assert [line.partition(", as you remember it: ")[::2] for line in told[:2]] == [
            (
                "Two evenings ago, on 18 November",
                "\u201cAria asked for the mayor's seal.\u201d",
            ),
            (
                "Four evenings ago, on 11 November",
                "\u201cAria bought a boat. The boat is called Heron. Fenn paid.\u201d",
            ),
        ]
        assert [line.partition(": ")[2] for line in told[2:]] == ["“No summary yet.”"]


async def test_nothing_is_told_twice(autojump_clock: MockClock) -> None:
    async with open_recall() as table:
        await evening(table.memory.store, 3, says("Aria", "Do you water your ale?"))
        told = await table.told("What do you remember of your ale, Bartok?")
        assert len(told) == len(set(told))
        assert sum("waters his ale" in line for line in told) == 1
        assert sum("Do you water" in line for line in told) == 1


async def test_an_npc_may_be_configured_by_the_beginning_of_its_name(
    autojump_clock: MockClock,
) -> None:
    async with open_recall(without(identity=200)) as table:
        told = await table.told("Good evening!", npc="Greymantle")
        assert told[0].startswith("You are Greymantle the Sage: ")


async def test_each_npc_is_told_what_it_may_know(autojump_clock: MockClock) -> None:
    async with open_recall() as table:
        store = table.memory.store
        await evening(store, 3, says("Aria", "A secret.", reach=Reach.of("Ysolde")))
        told = "\n".join(await table.told("What about Ysolde, greymantle the lich?"))
        assert "seer" not in told
        assert "loves" not in told
        assert "lich" not in told
        assert "A secret" not in told
        theirs = "\n".join(await table.told("What about Bartok?", npc="Ysolde"))
        assert "A seer" in theirs
        assert "Bartok: loves Ysolde." in theirs
        assert "A secret" in theirs


async def test_a_campaign_without_memory_is_told_nothing(
    autojump_clock: MockClock,
) -> None:
    async with open_recall(campaign_of=lambda _: None) as table:
        assert await table.recall.provide(moment("Hm?")) is None
    async with open_recall(without()) as table:
        assert await table.recall.provide(moment("Hm?")) is None
        assert table.memory.asked == []


async def test_a_part_without_budget_is_not_asked_for(
    autojump_clock: MockClock,
) -> None:
    async with open_recall(without(identity=200)) as table:
        await table.told("What about Greymantle, last time?")
        assert {name for name, _ in table.memory.asked} == {"identity", "pinned"}


async def test_a_budget_is_kept(autojump_clock: MockClock) -> None:
    async with open_recall(without(facts=20)) as table:
        told = await table.told("Is gray mantel rich?")
        assert sum(map(len, told)) <= 80
        assert len(told) == 1


@pytest.mark.parametrize("text", ["", "...", "x" * 5000, '\'; drop \x00 "OR" NEAR('])
async def test_any_words_have_an_answer(autojump_clock: MockClock, text: str) -> None:
    async with open_recall() as table:
        assert len(await table.told(f"What about {text}?")) > 1


# Time.


async def test_all_is_fetched_at_once(autojump_clock: MockClock) -> None:
    slow = dict.fromkeys(("identity", "evenings", "names", "facts", "search"), 0.02)
    async with open_recall() as table:
        table.memory.slow.update(slow)
        await table.told("What of Greymantle, last time?")
        # Entities are asked for once their names are known.
        assert trio.current_time() == 0.04


@pytest.mark.parametrize(
    ("method", "missed"),
    [
        ("names", {"memory: relationships", "memory: facts"}),
        ("evenings", {"memory: transcript", "memory: facts"}),
        ("recent", {"memory: transcript"}),
        ("facts", {"memory: facts"}),
        ("search", {"memory: facts"}),
        (
            "identity",
            {"memory: identity", "memory: relationships", "memory: facts"},
        ),
    ],
)
async def test_what_is_late_is_left_out_and_named(
    autojump_clock: MockClock, method: str, missed: set[str]
) -> None:
    async with open_recall() as table:
        await evening(table.memory.store, 3, says("Aria", "The key is silver."))
        table.memory.slow[method] = 0.2
        gathered = await table.recall.provide(
            moment("What of Greymantle's silver key?")
        )
        assert gathered is not None
        assert trio.current_time() == 0.05
        assert set(gathered.missed) == {(part, "late") for part in missed}
        assert gathered.lines


@pytest.mark.parametrize("method", ["names", "evenings", "facts", "identity"])
async def test_a_store_that_fails_fails_nothing(
    autojump_clock: MockClock, method: str
) -> None:
    async with open_recall() as table:
        table.memory.failing[method] = MemoryUnavailable("it is away")
        gathered = await table.recall.provide(moment("What of Greymantle's key?"))
        assert gathered is not None
        assert gathered.missed
        assert {why for _, why in gathered.missed} == {"MemoryUnavailable"}


async def test_it_is_done_shortly_before_the_time_for_context_is_up(
    autojump_clock: MockClock,
) -> None:
    async with open_recall() as table:
        table.memory.slow["facts"] = math.inf
        await table.recall.provide(moment("What of Greymantle?", deadline=0.05))
        assert trio.current_time() == pytest.approx(0.04)


async def test_another_configuration_counts_from_the_next_turn_on(
    autojump_clock: MockClock,
) -> None:
    async with open_recall(without(identity=200)) as table:
        table.recall.configure(without(facts=200))
        assert await table.told("Good evening!") == []


async def test_topics_of_the_viewer_count(autojump_clock: MockClock) -> None:
    async def told(*topics: str) -> str:
        def viewer(npc: str) -> Viewer:
            return Viewer(npc, frozenset(topics))

        async with open_recall(viewer_of=viewer) as table:
            fact = Fact(
                text="The guild meets at dawn.",
                about=("greymantle-the-sage",),
                reach=Reach(topics=["guild"]),
            )
            await table.memory.store.graph.put(KEY, facts=[fact])
            return "\n".join(await table.told("What of Greymantle?"))

    assert "dawn" in await told("guild")
    assert "dawn" not in await told()


async def test_a_relationship_is_found_among_very_many(
    autojump_clock: MockClock,
) -> None:
    """Of 200 neighbours that an NPC's own identity has, the named one is none."""
    from glyphoxa_trio.memory.knowledge import Relationship

    async with open_recall(without(relationships=200)) as table:
        graph = table.memory.store.graph
        others = [person(f"Aaa{n}") for n in range(250)]
        edges = [Relationship(source="bartok", type="a", target=x.id) for x in others]
        await graph.put(KEY, entities=others, relationships=edges)
        told = await table.told("What of Greymantle?")
        assert "Greymantle the Sage: owes Bartok." in told
