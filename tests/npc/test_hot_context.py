"""Providers of context that add to the prompt of a turn: in time or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import attrs

import trio
import trio.lowlevel

from glyphoxa_trio.actors import SharedTasks
from glyphoxa_trio.config import NpcConfig
from glyphoxa_trio.config.model import SpeculationConfig
from glyphoxa_trio.npc import ContextAdded, Moment, SpeculationDone, ToolsShown
from glyphoxa_trio.npc.events import SpeculationEnd
from glyphoxa_trio.npc.hot_context import Gathered, HotContext
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.tools.gate import Grant
from glyphoxa_trio.tools.tier import Tier

from .support import HANG, Ran, Reply, Table, ask, open_table

BOB = NpcConfig(name="Bob", budget_tier=Tier.DEEP)
KNOWN = "(What you know of this moment:\n"


def hello(_: LLMRequest) -> Reply:
    return ["Hello."]


@asynccontextmanager
async def knowing(**how: Any) -> AsyncIterator[tuple[Table, HotContext]]:
    async with trio.open_nursery() as nursery:
        context = HotContext(SharedTasks(nursery))
        async with open_table(hello, context=context, **how) as table:
            yield table, context
        nursery.cancel_scope.cancel()


async def test_lines_are_told_for_this_turn_and_no_longer(
    autojump_clock: object,
) -> None:
    def weather(moment: Moment) -> str:
        return f"It rains on {moment.npc}.\n{moment.speaker} asks: {moment.text}"

    async with knowing() as (table, context):
        context.add(weather)
        heard = await ask(table.npc, "Hm?", speaker="Aria")
        lines = ("It rains on Bob.", "Aria asks: Hm?")
        assert heard.only(ContextAdded) == ContextAdded(npc="Bob", turn=1, lines=lines)
        told = f"{KNOWN}- It rains on Bob.\n- Aria asks: Hm?)"
        assert table.llm.told() == [("user", told), ("user", "Hm?")]
        await ask(table.npc, "So?")
        assert table.llm.told()[:2] == [("user", "Hm?"), ("assistant", "Hello.")]


async def test_what_is_taken_away_while_the_turn_is_prepared_is_not_shown_in_it(
    autojump_clock: object,
) -> None:  # D16
    ran = Ran()
    async with knowing() as (table, context):
        table.host.register(ran.tool("look"), ran.tool("list"))

        async def reloads(_: Moment) -> str:
            less = Grant(npc="Bob", tools=("list",))
            await table.reload(grant=less, npc=attrs.evolve(BOB, budget_tier=Tier.FAST))
            return "It rains."

        context.add(reloads)
        heard = await ask(table.npc, tier=Tier.DEEP)
    assert heard.only(ToolsShown).shown == ("list",)
    assert heard.done.tier is Tier.DEEP  # that it began with


async def test_without_a_hook_there_is_no_event(autojump_clock: object) -> None:
    async with knowing() as (table, context):
        context.add(lambda moment: "x", npc="Somebody else")
        assert (await ask(table.npc)).of(ContextAdded) == []


async def test_all_are_asked_at_once_and_in_order(autojump_clock: object) -> None:
    async def slow(moment: Moment) -> list[str]:
        await trio.sleep(0.04)
        return ["slow"]

    async def quick(moment: Moment) -> tuple[str, ...]:
        return ("quick", "  ")

    def nothing(moment: Moment) -> None: ...

    async with knowing() as (table, context):
        for hook in (slow, quick, nothing):
            context.add(hook, npc="Bob")
        heard = await ask(table.npc)
        assert heard.only(ContextAdded).lines == ("slow", "quick")
        assert heard.when(ContextAdded) == [0.04]


async def test_who_is_late_is_left_out_and_named(autojump_clock: object) -> None:
    async def late(moment: Moment) -> str:
        await trio.sleep(0.06)
        return "too late"

    async with knowing() as (table, context):
        context.add(late)
        context.add(lambda moment: "in time")
        heard = await ask(table.npc)
        added = heard.only(ContextAdded)
        assert added.lines == ("in time",)
        ((name, why),) = added.missed
        assert name.endswith("late")
        assert why == "late"
        assert heard.when(ContextAdded) == [0.05]


async def test_a_hook_that_fails_fails_no_turn(autojump_clock: object) -> None:
    def broken(moment: Moment) -> str:
        raise KeyError(moment.text)

    async def wrong(moment: Moment) -> list[str]:
        return [1]  # type: ignore[list-item]

    def endless(moment: Moment) -> Iterator[str]:
        return (f"line {number}" for number in count())

    async with knowing() as (table, context):
        for hook in (broken, wrong, endless):
            context.add(hook)
        heard = await ask(table.npc)
        added = heard.only(ContextAdded)
        assert [why for _, why in added.missed] == ["KeyError", "TypeError"]
        assert len(added.lines) == 40
        assert heard.done.text == "Hello."


async def test_a_hook_that_does_not_stop_holds_nobody_and_is_not_asked_again(
    autojump_clock: object,
) -> None:
    async def stubborn(moment: Moment) -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(100)
        return "never"

    async with knowing() as (table, context):
        context.add(stubborn)
        whys = []
        for _ in range(3):
            heard = await ask(table.npc)
            whys.append(heard.only(ContextAdded).missed[0][1])
            await trio.sleep(1)
        assert whys == ["late", "late", "earlier calls do not stop"]


async def test_a_provider_of_parts_names_those_that_it_left_out(
    autojump_clock: object,
) -> None:
    async def parts(moment: Moment) -> Gathered:
        with trio.move_on_at(moment.deadline - 0.01):
            await trio.sleep(HANG)
        return Gathered(("in  time",), (("its other part", "late"),))

    async with knowing() as (table, context):
        context.add(parts)
        heard = await ask(table.npc)
        added = heard.only(ContextAdded)
        assert added.lines == ("in time",)
        assert added.missed == (("its other part", "late"),)
        assert heard.when(ContextAdded) == [0.04]


async def test_partial_transcripts_are_told_without_speculation_and_in_turns(
    autojump_clock: object,
) -> None:
    told: list[Moment] = []
    async with open_table([[1.0, "Hello."]], hearing=told.append) as table:
        await table.npc.hearing("what is", speaker="Aria")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, table.npc)
            await trio.sleep(0.5)
            await table.npc.hearing("and what", speaker="Aria")
    assert told == [
        Moment(npc="Bob", turn=0, speaker="Aria", text="what is"),
        Moment(npc="Bob", turn=0, speaker="Aria", text="and what"),
    ]


async def test_it_can_be_taken_back(autojump_clock: object) -> None:
    async with knowing() as (table, context):
        remove = context.add(lambda moment: "x")
        remove()
        remove()
        assert (await ask(table.npc)).of(ContextAdded) == []


async def test_leaving_the_turn_leaves_the_hook(autojump_clock: object) -> None:
    cancelled = []

    async def hangs(moment: Moment) -> str:
        try:
            await trio.sleep(HANG)
        except trio.Cancelled:
            cancelled.append(trio.current_time())
            raise
        return ""

    async with knowing() as (table, context):
        context.add(hangs)
        await ask(table.npc, leave_at=0.01)
        await trio.lowlevel.checkpoint()
        assert cancelled == [0.01]


async def test_what_was_begun_ahead_is_adopted_if_the_same_is_known(
    autojump_clock: object,
) -> None:
    """A hook that goes by the moment only; one that goes by the words may differ."""
    moments: list[Moment] = []

    def seen(moment: Moment) -> str:
        moments.append(moment)
        return "Night."

    speculation = SpeculationConfig(enabled=True, after=0.1)
    async with knowing(speculation=speculation) as (table, context):
        context.add(seen)
        await table.npc.hearing("what is this place")
        await trio.sleep(0.5)
        await ask(table.npc, "What is this place?")
        (done,) = table.events.all(SpeculationDone)
        assert done.end is SpeculationEnd.ADOPTED
        assert [moment.turn for moment in moments] == [0, 1]
        assert len(table.llm.requests) == 1
