"""An interruption stops output at once, and says so to whoever plays it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio.config import TurnConfig
from glyphoxa_trio.npc import (
    ApprovalRequest,
    Flush,
    Sentence,
    Speech,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnDone,
    TurnEnd,
)
from glyphoxa_trio.providers.llm import ErrorKind, LLMError
from glyphoxa_trio.tools.gate import Grant
from glyphoxa_trio.tools.outcome import Status

from .support import HANG, Heard, Ran, Reply, Step, Table, ask, call, open_table
from .voices import FakeSynthesizer

COUNTING: Reply = ["One. Two. Th", HANG]


def flushes(table: Table) -> list[tuple[int, float, str]]:
    """The turn, time and reason of each that was published."""
    return [
        (event.turn, at, event.reason)
        for at, event in table.events.kept
        if isinstance(event, Flush)
    ]


async def test_output_stops_at_once_though_the_model_is_slow_to_hang_up(
    autojump_clock: MockClock,
) -> None:
    # D12a: the model takes half a second to be hung up on; nobody waits for that.
    async with open_table([COUNTING, ["Yes."]]) as table:
        table.llm.hang_up = 0.5
        first = Heard()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(ask, table.npc, heard=first))
            await ask(table.npc, "stop", after=2)
    assert flushes(table) == [(1, 2, "the speaker went on")]
    assert first.when(Flush) == [2]
    assert first.kinds()[-2:] == ["Flush", "TurnDone"]
    assert first.when(TurnDone) == [2.5]


async def test_what_nobody_has_asked_for_is_taken_back(
    autojump_clock: MockClock,
) -> None:
    # The listener takes a second for each event, so that most of it waits.
    ran = Ran()
    look = ran.tool("look")
    script: list[Reply] = [["One. ", call("look")], ["Two. Three. F", HANG], ["Yes."]]
    async with open_table(script, look) as table:
        first = Heard()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(ask, table.npc, pace=1, heard=first))
            await trio.sleep(3.5)
            assert len(table.events.all(Sentence)) == 3
            await table.npc.interrupt()
        await ask(table.npc, "well?")
    # What tools did is told all the same; of the answer nothing more is.
    assert first.kinds() == [
        *("TierSelected", "ToolsShown", "TextDelta", "Sentence"),
        *("ToolStarted", "ToolFinished", "FanOutDone", "ToolsShown"),
        *("Flush", "TurnDone"),
    ]
    assert [text for role, text in table.llm.told() if role == "assistant"] == ["One."]


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        ("interrupt", "interrupted"),
        ("speak", "the speaker went on"),
        ("leave", "the listener left"),
        ("cancel", "the listener left"),
        ("close", "the "),  # listener left, or session ended: who of them is first
    ],
)
async def test_whoever_plays_is_told_whatever_the_cause(
    autojump_clock: MockClock, cause: str, reason: str
) -> None:
    async with open_table([COUNTING, ["Yes."]]) as table:
        async with trio.open_nursery() as nursery:
            if cause == "leave":
                async with table.npc.say("count") as turn:
                    async for event in turn:
                        if isinstance(event, Sentence):
                            await trio.sleep(1)
                            break
            else:
                leaves = 1.0 if cause == "cancel" else HANG
                nursery.start_soon(partial(ask, table.npc, leave_at=leaves))
                await trio.sleep(1)
            match cause:
                case "interrupt":
                    await table.npc.interrupt()
                case "speak":
                    await ask(table.npc, "stop")
                case "close":
                    table.scope.cancel()
    ((number, at, told),) = flushes(table)
    assert (number, at) == (1, 1)
    assert told.startswith(reason)


async def test_a_listener_that_stops_listening_is_flushed(
    autojump_clock: MockClock,
) -> None:
    words: Reply = ["Word. "] * 60
    async with open_table([words], turn=TurnConfig(listener=2.0)) as table:
        async with table.npc.say("go on") as turn:
            await trio.sleep(5)
            heard = [type(event) async for event in turn]
    assert flushes(table) == [(1, 2, "the listener stopped listening")]
    assert heard[-2:] == [Flush, TurnDone]
    assert not {TextDelta, Sentence} & set(heard)


async def test_a_voice_that_goes_on_alone_is_flushed_before_it_has_let_go(
    autojump_clock: MockClock,
) -> None:
    synthesizer = FakeSynthesizer(work=0.125, hang_up=0.5)
    async with open_table([["Hello there."]], synthesizer=synthesizer) as table:
        heard = Heard()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(ask, table.npc, heard=heard))
            await trio.sleep(0.6875)
            await table.npc.interrupt()
    assert flushes(table) == [(1, 0.6875, "interrupted")]
    assert heard.when(Speech)[-1] == 0.625
    assert heard.kinds()[-2:] == ["Flush", "TurnDone"]
    assert heard.when(TurnDone) == [1.1875]


async def test_cancelled_calls_are_told_of_before_the_flush(
    autojump_clock: MockClock,
) -> None:
    ran = Ran()
    slow = ran.tool("slow", 3.0)
    async with open_table([["Wait. ", call("slow")], ["Yes."]], slow) as table:
        first = Heard()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(ask, table.npc, "think carefully", heard=first))
            await trio.sleep(1)
            await table.npc.interrupt()
    assert ran.cancelled == [("slow", 1)]  # at its server, in the same moment
    assert first.kinds()[-4:] == ["ToolStarted", "ToolFinished", "Flush", "TurnDone"]
    assert first.only(ToolFinished).outcome.status is Status.CANCELLED
    assert first.when(Flush) == first.when(TurnDone) == [1]


async def test_an_open_question_is_withdrawn_before_the_flush(
    autojump_clock: MockClock,
) -> None:
    async def asleep(_: ApprovalRequest) -> bool:
        await trio.sleep_forever()
        raise AssertionError

    tool = Ran().tool("fetch", external=True, group="world")
    grant = Grant(npc="Bob", tools=("world.*",), approver=True)
    script: list[Reply] = [["Wait. ", call("mcp__world__fetch")]]
    async with open_table(script, tool, grant=grant, approver=asleep) as table:
        heard = await ask(table.npc, "think carefully", leave_at=1)
        await table.npc.interrupt()
    assert heard.turn is not None
    kinds = [type(event).__name__ for event in table.events.of(1)]
    assert kinds[-4:] == ["ApprovalSettled", "ToolFinished", "Flush", "TurnDone"]


async def test_nothing_comes_in_the_moment_of_the_interruption(
    autojump_clock: MockClock,
) -> None:
    # The model's words and the interruption meet in one step of the turn's task.
    def reply() -> Iterator[Step]:
        yield "One.\n"
        yield 1.0
        utterance = table.session._queue.running
        assert utterance is not None
        utterance.interrupt("interrupted")
        yield "Two. "

    async with open_table(lambda _: reply()) as table:  # type: ignore[arg-type, return-value]
        heard = await ask(table.npc)
    assert [event.text for event in table.events.all(TextDelta)] == ["One.\n"]
    assert heard.kinds()[-3:] == ["Sentence", "Flush", "TurnDone"]
    assert heard.done.end is TurnEnd.INTERRUPTED


@pytest.mark.parametrize(
    ("reply", "leaves"),
    [
        (["One. Two."], HANG),  # to its end
        ([HANG], 1.0),  # before its first word
        (["One. ", LLMError(ErrorKind.INTERRUPTED, "lost")], HANG),
    ],
    ids=["completed", "silent", "failed"],
)
async def test_without_an_interruption_or_without_output_there_is_no_flush(
    autojump_clock: MockClock, reply: Reply, leaves: float
) -> None:
    async with open_table([reply]) as table:
        await ask(table.npc, leave_at=leaves)
    assert flushes(table) == []
    assert len(table.events.all(TurnDone)) == 1


async def test_what_has_not_begun_is_not_flushed(autojump_clock: MockClock) -> None:
    async with open_table([COUNTING, ["Yes."]]) as table:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(ask, table.npc, speaker="A"))
            nursery.start_soon(
                partial(ask, table.npc, speaker="B", after=0.5, leave_at=1)
            )
            await trio.sleep(2)
            await table.npc.interrupt()
    assert flushes(table) == [(1, 2, "interrupted")]
    assert not table.events.all(ToolStarted)
