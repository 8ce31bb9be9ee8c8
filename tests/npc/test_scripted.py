"""The DM says words as an NPC: no model, and they are the NPC's own."""

from __future__ import annotations

from functools import partial

import pytest

import trio

from glyphoxa_trio.config import TurnConfig
from glyphoxa_trio.npc import (
    Queued,
    QueueFull,
    Scripted,
    Sentence,
    TurnDone,
    TurnEnd,
)
from glyphoxa_trio.npc.activity import Activity
from glyphoxa_trio.providers.llm import LLMRequest

from .support import Heard, Reply, Table, ask, open_table


def slow(_: LLMRequest) -> Reply:
    return [1.0, "Well. ", 1.0, "Hello."]


async def dictate(table: Table, words: str, *, after: float = 0.0) -> Heard:
    heard = Heard()
    await trio.sleep(after)
    async with table.npc.speak_as(words) as heard.turn:
        async for event in heard.turn:
            heard.events.append((trio.current_time(), event))
    return heard


async def test_the_words_are_sentences_of_a_turn_without_a_model(
    autojump_clock: object,
) -> None:
    async with open_table(slow) as table:
        heard = await dictate(table, "The bridge is out. Go home!")
        assert [x.text for x in heard.of(Sentence)] == [
            "The bridge is out.",
            "Go home!",
        ]
        assert heard.only(Scripted).speaker == "DM"
        done = heard.done
        assert (done.end, done.tier, done.rounds, done.outcomes) == (
            TurnEnd.COMPLETED,
            None,
            1,
            (),
        )
        assert done.text == "The bridge is out. Go home!"
        assert table.llm.requests == []
        await ask(table.npc, "Why?")
        assert table.llm.told() == [
            ("assistant", "The bridge is out. Go home!"),
            ("user", "Why?"),
        ]


async def test_what_it_was_saying_by_itself_is_interrupted(
    autojump_clock: object,
) -> None:
    async with open_table(slow) as table, trio.open_nursery() as nursery:
        player = Heard()
        nursery.start_soon(partial(ask, table.npc, "Who are you?", heard=player))
        dm = await dictate(table, "Nobody.", after=1.5)
    assert player.done.end is TurnEnd.INTERRUPTED
    assert player.when(TurnDone) == [1.5]
    assert dm.when(TurnDone) == [1.5]


async def test_the_dm_goes_before_players_who_wait_and_after_their_own_words(
    autojump_clock: object,
) -> None:
    order: list[tuple[str, float]] = []

    async def note(speaker: str, heard: Heard) -> None:
        order.append((speaker, heard.when(TurnDone)[0]))

    async with open_table(slow) as table, trio.open_nursery() as nursery:

        async def say(speaker: str, after: float) -> None:
            heard = await ask(table.npc, speaker=speaker, after=after)
            await note(speaker, heard)

        async def as_it(words: str, after: float) -> None:
            await note(words, await dictate(table, words, after=after))

        nursery.start_soon(say, "a", 0.0)
        nursery.start_soon(say, "b", 0.1)
        nursery.start_soon(as_it, "One.", 0.2)
        nursery.start_soon(as_it, "Two.", 0.2)
    assert [speaker for speaker, _ in order[1:]] in (
        ["One.", "Two.", "b"],
        ["Two.", "One.", "b"],
    )
    assert [at for _, at in order] == [0.2, 0.2, 0.2, 2.2]


async def test_words_of_the_dm_do_not_interrupt_each_other(
    autojump_clock: object,
) -> None:
    async with open_table(slow) as table:
        async with table.npc.speak_as("One. Two.") as first:
            assert isinstance(await first.__anext__(), Scripted)
            second = await dictate(table, "Three.")
            done = await first.finish()
        assert done.end is TurnEnd.COMPLETED
        assert second.done.end is TurnEnd.COMPLETED


async def test_only_what_was_heard_of_them_is_remembered(
    autojump_clock: object,
) -> None:
    async with open_table(slow) as table:
        async with table.npc.speak_as("One. Two. Three.") as turn:
            async for event in turn:
                if isinstance(event, Sentence) and event.text == "Two.":
                    break
        assert turn.delivered == "One."
        await ask(table.npc, "And?")
        assert table.llm.told()[0] == ("assistant", "One.")


async def test_it_is_not_turned_away_from_a_busy_machine(
    autojump_clock: object,
) -> None:
    class Full:
        busy = True

        def refusal(self, running: int) -> str:
            return "too much"

    async with open_table(slow, activity=Activity(Full())) as table:
        assert (await ask(table.npc)).done.end is TurnEnd.SHED
        assert (await dictate(table, "Hear me.")).done.end is TurnEnd.COMPLETED
        assert table.session.services.activity.running == 0


async def test_the_dm_too_waits_only_so_long_a_queue(autojump_clock: object) -> None:
    turn = TurnConfig(queue=1)
    async with open_table(slow, turn=turn) as table, trio.open_nursery() as nursery:
        async with table.npc.speak_as("Hold. " * 200) as first:
            await first.__anext__()  # it waits for its listener
            for _ in range(2):
                nursery.start_soon(dictate, table, "More.")
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(QueueFull):
                await dictate(table, "Too much.")


async def test_nothing_to_say_is_an_empty_turn(autojump_clock: object) -> None:
    async with open_table(slow) as table:
        heard = await dictate(table, "  ")
        assert heard.kinds() == ["Scripted", "TurnDone"]
        assert heard.of(Queued) == []
