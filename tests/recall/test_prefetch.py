"""What is fetched while a player still speaks. Times are virtual and exact."""

from __future__ import annotations

from typing import Any

import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio.memory.errors import MemoryUnavailable
from glyphoxa_trio.memory.visibility import GAME_MASTER, Viewer

from .support import KEY, Recalling, moment, open_recall

SAID = "What do you know of gray mantel's silver key?"
SLOW = ("identity", "facts", "search", "evenings", "recent", "names")


def slow(table: Recalling, seconds: float, *methods: str) -> None:
    table.memory.slow.update(dict.fromkeys(methods or SLOW, seconds))


def hears(table: Recalling, text: str, **more: Any) -> None:
    table.recall.prefetch(moment(text, turn=0, **more))


async def test_what_takes_long_is_there_if_the_words_came_early(
    autojump_clock: MockClock,
) -> None:
    async with open_recall() as table:
        slow(table, 0.2, "facts", "search")
        hears(table, "What do you know of gray mantel's silver key")
        await trio.sleep(0.3)
        told = await table.told(SAID)
        assert trio.current_time() == 0.3
        assert any("has a silver key" in line for line in told)


async def test_what_was_fetched_of_a_forgotten_player_is_not_told(
    autojump_clock: MockClock,
) -> None:
    async with open_recall() as table:
        hears(table, "What do you know of gray mantel's silver key")
        await trio.sleep(0.3)
        for one in await table.memory.store.graph.facts(KEY, GAME_MASTER, limit=99):
            await table.memory.store.graph.remove(KEY, fact=one.fact.id)
        assert any("silver key" in line for line in await table.told(SAID, turn=0))
        table.recall.drop_prefetched("other")
        table.recall.drop_prefetched(KEY.tenant)
        assert not any("silver key" in line for line in await table.told(SAID))


async def test_without_a_partial_transcript_it_is_late(
    autojump_clock: MockClock,
) -> None:
    async with open_recall() as table:
        slow(table, 0.2, "facts", "search")
        gathered = await table.recall.provide(moment(SAID))
        assert gathered is not None
        assert gathered.missed == (("memory: facts", "late"),)
        assert trio.current_time() == 0.05


async def test_a_turn_waits_for_what_is_being_fetched(
    autojump_clock: MockClock,
) -> None:
    async with open_recall() as table:
        slow(table, 0.2, "facts", "search")
        hears(table, SAID)
        await trio.sleep(0.17)
        assert any("silver key" in line for line in await table.told(SAID))
        assert trio.current_time() == pytest.approx(0.2)
        assert table.memory.calls("facts") == 1


async def test_each_piece_is_fetched_once(autojump_clock: MockClock) -> None:
    async with open_recall() as table:
        for words in range(1, 10):
            hears(table, " ".join(SAID.split()[:words]))
            await trio.sleep(0.1)
        before = len(table.memory.asked)
        identities = table.memory.calls("identity")
        await table.told(SAID)
        assert len(table.memory.asked) == before
        assert identities == 3  # Bartok, Aria, Greymantle


async def test_one_fetch_runs_at_a_time_and_the_latest_text_counts(
    autojump_clock: MockClock,
) -> None:
    async with open_recall() as table:
        slow(table, 0.2, "facts")
        for n in range(20):
            hears(table, f"tell me about number{n}")
            await trio.sleep(0.01)
        await trio.sleep(1)
        asked = [at for name, at in table.memory.asked if name == "facts"]
        assert asked == [0, 0.2]


async def test_npcs_do_not_wait_for_each_other(autojump_clock: MockClock) -> None:
    async with open_recall() as table:
        slow(table, 0.2, "facts")
        hears(table, "tell me about keys")
        hears(table, "tell me about keys", npc="Ysolde")
        hears(table, "tell me about keys", session="another")
        await trio.sleep(0.01)
        assert [at for name, at in table.memory.asked if name == "facts"] == [0, 0, 0]


async def test_the_next_utterance_is_fetched_anew(autojump_clock: MockClock) -> None:
    async with open_recall() as table:
        hears(table, SAID)
        await trio.sleep(0.1)
        await table.told(SAID)
        before = len(table.memory.asked)
        await table.told(SAID)
        assert len(table.memory.asked) > before


async def test_a_speculation_leaves_it_for_the_turn(autojump_clock: MockClock) -> None:
    async with open_recall() as table:
        hears(table, SAID)
        await trio.sleep(0.1)
        before = len(table.memory.asked)
        ahead = await table.told(SAID, turn=0)
        assert await table.told(SAID) == ahead
        assert len(table.memory.asked) == before


async def test_what_is_old_is_fetched_anew(autojump_clock: MockClock) -> None:
    async with open_recall() as table:
        hears(table, SAID)
        await trio.sleep(31)
        before = len(table.memory.asked)
        await table.told(SAID)
        assert len(table.memory.asked) > before


async def test_another_viewer_sees_nothing_of_it(autojump_clock: MockClock) -> None:
    topics: set[str] = {"x"}

    def viewer(npc: str) -> Viewer:
        return Viewer(npc, frozenset(topics))

    async with open_recall(viewer_of=viewer) as table:
        hears(table, SAID)
        await trio.sleep(0.1)
        before = len(table.memory.asked)
        topics.clear()
        await table.told(SAID)
        assert len(table.memory.asked) > before


async def test_a_store_that_fails_is_asked_again_in_the_turn(
    autojump_clock: MockClock,
) -> None:
    async with open_recall() as table:
        table.memory.failing["identity"] = MemoryUnavailable("it is away")
        hears(table, SAID)
        await trio.sleep(0.1)
        table.memory.failing.clear()
        assert any("You are Bartok" in line for line in await table.told(SAID))


async def test_a_store_that_never_answers_is_left_after_a_while(
    autojump_clock: MockClock,
) -> None:
    async with open_recall() as table:
        slow(table, 1000, "names")
        hears(table, SAID)
        await trio.sleep(1)
        table.memory.slow.clear()
        hears(table, SAID)
        await trio.sleep(1.5)
        asked = [at for name, at in table.memory.asked if name == "names"]
        assert asked == [0, 2]


async def test_a_turn_that_is_cancelled_leaves_the_fetch_to_others(
    autojump_clock: MockClock,
) -> None:
    async with open_recall() as table:
        slow(table, 0.02, "identity")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(table.recall.provide, moment(SAID, turn=0))
            await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
        assert any("You are Bartok" in line for line in await table.told(SAID))


async def test_what_is_kept_is_bounded(autojump_clock: MockClock) -> None:
    async with open_recall() as table:
        for n in range(1100):
            hears(table, "hm", session=f"table {n}")
        await trio.sleep(1)
        assert len(table.recall._ahead) == 1000


async def test_without_a_campaign_nothing_is_fetched(autojump_clock: MockClock) -> None:
    async with open_recall(campaign_of=lambda _: None) as table:
        hears(table, SAID)
        await trio.sleep(1)
        assert table.memory.asked == []
