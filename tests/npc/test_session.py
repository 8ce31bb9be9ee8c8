"""Turns of a session: their order, their tiers, and that each of them ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import cycle
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.actors import Inbox
from glyphoxa_trio.config import NpcConfig, TurnConfig
from glyphoxa_trio.errors import ActorGone
from glyphoxa_trio.npc import (
    ApprovalRequest,
    Flush,
    LateResult,
    Npc,
    Queued,
    QueueFull,
    Sentence,
    TextDelta,
    TierSelected,
    ToolFinished,
    ToolStarted,
    TurnDone,
    TurnEnd,
    TurnEvent,
    TurnNotOver,
)
from glyphoxa_trio.npc.events import GIVEN_OUT
from glyphoxa_trio.providers.llm import (
    ErrorKind,
    LLMError,
    LLMEvent,
    LLMRequest,
    Working,
)
from glyphoxa_trio.tools.definition import OnInterrupt
from glyphoxa_trio.tools.gate import Availability, Grant
from glyphoxa_trio.tools.outcome import Status
from glyphoxa_trio.tools.tier import DEFAULT_LIMITS, Tier

from .support import (
    HANG,
    Chronicle,
    Heard,
    Ran,
    Reply,
    ScriptedLLM,
    Step,
    Table,
    ask,
    call,
    open_table,
    protocol_faults,
)

FAST, STANDARD, DEEP = Tier
DONE, CUT, FAILED, SHED, *_ = TurnEnd


def hello(_: LLMRequest) -> Reply:
    return ["Hello."]


def slow(_: LLMRequest) -> Reply:
    """A second of work before each answer."""
    return [1.0, "Well. Hello."]


def ends(table: Table) -> list[tuple[int, TurnEnd, float]]:
    """Every turn that ended: its number, how, and when."""
    return [
        (event.turn, event.end, at)
        for at, event in table.events.kept
        if isinstance(event, TurnDone)
    ]


# The tier.


@pytest.mark.parametrize("ceiling", Tier)
@pytest.mark.parametrize(
    ("text", "selected"),
    [("hi", FAST), ("remember me?", STANDARD), ("think carefully", DEEP)],
)
async def test_the_effective_tier_is_the_lower_of_ceiling_and_selection(
    autojump_clock: MockClock, ceiling: Tier, text: str, selected: Tier
) -> None:
    # G31, D2
    async with open_table(hello, tier=ceiling) as table:
        await ask(table.npc, "hi")  # the first turn is STANDARD at least
        heard = await ask(table.npc, text)
    chosen = heard.only(TierSelected)
    assert (chosen.tier, chosen.selected, chosen.ceiling) == (
        min(ceiling, selected),
        selected,
        ceiling,
    )
    assert chosen.budget == DEFAULT_LIMITS.ceiling(min(ceiling, selected))
    assert heard.done.tier is chosen.tier


async def test_an_elevation_raises_the_ceiling_and_expires(
    autojump_clock: MockClock,
) -> None:
    # D2, G31: the DM's lever, for a stated number of seconds
    async with open_table(hello, tier=FAST) as table:

        async def ceiling() -> Tier:
            found: Tier = (await ask(table.npc)).only(TierSelected).ceiling
            return found

        assert await ceiling() is FAST
        await table.npc.elevate(DEEP, seconds=10)
        assert await ceiling() is DEEP
        await trio.sleep(9.75)
        assert await ceiling() is DEEP
        await trio.sleep(0.25)
        assert await ceiling() is FAST


async def test_an_elevation_never_lowers_the_ceiling(autojump_clock: MockClock) -> None:
    async with open_table(hello, tier=DEEP) as table:
        await table.npc.elevate(FAST, seconds=10)
        assert (await ask(table.npc)).only(TierSelected).ceiling is DEEP


async def test_an_override_is_for_one_utterance_and_does_not_lift_the_ceiling(
    autojump_clock: MockClock,
) -> None:
    # D2: FAST is an override like any other
    async with open_table(hello, tier=STANDARD) as table:
        tiers = [
            (await ask(table.npc, text, tier=tier)).only(TierSelected)
            for text, tier in (
                ("hi", DEEP),
                ("hi", None),
                ("think carefully", FAST),
                ("remember?", None),
            )
        ]
    assert [event.selected for event in tiers] == [DEEP, FAST, FAST, STANDARD]
    assert [event.tier for event in tiers] == [STANDARD, FAST, FAST, STANDARD]


@pytest.mark.parametrize("ceiling", Tier)
async def test_an_npc_without_selection_has_its_ceiling_in_every_turn(
    autojump_clock: MockClock, ceiling: Tier
) -> None:
    # A30: what an agent's turn may use does not depend on words of a game
    agent = NpcConfig(name="Bob", budget_tier=ceiling, select_tier=False)

    async def unasked(inbox: Inbox[Any]) -> None:
        async for _ in inbox:
            raise AssertionError("the selector was asked")

    async with open_table(hello, npc=agent, selector=unasked) as table:
        for text in ("hi", "thank you", "think carefully", "ok"):
            chosen = (await ask(table.npc, text)).only(TierSelected)
            assert (chosen.tier, chosen.selected) == (ceiling, ceiling)


async def test_an_npc_without_selection_still_obeys_its_dm(
    autojump_clock: MockClock,
) -> None:
    # D2: an override and an elevation
    agent = NpcConfig(name="Bob", budget_tier=STANDARD, select_tier=False)
    async with open_table(hello, npc=agent) as table:
        chosen = (await ask(table.npc, "hi", tier=FAST)).only(TierSelected)
        assert chosen.tier is FAST
        await table.npc.elevate(DEEP, seconds=10)
        assert (await ask(table.npc, "hi")).only(TierSelected).tier is DEEP


async def test_a_selector_that_does_not_answer_makes_the_tier_fast(
    autojump_clock: MockClock,
) -> None:
    # D2
    async def stuck(inbox: Inbox[Any]) -> None:
        await trio.sleep_forever()

    async def gone(inbox: Inbox[Any]) -> None:
        return

    for selector, patience in ((stuck, 0.05), (gone, 0.0)):
        async with open_table(hello, selector=selector) as table:
            began = trio.current_time()
            heard = await ask(table.npc, "think carefully")
            chosen = heard.only(TierSelected)
            assert (chosen.tier, chosen.selected) == (FAST, FAST)
            assert "the tier selector failed" in chosen.reason
            assert trio.current_time() - began == pytest.approx(patience)
            assert heard.done.end is DONE


async def test_how_many_wait_is_known_to_the_selector(
    autojump_clock: MockClock,
) -> None:
    # G18, D12a: three who wait make it FAST, whatever is asked for
    async with open_table(slow) as table, trio.open_nursery() as nursery:
        for n, speaker in enumerate("ABCDE"):
            nursery.start_soon(
                partial(ask, table.npc, "who is she?", speaker=speaker, after=n / 8)
            )
    chosen = table.events.all(TierSelected)
    assert [event.speaker for event in chosen] == ["A", "B", "C", "D", "E"]
    assert [event.tier for event in chosen] == [
        STANDARD,  # nobody waits yet
        FAST,  # C, D and E
        STANDARD,
        STANDARD,
        STANDARD,
    ]


# A turn from its first event to its last.


async def test_an_answer_as_events(autojump_clock: MockClock) -> None:
    async with open_table([[0.5, "Well", ". Come ", 0.25, "in!"]]) as table:
        heard = await ask(table.npc, "May I?", speaker="Ann")
        published = table.events.of(1)
    assert heard.kinds() == [
        "TierSelected",
        "ToolsShown",
        "TextDelta",
        "TextDelta",
        "Sentence",
        "TextDelta",
        "Sentence",
        "TurnDone",
    ]
    assert [event for _, event in heard.events] == published
    assert [(event.speaker, event.text) for event in heard.of(TierSelected)] == [
        ("Ann", "May I?")
    ]
    assert heard.when(Sentence) == [0.5, 0.75]
    assert "".join(event.text for event in heard.of(TextDelta)) == "Well. Come in!"
    done = heard.done
    assert (done.end, done.text, done.rounds) == (DONE, "Well. Come in!", 1)
    assert (done.timings.model, done.timings.tools, done.timings.total) == (
        0.75,
        0,
        0.75,
    )
    assert done.timings.first_text == 0.5


async def test_turns_count_from_one_and_the_history_grows(
    autojump_clock: MockClock,
) -> None:
    npc = NpcConfig(name="Bob", greeting="Welcome.", personality="Warm.")
    async with open_table(hello, npc=npc) as table:
        assert [(await ask(table.npc, f"{n}")).done.turn for n in "ab"] == [1, 2]
        system, *_ = table.llm.requests[0].messages
        assert (system.role, "Personality: Warm." in system.content) == ("system", True)
        assert table.llm.told() == [
            ("assistant", "Welcome."),
            ("user", "a"),
            ("assistant", "Hello."),
            ("user", "b"),
        ]


async def test_the_history_is_bounded(autojump_clock: MockClock) -> None:
    async with open_table(hello, turn=TurnConfig(history=2)) as table:
        for n in range(5):
            await ask(table.npc, f"{n}")
        users = [text for role, text in table.llm.told() if role == "user"]
    assert users == ["2", "3", "4"]


async def test_finish_returns_the_last_event(autojump_clock: MockClock) -> None:
    async with open_table(hello) as table:
        async with table.npc.say("hi") as turn:
            assert turn.done is None
            done = await turn.finish()
            assert turn.done is done
            assert (done.text, turn.delivered) == ("Hello.", "Hello.")
            assert await turn.finish() is done
        left = table.npc.say("hi")
        async with left:
            pass
        with pytest.raises(TurnNotOver):
            await left.finish()


async def test_a_turn_is_entered_once(autojump_clock: MockClock) -> None:
    async with open_table(hello) as table:
        turn = table.npc.say("hi")
        async with turn:
            await turn.finish()
        with pytest.raises(RuntimeError, match="entered once"):
            async with turn:
                pytest.fail("entered again")
        assert (await ask(table.npc)).done.turn == 2  # and the NPC lives on


# The same speaker interrupts.


async def test_the_same_speaker_interrupts_at_once(autojump_clock: MockClock) -> None:
    # D12a
    async with open_table([["One. Two", HANG], ["Three."]]) as table:
        first = Heard()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(ask, table.npc, "go", heard=first))
            second = await ask(table.npc, "no, stop", after=2)
    assert ends(table) == [(1, CUT, 2), (2, DONE, 2)]
    assert first.done.end is CUT
    assert first.kinds()[-1] == "TurnDone"
    assert first.done.text == "One. Two"  # all that was written
    assert second.done.text == "Three."
    assert not second.of(Queued)
    assert table.llm.open == 0


async def test_what_was_heard_before_an_interruption_is_remembered(
    autojump_clock: MockClock,
) -> None:
    # D12a: a sentence is delivered once the next event is asked for.
    script: list[Reply] = [["One. Two. T", 1.0, "hree.\n", HANG], ["Yes."]]
    async with open_table(script) as table:
        async with table.npc.say("count") as turn:
            async for event in turn:
                if isinstance(event, Sentence) and event.text == "Two.":
                    break
            assert turn.delivered == "One."
        await ask(table.npc, "go on")
    assert table.llm.told() == [
        ("user", "count"),
        ("assistant", "One."),
        ("user", "go on"),
    ]


async def test_what_was_said_in_between_ends_at_once_and_is_told_in_order(
    autojump_clock: MockClock,
) -> None:
    # D12a: the model needs 0.5 s to hang up, and the speaker goes on twice.
    async with open_table([["Hm.\n", HANG], ["Three."], ["Bees."]]) as table:
        table.llm.hang_up = 0.5
        heard: dict[str, Heard] = {}

        async def say(text: str, speaker: str, after: float) -> None:
            heard[text] = await ask(table.npc, text, speaker=speaker, after=after)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(say, "one", "A", 0)
            nursery.start_soon(say, "bees?", "B", 1)
            nursery.start_soon(say, "two", "A", 2)
            nursery.start_soon(say, "three", "A", 2.25)
    assert ends(table) == [
        (3, CUT, 2.25),  # when it is replaced: it needs no model to hang up
        (1, CUT, 2.5),
        (4, DONE, 3),
        (2, DONE, 3.5),
    ]
    assert heard["two"].kinds() == ["TurnDone"]
    assert heard["bees?"].only(Queued).position == 1
    assert [text for role, text in table.llm.told() if role == "user"] == [
        "one",
        "two",
        "three",
        "bees?",
    ]


async def test_a_speaker_waits_once_and_keeps_their_place(
    autojump_clock: MockClock,
) -> None:
    # A waits, and goes on while C waits behind; then A is answered and goes on again.
    async with open_table(slow) as table, trio.open_nursery() as nursery:
        for after, speaker, text in (
            (0.0, "B", "b"),
            (0.25, "A", "a1"),
            (0.5, "C", "c"),
            (0.75, "A", "a2"),
            (1.5, "A", "a3"),
        ):
            nursery.start_soon(
                partial(ask, table.npc, text, speaker=speaker, after=after)
            )
    assert ends(table) == [
        (2, CUT, 0.75),
        (1, DONE, 1),
        (4, CUT, 1.5),
        (5, DONE, 2.5),
        (3, DONE, 3.5),
    ]


# Other speakers wait.


async def test_other_speakers_wait_in_order_and_know_their_place(
    autojump_clock: MockClock,
) -> None:
    # D12a
    async with open_table(slow) as table:
        heard = [Heard() for _ in range(4)]
        async with trio.open_nursery() as nursery:
            for n, each in enumerate(heard):
                nursery.start_soon(
                    partial(
                        ask, table.npc, f"{n}", speaker=f"{n}", after=n / 8, heard=each
                    )
                )
    assert [each.when(TurnDone) for each in heard] == [[1], [2], [3], [4]]
    assert [[e.position for e in each.of(Queued)] for each in heard] == [
        [],
        [1],
        [2],
        [3],
    ]
    assert [each.done.timings.total for each in heard] == [1, 1, 1, 1]
    assert [each.done.end for each in heard] == [DONE] * 4


async def test_a_full_queue_refuses_and_the_own_speaker_gets_through(
    autojump_clock: MockClock,
) -> None:
    # D12a: bound 8 by default, here 2
    async with open_table(slow, turn=TurnConfig(queue=2)) as table:
        async with trio.open_nursery() as nursery:
            for n, speaker in enumerate("ABC"):
                nursery.start_soon(
                    partial(ask, table.npc, speaker=speaker, after=n / 8)
                )
            await trio.sleep(0.5)
            with pytest.raises(QueueFull, match="the queue of Bob is full: 2 waiting"):
                await ask(table.npc, speaker="D")
            again = await ask(table.npc, speaker="A")
            assert again.done.end is DONE
    assert [end for _, end, _ in ends(table)] == [CUT, DONE, DONE, DONE]
    assert TurnConfig().queue == 8


async def test_leaving_while_waiting_takes_no_time_and_frees_the_place(
    autojump_clock: MockClock,
) -> None:
    # D12a: leaving interrupts, also what has not begun.
    async with open_table(slow, turn=TurnConfig(queue=1)) as table:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(ask, table.npc, "a", speaker="A"))
            await trio.sleep(0.25)
            async with table.npc.say("b", speaker="B") as turn:
                assert isinstance(await anext(turn), Queued)
                with pytest.raises(QueueFull):
                    await ask(table.npc, "c", speaker="C")
            assert trio.current_time() == 0.25
            assert ends(table) == [(2, CUT, 0.25)]
            heard = await ask(table.npc, "c", speaker="C")
        assert heard.only(Queued).position == 1
        assert (heard.done.end, trio.current_time()) == (DONE, 2)
        assert [event.turn for event in table.events.all(TierSelected)] == [1, 3]
        assert len(table.llm.requests) == 2


async def test_cancelling_a_listener_while_waiting_frees_the_place(
    autojump_clock: MockClock,
) -> None:
    async with open_table(slow, turn=TurnConfig(queue=1)) as table:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(ask, table.npc, "a", speaker="A"))
            await ask(table.npc, "b", speaker="B", after=0.25, leave_at=0.5)
            assert trio.current_time() == 0.5
            await ask(table.npc, "c", speaker="C")
    assert ends(table) == [(2, CUT, 0.5), (1, DONE, 1), (3, DONE, 2)]


async def test_a_listener_cancelled_in_the_moment_of_acceptance_leaves_no_orphan(
    autojump_clock: MockClock,
) -> None:
    # The session has taken the utterance, and the asker never learns of it. Its
    # turn would wait for a consumer for ever, and everybody behind it as well.
    long: Reply = ["word. "] * 200
    async with open_table(lambda _: long) as table:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(ask, table.npc, "a", speaker="A", pace=0.125))
            await trio.sleep(0.25)
            with trio.CancelScope() as scope:
                table.events.on_publish = lambda _: scope.cancel()
                async with table.npc.say("b", speaker="B"):
                    pytest.fail("entered, though cancelled before")
            assert scope.cancelled_caught
            table.events.on_publish = None
            with trio.fail_after(1000):
                heard = await ask(table.npc, "c", speaker="C")
        assert heard.done.end is DONE
        assert [(turn, end) for turn, end, _ in ends(table)] == [
            (2, CUT),
            (1, DONE),
            (3, DONE),
        ]


# Leaving, interrupting, closing.


async def test_leaving_the_block_interrupts_and_hangs_up(
    autojump_clock: MockClock,
) -> None:
    # D12a
    async with open_table([["Once upon a time", HANG], ["Yes."]]) as table:
        async with table.npc.say("a story") as turn:
            async for event in turn:
                if isinstance(event, TextDelta):
                    await trio.sleep(3)
                    break
        assert table.llm.open == 0
        assert ends(table) == [(1, CUT, 3)]
        assert (await ask(table.npc)).done.end is DONE


async def test_leaving_a_turn_that_is_over_changes_nothing(
    autojump_clock: MockClock,
) -> None:
    async with open_table([["One. Two."], ["Yes."]]) as table:
        async with table.npc.say("count"):
            await trio.sleep(1)  # everything waits in the stream
        assert ends(table) == [(1, DONE, 0)]
        await ask(table.npc, "well?")
        # Nothing of it was heard, so nothing of it was said.
        assert table.llm.told() == [("user", "count"), ("user", "well?")]


async def test_interrupt_ends_what_runs_and_the_next_begins(
    autojump_clock: MockClock,
) -> None:
    async with open_table(slow) as table:
        assert await table.npc.interrupt() is False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(ask, table.npc, speaker="A"))
            nursery.start_soon(partial(ask, table.npc, speaker="B", after=0.25))
            await trio.sleep(0.5)
            assert await table.npc.interrupt() is True
        assert ends(table) == [(1, CUT, 0.5), (2, DONE, 1.5)]
        assert await table.npc.interrupt() is False


async def test_a_bug_in_the_link_fails_the_turn_and_the_session_lives(
    autojump_clock: MockClock,
) -> None:
    script: list[Reply] = [["Well. I ", ZeroDivisionError("oops")], ["Yes."]]
    async with open_table(script) as table:
        heard = await ask(table.npc)
        assert heard.kinds()[-1] == "TurnDone"
        assert (heard.done.end, heard.done.error) == (FAILED, "ZeroDivisionError: oops")
        assert heard.done.text == "Well. I"
        assert (await ask(table.npc)).done.end is DONE
        assert ("assistant", "Well.") in table.llm.told()


async def test_closing_the_session_strands_nobody(autojump_clock: MockClock) -> None:
    async with open_table([["Hm.\n", HANG]]) as table:
        heard = [Heard() for _ in range(3)]
        async with trio.open_nursery() as nursery:
            for n, each in enumerate(heard):
                nursery.start_soon(
                    partial(ask, table.npc, speaker=f"{n}", after=n / 8, heard=each)
                )
            await trio.sleep(1)
            table.scope.cancel()
        assert trio.current_time() == 1
        assert [each.done.end for each in heard] == [CUT] * 3
        assert [turn for turn, _, _ in sorted(ends(table))] == [1, 2, 3]
        with pytest.raises(ActorGone):
            await ask(table.npc)


async def test_stopping_the_session_lets_everybody_be_answered(
    autojump_clock: MockClock,
) -> None:
    async with open_table(slow) as table:
        async with trio.open_nursery() as nursery:
            for n in range(3):
                nursery.start_soon(partial(ask, table.npc, speaker=f"{n}", after=n / 8))
            await trio.sleep(0.5)
            assert await table.ref.stop(within=10)
            assert trio.current_time() == 3
            with pytest.raises(ActorGone):
                await ask(table.npc)
    assert [end for _, end, _ in ends(table)] == [DONE] * 3


# Results that come after their turn.


async def test_late_results_are_told_to_the_next_turn_once(
    autojump_clock: MockClock,
) -> None:
    # D12a
    ran = Ran()
    sing = ran.tool("sing", 2.0, read_only=False)
    script: list[Reply] = [[call("sing")], ["Yes."], ["Again."], ["And again."]]
    async with open_table(script, sing) as table:
        await ask(table.npc, "sing", tier=DEEP, leave_at=0.5)
        assert (await ask(table.npc, "well?")).done.end is DONE  # not done yet
        await trio.sleep(3)
        await ask(table.npc, "and now?")
        await ask(table.npc, "really?")
        told = table.llm.told()
    assert ran.ended == [("sing", 2)]
    news = (
        "system",
        'What went on by itself has ended:\nsing: {"message":"sing is done"}',
    )
    assert told.count(news) == 1
    assert told[told.index(news) + 1] == ("user", "and now?")
    assert news not in [
        (message.role, message.content) for message in table.llm.requests[1].messages
    ]


# All of it at once.

SPEAKERS = st.sampled_from("ABC")
TEXTS = st.sampled_from(["hi", "who is she?", "think carefully"])
PAUSES = st.sampled_from([0.125, 0.25, 0.5, 0.0, 2.0])
CALLS = st.builds(
    call,
    st.sampled_from(["read", "write", "sing", "fail", "hang", "nothing"]),
    st.sampled_from(["{}", '{"a": 1}', "{"]),
    id=st.sampled_from(["a", "b", "c", "d"]),
)
WORDS = st.sampled_from(["Well. ", "I ", "see! And. "])
TROUBLE: st.SearchStrategy[Step] = st.sampled_from(
    [LLMError(ErrorKind.INTERRUPTED, "lost"), ValueError("a bug"), HANG]
)
REPLIES: st.SearchStrategy[list[Step]] = st.one_of(
    st.tuples(PAUSES, WORDS, CALLS, CALLS).map(list),
    st.tuples(PAUSES, WORDS, PAUSES, WORDS).map(list),
    st.tuples(WORDS, PAUSES, TROUBLE).map(list),
    st.lists(st.one_of(PAUSES, WORDS, CALLS, TROUBLE), max_size=5),
)
SAY = st.fixed_dictionaries(
    {
        "text": TEXTS,
        "speaker": SPEAKERS,
        "tier": st.sampled_from([DEEP, None, STANDARD, FAST]),
        "pace": st.sampled_from([0.0, 0.0, 0.25]),
        "stays": st.sampled_from([inf, inf, inf, 0.25, 1.0, 0.0]),
    }
)
ACTIONS = st.lists(
    st.tuples(
        PAUSES, st.one_of(SAY, SAY, SAY, SAY, st.sampled_from(["interrupt", "elevate"]))
    ),
    min_size=4,
    max_size=14,
)


async def play(table: Table, npc: Npc, actions: list[tuple[float, Any]]) -> list[Heard]:
    """Do as the script says; everything that was said, with what was heard."""
    said: list[Heard] = []

    async def listen(heard: Heard, stays: float, **more: Any) -> None:
        leave_at = trio.current_time() + stays
        try:
            await ask(npc, heard=heard, leave_at=leave_at, **more)
        except QueueFull as error:
            heard.error = error

    async with trio.open_nursery() as nursery:
        for pause, action in actions:
            await trio.sleep(pause)
            if action == "interrupt":
                await npc.interrupt()
            elif action == "elevate":
                await npc.elevate(DEEP, seconds=2)
            else:
                said.append(Heard())
                nursery.start_soon(partial(listen, said[-1], **action))
    return said


def in_turn(replies: Sequence[Reply]) -> Callable[[LLMRequest], Reply]:
    """One after the other, and again from the first."""
    endless = cycle(replies)
    return lambda _: next(endless)


def check_one_turn(events: list[TurnEvent]) -> None:
    """What holds for the published events of every turn."""
    *before, done = [event for event in events if not isinstance(event, LateResult)]
    assert isinstance(done, TurnDone)
    assert not any(isinstance(event, TurnDone) for event in before)
    lively = [event for event in before if not isinstance(event, Queued)]
    if not lively:
        assert (done.end, done.tier, done.outcomes) == (CUT, None, ())
        return
    first, *rest = lively
    assert isinstance(first, TierSelected)
    assert not any(isinstance(event, TierSelected) for event in rest)
    assert done.tier in (first.tier, None)
    running: list[tuple[int, object]] = []
    ended = []
    for event in rest:
        match event:
            case ToolStarted():
                running.append((event.round, event.call))
            case ToolFinished():
                ended.append(event.outcome)
                if (event.round, event.outcome.call) in running:
                    running.remove((event.round, event.outcome.call))
    assert running == []
    check_flush(rest, done)
    assert sorted(map(repr, ended)) == sorted(map(repr, done.outcomes))
    assert done.timings.tools <= first.budget + 1e-9
    assert done.timings.model <= 3 + 1e-9


def check_flush(events: list[TurnEvent], done: TurnDone) -> None:
    """One, and last, if the turn was interrupted after something was given out."""
    flushed = [isinstance(event, Flush) for event in events]
    gave_out = any(isinstance(event, GIVEN_OUT) for event in events)
    if gave_out and done.end is CUT:
        assert flushed == [False] * (len(events) - 1) + [True]
    else:
        assert not any(flushed)


def check_turns_do_not_overlap(events: Chronicle) -> None:
    running: int | None = None
    for _, event in events.kept:
        match event:
            case Queued() | LateResult():
                pass
            case TierSelected():
                assert running is None
                running = event.turn
            case TurnDone() if event.turn != running:
                assert event.end is CUT  # it had not begun
            case TurnDone():
                running = None
            case _:
                assert event.turn == running
    assert running is None


@given(
    ACTIONS,
    st.lists(REPLIES, min_size=3, max_size=6),
    st.none() | st.lists(REPLIES, min_size=1, max_size=4),
)
def test_every_turn_ends_once_and_in_order_whatever_happens(
    actions: list[tuple[float, Any]],
    replies: list[list[Step]],
    openers: list[list[Step]] | None,
) -> None:
    # D0, D3, D12a: the model is the list of what was said.
    async def main() -> None:
        ran = Ran()
        tools = [
            ran.tool("read", 0.25),
            ran.tool("write", 0.5, read_only=False),
            ran.tool(
                "sing",
                1.0,
                read_only=False,
                on_interrupt=OnInterrupt.FINISH_AND_SPEAK,
            ),
            ran.tool("fail", 0.125, error=ValueError("a bug")),
            ran.tool("hang", HANG, estimated_duration=0.25, max_duration=3.0),
        ]
        config = TurnConfig(
            max_rounds=2,
            first_token=1.0,
            silence=1.0,
            model_total=3.0,
            queue=2,
            history=5,
        )
        script = in_turn(replies)
        fast = None if openers is None else in_turn(openers)
        async with open_table(script, *tools, turn=config, fast=fast) as table:
            with trio.fail_after(3600):
                said = await play(table, table.npc, actions)
            assert await table.npc.interrupt() is False  # nothing goes on
            assert table.llm.open == table.fast.open == 0
            accepted = [heard for heard in said if heard.turn is not None]
            # Who is cancelled while speaking may never learn of having been heard.
            turns = {event.turn for _, event in table.events.kept}
            assert turns == set(range(1, len(turns) + 1))
            assert len(turns) >= len(accepted)
            assert len(turns) <= sum(heard.error is None for heard in said)
            for turn in turns:
                check_one_turn(table.events.of(turn))
            check_turns_do_not_overlap(table.events)
            for heard in accepted:
                if heard.events:
                    number = heard.events[0][1].turn
                    published = iter(table.events.of(number))
                    assert all(event in published for _, event in heard.events)
            stayed = [
                heard
                for heard, (_, action) in zip(
                    said, [x for x in actions if isinstance(x[1], dict)], strict=True
                )
                if heard.turn is not None and action["stays"] == inf
            ]
            for heard in stayed:
                assert heard.kinds()[-1] == "TurnDone"
            for request in table.llm.requests:
                assert protocol_faults(request.messages) == []
            # What was allowed to go on has ended too, and said so.
            await trio.sleep(60)
            began = sorted(name for name, _ in ran.began)
            ended = sorted(name for name, _ in [*ran.ended, *ran.cancelled])
            assert began == ended

    trio.run(main, clock=MockClock(autojump_threshold=0))


async def test_a_listener_that_listens_no_more_does_not_hold_the_npc(
    autojump_clock: MockClock,
) -> None:
    # Every wait has an end: others wait for this NPC.
    def endless(_: LLMRequest) -> Reply:
        return ["Word. "] * 500

    async with open_table(endless, turn=TurnConfig(listener=10.0)) as table:
        async with table.npc.say("Talk!") as turn:
            assert isinstance(await anext(turn), TierSelected)
            await trio.sleep(20)
            (done,) = table.events.all(TurnDone)
            assert done.end is CUT
            assert done.timings.total == 10.0


async def test_a_partial_transcript_has_a_tier_and_leaves_no_trace(
    autojump_clock: MockClock,
) -> None:
    # G18, D2
    async with open_table(hello, tier=STANDARD) as table:
        for text in ("think", "think care", "think carefully"):
            tier = await table.npc.tier_for(text)
        assert tier is STANDARD  # DEEP, held to the NPC's ceiling
        await table.npc.elevate(DEEP, seconds=60)
        assert await table.npc.tier_for("think carefully") is DEEP
        heard = await ask(table.npc, "think carefully")
        assert heard.only(TierSelected).tier is DEEP  # nothing had been used up
        assert await table.npc.tier_for("hello") is FAST


async def test_whoever_asks_for_a_tier_waits_alone(autojump_clock: MockClock) -> None:
    async def slow(inbox: Inbox[Any]) -> None:  # it answers nobody in time
        async for asked in inbox:
            await trio.sleep(10)
            with asked.answering():
                asked.reply(None)

    async with open_table(hello, selector=slow) as table:
        tiers: list[Tier] = []

        async def asks() -> None:
            tiers.append(await table.npc.tier_for("think carefully"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(asks)
            await wait_all_tasks_blocked()
            assert not await table.npc.interrupt()
            assert trio.current_time() == 0
        assert (tiers, trio.current_time()) == ([FAST], 0.05)


async def test_an_approver_that_does_not_stop_holds_nobody(
    autojump_clock: MockClock,
) -> None:
    # D3a, D13a: the approver is foreign code as well
    async def deaf(_: ApprovalRequest) -> bool:
        with trio.CancelScope(shield=True):
            await trio.sleep(100)
        return True

    ran = Ran()

    def asks_once(request: LLMRequest) -> Reply:
        told = any(one.role == "tool" for one in request.messages)
        return ["No then."] if told else [call("mcp__far__look")]

    look = ran.tool("look", group="far", external=True)
    granted = Grant(npc="Bob", tools=("far",), approver=True)
    async with open_table(
        asks_once, look, grant=granted, approver=deaf, approval_timeout=1.0
    ) as table:
        heard = await ask(table.npc, tier=DEEP)
        assert heard.only(ToolFinished).outcome.status is Status.DENIED
        assert heard.done.timings.total == 1.0
        assert heard.done.timings.tools == 0.0
        assert ran.began == []


async def test_a_link_that_does_not_hang_up_is_left_behind(
    autojump_clock: MockClock,
) -> None:
    # D0: hanging up is the model's time, too
    class Sticky(ScriptedLLM):
        @asynccontextmanager
        async def stream(
            self, request: LLMRequest
        ) -> AsyncIterator[AsyncIterator[LLMEvent]]:
            async with super().stream(request) as events:
                yield events
                await trio.sleep_forever()

    async with open_table(hello, llm=Sticky(hello)) as table:
        heard = await ask(table.npc)
        assert heard.done.end is DONE
        assert heard.done.text == "Hello."
        assert heard.done.timings.total == TurnConfig().silence


async def test_a_model_that_works_in_silence_is_not_silent(
    autojump_clock: MockClock,
) -> None:
    # D0: thoughts and long arguments are no text, and no silence either
    async with open_table(lambda _: [4.0, Working(), 4.0, Working(), "So."]) as table:
        heard = await ask(table.npc)
        assert heard.done.end is DONE
        assert heard.done.timings.model == 8.0


async def test_a_turn_that_was_not_entered_says_so(autojump_clock: MockClock) -> None:
    async with open_table(hello) as table:
        with pytest.raises(RuntimeError, match="enter the turn first"):
            await table.npc.say("Hello").finish()


async def test_one_speaker_cannot_fill_the_queue_nor_the_memory(
    autojump_clock: MockClock,
) -> None:
    # A model that takes its time to be hung up on, and a speaker who goes on and on.
    async with open_table(slow, turn=TurnConfig(queue=1, history=3)) as table:
        table.llm.hang_up = 50.0
        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(ask, table.npc, str(number))
                await trio.sleep(0.1)
        assert [end for _, end, _ in ends(table)] == [*[CUT] * 7, DONE]
        table.llm.hang_up = 0.0
        await ask(table.npc, "go on")
    said = [text for role, text in table.llm.told() if role == "user"]
    assert said == ["5", "6", "7", "go on"]


async def test_a_yes_is_for_the_tool_that_was_asked_about(
    autojump_clock: MockClock,
) -> None:
    # D13a: its server puts another under the same name meanwhile
    ran = Ran()
    look = ran.tool("look", group="far", external=True)
    swapped = ran.tool("look", group="far", external=True, read_only=False)

    def asks_once(request: LLMRequest) -> Reply:
        told = any(one.role == "tool" for one in request.messages)
        return ["Well."] if told else [call("mcp__far__look")]

    granted = Grant(npc="Bob", tools=("far",), approver=True)
    table: Table

    async def swaps(_: ApprovalRequest) -> bool:
        table.host.publish("far", Availability.READY, [swapped])
        return True

    async with open_table(asks_once, look, grant=granted, approver=swaps) as table:
        heard = await ask(table.npc, tier=DEEP)
        assert heard.only(ToolFinished).outcome.status is Status.DENIED
        assert ran.began == []


# What players ask for by name.


async def test_a_tool_that_fast_has_no_time_for_can_be_asked_for_by_name(
    autojump_clock: MockClock,
) -> None:
    # G18: and only one that is granted; a tool that is quick is shown anyway
    ran = Ran()
    slow = [
        ran.tool("read_entrails", 0.8),
        ran.tool("cast_bones", 3.0),
        ran.tool("wash_hands", 0.1),
        ran.tool("dig_grave", 3.0),
    ]
    grant = Grant(npc="Bob", tools=("read_entrails", "cast_bones", "wash_hands"))
    async with open_table(hello, *slow, ran=ran, tier=DEEP, grant=grant) as table:
        await ask(table.npc, "hi")  # the first turn is STANDARD at least
        chosen = {
            text: (await ask(table.npc, text)).only(TierSelected)
            for text in (
                "read those old entrails, Bob",
                "cast the bones",
                "wash your hands",
                "dig that grave",
            )
        }
    assert [x.tier for x in chosen.values()] == [STANDARD, DEEP, FAST, FAST]
    assert chosen["cast the bones"].reason == "the tool 'test.cast_bones' is asked for"


async def test_a_tool_that_became_slow_can_be_asked_for_by_name(
    autojump_clock: MockClock,
) -> None:
    # G18: by what is measured now, not by what was when the session began
    ran = Ran()
    quick = ran.tool("read_entrails", 0.1)
    async with open_table(hello, quick, ran=ran, tier=DEEP) as table:
        await ask(table.npc, "hi")

        async def tier() -> Tier:
            heard = await ask(table.npc, "read the entrails")
            found: Tier = heard.only(TierSelected).tier
            return found

        assert await tier() is FAST
        table.host.deregister("test")
        table.host.register(ran.tool("read_entrails", 0.8))
        assert await tier() is STANDARD
