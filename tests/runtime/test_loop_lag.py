"""Loop lag: measured, reported, and over when it is over."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from io import StringIO
from itertools import pairwise
from pathlib import PurePath
from typing import Any

import attrs
import pytest

import trio
import trio.lowlevel
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio import Config, Runtime, open_runtime
from glyphoxa_trio.actors import Topic
from glyphoxa_trio.config import (
    CalibrationConfig,
    ConfigError,
    McpConfig,
    NpcConfig,
    OverloadConfig,
    load_text,
)
from glyphoxa_trio.mcp import ServerWarning
from glyphoxa_trio.npc import TurnDone, TurnEnd
from glyphoxa_trio.npc.activity import Activity
from glyphoxa_trio.observability import json_lines, open_log
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.runtime import Overload, OverloadBegan, OverloadEnded, OverloadEvent
from glyphoxa_trio.runtime.loop_lag import PERIOD, watch
from glyphoxa_trio.runtime.overload import CALM, FLOOR

from ..npc.support import Reply, ScriptedLLM

LIMIT = 20.0  # seconds; no test that passes comes near it


def slow(_: LLMRequest) -> Reply:
    return [1.0, "Well. Hello."]


def config(**overload: Any) -> Config:
    return Config(
        npcs=tuple(NpcConfig(name=f"Guest {at}") for at in range(3)),
        mcp=McpConfig(remember=False),
        calibration=CalibrationConfig(at_start=False),
        overload=attrs.evolve(OverloadConfig(), **overload),
    )


async def say(runtime: Runtime, at: int) -> TurnDone:
    async with runtime.npc(f"Guest {at}").say("Hello?") as turn:
        return await turn.finish()


@attrs.define
class Watched:
    overload: Overload
    activity: Activity
    events: list[OverloadEvent] = attrs.field(factory=list)
    warnings: list[ServerWarning] = attrs.field(factory=list)
    late: list[tuple[float, float]] = attrs.field(factory=list)


@attrs.define(eq=False)
class Kept(Topic[OverloadEvent]):
    kept: list[OverloadEvent] = attrs.field(factory=list)

    def publish(self, event: OverloadEvent) -> None:
        self.kept.append(event)


def watched(
    nursery: trio.Nursery,
    *,
    spent: Callable[[], float] = trio.current_time,
    **overload: Any,
) -> Watched:
    """Watch the loop of a process that has used ``spent`` of the processor: by default
    all of it."""
    rule = Overload(config(**overload).overload)
    topic = Kept()
    found = Watched(rule, Activity(rule), events=topic.kept)
    nursery.start_soon(
        partial(
            watch,
            rule,
            found.activity,
            events=topic,
            warn=found.warnings.append,
            on_late=lambda since, until: found.late.append((since, until)),
            spent=spent,
        )
    )
    return found


async def test_on_a_virtual_clock_the_loop_is_never_late(
    autojump_clock: MockClock,
) -> None:
    async with trio.open_nursery() as nursery:
        seen = watched(nursery)
        for _ in range(100):
            seen.activity.begin()
        await trio.sleep(60)
        assert (seen.overload.lag, seen.overload.late) == (0.0, 0.0)
        assert (seen.events, seen.warnings) == ([], [])
        nursery.cancel_scope.cancel()


async def test_an_episode_is_told_once_when_it_begins_and_once_when_it_is_over(
    autojump_clock: MockClock,
) -> None:
    async with trio.open_nursery() as nursery:
        seen = watched(nursery, max_turns=1)
        seen.activity.begin()
        for _ in range(3):
            assert seen.activity.refusal()
            await trio.sleep(2 * PERIOD)
        assert seen.events == [OverloadBegan(running=1, lag=0.0, limit=None)]
        assert seen.warnings == [
            ServerWarning(
                server="overload",
                text="new turns are refused: 1 running, and the event loop 0 ms late",
            )
        ]
        await trio.sleep(CALM + 2 * PERIOD)
        (_, ended) = seen.events
        assert isinstance(ended, OverloadEnded)
        assert ended.shed == 3
        assert CALM <= ended.seconds <= CALM + 6 * PERIOD
        assert seen.activity.refusal()
        await trio.sleep(2 * PERIOD)
        assert len(seen.events) == 3
        assert len(seen.warnings) == 2
        await trio.sleep(CALM + 2 * PERIOD)
        *_, again = seen.events
        assert isinstance(again, OverloadEnded)
        assert again.shed == 1
        assert again.seconds <= CALM + 6 * PERIOD
        nursery.cancel_scope.cancel()


async def test_switched_on_later_it_looks_from_then_on(
    autojump_clock: MockClock,
) -> None:
    async with trio.open_nursery() as nursery:
        seen = watched(nursery, enabled=False, max_turns=1)
        seen.activity.begin()
        await trio.sleep(10)
        assert seen.activity.refusal() == ""
        seen.overload.adopt(OverloadConfig(max_turns=1))
        assert seen.activity.refusal()
        await trio.sleep(2)
        assert len(seen.events) == 1
        nursery.cancel_scope.cancel()


async def test_a_loop_that_is_blocked_again_and_again_is_an_overload(
    autojump_clock: MockClock,
) -> None:
    async with trio.open_nursery() as nursery:
        seen = watched(nursery, max_lag=0.02)
        for _ in range(20):
            seen.activity.begin()
        while not seen.events:
            autojump_clock.jump(0.05)  # nothing else of the loop runs meanwhile
            await trio.lowlevel.checkpoint()
        (began,) = seen.events
        assert isinstance(began, OverloadBegan)
        assert began.running == 20
        assert began.limit == 14
        # Late by almost 0.02, and then by what two more steps take.
        assert 0.02 < began.lag <= 0.02 + 2 * 0.05
        assert seen.overload.busy
        assert seen.activity.busy
        assert seen.activity.refusal()
        assert len(seen.warnings) == 1
        # What was measured in these times says nothing of tools.
        assert seen.late
        assert all(until - since > 0.02 for since, until in seen.late)
        assert all(a[1] <= b[0] for a, b in pairwise(seen.late))
        nursery.cancel_scope.cancel()


async def test_with_few_turns_what_blocks_the_loop_is_measured(
    autojump_clock: MockClock,
) -> None:
    """Then it is a tool that blocks, and must not look quick."""
    async with trio.open_nursery() as nursery:
        seen = watched(nursery, max_lag=0.02)
        for _ in range(FLOOR):
            seen.activity.begin()
        while not seen.overload.late:
            autojump_clock.jump(0.05)
            await trio.lowlevel.checkpoint()
        assert seen.late == []
        nursery.cancel_scope.cancel()


async def test_many_short_steps_are_an_overload_though_each_of_them_is_on_time(
    autojump_clock: MockClock,
) -> None:
    """A timer waits for one time round, a turn for many."""
    async with trio.open_nursery() as nursery:
        seen = watched(nursery)
        for _ in range(20):
            seen.activity.begin()
        while not seen.events:
            assert trio.current_time() < 10
            autojump_clock.jump(0.01)  # a tenth of what is late
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()


async def test_one_turn_too_many_is_told_so_and_the_next_one_is_served(
    autojump_clock: MockClock,
) -> None:
    async with open_runtime(config(max_turns=1), llm=ScriptedLLM(slow)) as runtime:
        async with runtime.npc("Guest 0").say("Hello?"):
            shed = await say(runtime, 1)
            assert shed.end is TurnEnd.SHED
            assert shed.error == "1 turn runs, and overload.max_turns allows 1"
            assert shed.text
            assert runtime.turns_running == 1
        assert (await say(runtime, 1)).end is TurnEnd.COMPLETED
        await trio.sleep(1)
        assert [w.server for w in runtime.warnings] == ["overload"]
        assert runtime.overload.statistics().shed == 1
        assert runtime.overload.busy


async def test_a_reload_changes_who_may_begin(autojump_clock: MockClock) -> None:
    async with open_runtime(config(), llm=ScriptedLLM(slow)) as runtime:
        async with runtime.npc("Guest 0").say("Hello?") as turn:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(runtime.reload, config(max_turns=1))
                await wait_all_tasks_blocked()
                assert (await say(runtime, 1)).end is TurnEnd.SHED
                await turn.finish()
        assert (await say(runtime, 1)).end is TurnEnd.COMPLETED


async def test_the_log_has_the_episode_and_every_turn_of_it() -> None:
    file = StringIO()
    with trio.fail_after(LIMIT):
        async with open_log(json_lines(file), texts=True) as log:
            async with open_runtime(
                config(max_turns=1), llm=ScriptedLLM(slow)
            ) as runtime:
                log.follow(runtime)
                with runtime.overload_events.subscribe() as episodes:
                    async with runtime.npc("Guest 0").say("Hello?"):
                        await say(runtime, 1)
                    async for _ in episodes:
                        break
    records = [json.loads(line) for line in file.getvalue().splitlines()]
    (began,) = [x for x in records if x["event"] == "overload"]
    assert began["level"] == "warning"
    assert began["limit"] is None
    (shed,) = [x for x in records if x["event"] == "turn" and x["status"] == "shed"]
    assert shed["level"] == "warning"
    assert (shed["fallback"], shed["said"]) == ("overloaded", "Hello?")


@pytest.mark.parametrize(
    "wrong", ["max_turns: 0", "max_lag_ms: 0", "max_turns: many", "max_lags_ms: 5"]
)
def test_what_makes_no_sense_is_refused_with_its_place(wrong: str) -> None:
    with pytest.raises(ConfigError, match=r"@ .*overload"):
        load_text(f"overload: {{{wrong}}}", source=PurePath("table.yaml"))


async def test_four_pauses_within_a_second_turn_nobody_away(
    autojump_clock: MockClock,
) -> None:
    """30 turns run, and the process has little to do."""
    async with trio.open_nursery() as nursery:
        seen = watched(nursery, spent=lambda: 0.0)
        for _ in range(30):
            seen.activity.begin()
        await trio.sleep(0.5)
        for _ in range(4):
            autojump_clock.jump(0.2)
            await trio.sleep(0.06)
            assert seen.activity.refusal() == ""
        await trio.sleep(0.5)
        assert seen.activity.refusal() == ""
        assert seen.events == []
        nursery.cancel_scope.cancel()
