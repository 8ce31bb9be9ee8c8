"""Whatever is heard, said and changed in whatever order: with speculation everything
is as without it, but sooner; and nothing of it is left.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from typing import Any

import attrs
from hypothesis import event, given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.config import SpeculationConfig, TurnConfig
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc import (
    FanOutDone,
    SpeculationDone,
    SpeculationEnd,
    SpeculationStatistics,
    TierSelected,
    Timings,
    ToolFinished,
    ToolsShown,
    ToolStarted,
    TurnDone,
    TurnEvent,
)
from glyphoxa_trio.npc.conversation import Exchange
from glyphoxa_trio.providers.llm import ErrorKind, LLMError, LLMRequest, Message
from glyphoxa_trio.tools.gate import Grant
from glyphoxa_trio.tools.outcome import Effect, Outcome
from glyphoxa_trio.tools.tier import Tier

from .support import Ran, Reply, Table, ask, call, open_table, protocol_faults

ON = SpeculationConfig(
    enabled=True, min_words=2, after=0.125, per_utterance=2, expires=2.0
)
# What can be said, and what the model answers to it, round by round: the words
# alone decide, so that it makes no difference how often it is asked.
WORDS: dict[str, Sequence[Reply]] = {
    "hello": [["Hello."]],
    "look here": [[0.25, call("look")], ["A door."]],
    "look there": [["Well. ", 0.25, call("look", id="x"), 0.25], ["A tree."]],
    "look and write": [
        [call("look"), 0.125, call("write"), call("look", id="x")],
        [0.25, "Both."],
    ],
    "write it down": [[0.25, call("write")], [call("look")], ["It is written."]],
    "do it all": [
        [call("look"), call("list"), call("nothing"), call("set"), call("look", "?")],
        [0.25, call("write"), call("list")],
        ["All of it."],
    ],
    "fail me now": [
        ["One. ", call("look"), 0.25, LLMError(ErrorKind.UNREACHABLE, "no")]
    ],
    "be buggy please": [[call("look"), 0.125, RuntimeError("a bug of the link")]],
    "say nothing more": [[]],
}


def script(request: LLMRequest) -> Reply:
    said = max(
        at for at, message in enumerate(request.messages) if message.role == "user"
    )
    words = re.sub(r"[^a-z ]", "", request.messages[said].content.strip().lower())
    rounds = WORDS[words]
    done = sum(message.role == "assistant" for message in request.messages[said:])
    return rounds[min(done, len(rounds) - 1)]


def tools(ran: Ran) -> list[Any]:
    # All of them together fit into the shortest turn: what is left of its time
    # decides what may still be called, and with a head start more is left.
    return [
        ran.tool("look", 0.0625),
        ran.tool("list", 0.09375, cacheable=3.0),
        ran.tool("write", 0.0625, read_only=False, group="log"),
        ran.tool("set", 0.03125, read_only=False, idempotent=True, group="log"),
    ]


@attrs.frozen
class Hear:
    words: str
    speaker: str
    pause: float


@attrs.frozen
class Say:
    words: str
    speaker: str
    tier: Tier | None
    stays: float | None = None  # seconds; None is to the end, and waited for


@attrs.frozen
class Change:
    what: str


PAUSES = st.sampled_from([0.0, 0.0625, 0.125, 0.15625, 0.25, 0.40625, 1.0, 2.5])
SPEAKERS = st.sampled_from(["Ann", "Ann", "Ann", "Ben"])
SPOKEN = st.sampled_from(sorted(WORDS))
HEARD = st.builds(Hear, SPOKEN, SPEAKERS, PAUSES)
SAID = st.builds(Say, SPOKEN, SPEAKERS, st.sampled_from([None, None, None, Tier.DEEP]))
CHANGES = st.builds(Change, st.sampled_from(["tool", "grant", "elevate", "write"]))
# What was heard is mostly what is said then.
USUAL = st.tuples(SPOKEN, SPEAKERS, PAUSES).map(
    lambda x: [Hear(*x), Say(x[0], x[1], None)]
)


def flat(parts: Any, size: int) -> Any:
    whole = st.lists(parts, max_size=size)
    return whole.map(lambda parts: [step for part in parts for step in part])


STEPS = flat(
    st.one_of(USUAL, USUAL, st.one_of(HEARD, SAID, CHANGES).map(lambda x: [x])), 8
)


@attrs.frozen
class Story:
    """What came of it."""

    events: list[TurnEvent]
    memory: tuple[Message, ...]
    prompts: list[tuple[Message, ...]]
    writes: int
    statistics: SpeculationStatistics
    spent: float


async def perform(steps: Sequence[Any], speculation: SpeculationConfig) -> Story:
    ran, spent, more = Ran(), 0.0, False
    async with open_table(
        script, *tools(ran), speculation=speculation, tier=Tier.STANDARD
    ) as table:
        for step in steps:
            match step:
                case Hear(words, speaker, pause):
                    await table.npc.hearing(words, speaker=speaker)
                    await trio.sleep(pause)
                case Say(words, speaker, tier):
                    said = f" {words.capitalize()}!"
                    heard = await ask(table.npc, said, speaker=speaker, tier=tier)
                    spent += heard.done.timings.total
                case Change(what):
                    more = await change(table, ran, what, more)
        await trio.sleep(5)  # longer than anything lasts
        await check_that_nothing_is_left(table)
        return Story(
            events=[e for _, e in table.events.kept],
            memory=table.session.memory.conversation.prompt(Exchange("Ann", "?")),
            prompts=[request.messages for request in table.llm.requests],
            writes=len([name for name, _ in ran.began if name in ("write", "set")]),
            statistics=table.session.services.tally.statistics(),
            spent=spent,
        )


async def change(table: Table, ran: Ran, what: str, more: bool) -> bool:
    match what:
        case "tool" if more:
            table.host.deregister("test.smell")
        case "tool":
            table.host.register(ran.tool("smell", 0.03125))
        case "grant":
            session = table.session
            less = ("look", "list", "write", "set", "smell")
            tools = less if session.settings.grant.tools == ("*",) else ("*",)
            grant = Grant(npc="Bob", tools=tools)
            await table.reload(grant=grant)
        case "elevate":
            await table.npc.elevate(Tier.DEEP, seconds=1000)
        case "write":
            await table.host.execute("log.write")
    return more != (what == "tool")


async def check_that_nothing_is_left(table: Table) -> None:
    await wait_all_tasks_blocked()
    assert table.llm.open == 0
    assert table.host.statistics().shared_tasks.running == 0
    assert not table.host._attempts._speculative
    told = table.events.all(SpeculationDone)
    for done in told:
        assert 0 <= done.calls_used <= done.calls
        adopted = done.end is SpeculationEnd.ADOPTED
        assert (done.turn > 0, done.calls_used <= 0 or adopted) == (adopted, True)
        assert done.wasted >= 0
    counted = table.session.services.tally.statistics()
    assert counted.ends == Counter(done.end for done in told)
    assert counted.calls == sum(done.calls for done in told)
    assert counted.calls_used + counted.calls_wasted == counted.calls


def untimed(events: Sequence[TurnEvent]) -> list[TurnEvent]:
    """The events of turns, without what time made of them."""
    return [
        timeless(event)
        for event in events
        if not isinstance(event, SpeculationDone)
        # An answer that is known already has no beginning; how long it is known
        # is time, too.
        and not (isinstance(event, ToolStarted) and event.tool == "test.list")
    ]


def timeless(event: TurnEvent) -> TurnEvent:
    match event:
        case ToolsShown():
            return attrs.evolve(event, remaining=0.0)
        case ToolFinished(outcome=outcome):
            return attrs.evolve(event, outcome=plain(outcome))
        case FanOutDone(outcomes=outcomes):
            ends = tuple(map(plain, outcomes))
            return attrs.evolve(event, outcomes=ends, budget=0.0, elapsed=0.0)
        case TurnDone(outcomes=outcomes):
            zero = Timings(model=0.0, tools=0.0, total=0.0)
            ends = tuple(map(plain, outcomes))
            return attrs.evolve(event, outcomes=ends, timings=zero)
    return event


def plain(outcome: Outcome) -> Outcome:
    return attrs.evolve(outcome, elapsed=0.0, cached=False, shared=False)


def in_any_order(events: Sequence[TurnEvent]) -> list[Any]:
    """Calls of one response run in parallel: one set each of beginnings and ends."""
    rounds: dict[tuple[str, int, int], Counter[str]] = {}
    rest: list[Any] = []
    for found in events:
        if isinstance(found, ToolStarted | ToolFinished):
            key = (type(found).__name__, found.turn, found.round)
            if key not in rounds:
                rest.append(rounds.setdefault(key, Counter()))
            rounds[key][str(found)] += 1
        else:
            rest.append(found)
    # Whether one ended before another began is time, too.
    return [
        *(each for each in rest if not isinstance(each, Counter)),
        *(f"{key}: {sorted(rounds[key].items())}" for key in sorted(rounds)),
    ]


def run(main: Any, *args: Any) -> Any:
    async def guarded() -> Any:
        with trio.fail_after(3600):
            return await main(*args)

    return trio.run(guarded, clock=MockClock(autojump_threshold=0))


def later(prompts: Sequence[tuple[Message, ...]]) -> list[tuple[Message, ...]]:
    """What the model was told in all rounds but the first ones: there the words of
    a turn are those that were really said."""
    return [prompt for prompt in prompts if prompt[-1].role != "user"]


@given(STEPS)
def test_with_it_all_is_as_without_it_but_sooner(steps: list[Any]) -> None:
    # D2, D5: the model of a conversation with speculation is one without.
    plain_: Story = run(perform, steps, SpeculationConfig())
    story: Story = run(perform, steps, ON)
    assert in_any_order(untimed(story.events)) == in_any_order(untimed(plain_.events))
    assert story.memory == plain_.memory
    assert story.writes == plain_.writes
    assert story.spent <= plain_.spent + 1e-9
    assert not plain_.statistics.begun
    for prompt in story.prompts:
        assert protocol_faults(prompt) == []
    counted = story.statistics
    assert len(story.prompts) == len(plain_.prompts) + counted.rounds_wasted
    assert later(story.prompts) == later(plain_.prompts)
    for end, times in counted.ends.items():
        event(f"{end}", str(min(times, 2)))
    event("calls used", str(min(counted.calls_used, 2)))


STAYS = st.sampled_from([0.0, 0.0625, 0.125, 0.375, 10.0])
INTERRUPTS = st.one_of(
    HEARD,
    PAUSES.map(lambda seconds: Change(f"sleep {seconds}")),
    st.just(Change("interrupt")),
    CHANGES,
    st.builds(Say, SPOKEN, SPEAKERS, st.none(), STAYS),
)
USUAL_TOO = st.tuples(SPOKEN, SPEAKERS, PAUSES, STAYS).map(
    lambda x: [Hear(*x[:3]), Say(x[0], x[1], None, x[3])]
)


@given(
    flat(st.one_of(INTERRUPTS.map(lambda x: [x]), USUAL_TOO), 12),
    st.sampled_from([0.0, 0.25]),
)
def test_every_turn_ends_and_no_write_runs_twice_whoever_comes_and_goes(
    steps: list[Any], hang_up: float
) -> None:
    # D0, D12, D12a
    async def main() -> None:
        ran, more = Ran(), False
        async with open_table(
            script,
            *tools(ran),
            speculation=ON,
            tier=Tier.STANDARD,
            turn=TurnConfig(queue=3),
        ) as table:
            table.llm.hang_up = hang_up
            async with trio.open_nursery() as nursery:
                for step in steps:
                    match step:
                        case Hear(words, speaker, pause):
                            await table.npc.hearing(words, speaker=speaker)
                            await trio.sleep(pause)
                        case Say():
                            nursery.start_soon(speak, table, step)
                            await wait_all_tasks_blocked()
                        case Change("interrupt"):
                            await table.npc.interrupt()
                        case Change(what) if what.startswith("sleep"):
                            await trio.sleep(float(what.removeprefix("sleep")))
                        case Change(what):
                            more = await change(table, ran, what, more)
            await trio.sleep(30)
            await check_that_nothing_is_left(table)
            check_turns(table, ran, Counter(map(str, steps))[str(Change("write"))])

    run(main)


async def speak(table: Table, said: Say) -> None:
    leave_at = trio.current_time() + (inf if said.stays is None else said.stays)
    with suppress(GlyphoxaError):  # the queue is full
        await ask(table.npc, f"{said.words}!", speaker=said.speaker, leave_at=leave_at)


def check_turns(table: Table, ran: Ran, written: int) -> None:
    done = table.events.all(TurnDone)
    turns = sorted(each.turn for each in done)
    assert turns == list(range(1, len(turns) + 1))
    assert all(each.timings.head_start >= 0 for each in done)
    for each in table.events.all(FanOutDone):
        assert each.elapsed <= each.budget + 1e-9
    # A write runs for a call that a turn has made, and once for it.
    writes = [
        outcome
        for each in done
        for outcome in each.outcomes
        if outcome.tool in ("log.write", "log.set")
        if outcome.effect is not Effect.NONE or outcome.ok
    ]
    began = [name for name, _ in ran.began if name in ("write", "set")]
    assert len(began) <= len(writes) + written
    # Nothing is heard of turns between them.
    begun = [e.turn for e in table.events.all(TierSelected)]
    assert set(begun) <= set(turns)
