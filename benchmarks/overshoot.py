"""The delay with which a ceiling ends a turn's tools while the process is busy.

Promised: with ceilings of 50 ms and eight parallel calls that never answer, while
eight tasks call a stdio server's tool in a loop, the outcomes are there at most 1 ms
later than bare timers of the same run end in 99 of 100 cases, and 3 ms in 999 of
1,000, with ``open_runtime(collector="settle")``; and within 8 and 15 ms in all.

Measured: `open_runtime` with a real server process. The eight background tasks
call as any caller does, through gate, connection and pipe, and as fast as they
can: they keep one core busy. Beside them eight speakers make a fan-out after the
other, at times of their own. Two of five hang; the others answer at once, as a tool
that always hangs would soon be refused by the gate, and for the same reason the
estimate is the median, ``tier_by: p50``. Lateness is counted from the ceiling to the
return of the fan-out, once for each of them: 10,000 a run, and as many for each word
for the collector of garbage: ``leave`` is as Python sets it up, ``settle`` keeps its
full walks out of the turns. Each has a process of its own. Against: as many tasks with
a nursery of eight bare sleeps under a bare ``move_on_after(0.05)``, again and again,
beside it, under the same load.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from time import perf_counter

import attrs

import trio

from benchmarks.common import (
    Benchmark,
    Budget,
    Figure,
    figure,
    in_fresh_process,
    main,
)
from glyphoxa_trio import Config, Runtime, Tier, Tool, open_runtime, tool
from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.config.mcp import McpConfig
from glyphoxa_trio.config.model import CalibrationConfig
from glyphoxa_trio.host import Caller
from glyphoxa_trio.runtime import Collector
from glyphoxa_trio.tools.estimate import TierBy
from glyphoxa_trio.tools.gate import EVERYTHING, Grant
from glyphoxa_trio.tools.outcome import Status, ToolCall

SERVER = Path(__file__).parent / "servers" / "patient.py"
CEILING = 0.05
WIDTH = 8
BACKGROUND = 8
SPEAKERS = 8
PAUSE = 0.01  # seconds at most, between two fan-outs of one speaker
HANGING = (1, 3)  # of five fan-outs


@attrs.define
class _Load:
    """Counts of the background load, which show that it ran."""

    calls: int = 0


def measure(quick: bool) -> list[Figure]:
    n = 80 if quick else 10_000
    left: list[Figure] = in_fresh_process(_with, n, "leave")
    return left + in_fresh_process(_with, n, "settle")


def _with(n: int, collector: Collector) -> list[Figure]:
    return trio.run(_measure, n, collector)


async def _measure(n: int, collector: Collector) -> list[Figure]:
    server = ServerSpec(
        name="patient", command=("python", str(SERVER)), estimated_duration=0.01
    )
    config = Config(
        mcp=McpConfig(servers=(server,), remember=False),
        calibration=CalibrationConfig(at_start=False, tier_by=TierBy.P50),
    )
    tools = [_tool(at) for at in range(WIDTH)]
    async with open_runtime(
        config, tools=tools, wait_for_servers=10.0, collector=collector
    ) as runtime:
        if not await runtime.wait_ready(within=10.0):
            raise RuntimeError(str(runtime.servers()))
        return await _under_load(runtime, n, collector)


async def _under_load(runtime: Runtime, n: int, how: str) -> list[Figure]:
    late: list[float] = []
    bare: list[float] = []
    load = _Load()
    async with trio.open_nursery() as nursery:
        for _ in range(BACKGROUND):
            nursery.start_soon(_call_for_ever, runtime, load)
        for _ in range(SPEAKERS):
            nursery.start_soon(_bare_timers, bare)
        await trio.sleep(0.5)
        load.calls, begun = 0, perf_counter()
        async with trio.open_nursery() as speakers:
            for _ in range(SPEAKERS):
                speakers.start_soon(_speak, runtime, n // SPEAKERS, late)
        rate = load.calls / (perf_counter() - begun)
        nursery.cancel_scope.cancel()
    return [
        figure(f"lateness at 50 ms, {how}", late, unit="ms", bare=bare, tail=True),
        Figure(name=f"background calls, {how}", unit="1/s", n=load.calls, p50=rate),
    ]


async def _speak(runtime: Runtime, hung: int, late: list[float]) -> None:
    """Fan-outs of one speaker, until so many of them were cut."""
    at = 0
    while hung:
        cut = at % 5 in HANGING
        overshoot = await _fan_out(runtime, cut=cut)
        if cut and overshoot is not None:
            late.append(overshoot)
            hung -= 1
        at += 1
        await trio.sleep(random.uniform(0, PAUSE))


async def _fan_out(runtime: Runtime, *, cut: bool) -> float | None:
    """Seconds from the ceiling to the return: negative if all answered before. None if
    the machine was so late that no call fitted into what was left: nothing was cut."""
    arguments = json.dumps({"hang": cut})
    calls = [ToolCall(f"call_{at}", f"wait_{at}", arguments) for at in range(WIDTH)]
    caller = Caller(grant=Grant(npc="Greymantle", tools=("own",)), tier=Tier.FAST)
    ceiling = perf_counter() + CEILING
    outcomes = await runtime.host.fan_out(
        calls, caller, deadline=trio.current_time() + CEILING
    )
    overshoot = perf_counter() - ceiling
    if all(outcome.status is Status.SKIPPED for outcome in outcomes):
        return None
    if cut and (overshoot < 0 or any(outcome.ok for outcome in outcomes)):
        raise RuntimeError(f"not cut by the ceiling: {outcomes}")
    return overshoot


async def _call_for_ever(runtime: Runtime, load: _Load) -> None:
    call = ToolCall("call_1", "patient.echo", '{"text": "Is anybody there?"}')
    caller = Caller(grant=EVERYTHING, tier=Tier.DEEP)
    while True:
        (outcome,) = await runtime.host.fan_out(
            [call], caller, deadline=trio.current_time() + 4.0
        )
        if not outcome.ok:
            raise RuntimeError(str(outcome))
        load.calls += 1


async def _bare_timers(late: list[float]) -> None:
    while True:
        ceiling = perf_counter() + CEILING
        with trio.move_on_after(CEILING):
            async with trio.open_nursery() as nursery:
                for _ in range(WIDTH):
                    nursery.start_soon(trio.sleep_forever)
        late.append(perf_counter() - ceiling)
        await trio.sleep(random.uniform(0, PAUSE))


def _tool(at: int) -> Tool:
    @tool(group="own", name=f"wait_{at}", estimated_duration_ms=5, read_only=True)
    async def wait(hang: bool) -> str:
        """Wait for something that sometimes never comes."""
        if hang:
            await trio.sleep_forever()
        return "It came."

    return wait


BENCHMARK = Benchmark(
    name="overshoot",
    promise="settled, a ceiling of 50 ms ends 1 ms (p99) and 3 ms (p99.9) later than"
    " bare timers do, under load",
    measure=measure,
    budgets=(
        Budget(figure="lateness at 50 ms, settle", statistic="added_p99", at_most=1),
        Budget(figure="lateness at 50 ms, settle", statistic="added_p999", at_most=3),
        Budget(figure="lateness at 50 ms, settle", statistic="p99", at_most=8),
        Budget(figure="lateness at 50 ms, settle", statistic="p999", at_most=15),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
