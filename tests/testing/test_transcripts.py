"""When a fake server says what it has understood: late, crossed, doubled."""

from __future__ import annotations

from functools import partial

import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio.testing.voice.transcripts import AGAIN, CROSSED, LATE, Transcripts


@pytest.mark.parametrize("has_items", [True, False])
async def test_none_of_four_comes_when_one_would_like_it(
    has_items: bool, autojump_clock: MockClock
) -> None:
    told: list[tuple[int, float]] = []

    def say(number: int) -> None:
        told.append((number, round(trio.current_time() - start, 3)))

    async with trio.open_nursery() as nursery:
        transcripts = Transcripts(nursery, has_items)
        start = trio.current_time()
        for number in range(4):
            transcripts.tell(partial(say, number), late=None)
        await trio.sleep(LATE + AGAIN + 0.1)
        transcripts.answered()
    again = round(LATE + AGAIN, 3)
    end = (3, round(LATE + AGAIN + 0.1, 3))
    if has_items:
        assert sorted(told) == [(0, LATE), (1, LATE), (2, LATE), (2, again), end]
        assert told.index((1, LATE)) > told.index((2, LATE))
    else:
        assert sorted(told) == [(0, LATE), (1, LATE), (2, LATE), end]


async def test_one_that_waits_for_another_does_not_wait_for_ever(
    autojump_clock: MockClock,
) -> None:
    told: list[float] = []
    async with trio.open_nursery() as nursery:
        transcripts = Transcripts(nursery, has_items=True)
        for _ in range(2):
            transcripts.tell(lambda: told.append(trio.current_time()), late=None)
    assert told[1] - told[0] == pytest.approx(CROSSED - LATE)


async def test_a_script_says_when(autojump_clock: MockClock) -> None:
    told: list[str] = []
    async with trio.open_nursery() as nursery:
        transcripts = Transcripts(nursery, has_items=True)
        transcripts.tell(lambda: told.append("late"), late=True)
        transcripts.tell(lambda: told.append("at once"), late=False)
        assert told == ["at once"]
        transcripts.answered()
    assert told == ["at once", "late"]
