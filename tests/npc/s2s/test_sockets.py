"""When another socket is tried: by whom it is wanted, and how soon; and what the one
before it is still owed."""

from __future__ import annotations

import random
from collections import Counter, deque

import pytest

import trio

from glyphoxa_trio.npc.s2s import (
    Interaction,
    LiveSettings,
    RealtimeConversation,
    Way,
    open_live,
)
from glyphoxa_trio.npc.s2s.happenings import Answered, BargedIn, CallsReady, Overflowed
from glyphoxa_trio.providers.s2s import (
    ResponseEnd,
    ResponseEnded,
    ResponseStarted,
    SendResult,
    TranscriptLine,
)
from glyphoxa_trio.tools.outcome import ToolCall

from .support import Links, live, lost

BACKED_OFF = (0.0, 0.5, 1.5, 3.5, 7.5, 11.5, 15.5, 19.5)


async def listen(conversation: RealtimeConversation, seconds: float) -> None:
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
        conversation.say(TranscriptLine("user", "Are you there?"))
        await trio.testing.wait_all_tasks_blocked()
        assert links.tried[4:] == [5.0]  # and not at 7.5
        assert conversation.statistics().connected


def test_what_is_cut_together_comes_back_apart() -> None:
    rng = random.Random(5)
    backoff = LiveSettings().backoff
    tenths = Counter(int(10 * backoff.delay(1, rng)) for _ in range(200))
    assert max(tenths.values()) < 70
    assert set(tenths) == {1, 2, 3, 4}


async def test_what_an_earlier_run_was_asked_is_told_as_text_in_the_next(
    autojump_clock: trio.testing.MockClock,
) -> None:
    links = Links()
    conversation, look = live(links), ToolCall("c1", "look", "{}")
    async with open_live(conversation):
        conversation.begin()
        conversation.say(TranscriptLine("user", "What is there?"))
        await trio.testing.wait_all_tasks_blocked()
        links.last.push(ResponseStarted("r1"))
        end = ResponseEnd.COMPLETED
        links.last.push(ResponseEnded(response="r1", end=end, calls=(look,)))
        await trio.testing.wait_all_tasks_blocked()
    links.delay = 1.0
    async with open_live(conversation):
        await trio.testing.wait_all_tasks_blocked()  # it is being opened
        assert conversation.answer(look, '{"message": "A door."}') is Way.TEXT
        await trio.sleep(2.0)
        assert not links.last.all(SendResult)
    assert len(links.opened) == 2
    assert links.faults == []


def test_calls_that_a_slow_listener_did_not_come_to_are_not_forgotten() -> None:
    interaction, calls = Interaction(), CallsReady("r", (ToolCall("c", "look", "{}"),))
    assert interaction.put(calls)
    while interaction.put(Answered()):
        pass
    assert not interaction.put(Answered())
    assert interaction.end() == (Overflowed(), calls)


def test_whoever_barges_in_waits_for_nothing_that_was_said_before() -> None:
    interaction, calls = Interaction(), CallsReady("r", (ToolCall("c", "look", "{}"),))
    for event in (Answered(), calls, Answered(), BargedIn(), Answered()):
        assert interaction.put(event)
    # Calls are still owed an answer; what comes later is somebody else's.
    assert interaction.end() == (BargedIn(), calls, Answered())
