"""Storms: all players speak, leave or call tools in the same moment.

Promised: in a storm of 300 sessions that are all spoken to at once every turn has one
end, in which nothing went wrong; when all of them are left at once in the middle of
their turns, each is over within half a second; in a storm of 64 fan-outs of 16 calls,
half of which never answer, no ceiling ends more than 100 ms late (p99), every call
has one outcome in its place, and what came in time is kept. After each storm nothing
is left: no turn, no call, no task, no descriptor.

Measured: `open_runtime` with 300 NPCs and a model that thinks, calls two built-in
tools, and writes word by word. No turn is refused here (``overload`` is off): how
that goes is what `benchmarks.overload` measures. A fan-out has a ceiling of 500 ms,
the same moment for all of them, which is as bad as it gets.

Against: for the turns, the same model listened to without us, as many times at once;
for leaving, as many bare tasks that are cancelled at once; for fan-outs, as many bare
nurseries of 16 sleeps under one ``move_on_after``.
"""

from __future__ import annotations

import gc
import sys
from time import perf_counter
from typing import Final

import attrs

import trio
import trio.testing

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from benchmarks.stress.table import (
    BUILTIN,
    UTTERANCE,
    Held,
    Talker,
    config_of,
    count,
    nothing_left,
)
from glyphoxa_trio import Runtime, Tier, Tool, open_runtime, tool
from glyphoxa_trio.host import Caller
from glyphoxa_trio.npc import Sentence, TextDelta, TurnDone, TurnEnd
from glyphoxa_trio.providers.llm import LLMRequest, Message, TextChunk
from glyphoxa_trio.tools.gate import Grant
from glyphoxa_trio.tools.outcome import Limit, Outcome, Status, ToolCall

GUESTS: Final = 300
FAN_OUTS: Final = 64
WIDTH: Final = 16
CEILING: Final = 0.5
_EXPECTED: Final = ((Status.OK, None), (Status.TIMEOUT, Limit.TURN))
AFTERWARDS: Final = 3.0  # seconds in which all that is left must go


@attrs.define(eq=False)
class Storm:
    """Seconds, and a line for each promise that was broken."""

    first: list[float] = attrs.field(factory=list)
    bare_first: list[float] = attrs.field(factory=list)
    left: list[float] = attrs.field(factory=list)
    bare_left: list[float] = attrs.field(factory=list)
    late: list[float] = attrs.field(factory=list)
    bare_late: list[float] = attrs.field(factory=list)
    whole: int = 0
    wrong: list[str] = attrs.field(factory=list)


def measure(quick: bool) -> list[Figure]:
    guests, fan_outs, times = (20, 4, 1) if quick else (GUESTS, FAN_OUTS, 5)
    found = trio.run(storm, guests, fan_outs, times)
    for line in found.wrong[:20]:
        print(line, file=sys.stderr)
    return [
        figure("first sentence", found.first, unit="ms", bare=found.bare_first),
        figure("left", found.left, unit="ms", bare=found.bare_left),
        figure(
            "ceiling: lateness", found.late, unit="ms", bare=found.bare_late, tail=True
        ),
        count("promises broken", len(found.wrong), n=3 * times),
        count("turns with both tools", found.whole, n=guests * times),
    ]


async def storm(guests: int, fan_outs: int, times: int) -> Storm:
    found = Storm()
    async with open_runtime(config_of(guests), llm=Talker()) as runtime:
        await _everybody_speaks(runtime, Storm(), guests)  # sessions are open now
        gc.collect()
        gc.freeze()  # as docs/operating.md says
        before = Held.now()
        for _ in range(times):
            await _bare_talk(found, guests)
            await _everybody_speaks(runtime, found, guests)
            found.wrong += await nothing_left(runtime, before, within=AFTERWARDS)
            await _bare_leaving(found, guests)
            await _everybody_leaves(runtime, found, guests)
            found.wrong += await nothing_left(runtime, before, within=AFTERWARDS)
            await _bare_fan_outs(found, fan_outs)
            await _fan_outs(runtime, found, fan_outs)
            found.wrong += await nothing_left(runtime, before, within=AFTERWARDS)
    return found


# ------------------------------------------------------------------- the sessions


async def _everybody_speaks(runtime: Runtime, found: Storm, guests: int) -> None:
    async def speak(at: int, began: float) -> None:
        first: float | None = None
        ends: list[TurnDone] = []
        async with runtime.npc(f"Guest {at}").say(UTTERANCE) as turn:
            async for event in turn:
                if first is None and isinstance(event, Sentence):
                    first = perf_counter() - began
                if isinstance(event, TurnDone):
                    ends.append(event)
        found.wrong += _judge_turn(at, ends)
        if ends and len(ends[0].outcomes) == len(BUILTIN):
            found.whole += 1
        if first is not None:
            found.first.append(first)

    async with trio.open_nursery() as nursery:
        began = perf_counter()
        for at in range(guests):
            nursery.start_soon(speak, at, began)


def _judge_turn(at: int, ends: list[TurnDone]) -> list[str]:
    """A turn's broken promises: one end, and nothing worse than what was cut."""
    if [x.end for x in ends] != [TurnEnd.COMPLETED]:
        return [f"guest {at}: ended as {[x.end.value for x in ends]}"]
    return [
        f"guest {at}: {outcome.tool} {outcome.status}"
        for outcome in ends[0].outcomes
        if not outcome.ok and outcome.limit is not Limit.TURN
    ]


async def _bare_talk(found: Storm, guests: int) -> None:
    """The same two responses of the same model, until its first full stop."""
    asked = LLMRequest(messages=(Message(role="user", content=UTTERANCE),))
    told = LLMRequest(messages=(Message(role="assistant", content=""),))

    async def listen(began: float) -> None:
        for request in (asked, told):
            async with Talker().stream(request) as events:
                async for event in events:
                    if isinstance(event, TextChunk) and "." in event.text:
                        break
        found.bare_first.append(perf_counter() - began)

    async with trio.open_nursery() as nursery:
        began = perf_counter()
        for _ in range(guests):
            nursery.start_soon(listen, began)


async def _everybody_leaves(runtime: Runtime, found: Storm, guests: int) -> None:
    """All leave in the moment in which the last of them hears the first word."""
    hearing = 0
    everybody = trio.Event()
    left_at = 0.0

    async def speak(at: int) -> None:
        nonlocal hearing, left_at
        async with runtime.npc(f"Guest {at}").say(UTTERANCE) as turn:
            async for event in turn:
                if isinstance(event, TextDelta):
                    break
            hearing += 1
            if hearing == guests:
                left_at = perf_counter()
                everybody.set()
            await everybody.wait()
        found.left.append(perf_counter() - left_at)

    with runtime.events.subscribe(capacity=100 * guests) as events:
        async with trio.open_nursery() as nursery:
            for at in range(guests):
                nursery.start_soon(speak, at)
        ended: list[str] = []
        with trio.move_on_after(AFTERWARDS):
            async for event in events:
                if isinstance(event, TurnDone):
                    ended.append(event.npc)
                    if len(ended) == guests:
                        break
    if len(set(ended)) != guests:
        found.wrong.append(f"{guests} left, {len(set(ended))} turns ended")


async def _bare_leaving(found: Storm, guests: int) -> None:
    left_at = 0.0

    async def listen(scope: trio.CancelScope) -> None:
        with scope:
            await trio.sleep_forever()
        found.bare_left.append(perf_counter() - left_at)

    scopes = [trio.CancelScope() for _ in range(guests)]
    async with trio.open_nursery() as nursery:
        for scope in scopes:
            nursery.start_soon(listen, scope)
        await trio.testing.wait_all_tasks_blocked()
        left_at = perf_counter()
        for scope in scopes:
            scope.cancel()


# ------------------------------------------------------------------- the fan-outs


def _wait(group: str, at: int) -> Tool:
    @tool(group=group, name=f"wait_{at}", estimated_duration_ms=5, read_only=True)
    async def wait(id: str) -> str:  # noqa: A002
        """Wait for something; every other one never comes."""
        if at % 2:
            await trio.sleep_forever()
        return id

    return wait


async def _fan_outs(runtime: Runtime, found: Storm, fan_outs: int) -> None:
    # New ones each time: the gate would soon refuse a tool that always hangs.
    group = f"storm_{len(found.late)}"
    runtime.register(*(_wait(group, at) for at in range(WIDTH)))
    caller = Caller(grant=Grant(npc="Guest 0", tools=(group,)), tier=Tier.FAST)

    async def fan_out(number: int, ceiling: float) -> None:
        calls = [
            ToolCall(f"call_{at}", f"wait_{at}", f'{{"id": "{number}/{at}"}}')
            for at in range(WIDTH)
        ]
        deadline = trio.current_time() + (ceiling - perf_counter())
        outcomes = await runtime.host.fan_out(calls, caller, deadline=deadline)
        found.late.append(perf_counter() - ceiling)
        found.wrong += _judge(number, outcomes)

    async with trio.open_nursery() as nursery:
        ceiling = perf_counter() + CEILING
        for number in range(fan_outs):
            nursery.start_soon(fan_out, number, ceiling)
    runtime.deregister(group)


def _judge(number: int, outcomes: list[Outcome]) -> list[str]:
    """A fan-out's broken promises: one outcome a call, in call order."""
    if [x.call.id for x in outcomes] != [f"call_{at}" for at in range(WIDTH)]:
        return [f"fan-out {number}: {[x.call.id for x in outcomes]}"]
    return [
        f"fan-out {number}: {x.tool} {x.status} {x.limit}"
        for at, x in enumerate(outcomes)
        if (x.status, x.limit) != _EXPECTED[at % 2]
        or (x.ok and x.message != f"{number}/{at}")
    ]


async def _bare_fan_outs(found: Storm, fan_outs: int) -> None:
    async def fan_out(ceiling: float) -> None:
        with trio.move_on_after(ceiling - perf_counter()):
            async with trio.open_nursery() as nursery:
                for at in range(WIDTH):
                    sleep = trio.sleep_forever if at % 2 else trio.lowlevel.checkpoint
                    nursery.start_soon(sleep)
        found.bare_late.append(perf_counter() - ceiling)

    async with trio.open_nursery() as nursery:
        ceiling = perf_counter() + CEILING
        for _ in range(fan_outs):
            nursery.start_soon(fan_out, ceiling)


BENCHMARK = Benchmark(
    name="storm",
    promise=(
        "when 300 speak, leave, or call tools at once, every turn and call has one end,"
        " ceilings hold within 100 ms (p99), and nothing is left"
    ),
    measure=measure,
    budgets=(
        Budget(figure="promises broken", statistic="p50", at_most=0),
        Budget(figure="first sentence", statistic="ratio_p99", at_most=4),
        Budget(figure="left", statistic="p99", at_most=500),
        Budget(figure="ceiling: lateness", statistic="p99", at_most=100),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
