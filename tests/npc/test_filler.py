"""A filler is said where it helps, once, and never in the way of the answer."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock

from glyphoxa_trio.config import TurnConfig
from glyphoxa_trio.config.voices import FillerConfig, FillerThresholds
from glyphoxa_trio.npc import (
    ApprovalRequest,
    FanOutDone,
    Filler,
    Flush,
    Sentence,
    TextDelta,
)
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.gate import Grant
from glyphoxa_trio.tools.outcome import ToolCall
from glyphoxa_trio.tools.tier import Tier

from .support import HANG, Heard, Ran, Reply, ask, call, open_table

FAST, STANDARD, DEEP = Tier
SLOWLY = "think carefully"
ONE, TWO, THREE = "Hm, let me see.", "A moment.", "Let me think."


async def turn_with(
    *tools: Tool,
    tier: Tier = DEEP,
    calls: list[ToolCall] | None = None,
    config: FillerConfig | None = None,
) -> Heard:
    """One turn in which all of these are called at once, and then answered; times are
    since its beginning."""
    chosen = calls or [call(tool.definition.name) for tool in tools]
    script: list[Reply] = [chosen, ["So it is."]]
    start = trio.current_time()
    async with open_table(script, *tools, filler=config or FillerConfig()) as table:
        heard = await ask(table.npc, "Well?", tier=tier)
    heard.events = [(round(at - start, 9), event) for at, event in heard.events]
    return heard


def fillers(heard: Heard) -> list[tuple[float, str]]:
    return [(at, e.text) for at, e in heard.events if isinstance(e, Filler)]


# Whether, and when.


async def test_a_filler_is_said_while_a_slow_tool_runs(
    autojump_clock: MockClock,
) -> None:
    # G41, D19
    heard = await turn_with(Ran().tool("slow", 2.0))
    assert fillers(heard) == [(0.7, ONE)]
    assert heard.only(Filler).round == 0
    # It is no part of the answer, of what is remembered, or of what is measured.
    assert heard.done.text == "So it is."
    assert [event.text for event in heard.of(TextDelta)] == ["So it is."]
    assert heard.when(Sentence) == [2]
    timings = heard.done.timings
    assert (timings.tools, timings.total, timings.first_text) == (2, 2, 2)
    assert heard.only(FanOutDone).elapsed == 2


async def test_nobody_is_told_of_it_in_the_history(autojump_clock: MockClock) -> None:
    script: list[Reply] = [[call("slow")], ["So it is."], ["Yes."]]
    slow = Ran().tool("slow", 2.0)
    async with open_table(script, slow, filler=FillerConfig()) as table:
        async with table.npc.say(SLOWLY) as turn:
            await turn.finish()
            assert turn.delivered == "So it is."
        await ask(table.npc, "sure?")
    assert not any(ONE in text for _, text in table.llm.told())


@pytest.mark.parametrize(
    ("declared", "takes", "tier", "said"),
    [
        (2.0, 2.0, DEEP, [0.7]),
        (2.0, 0.5, DEEP, []),  # the answer wins the race
        (0.25, 2.0, DEEP, []),  # it is usually fast
        (1.0, 2.0, DEEP, []),  # what is missing must take longer than the threshold
        (1.25, 1.25, STANDARD, [0.7]),
        (0.75, 1.25, STANDARD, []),
        (0.25, 0.5, FAST, []),
        (None, 2.0, DEEP, []),  # nothing is known of it, so nothing is said
    ],
)
async def test_it_depends_on_what_is_missing(
    autojump_clock: MockClock,
    declared: float | None,
    takes: float,
    tier: Tier,
    said: list[float],
) -> None:
    # D19
    tool = Ran().tool("tool", takes, estimated_duration=declared)
    heard = await turn_with(tool, tier=tier)
    assert [at for at, _ in fillers(heard)] == said


async def test_measurements_decide_once_there_are_enough(
    autojump_clock: MockClock,
) -> None:
    # D19: declared as fast, and it is not
    slow = Ran().tool("slow", 2.0, estimated_duration=0.25)
    script: list[Reply] = [[call("slow")], ["Yes."]] * 6
    async with open_table(script, slow, filler=FillerConfig()) as table:
        told = [fillers(await ask(table.npc, tier=DEEP)) for _ in range(6)]
    assert [len(each) for each in told] == [0, 0, 0, 0, 0, 1]


async def test_of_several_calls_only_the_missing_ones_count(
    autojump_clock: MockClock,
) -> None:
    # D19: the slow one has answered, and the other one is usually fast
    ran = Ran()
    slow = ran.tool("slow", 0.5, estimated_duration=2.0)
    quick = ran.tool("quick", 2.0, estimated_duration=0.25)
    assert not fillers(await turn_with(slow, quick))
    late = ran.tool("late", 2.0)
    assert fillers(await turn_with(quick, late)) == [(0.7, ONE)]


async def test_calls_that_wait_for_each_other_add_up(
    autojump_clock: MockClock,
) -> None:
    # D3a: two writes of one group go one after the other
    ran = Ran()
    writes = [ran.tool(name, 0.75, read_only=False) for name in "ab"]
    assert fillers(await turn_with(*writes)) == [(0.7, ONE)]
    reads = [ran.tool(name, 0.75) for name in "cd"]
    assert not fillers(await turn_with(*reads))
    apart = [ran.tool(n, 0.75, read_only=False, group=n) for n in "ef"]
    assert not fillers(await turn_with(*apart))


async def test_it_is_at_most_one_in_a_fan_out_and_varied(
    autojump_clock: MockClock,
) -> None:
    # D19
    ran = Ran()
    tools = [ran.tool("a", 2.0), ran.tool("b", 1.5)]
    script: list[Reply] = [
        [call("a"), call("b")],
        [call("b")],
        ["So."],
        [call("a")],
        ["So."],
        [call("b")],
        ["So."],
    ]
    async with open_table(script, *tools, filler=FillerConfig()) as table:
        heard = [await ask(table.npc, tier=DEEP) for _ in range(3)]
    said = [[(e.round, e.text) for e in each.of(Filler)] for each in heard]
    assert said == [[(0, ONE), (1, TWO)], [(0, THREE)], [(0, ONE)]]


@pytest.mark.parametrize(("takes", "said"), [(0.6875, 0), (0.703125, 1)])
async def test_it_is_withdrawn_when_the_answer_wins_the_race(
    autojump_clock: MockClock, takes: float, said: int
) -> None:
    # D19
    heard = await turn_with(Ran().tool("slow", takes, estimated_duration=2.0))
    assert len(fillers(heard)) == said
    assert heard.when(Sentence) == [takes]


async def test_the_configuration_decides(autojump_clock: MockClock) -> None:
    slow = Ran().tool("slow", 2.0)
    off = FillerConfig(enabled=False)
    assert not fillers(await turn_with(slow, config=off))
    patient = FillerConfig(thresholds=FillerThresholds(deep=2.0))
    assert not fillers(await turn_with(slow, config=patient))
    own = FillerConfig(after=0.25, lines=("Wait.",))
    assert fillers(await turn_with(slow, config=own)) == [(0.25, "Wait.")]


async def test_an_approval_is_not_waited_for_with_fillers(
    autojump_clock: MockClock,
) -> None:
    async def after_a_while(_: ApprovalRequest) -> bool:
        await trio.sleep(3)
        return True

    tool = Ran().tool("fetch", 2.0, external=True, group="world")
    grant = Grant(npc="Bob", tools=("world.*",), approver=True)
    script: list[Reply] = [[call("mcp__world__fetch")], ["So."]]
    async with open_table(
        script, tool, grant=grant, approver=after_a_while, filler=FillerConfig()
    ) as table:
        heard = await ask(table.npc, tier=DEEP)
    assert fillers(heard) == [(3.7, ONE)]


async def test_calls_that_are_refused_are_not_waited_for(
    autojump_clock: MockClock,
) -> None:
    tools = [Ran().tool("slow", 2.0), Ran().tool("other", 2.0)]
    calls = [call("nothing"), call("slow", "{"), call("other")]
    script: list[Reply] = [calls, ["So."]]
    limit = TurnConfig(max_calls=2)
    async with open_table(script, *tools, turn=limit, filler=FillerConfig()) as table:
        heard = await ask(table.npc, tier=DEEP)
    assert not fillers(heard)


async def test_an_interruption_takes_a_filler_back(autojump_clock: MockClock) -> None:
    script: list[Reply] = [[call("slow")]]
    slow = Ran().tool("slow", 2.0)
    async with open_table(script, slow, filler=FillerConfig()) as table:
        before = await ask(table.npc, tier=DEEP, leave_at=0.5)
        assert not fillers(before)
        assert not table.events.all(Flush)
    async with open_table(script, slow, filler=FillerConfig()) as table:
        await ask(table.npc, tier=DEEP, leave_at=trio.current_time() + 1)
        assert len(table.events.all(Filler)) == len(table.events.all(Flush)) == 1


async def test_a_reload_changes_what_is_said(autojump_clock: MockClock) -> None:
    slow = Ran().tool("slow", 2.0)
    script: list[Reply] = [[call("slow")], ["So."]] * 2
    async with open_table(script, slow, filler=FillerConfig()) as table:
        await ask(table.npc, tier=DEEP)
        await table.reload(filler=FillerConfig(lines=("Wait.", "Hold on.")))
        heard = await ask(table.npc, tier=DEEP)
    assert [text for _, text in fillers(heard)] == ["Hold on."]


# A tool's own words, and its own time.

STATED: dict[str, Any] = {
    "slow_response_threshold": 1.25,
    "slow_response_message": "Let me look for {what} in {place.name}.",
}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            '{"what": "gold", "place": {"name": "Luskan"}}',
            "Let me look for gold in Luskan.",
        ),
        # Filled in once: what is filled in is not looked at again.
        (
            '{"what": "{place.name}", "place": {"name": "Luskan"}}',
            "Let me look for {place.name} in Luskan.",
        ),
        (
            '{"what": "a\\nb", "place": {"name": "Luskan"}}',
            "Let me look for a b in Luskan.",
        ),
        ('{"what": "gold"}', ONE),  # a sentence with a hole in it is none
        ('{"what": {"a": 1}, "place": {"name": "Luskan"}}', ONE),
        (f'{{"what": "{"x" * 200}", "place": {{"name": "Luskan"}}}}', ONE),
    ],
)
async def test_a_tool_has_its_own_words_with_the_arguments_of_the_call(
    autojump_clock: MockClock, arguments: str, text: str
) -> None:
    # A18
    tool = Ran().tool("look", 2.0, **STATED)
    heard = await turn_with(tool, calls=[call("look", arguments)])
    assert fillers(heard) == [(1.25, text)]


@pytest.mark.parametrize(
    ("declared", "takes", "said"),
    [(2.0, 2.0, [1.25]), (0.25, 2.0, [1.25]), (2.0, 1.0, []), (0.25, 0.25, [])],
)
async def test_a_stated_threshold_is_a_time_and_no_guess(
    autojump_clock: MockClock, declared: float, takes: float, said: list[float]
) -> None:
    # A18: after this delay, whatever the tool usually takes; not before it, either
    tool = Ran().tool("look", takes, estimated_duration=declared, **STATED)
    heard = await turn_with(tool)
    assert [at for at, _ in fillers(heard)] == said


async def test_words_without_a_time_are_said_when_a_line_would_be(
    autojump_clock: MockClock,
) -> None:
    # A18
    ran = Ran()
    words = "One moment, please."
    tools = [
        ran.tool("look", 2.0, slow_response_message=words),
        ran.tool("other", 3.0),
    ]
    assert fillers(await turn_with(*tools)) == [(0.7, words)]
    fast = ran.tool("fast", 2.0, estimated_duration=0.5, slow_response_message=words)
    assert not fillers(await turn_with(fast))


async def test_the_first_moment_of_several_is_the_only_one(
    autojump_clock: MockClock,
) -> None:
    ran = Ran()
    tools = [
        ran.tool("late", 3.0, slow_response_threshold=2.0, slow_response_message="B"),
        ran.tool("soon", 3.0, slow_response_threshold=0.5, slow_response_message="A"),
        ran.tool("usual", 3.0),
    ]
    assert fillers(await turn_with(*tools)) == [(0.5, "A")]
    assert fillers(await turn_with(tools[0], tools[2])) == [(0.7, ONE)]
    soon = ran.tool("soon", 0.25, slow_response_threshold=0.5)
    assert fillers(await turn_with(tools[0], soon)) == [(2.0, "B")]


async def test_nothing_is_planned_beyond_the_budget(autojump_clock: MockClock) -> None:
    tool = Ran().tool("look", 2.0, estimated_duration=0.25, slow_response_threshold=0.5)
    assert not fillers(await turn_with(tool, tier=FAST))  # its time is up by then
    soon = attrs.evolve(tool.definition, slow_response_threshold=0.25)
    heard = await turn_with(attrs.evolve(tool, definition=soon), tier=FAST)
    assert fillers(heard) == [(0.25, ONE)]


# Whatever is called.

TIMES = st.sampled_from([0.125, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, HANG])
TOOLS = st.lists(
    st.fixed_dictionaries(
        {
            "takes": TIMES,
            "estimated_duration": TIMES.filter(lambda x: x < 4),
            "read_only": st.booleans(),
            "group": st.sampled_from(["a", "b"]),
            "slow_response_threshold": st.none() | st.sampled_from([0.3, 0.9, 1.1]),
            "slow_response_message": st.none() | st.just("Mine."),
        }
    ),
    min_size=1,
    max_size=4,
)


@given(TOOLS, st.sampled_from(Tier), st.sampled_from([0.0, 0.2, 0.7]))
def test_a_filler_is_rare_right_and_in_nobodys_way(
    tools: list[dict[str, Any]], tier: Tier, after: float
) -> None:
    # D19, by the plainest reading: what was said is held against what ran.
    async def main() -> tuple[Heard, Heard]:
        ran = Ran()
        made = [
            ran.tool(
                f"t{n}", what["takes"], **{k: what[k] for k in what if k != "takes"}
            )
            for n, what in enumerate(tools)
        ]
        off = FillerConfig(enabled=False)
        return (
            await turn_with(*made, tier=tier, config=FillerConfig(after=after)),
            await turn_with(*made, tier=tier, config=off),
        )

    heard, without = trio.run(main, clock=MockClock(autojump_threshold=0))
    said = fillers(heard)
    assert len(said) <= 1
    # But for it, nothing is another one, and nothing comes later.
    kept = [(at, e) for at, e in heard.events if not isinstance(e, Filler)]
    assert [at for at, _ in kept] == pytest.approx([at for at, _ in without.events])
    fan_out = heard.only(FanOutDone)
    ends = {o.tool: o.elapsed for o in fan_out.outcomes if o.elapsed}
    missing = {
        f"{what['group']}.t{n}": what
        for n, what in enumerate(tools)
        if f"{what['group']}.t{n}" in ends
    }
    # Also of a write that waits its turn: it is waited for.
    stated = {what["slow_response_threshold"] for what in tools}
    for at, text in said:
        assert at in stated | {after}
        assert at <= fan_out.elapsed
        assert text in (ONE, "Mine.")
    # Whoever takes longer than its own threshold is spoken for, by then at the latest.
    for key, what in missing.items():
        own = what["slow_response_threshold"]
        if own is not None and own < min(ends[key], fan_out.budget):
            assert said
            assert said[0][0] <= own
    if stated == {None}:
        usual = [what["estimated_duration"] for what in tools]
        threshold = FillerThresholds().of(tier)
        if sum(usual) <= threshold:
            assert not said
        slow = [
            key
            for key, what in missing.items()
            if what["estimated_duration"] > threshold and ends[key] > after
        ]
        if slow and after < fan_out.budget:
            assert said
