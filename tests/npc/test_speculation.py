"""A turn that begins on a partial transcript: what it gains, and that it leaves no
trace when the words are others. Times are virtual and exact.

A partial that stays the same for 125 ms is speculated on, so everything that follows
`heard` at 0 begins at 0.125.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import pytest

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.config import SpeculationConfig, TurnConfig
from glyphoxa_trio.errors import ActorGone
from glyphoxa_trio.npc import (
    FanOutDone,
    FellBack,
    ModelFailed,
    QueueFull,
    Sentence,
    SpeculationDone,
    SpeculationEnd,
    TextDelta,
    TierSelected,
    TurnDone,
    TurnEnd,
    TurnEvent,
)
from glyphoxa_trio.npc.activity import Activity
from glyphoxa_trio.npc.words import words_of
from glyphoxa_trio.providers.llm import ErrorKind, LLMError, LLMRequest
from glyphoxa_trio.tools.gate import Availability, Grant
from glyphoxa_trio.tools.tier import Tier

from .support import (
    HANG,
    Heard,
    Ran,
    Reply,
    ScriptedLLM,
    Step,
    Table,
    ask,
    call,
    open_table,
)

FAST, STANDARD, DEEP = Tier
ADOPTED, DIVERGED, EXPIRED, DISCARDED, FAILED = SpeculationEnd

ON = SpeculationConfig(
    enabled=True, min_words=2, after=0.125, per_utterance=3, expires=4.0
)
WORDS = "what do you see"
SAID = "What do you see?"


def looks(request: LLMRequest) -> Reply:
    """A quarter of a second of thought, a look, and an answer."""
    if request.messages[-1].role == "user":
        return [0.25, call("look")]
    return ["A door."]


def speculations(table: Table) -> list[SpeculationDone]:
    return table.events.all(SpeculationDone)


def ended(table: Table) -> list[tuple[SpeculationEnd, str]]:
    return [(done.end, done.reason) for done in speculations(table)]


async def hear_and_say(
    table: Table, *, at: float, heard: str = WORDS, said: str = SAID, **more: Any
) -> Any:
    await table.npc.hearing(heard)
    return await ask(table.npc, said, after=at - trio.current_time(), **more)


# What it gains.


async def test_a_turn_that_was_begun_ahead_waits_only_for_the_rest(
    autojump_clock: MockClock,
) -> None:
    ran = Ran()
    look = ran.tool("look", 0.5)
    async with open_table(looks, look, speculation=ON) as table:
        heard = await hear_and_say(table, at=0.75)
        (done,) = speculations(table)
        assert table.session.services.tally.statistics().hit_rate == 1.0
    async with open_table(looks, look) as table:
        begun = trio.current_time()
        plain = await ask(table.npc, SAID)
    assert plain.done.timings.total == 0.75
    assert heard.done.timings.total == 0.125
    assert heard.done.timings.head_start == 0.625
    assert (plain.done.timings.head_start, heard.done.text) == (0, plain.done.text)
    # The model was asked at 0.125 and called at 0.375; the tool ended at 0.875.
    assert ran.began == [("look", 0.375), ("look", begun + 0.25)]
    assert [len(each.only(FanOutDone).outcomes) for each in (heard, plain)] == [1, 1]
    assert heard.only(FanOutDone).elapsed == 0.125
    assert heard.only(FanOutDone).outcomes[0].elapsed == 0.125
    assert heard.done.timings.tools == 0.125
    assert heard.done.timings.model == 0
    assert heard.kinds() == plain.kinds()
    assert done == SpeculationDone(
        npc="Bob",
        turn=1,
        end=ADOPTED,
        reason="",
        head_start=0.625,
        calls=1,
        calls_used=1,
        wasted=0.0,
    )


async def test_the_model_is_asked_once_and_remembers_what_was_really_said(
    autojump_clock: MockClock,
) -> None:
    async with open_table(looks, Ran().tool("look", 0.5), speculation=ON) as table:
        await hear_and_say(table, at=0.75)
        await ask(table.npc, "And now?")
        assert [role for role, _ in table.llm.told(0)] == ["user"]
        assert table.llm.told(0)[0] == ("user", WORDS)
        assert table.llm.told(1)[0] == ("user", SAID)
        assert [told[0] for told in map(table.llm.told, range(4))] == [
            ("user", WORDS),
            ("user", SAID),
            ("user", SAID),
            ("user", SAID),
        ]
        assert len(table.llm.requests) == 4


async def test_text_that_came_already_comes_at_once_and_the_rest_as_it_comes(
    autojump_clock: MockClock,
) -> None:
    reply: Reply = ["One. ", 0.5, "Two. ", 0.5, "Three."]
    async with open_table([reply], speculation=ON) as table:
        heard = await hear_and_say(table, at=0.75)
    texts = [(at, e.text) for at, e in heard.events if isinstance(e, TextDelta)]
    assert texts == [(0.75, "One. "), (0.75, "Two. "), (1.125, "Three.")]
    assert [e.text for e in heard.of(Sentence)] == ["One.", "Two.", "Three."]
    assert heard.done.timings.first_text == 0
    assert heard.done.timings.model == 0.375  # what the turn waited for it
    assert len(table.llm.requests) == 1
    assert table.llm.open == 0


async def test_a_call_that_comes_after_the_words_is_the_turns_own(
    autojump_clock: MockClock,
) -> None:
    # The tool clock is for tools that the turn waits for; nothing runs before it.
    ran = Ran()
    script: list[Reply] = [[0.5, call("look"), 0.5, "There."], ["A door."]]
    async with open_table(script, ran.tool("look", 0.25), speculation=ON) as table:
        heard = await hear_and_say(table, at=0.5)
    assert ran.began == [("look", 1.125)]
    assert heard.only(FanOutDone).elapsed == 0.25
    assert (speculations(table)[0].calls, heard.done.timings.total) == (0, 0.875)


async def test_only_the_first_round_is_taken_from_it(autojump_clock: MockClock) -> None:
    # The same calls with the same ids once more are other calls.
    ran = Ran()
    script: list[Reply] = [[call("look")], [call("look")], ["A door."]]
    async with open_table(script, ran.tool("look", 0.25), speculation=ON) as table:
        heard = await hear_and_say(table, at=1.0)
    assert ran.began == [("look", 0.125), ("look", 1.0)]
    assert [fan.elapsed for fan in heard.of(FanOutDone)] == [0, 0.25]


@pytest.mark.parametrize(("hang_up", "ends"), [(0.5, 1.5), (5.0, 2.0)])
async def test_a_turn_has_not_ended_before_its_model_has_or_a_second_later(
    hang_up: float, ends: float, autojump_clock: MockClock
) -> None:
    async with open_table([["One.\n", HANG]], speculation=ON) as table:
        table.llm.hang_up = hang_up
        await hear_and_say(table, at=0.75, leave_at=1.0)
        await trio.sleep(10)
        done = [at for at, e in table.events.kept if isinstance(e, TurnDone)]
    assert done == [ends]


# Other words.


async def test_a_partial_that_goes_on_cancels_what_was_begun(
    autojump_clock: MockClock,
) -> None:
    ran = Ran()
    async with open_table(looks, ran.tool("look", 0.5), speculation=ON) as table:
        await table.npc.hearing(WORDS)
        await trio.sleep(0.5)
        await table.npc.hearing("what do you see over there")
        await wait_all_tasks_blocked()
        assert (trio.current_time(), table.llm.open) == (0.5, 0)
        assert ran.cancelled == [("look", 0.5)]
        heard = await ask(table.npc, "What do you see, over there?", after=0.75)
    assert ended(table) == [(DIVERGED, ""), (ADOPTED, "")]
    assert [(told.calls, told.calls_used) for told in speculations(table)] == [
        (1, 0),
        (1, 1),
    ]
    # The model's 0.25 s, and 0.125 of the tool.
    assert [told.wasted for told in speculations(table)] == [0.375, 0]
    assert heard.done.timings.total == 0.125
    assert [len(request.messages) for request in table.llm.requests] == [2, 2, 4]


async def test_other_words_in_the_end_cancel_it_and_the_turn_is_as_ever(
    autojump_clock: MockClock,
) -> None:
    ran = Ran()
    async with open_table(looks, ran.tool("look", 0.5), speculation=ON) as table:
        heard = await hear_and_say(table, at=0.5, said="What do you hear?")
        stats = table.session.services.tally.statistics()
    assert ran.cancelled == [("look", 0.5)]
    assert heard.done.timings.total == 0.75
    assert heard.done.timings.head_start == 0
    assert ended(table) == [(DIVERGED, "")]
    assert table.llm.told(1) == [("user", "What do you hear?")]
    assert (stats.begun, stats.adopted, stats.rounds_wasted) == (1, 0, 1)
    assert (stats.calls, stats.calls_used, stats.calls_wasted) == (1, 0, 1)
    assert (stats.hit_rate, stats.head_start, stats.wasted) == (0, 0, 0.375)


async def test_the_same_words_of_somebody_else_are_other_words(
    autojump_clock: MockClock,
) -> None:
    async with open_table(looks, Ran().tool("look", 0.5), speculation=ON) as table:
        heard = await hear_and_say(table, at=0.75, speaker="Ann")
        assert heard.done.timings.total == 0.75
    assert ended(table) == [(DIVERGED, "")]


async def test_a_cancelled_call_says_nothing_of_the_tools_health(
    autojump_clock: MockClock,
) -> None:  # D7: an interruption is neither a sample nor a failure
    ran = Ran()
    async with open_table(looks, ran.tool("look", 0.5), speculation=ON) as table:
        for n in range(8):
            await table.npc.hearing(f"what do you see in room {n}")
            await trio.sleep(0.5)
            await table.npc.hearing("")
            await trio.sleep(5)
        estimate = (await table.host.report())["test.look"]
        assert len(ran.cancelled) == 8
        assert (estimate.samples, estimate.degraded) == (0, None)
        assert not table.host.statistics().shared_tasks.lingering
        heard = await ask(table.npc, SAID)
    assert heard.done.outcomes[0].ok


# When it begins, and how often.


async def test_words_that_keep_changing_begin_nothing(
    autojump_clock: MockClock,
) -> None:
    async with open_table(looks, speculation=ON) as table:
        words = WORDS
        for n in range(20):
            words = f"{words} {n}"
            await table.npc.hearing(words)
            await trio.sleep(0.12)
        assert table.llm.requests == []
        # What stays the same began when it was first heard.
        for _ in range(4):
            await table.npc.hearing(f"{words.upper()} again?")
            await trio.sleep(0.03125)
        await wait_all_tasks_blocked()
        assert len(table.llm.requests) == 1


async def test_an_utterance_has_so_many_tries(autojump_clock: MockClock) -> None:
    config = attrs.evolve(ON, per_utterance=2)
    async with open_table([["Yes."]] * 9, speculation=config) as table:

        async def hear(*words: str) -> int:
            for word in words:
                await table.npc.hearing(f"do you know {word}")
                await trio.sleep(0.25)
            return len(table.llm.requests)

        assert await hear("a", "b", "c", "d") == 2
        await ask(table.npc, "Do you know e?")
        assert await hear("f", "g", "h") == 5
        await trio.sleep(ON.expires)  # nobody spoke: whoever does now is not bound
        assert await hear("f") == 6


async def test_the_same_words_are_begun_again_when_they_are_said_again(
    autojump_clock: MockClock,
) -> None:
    async with open_table(looks, Ran().tool("look", 0.25), speculation=ON) as table:
        for _ in range(2):
            heard = await hear_and_say(table, at=trio.current_time() + 0.5)
            assert heard.done.timings.head_start == 0.375
    assert ended(table) == [(ADOPTED, "")] * 2


async def test_few_words_begin_nothing(autojump_clock: MockClock) -> None:
    async with open_table(looks, speculation=ON) as table:
        for words in ("", "   ", "well", "well, \u2014 ...", "Hello!"):
            await table.npc.hearing(words)
            await trio.sleep(1)
        assert table.llm.requests == []
        await table.npc.hearing("well, hello")
        await trio.sleep(1)
        assert len(table.llm.requests) == 1


async def test_without_the_configuration_nothing_begins(
    autojump_clock: MockClock,
) -> None:
    assert not SpeculationConfig().enabled
    async with open_table(looks, Ran().tool("look", 0.5)) as table:
        heard = await hear_and_say(table, at=0.75)
        assert heard.done.timings.total == 0.75
        assert speculations(table) == []


async def test_nothing_begins_while_a_turn_runs(autojump_clock: MockClock) -> None:
    # Barging in is a matter of `say`.
    async with open_table([[2.0, "Hm."], ["Yes?"]], speculation=ON) as table:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(ask, table.npc, "Hello there"))
            await trio.sleep(0.25)
            await table.npc.hearing("no wait a moment")
            await trio.sleep(1)
            assert len(table.llm.requests) == 1
            await ask(table.npc, "No, wait a moment!")
    assert speculations(table) == []


async def test_nothing_begins_when_the_machine_has_no_time(
    autojump_clock: MockClock,
) -> None:
    @attrs.define
    class Door:
        busy: bool = True

        def refusal(self, running: int) -> str:
            return ""

    door = Door()
    async with open_table(looks, speculation=ON, activity=Activity(door)) as table:
        await table.npc.hearing(WORDS)
        await trio.sleep(1)
        assert table.llm.requests == []
        door.busy = False
        await table.npc.hearing(WORDS)
        await trio.sleep(1)
        assert len(table.llm.requests) == 1


async def test_a_slow_hang_up_never_makes_two_of_them(
    autojump_clock: MockClock,
) -> None:
    open_: list[int] = []

    def script(_: LLMRequest) -> Reply:
        open_.append(table.llm.open)
        return [HANG]

    async with open_table(script, speculation=ON) as table:
        table.llm.hang_up = 1.0
        await table.npc.hearing(WORDS)
        await trio.sleep(0.25)
        await table.npc.hearing(f"{WORDS} there")
        await trio.sleep(0.9375)
        assert open_ == [0]
        await trio.sleep(0.125)
        assert open_ == [0, 0]


@pytest.mark.parametrize("between", [f"{WORDS} then", "hm"])
async def test_nor_does_one_that_was_given_up_before_it_began(
    between: str, autojump_clock: MockClock
) -> None:
    async with open_table([[HANG]] * 3, speculation=ON) as table:
        table.llm.hang_up = 1.0
        await table.npc.hearing(WORDS)
        await trio.sleep(0.25)
        await table.npc.hearing(between)  # nothing comes of it
        await trio.sleep(0.0625)
        await table.npc.hearing(f"{WORDS} there")
        for _ in range(10):
            await trio.sleep(0.125)
            assert table.llm.open <= 1
        assert len(table.llm.requests) == 2


async def test_a_model_that_writes_without_end_is_not_read_without_end(
    autojump_clock: MockClock,
) -> None:
    written = 0

    class Endless(list[Step]):
        def __iter__(self) -> Any:
            nonlocal written
            while True:
                written += 1
                yield "and "

    async with open_table([Endless()], speculation=ON) as table:
        await table.npc.hearing(WORDS)
        await trio.sleep(1)
    assert 1024 <= written <= 1026


# Nobody says the words.


async def test_what_nobody_claims_ends_in_time(autojump_clock: MockClock) -> None:
    ran = Ran()
    tool = ran.tool("look", HANG, estimated_duration=0.5)
    async with open_table(looks, tool, speculation=ON) as table:
        await table.npc.hearing(WORDS)
        await trio.sleep(6)
        assert ran.cancelled == [("look", 4.125)]
        assert ended(table) == [(EXPIRED, "")]
        assert speculations(table)[0].wasted == 0.25 + 3.75
        # The same words again are not another try.
        await table.npc.hearing(SAID)
        await trio.sleep(1)
        assert len(table.llm.requests) == 1


async def test_what_is_claimed_does_not_end_in_time(
    autojump_clock: MockClock,
) -> None:
    reply: Reply = ["One. ", 3.0, "Two. ", 3.0, "Three."]
    async with open_table([reply], speculation=ON) as table:
        heard = await hear_and_say(table, at=4.0)
    assert heard.done.text == "One. Two. Three."
    assert trio.current_time() == 6.125


@pytest.mark.parametrize("at", [4.125, 4.25])
async def test_words_said_in_the_moment_of_its_end_are_answered_all_the_same(
    autojump_clock: MockClock, at: float
) -> None:
    # What runs first in a tick is chance: no half of an answer may be taken over.
    reply: Reply = ["One. ", 4.5, "Two."]
    for _ in range(20):
        async with open_table([reply, reply], speculation=ON) as table:
            begun = trio.current_time()
            heard = await hear_and_say(table, at=begun + at)
            assert heard.done.end is TurnEnd.COMPLETED
            assert heard.done.text == "One. Two."
            assert len(ended(table)) == 1


async def test_words_said_before_it_has_begun_are_a_turn_as_ever(
    autojump_clock: MockClock,
) -> None:
    async with open_table(looks, Ran().tool("look", 0.5), speculation=ON) as table:
        heard = await hear_and_say(table, at=0.0625)
        await trio.sleep(5)
    assert heard.done.timings.total == 0.75
    assert len(table.llm.requests) == 2
    assert speculations(table) == []  # there was none


async def test_words_said_in_the_moment_of_its_beginning_are_counted_right(
    autojump_clock: MockClock,
) -> None:
    # What runs first in a tick is chance: no request may go uncounted.
    for _ in range(40):
        async with open_table(looks, Ran().tool("look", 0.5), speculation=ON) as table:
            await hear_and_say(table, at=trio.current_time() + 0.125)
            wasted = table.session.services.tally.statistics().rounds_wasted
            assert len(table.llm.requests) == 2 + wasted


# The words are said, and it is another turn by then.


async def test_another_tier_is_another_turn(autojump_clock: MockClock) -> None:
    ran = Ran()
    async with open_table(looks, ran.tool("look", 0.25), speculation=ON) as table:
        heard = await hear_and_say(table, at=0.5, tier=FAST)
        assert heard.done.tier is FAST
        assert heard.done.timings.total == 0.5
    assert ended(table) == [(DISCARDED, "another tier")]
    assert speculations(table)[0].turn == 0
    assert [name for name, _ in ran.began] == ["look", "look"]


async def test_an_elevation_in_between_makes_another_turn(
    autojump_clock: MockClock,
) -> None:
    async with open_table(
        looks, Ran().tool("look", 0.25), speculation=ON, tier=FAST
    ) as table:
        await table.npc.hearing(WORDS)
        await trio.sleep(0.25)
        await table.npc.elevate(DEEP, seconds=10)
        heard = await ask(table.npc, SAID)
        assert heard.done.tier is STANDARD
    assert ended(table) == [(DISCARDED, "another tier")]


async def test_the_tier_is_that_of_the_words_and_leaves_no_trace(
    autojump_clock: MockClock,
) -> None:  # D2: committed when a turn starts
    async with open_table([["Hm."]] * 9, speculation=ON) as table:
        for n in range(3):  # each would be the one deep turn in half a minute
            await table.npc.hearing(f"think carefully, {n}")
            await trio.sleep(0.5)
        heard = await ask(table.npc, "Think carefully, 2!")
        assert heard.only(TierSelected).tier is DEEP
        assert heard.done.timings.head_start > 0
        again = await ask(table.npc, "Think carefully, 3!")
        assert again.only(TierSelected).tier is STANDARD


@pytest.mark.parametrize("change", ["one more", "one less", "slower"])
async def test_other_tools_make_another_turn(
    autojump_clock: MockClock, change: str
) -> None:
    ran = Ran()
    look, listen = ran.tool("look", 0.25), ran.tool("listen")
    async with open_table(looks, look, listen, speculation=ON) as table:
        await table.npc.hearing(WORDS)
        await trio.sleep(0.5)
        match change:
            case "one more":
                table.host.register(ran.tool("smell"))
            case "one less":
                table.host.deregister("test.listen")
            case "slower":
                table.host.deregister("test.listen")
                table.host.register(ran.tool("listen", 30.0))
        heard = await ask(table.npc, SAID)
        assert heard.done.timings.total == 0.5
        assert heard.done.text == "A door."
    assert ended(table) == [(DISCARDED, "another prompt or other tools")]


@pytest.mark.parametrize("how", ["registered anew", "published again"])
async def test_a_tool_behind_the_same_words_is_called_itself(
    autojump_clock: MockClock, how: str
) -> None:
    # Its server was replaced: the model was shown the same, so its round is adopted,
    # but what the old one said is not the new one's answer.
    ran = Ran()
    async with open_table(looks, speculation=ON) as table:

        def publish() -> None:
            table.host.publish("test", Availability.READY, [ran.tool("look", 0.25)])

        publish()
        await table.npc.hearing(WORDS)
        await trio.sleep(0.5)
        if how == "registered anew":
            table.host.deregister("test")
        publish()
        heard = await ask(table.npc, SAID)
    (done,) = speculations(table)
    assert (done.end, done.calls, done.calls_used) == (ADOPTED, 1, 0)
    assert ran.began == [("look", 0.375), ("look", 0.5)]
    assert heard.done.timings.total == 0.25


async def test_a_reload_ends_it_and_its_calls_at_once(
    autojump_clock: MockClock,
) -> None:  # D16
    ran = Ran()
    look = ran.tool("look", 0.5)
    async with open_table(looks, look, speculation=ON) as table:
        await table.npc.hearing(WORDS)
        await trio.sleep(0.5)
        await table.reload(grant=Grant(npc="Bob", tools=("dice",)))
        await wait_all_tasks_blocked()
        assert ran.cancelled == [("look", 0.5)]
        heard = await ask(table.npc, SAID)
    assert not heard.done.outcomes[0].ok
    assert ended(table) == [(DISCARDED, "another configuration")]


async def test_a_reload_switches_it_on_and_off(autojump_clock: MockClock) -> None:
    async with open_table([["Yes."]] * 3) as table:

        async def heard(words: str) -> int:
            await table.npc.hearing(words)
            await trio.sleep(0.5)
            return len(table.llm.requests)

        assert await heard("one two") == 0
        await table.reload(speculation=ON)
        assert await heard("one two") == 1
        await table.reload(overheard=3)  # which says nothing of it
        assert await heard("one two") == 2  # they would be answered otherwise now
        await table.reload(speculation=SpeculationConfig())
        assert ended(table)[-1] == (DISCARDED, "another configuration")
        assert await heard("one four") == 2


async def test_a_reload_while_its_turn_runs_narrows_what_was_begun(
    autojump_clock: MockClock,
) -> None:
    # D5, D16: the model goes on, its call meets the gate of that moment.
    ran = Ran()
    script: list[Reply] = [[call("look"), 1.0, "Hm."], ["No."]]
    heard = Heard()
    async with open_table(script, ran.tool("look", 2.0), speculation=ON) as table:
        async with trio.open_nursery() as nursery:
            await table.npc.hearing("think carefully now")
            said = partial(ask, table.npc, "Think carefully, now.")
            nursery.start_soon(partial(said, after=0.5, heard=heard))
            await trio.sleep(0.75)
            await table.reload(grant=Grant(npc="Bob"))
    (outcome,) = heard.only(FanOutDone).outcomes
    assert outcome.status == "denied"
    assert ran.began == [("look", 0.125)]
    assert ran.cancelled == [("look", 1.125)]
    (done,) = speculations(table)
    assert (done.end, done.calls, done.calls_used, done.wasted) == (ADOPTED, 1, 0, 1.0)


async def test_a_late_result_makes_another_conversation(
    autojump_clock: MockClock,
) -> None:  # D12a: the model is told of it with the next utterance
    ran = Ran()
    write = ran.tool("write", 2.0, read_only=False)
    script: list[Reply] = [[call("write")], ["A."], ["B."]]
    async with open_table(script, write, speculation=ON) as table:
        await ask(table.npc, "Think carefully and write", leave_at=0.5)
        await table.npc.hearing(WORDS)
        await trio.sleep(2.0)
        heard = await ask(table.npc, SAID)
    assert ended(table) == [(DISCARDED, "another prompt or other tools")]
    assert heard.done.text == "B."
    assert "What went on by itself" in table.llm.told(2)[-2][1]


async def test_a_late_result_from_before_is_told_ahead_and_once(
    autojump_clock: MockClock,
) -> None:
    write = Ran().tool("write", 1.0, read_only=False)
    script: list[Reply] = [[call("write")], ["A."], ["B."]]
    async with open_table(script, write, speculation=ON) as table:
        await ask(table.npc, "Think carefully and write", leave_at=0.5)
        await trio.sleep(1.0)
        await hear_and_say(table, at=2.0)
        await ask(table.npc, "And now?")
    assert ended(table) == [(ADOPTED, "")]
    news = [text for _, text in table.llm.told(2) if "What went on by itself" in text]
    assert "What went on by itself" in table.llm.told(1)[-2][1]
    assert len(news) == 1


# It ends with its session, and with its turn.


async def test_an_interruption_ends_it(autojump_clock: MockClock) -> None:
    ran = Ran()
    async with open_table(looks, ran.tool("look", 0.5), speculation=ON) as table:
        await table.npc.hearing(WORDS)
        await trio.sleep(0.5)
        assert await table.npc.interrupt() is False  # no turn was running
        assert ended(table) == [(DISCARDED, "interrupted")]
        await wait_all_tasks_blocked()
        assert ran.cancelled == [("look", 0.5)]


@pytest.mark.parametrize("how", ["interrupt", "leave", "go on"])
async def test_an_interrupted_turn_interrupts_what_it_has_adopted(
    autojump_clock: MockClock, how: str
) -> None:
    ran = Ran()
    tools = [ran.tool("look", 1.0), ran.tool("smell", 0.25)]
    script: list[Reply] = [[call("look"), call("smell"), 0.5, "So."], ["Well."]]
    async with open_table(script, *tools, speculation=ON) as table:
        async with trio.open_nursery() as nursery:
            await table.npc.hearing(WORDS)
            leave_at = 0.5 if how == "leave" else HANG
            nursery.start_soon(
                partial(ask, table.npc, SAID, after=0.25, leave_at=leave_at)
            )
            await trio.sleep(0.5)
            match how:
                case "interrupt":
                    assert await table.npc.interrupt()
                case "go on":
                    await ask(table.npc, "Never mind.")
        (done,) = speculations(table)
        assert ran.cancelled == [("look", 0.5)]  # the stream was not at its end
        assert (done.end, done.calls, done.calls_used) == (ADOPTED, 2, 0)
        assert table.llm.open == 0
        first = next(e for e in table.events.all(TurnDone) if e.turn == 1)
        assert first.end is TurnEnd.INTERRUPTED


async def test_an_interruption_in_the_fan_out_cancels_the_call_it_waits_for(
    autojump_clock: MockClock,
) -> None:
    ran = Ran()
    async with open_table(looks, ran.tool("look", 1.0), speculation=ON) as table:
        heard = await hear_and_say(table, at=0.5, leave_at=0.75)
        await wait_all_tasks_blocked()
        assert ran.cancelled == [("look", 0.75)]
        assert [e.end for e in table.events.all(TurnDone)] == [TurnEnd.INTERRUPTED]
        (told,) = table.events.all(TurnDone)
        assert [outcome.status for outcome in told.outcomes] == ["cancelled"]
        assert heard.turn is not None
        (done,) = speculations(table)
        assert (done.end, done.calls_used) == (ADOPTED, 1)


async def test_a_turn_that_ends_before_it_asks_its_model_gives_it_up(
    autojump_clock: MockClock,
) -> None:
    async with open_table(looks, Ran().tool("look", 0.5), speculation=ON) as table:
        await table.npc.hearing(WORDS)
        await trio.sleep(0.5)

        def leave(event: TurnEvent) -> None:
            if isinstance(event, TierSelected):
                scope.cancel()

        table.events.on_publish = leave
        with trio.CancelScope() as scope:
            async with table.npc.say(SAID) as turn:
                await turn.finish()
        table.events.on_publish = None
        assert ended(table) == [(DISCARDED, "its turn ended before using it")]
        await wait_all_tasks_blocked()
        assert table.llm.open == 0
        heard = await ask(table.npc, SAID)
        assert heard.done.end is TurnEnd.COMPLETED


async def test_a_dismissed_npc_does_not_wait_for_words(
    autojump_clock: MockClock,
) -> None:
    ran = Ran()
    async with open_table(looks, ran.tool("look", 9.0), speculation=ON) as table:
        await table.npc.hearing("think carefully, old man")
        await trio.sleep(0.5)
        assert await table.ref.stop(within=5)
        assert trio.current_time() == 0.5
        assert ended(table) == [(DISCARDED, "the session ended")]
        with pytest.raises(ActorGone):
            await table.npc.hearing("hello there")


async def test_a_dismissed_npc_answers_what_was_said(autojump_clock: MockClock) -> None:
    async with open_table(looks, Ran().tool("look", 0.5), speculation=ON) as table:
        await table.npc.hearing(WORDS)
        await trio.sleep(0.75)
        async with table.npc.say(SAID) as turn:
            table.npc.dismiss()
            done = await turn.finish()
    assert (done.text, done.timings.total) == ("A door.", 0.125)
    assert ended(table) == [(ADOPTED, "")]


async def test_a_closed_runtime_leaves_nothing(autojump_clock: MockClock) -> None:
    ran = Ran()
    async with open_table(looks, ran.tool("look", 0.5), speculation=ON) as table:
        await table.npc.hearing(WORDS)
        await trio.sleep(0.5)
        table.scope.cancel()
        with trio.CancelScope(shield=True):
            await wait_all_tasks_blocked()
            assert table.llm.open == 0
            assert ran.cancelled == [("look", 0.5)]
            assert table.host.statistics().shared_tasks.running == 0
            assert ended(table) == [(DISCARDED, "the session ended")]


# The model fails.


@pytest.mark.parametrize("error", [LLMError(ErrorKind.UNREACHABLE, "x"), ValueError()])
async def test_a_model_that_fails_ahead_is_asked_again_by_the_turn(
    autojump_clock: MockClock, error: Exception
) -> None:
    ran = Ran()
    script: list[Reply] = [[call("look"), 0.25, error], ["Hello."]]
    async with open_table(script, ran.tool("look", 0.5), speculation=ON) as table:
        await table.npc.hearing(WORDS)
        await trio.sleep(0.5)
        assert ran.cancelled == [("look", 0.375)]
        assert ended(table) == [(FAILED, type(error).__name__)]
        heard = await ask(table.npc, SAID)
    assert heard.kinds() == [
        "TierSelected",
        "ToolsShown",
        "TextDelta",
        "Sentence",
        "TurnDone",
    ]
    assert heard.done.text == "Hello."


async def test_a_model_that_fails_after_the_words_fails_the_turn(
    autojump_clock: MockClock,
) -> None:
    error = LLMError(ErrorKind.INTERRUPTED, "lost")
    async with open_table([["One. ", 0.5, error]], speculation=ON) as table:
        heard = await hear_and_say(table, at=0.5)
    assert heard.done.end is TurnEnd.FAILED
    assert heard.only(ModelFailed).kind is ErrorKind.INTERRUPTED
    assert [e.text for e in heard.of(Sentence)] == ["One."]
    assert heard.done.timings.total == 0.125
    assert ended(table) == [(ADOPTED, "")]


async def test_a_silent_model_is_waited_for_as_by_any_turn(
    autojump_clock: MockClock,
) -> None:  # D0: from when the turn begins to wait
    config = TurnConfig(first_token=1.0)
    async with open_table([[HANG]], speculation=ON, turn=config) as table:
        heard = await hear_and_say(table, at=0.5)
        assert heard.only(ModelFailed).kind is ErrorKind.FIRST_TOKEN
        assert heard.of(FellBack)
        assert heard.done.timings.total == 1.0
        await wait_all_tasks_blocked()
        assert table.llm.open == 0


async def test_hanging_up_is_the_models_time(autojump_clock: MockClock) -> None:
    async with open_table([["Yes."]], speculation=ON) as table:
        table.llm.hang_up = 0.5
        heard = await hear_and_say(table, at=0.25)
    assert (heard.done.timings.total, heard.done.timings.model) == (0.375, 0.375)
    assert heard.done.end is TurnEnd.COMPLETED


async def test_a_model_that_has_ended_is_let_go_gently(
    autojump_clock: MockClock,
) -> None:
    # A connection may be used again if what is left of an answer is read.
    gentle: list[float] = []

    class Gentle(ScriptedLLM):
        @asynccontextmanager
        async def stream(self, request: LLMRequest) -> AsyncIterator[Any]:
            async with super().stream(request) as events:
                yield events
                await trio.sleep(0.5)
                gentle.append(trio.current_time())

    async with open_table([], speculation=ON, llm=Gentle([["Yes."]])) as table:
        heard = await hear_and_say(table, at=0.25)
    assert (heard.done.timings.total, gentle) == (0.375, [0.625])


async def test_a_model_that_fails_as_it_is_let_go_fails_the_turn_as_ever(
    autojump_clock: MockClock,
) -> None:
    class Rude(ScriptedLLM):
        @asynccontextmanager
        async def stream(self, request: LLMRequest) -> AsyncIterator[Any]:
            async with super().stream(request) as events:
                yield events
                await trio.sleep(0.5)
                raise LLMError(ErrorKind.INTERRUPTED, "at last")

    for speculation in (ON, SpeculationConfig()):
        model = Rude([["Yes."], ["No."]])
        async with open_table([], speculation=speculation, llm=model) as table:
            begun = trio.current_time()
            heard = await hear_and_say(table, at=begun + 0.25)
            assert heard.done.end is TurnEnd.FAILED
            assert heard.done.text == "Yes."


# What is not there while nobody has said the words.


async def test_nothing_is_told_or_remembered_before_the_turn_begins(
    autojump_clock: MockClock,
) -> None:
    async with open_table(looks, Ran().tool("look", 0.5), speculation=ON) as table:
        await ask(table.npc, "Hello there")
        before = len(table.events.kept)
        await table.npc.hearing(WORDS)
        await trio.sleep(2)
        assert len(table.events.kept) == before
        await table.npc.hearing("")
        (told,) = [event for _, event in table.events.kept[before:]]
        assert isinstance(told, SpeculationDone)
        assert told.turn == 0
        await ask(table.npc, "So?")
    users = [text for role, text in table.llm.told() if role == "user"]
    assert users == ["Hello there", "So?"]


async def test_a_refused_utterance_claims_nothing(autojump_clock: MockClock) -> None:
    config = TurnConfig(queue=1)
    async with open_table([[1.0, "A."], ["B."]], speculation=ON, turn=config) as table:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(ask, table.npc, "a", speaker="A"))
            nursery.start_soon(partial(ask, table.npc, "b", speaker="B", after=0.25))
            await trio.sleep(0.5)
            await table.npc.hearing(WORDS)
            with pytest.raises(QueueFull):
                await ask(table.npc, SAID)
    assert speculations(table) == []


# The same words.


@pytest.mark.parametrize(
    ("partial_", "final"),
    [
        ("what do you see", "What do you see?"),
        ("well hello  there", "Well, hello there!"),
        ("it's the innkeeper\u2019s dog", "It\u2019s the innkeeper's dog."),
        ("he said stop", 'He said: "Stop!"'),
        ("roll 2d6+3", "Roll 2d6+3."),
        ("pay .5", "Pay (.5)!"),
        ("room 5", "Room 5..."),
        ("well hm", "Well, \u2013hm."),
        ("it costs 5 gold", "It costs (5) \u2013 \u201cgold\u201d!"),
        ("STRASSE", "stra\u00dfe"),
        ("wait", "Wait\u2026"),
    ],
)
def test_case_and_punctuation_are_no_other_words(partial_: str, final: str) -> None:
    assert words_of(partial_) == words_of(final) != ()


@pytest.mark.parametrize(
    ("partial_", "final"),
    [
        ("roll 2d6+3", "roll 2d6-3"),
        ("pay 5", "pay -5"),
        ("pay 1.5", "pay 15"),
        ("pay 5", "pay .5"),
        ("pay 5", "pay \u20135"),
        ("6' of rope", '6" of rope'),
        ("6\u2019 of rope", "6 of rope"),
        ("take 5", "take 5%"),
        ("what do you", "what do you see"),
        ("see what", "what see"),
        ("re-sign", "resign"),
    ],
)
def test_what_changes_the_meaning_is(partial_: str, final: str) -> None:
    assert words_of(partial_) != words_of(final)
