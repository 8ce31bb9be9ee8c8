"""The judges themselves: each names what is broken, and nothing where all is well.

Whether they see a fault of the product is what `make mutants` shows. Here are the
cases that no such fault brings about, and the clock that is not virtual: a handler
that shields itself, a thread that hears no cancellation, a process that is stopped.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping
from typing import Any

import attrs
import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio import Config, open_runtime
from glyphoxa_trio.config import (
    CalibrationConfig,
    McpConfig,
    NpcConfig,
    RestartConfig,
    ServerSpec,
    TrustConfig,
    TurnConfig,
)
from glyphoxa_trio.npc import (
    FanOutDone,
    Filler,
    Flush,
    TierSelected,
    Timings,
    TurnDone,
    TurnEnd,
    TurnEvent,
)
from glyphoxa_trio.providers.llm import Message
from glyphoxa_trio.simulation.plans import (
    Asks,
    PlannedUtterance,
    RehearsalPlan,
    rehearse,
)
from glyphoxa_trio.simulation.promises.calls import CallSeen, TurnRecord
from glyphoxa_trio.simulation.promises.fake_world import Act, Ending
from glyphoxa_trio.simulation.promises.journal import stale
from glyphoxa_trio.simulation.promises.monitor import Monitor, Promise
from glyphoxa_trio.simulation.promises.said import conversation_faults
from glyphoxa_trio.simulation.promises.turn import judged
from glyphoxa_trio.tools.definition import CallContext, Tool, ToolDefinition
from glyphoxa_trio.tools.gate import TrustMode
from glyphoxa_trio.tools.outcome import (
    Effect,
    Limit,
    Outcome,
    Status,
    ToolCall,
    ToolResult,
)
from glyphoxa_trio.tools.tier import DEFAULT_LIMITS, Tier

from ..cli.support import SEER
from ..npc.support import ScriptedLLM, call

ASKED = ToolCall("a", "look", '{"x": 1}')
LOOK = ToolDefinition(name="look", group="own", max_duration=0.25, read_only=True)


def turn(*ends: Outcome, at: float = 0.25, **changes: Any) -> TurnRecord:
    """One round of a FAST turn that began at 0, with its calls from 0 to ``at``."""
    seen = TurnRecord("Bo", 1)
    seen.selected = TierSelected(
        npc="Bo",
        turn=1,
        tier=Tier.FAST,
        selected=Tier.DEEP,
        ceiling=Tier.FAST,
        reason="",
        budget=0.5,
        speaker="player",
        text="hi",
    )
    round_ = seen.round(0)
    round_.began = 0.0
    round_.said = tuple(end.call for end in ends)
    for slot, end in enumerate(ends):
        asked = CallSeen("Bo", end.call, "own.look", 0.0, LOOK, slot)
        asked.ended, asked.outcome = at, end
        round_.calls.append(asked)
        round_.ends.append((at, end))
    done = FanOutDone(
        npc="Bo",
        turn=1,
        round=0,
        tier=Tier.FAST,
        shown=1,
        budget=0.5,
        elapsed=at,
        outcomes=ends,
    )
    round_.fan_out = (at, attrs.evolve(done, **changes))
    timings = Timings(model=0.0, tools=at, total=at)
    over = TurnDone(
        npc="Bo",
        turn=1,
        end=TurnEnd.COMPLETED,
        text="",
        outcomes=ends,
        timings=timings,
        rounds=1,
        tier=Tier.FAST,
    )
    seen.done.append((at, over))
    return seen


def ok(asked: ToolCall = ASKED, **changes: Any) -> Outcome:
    return Outcome(
        **{"call": asked, "tool": "own.look", "status": Status.OK, **changes}
    )


def broken(seen: TurnRecord) -> set[Promise]:
    found = judged(seen, DEFAULT_LIMITS, [TurnConfig()], 1e-9)
    return {fault.promise for fault in found}


def test_nothing_is_wrong_with_a_turn_that_went_well() -> None:
    assert broken(turn(ok())) == set()


def interrupted(**changes: Any) -> TurnRecord:
    seen = turn(ok())
    (at, done), *_ = seen.done
    seen.done[0] = (at, attrs.evolve(done, end=TurnEnd.INTERRUPTED))
    for name, value in changes.items():
        setattr(seen, name, value)
    return seen


def test_an_interruption_that_was_told_is_as_it_should_be() -> None:
    assert broken(interrupted()) == set()
    assert broken(interrupted(gave_out=True, flushed=0.25)) == set()


OTHER = ToolCall("b", "look", '{"x": 2}')
CUT: dict[str, Any] = {"status": Status.TIMEOUT, "limit": Limit.TURN}


@pytest.mark.parametrize(
    ("seen", "promise"),
    [
        (turn(ok(), at=0.75), Promise.ON_TIME),
        (turn(ok(), at=0.75), Promise.BUDGET),
        (turn(ok(), at=0.375), Promise.LIMITS),  # its tool's own is 250 ms
        (turn(ok(**CUT)), Promise.LIMITS),  # half of the turn's time was left
        (turn(ok(limit=Limit.TOOL)), Promise.LIMITS),
        (turn(ok(), elapsed=0.125), Promise.ON_TIME),
        (turn(ok(), ok(OTHER), outcomes=(ok(OTHER), ok())), Promise.ONE_OUTCOME),
        (turn(ok(), outcomes=()), Promise.ONE_OUTCOME),
        (turn(ok(status=Status.CANCELLED)), Promise.ONE_OUTCOME),
        (turn(ok(effect=Effect.DONE)), Promise.EFFECTS),  # it only reads
        (interrupted(gave_out=True), Promise.FLUSH),
        (interrupted(flushed=0.25), Promise.FLUSH),  # there was nothing to stop
    ],
)
def test_a_turn_that_did_not_go_well_is_named(
    seen: TurnRecord, promise: Promise
) -> None:
    assert promise in broken(seen)


def test_a_second_end_and_no_end_are_both_wrong() -> None:
    seen = turn(ok())
    seen.rounds[0].ends.append(seen.rounds[0].ends[0])
    assert Promise.ONE_OUTCOME in broken(seen)
    seen.rounds[0].ends.clear()
    assert Promise.ONE_OUTCOME in broken(seen)


def test_a_cached_answer_is_as_good_as_what_it_came_from() -> None:
    kept = attrs.evolve(LOOK, cacheable=60.0, per_npc=True)
    first = CallSeen("Bo", ASKED, "own.look", 0.0, kept, 0)
    first.ended, first.outcome = 1.0, ok()

    def again(npc: str, at: float) -> CallSeen:
        return CallSeen(npc, ASKED, "own.look", at, kept, 0)

    wrote = attrs.evolve(LOOK, name="write", read_only=False)
    write = CallSeen("Bo", OTHER, "own.write", 2.0, wrote, 0)
    write.ended, write.outcome = 3.0, ok(OTHER, tool="own.write")
    assert stale(again("Bo", 2.0), [first]) is None
    assert stale(again("Ada", 2.0), [first]) == "no call was given that answer before"
    assert stale(again("Bo", 62.0), [first]) == "its answer was of 1 s"
    assert stale(again("Bo", 4.0), [first, write]) is not None


def test_a_conversation_has_an_answer_to_each_call_in_order() -> None:
    asks = Message(role="assistant", calls=(ASKED, OTHER))
    one = Message(role="tool", call_id="a", content="1")
    two = Message(role="tool", call_id="b", content="2")
    assert conversation_faults([asks, one, two]) == []
    assert conversation_faults([asks, two, one])
    assert conversation_faults([asks, one])
    assert conversation_faults([one])
    assert conversation_faults([Message(role="assistant")])


def evening(act: Act, **definition: Any) -> RehearsalPlan:
    tool = ToolDefinition(
        name="look", group="own", **{"estimated_duration": 0.25, **definition}
    )
    npc = NpcConfig(name="Bo", tools=("look",), budget_tier=Tier.DEEP)
    return RehearsalPlan(
        config=Config(npcs=(npc,), calibration=CalibrationConfig(at_start=False)),
        own=(tool,),
        acts={"own.look": (act,)},
        utterances=tuple(
            PlannedUtterance(
                at=float(n), npc="Bo", tier=Tier.DEEP, replies=((Asks("look"),),)
            )
            for n in range(0, 60, 10)
        ),
    )


@pytest.mark.parametrize("ending", Ending)
def test_an_evening_with_one_tool_keeps_every_promise(ending: Ending) -> None:
    monitor = rehearse(evening(Act(ending, 6.0), max_duration=2.0), keep=True)
    assert monitor.broken == []
    assert monitor.turns_done == 6
    assert set(monitor.worst) == {("Bo", Tier.DEEP)}


async def test_what_never_ends_and_what_ends_twice_are_told(
    autojump_clock: MockClock,
) -> None:
    config = Config(
        npcs=(NpcConfig(name="Bo"),),
        mcp=McpConfig(remember=False),
        calibration=CalibrationConfig(at_start=False, remember=False),
    )
    monitor = Monitor(config)
    seen = turn()
    assert seen.selected is not None
    async with open_runtime(config, environment=monitor.environment()) as runtime:
        with monitor.watching(runtime):
            runtime.events.publish(seen.selected)
            done = attrs.evolve(
                seen.done[0][1], timings=Timings(model=0.0, tools=0.0, total=0.0)
            )
            runtime.events.publish(attrs.evolve(done, turn=2))
            runtime.events.publish(attrs.evolve(done, turn=2))
    assert {(x.promise, x.where) for x in monitor.broken} == {
        (Promise.ENDS, "Bo, turn 1"),
        (Promise.ENDS, "Bo, turn 2"),
    }


async def test_what_fillers_and_flushes_must_not_do(autojump_clock: MockClock) -> None:
    config = Config(
        npcs=(NpcConfig(name="Bo"),),
        mcp=McpConfig(remember=False),
        calibration=CalibrationConfig(at_start=False, remember=False),
    )
    seen = turn()
    of: dict[str, Any] = {"npc": "Bo", "turn": 1}
    assert seen.selected is not None
    fan_out = FanOutDone(
        **of, round=0, tier=Tier.FAST, shown=1, budget=0.5, elapsed=0.0, outcomes=()
    )
    filler, flush = Filler(**of, text="Hm.", round=0), Flush(**of, reason="interrupted")

    async def told(*events: TurnEvent) -> list[tuple[Promise, str]]:
        monitor = Monitor(config)
        async with open_runtime(config, environment=monitor.environment()) as runtime:
            with monitor.watching(runtime):
                for event in events:
                    runtime.events.publish(event)
        kept = (Promise.FILLER, Promise.FLUSH)
        return [(x.promise, x.text) for x in monitor.broken if x.promise in kept]

    assert await told(seen.selected, filler) == []
    assert await told(seen.selected, filler, filler) == [
        (Promise.FILLER, "it is the second one")
    ]
    assert await told(seen.selected, fan_out, filler) == [
        (Promise.FILLER, "nothing is waited for any more")
    ]
    assert await told(seen.selected, filler, flush, flush, filler) == [
        (Promise.FLUSH, "Flush follows its flush"),
        (Promise.FLUSH, "Filler follows its flush"),
        (Promise.FILLER, "it is the second one"),
    ]


# ------------------------------------------------- what no virtual clock can stop


@attrs.define
class Obstinate:
    """Tools that do not end when they are told to, until they are let go."""

    released: threading.Event = attrs.field(factory=threading.Event)
    open: trio.Event = attrs.field(factory=trio.Event)

    def tools(self) -> list[Tool]:
        async def shielded(_: Mapping[str, Any], __: CallContext) -> ToolResult:
            with trio.CancelScope(shield=True):
                await self.open.wait()
            return ToolResult(text=("at last",))

        def deaf(_: Mapping[str, Any], __: CallContext) -> ToolResult:
            self.released.wait()
            return ToolResult(text=("at last",))

        def named(name: str, handler: Any, *, blocking: bool) -> Tool:
            definition = ToolDefinition(
                name=name,
                group="own",
                read_only=True,
                estimated_duration=0.05,
                max_duration=0.2 if blocking else None,
            )
            return Tool(definition=definition, handler=handler, blocking=blocking)

        return [
            named("shielded", shielded, blocking=False),
            named("deaf", deaf, blocking=True),
        ]


@pytest.mark.border
@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="nothing can be stopped")
async def test_what_resists_breaks_no_promise_on_the_real_clock() -> None:
    obstinate = Obstinate()
    spec = ServerSpec(
        name="seer",
        command=("python", str(SEER), "-"),
        estimated_duration=0.05,
        restart=RestartConfig(backoff=0.01),
    )
    config = Config(
        npcs=(NpcConfig(name="Bo", tools=("*.*",), budget_tier=Tier.STANDARD),),
        mcp=McpConfig(servers=(spec,), remember=False),
        trust=TrustConfig(mode=TrustMode.FULL),
        calibration=CalibrationConfig(at_start=False),
    )
    asks = [call(name) for name in ("shielded", "deaf", "mcp__seer__whisper")]
    llm = ScriptedLLM(lambda request: asks if len(request.messages) < 3 else ["Oh."])
    monitor = Monitor(config, slack=1.0)
    with trio.fail_after(30):
        async with open_runtime(
            config,
            tools=obstinate.tools(),
            llm=llm,
            environment=monitor.environment(),
            wait_for_servers=20,
        ) as runtime:
            (row,) = runtime.servers()
            assert row.pid is not None
            os.kill(row.pid, signal.SIGSTOP)
            try:
                with monitor.watching(runtime):
                    async with runtime.npc("Bo").say("hi", tier=Tier.STANDARD) as turn_:
                        done = await turn_.finish()
            finally:
                os.kill(row.pid, signal.SIGCONT)
                obstinate.released.set()
                obstinate.open.set()
        monitor.closed(runtime)
    assert [end.limit for end in done.outcomes] == [Limit.TURN, Limit.TOOL, Limit.TURN]
    assert monitor.broken == []
    assert monitor.turns_done == 1
