"""When another socket is tried: by whom it is wanted, and how soon."""

from __future__ import annotations

import random
from collections import Counter, deque

import pytest

import trio

from glyphoxa_trio.npc.s2s import Live, LiveSettings, open_live
from glyphoxa_trio.providers.s2s import Line

from .support import Links, live, lost

BACKED_OFF = (0.0, 0.5, 1.5, 3.5, 7.5, 11.5, 15.5, 19.5)


async def listen(conversation: Live, seconds: float) -> None:
    """A microphone that is on: a frame every 20 ms."""
    with trio.move_on_after(seconds):
        while True:
            conversation.hear(bytes(960))
            await trio.sleep(0.02)


async def test_a_microphone_alone_does_not_hurry_a_model_that_gave_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    for refusal in (lost(), lost(1008, retryable=False)):
        links = Links(refusals=deque([refusal] * 100))
        async with open_live(live(links)) as conversation:
            await listen(conversation, 20.0)
        assert [at - links.tried[0] for at in links.tried] == pytest.approx(BACKED_OFF)


async def test_who_says_something_is_not_made_to_wait_for_a_model_that_gave_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    links = Links(refusals=deque([lost()] * 4))
    async with open_live(live(links)) as conversation:
        await listen(conversation, 5.0)
        assert len(links.tried) == 4
        conversation.begin()
        conversation.say(Line("user", "Are you there?"))
        await trio.testing.wait_all_tasks_blocked()
        assert links.tried[4:] == [5.0]  # and not at 7.5
        assert conversation.statistics().connected


def test_what_is_cut_together_comes_back_apart() -> None:
    rng = random.Random(5)
    backoff = LiveSettings().backoff
    tenths = Counter(int(10 * backoff.delay(1, rng)) for _ in range(200))
    assert max(tenths.values()) < 70
    assert set(tenths) == {1, 2, 3, 4}
