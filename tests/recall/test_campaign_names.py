"""The names of campaigns: loaded once, made anew after a change, never in the way."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio.memory.contract import Named
from glyphoxa_trio.memory.errors import MemoryUnavailable
from glyphoxa_trio.memory.knowledge import Entity
from glyphoxa_trio.memory.visibility import GAME_MASTER, CampaignKey
from glyphoxa_trio.npc.selection import SelectionRules, Situation, select
from glyphoxa_trio.recall.campaign_names import CampaignNames, _compiled
from glyphoxa_trio.tools.tier import Tier

from .support import KEY, SlowMemory, a_thousand, person, populate

QUESTION = "who is greymantle"


@asynccontextmanager
async def open_names() -> AsyncIterator[tuple[SlowMemory, CampaignNames]]:
    memory = SlowMemory()
    await populate(memory.store)
    async with trio.open_nursery() as nursery:
        yield memory, CampaignNames(memory, nursery)  # type: ignore[arg-type]
        nursery.cancel_scope.cancel()


async def knows(names: CampaignNames, text: str) -> bool:
    return bool((await names.index(KEY)).find(text, GAME_MASTER))


async def test_names_are_loaded_once_for_all_who_ask(autojump_clock: MockClock) -> None:
    async with open_names() as (memory, names):
        memory.slow["names"] = 0.1
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(names.index, KEY)
        assert await knows(names, QUESTION)
        assert memory.calls("names") == 1
        assert trio.current_time() == 0.1


async def test_a_change_is_seen_soon_and_holds_nobody_up(
    autojump_clock: MockClock,
) -> None:
    async with open_names() as (memory, names):
        assert not await knows(names, "Brannoc")
        await memory.store.graph.put(KEY, entities=[person("Brannoc")])
        memory.slow["names"] = 0.1
        names.changed(KEY)
        assert not await knows(names, "Brannoc")  # at once, from before
        assert trio.current_time() == 0
        await trio.sleep(0.2)
        assert await knows(names, "Brannoc")


async def test_all_campaigns_of_a_tenant_change(autojump_clock: MockClock) -> None:
    async with open_names() as (memory, names):
        assert not await knows(names, "Brannoc")
        await memory.store.graph.put(KEY, entities=[person("Brannoc")])
        names.changed_of("another")
        await trio.sleep(0.2)
        assert not await knows(names, "Brannoc")
        names.changed_of(KEY.tenant)
        await trio.sleep(0.2)
        assert await knows(names, "Brannoc")


async def test_a_change_while_names_are_loaded_is_not_lost(
    autojump_clock: MockClock,
) -> None:
    async with open_names() as (memory, names):
        await names.index(KEY)
        memory.slow["names"] = 0.1
        names.changed(KEY)
        await trio.sleep(0.05)
        names.changed(KEY)
        await trio.sleep(0.1)
        await names.index(KEY)
        await trio.sleep(0.2)
        assert memory.calls("names") == 3


async def test_a_change_by_another_process_is_seen_within_a_minute(
    autojump_clock: MockClock,
) -> None:
    async with open_names() as (memory, names):
        await names.index(KEY)
        await memory.store.graph.put(KEY, entities=[person("Brannoc")])
        await trio.sleep(61)
        await names.index(KEY)
        await trio.sleep(0.01)
        assert await knows(names, "Brannoc")
        assert memory.calls("names") == 2


async def test_a_store_that_fails_is_asked_again_after_a_while(
    autojump_clock: MockClock,
) -> None:
    async with open_names() as (memory, names):
        memory.failing["names"] = MemoryUnavailable("it is away")
        for _ in range(3):
            with pytest.raises(MemoryUnavailable):
                await names.index(KEY)
        assert memory.calls("names") == 1
        memory.failing.clear()
        await trio.sleep(5)
        assert await knows(names, QUESTION)


async def test_old_names_serve_while_a_store_fails(autojump_clock: MockClock) -> None:
    async with open_names() as (memory, names):
        await names.index(KEY)
        memory.failing["names"] = MemoryUnavailable("it is away")
        names.changed(KEY)
        await trio.sleep(1)
        assert await knows(names, QUESTION)


async def test_a_question_about_a_public_name_chooses_a_slower_tier(
    autojump_clock: MockClock,
) -> None:
    async with open_names() as (_, names):

        def tier(text: str, npc: str = "") -> Tier:
            situation = Situation(text=text, npc=npc, names=names.public(KEY))
            return select(SelectionRules(), situation).tier

        said = "i hear Greymantle is here"
        assert tier("do you like greymantle") is Tier.FAST  # not known yet
        await names.index(KEY)
        assert tier("do you like greymantle") is Tier.STANDARD
        assert tier("do you like greymantle", npc="Greymantle the Sage") is Tier.FAST
        assert tier("do you like ysolde") is Tier.FAST  # which only she knows
        assert tier("greymantle sends his regards") is Tier.FAST
        assert tier(said) is Tier.STANDARD


async def test_campaigns_are_bounded(autojump_clock: MockClock) -> None:
    async with open_names() as (_, names):
        for n in range(300):
            names.public(CampaignKey(f"campaign {n}"))
        await trio.sleep(0.1)
        assert len(names._campaigns) == 256


async def test_many_names_are_found_as_written_until_a_thread_has_compiled_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go_on = threading.Event()

    def slowly(named: tuple[Named, ...]) -> Any:
        assert go_on.wait(60)
        return _compiled(named)

    monkeypatch.setattr("glyphoxa_trio.recall.campaign_names._compiled", slowly)
    async with open_names() as (memory, names):
        many = {x.entity: x for x in a_thousand()}
        entities = [
            Entity(id=x.entity, kind=x.kind, name=x.name) for x in many.values()
        ]
        await memory.store.graph.put(KEY, entities=entities)
        said = "Does Karthagash's lord fear greymantle?"
        found = (await names.index(KEY)).find(said, GAME_MASTER)
        assert [x.said for x in found] == ["Karthagash", "greymantle"]
        assert not await knows(names, "karthagosh")
        go_on.set()
        while not await knows(names, "karthagosh"):  # noqa: ASYNC110 - a thread
            await trio.sleep(0.01)
        assert (
            select(
                SelectionRules(),
                Situation(text="is karthagash rich", names=names.public(KEY)),
            ).reason
            == "a question about 'Karthagash'"
        )


async def test_the_last_turns_of_a_runtime_that_closes_have_the_names_as_they_were(
    autojump_clock: MockClock,
) -> None:
    """Found: what was written after the nursery had ended raised RuntimeError."""
    async with open_names() as (_, names):
        assert await knows(names, QUESTION)
        said = names.corrected(KEY, "do you know graymantel")
        await trio.sleep(3600)  # they are old by now
    assert names.corrected(KEY, "do you know graymantel") == said
