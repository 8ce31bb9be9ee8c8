"""How late a ceiling ends a turn's tools while the process is busy.

Promised: with ceilings of 50 ms and eight parallel calls that never answer, while
eight tasks call a stdio server's tool in a loop, the outcomes are there at most
8 ms after the ceiling in 99 of 100 cases, and 15 ms in 999 of 1,000.

Measured: `open_runtime` with a real server process. The eight background tasks
call as everybody does, through gate, connection and pipe, and as fast as they
can: they keep one core busy. The fan-outs follow one another; two of five hang,
the others answer at once, as a tool that always hangs would soon not be let in
(D4, D7). Lateness is counted from the ceiling to the return of the fan-out, for
each outcome that it cut: 10,000 a run. ``frozen`` is 10,000 more in the same
process after ``gc.collect()`` and ``gc.freeze()``, which put what was imported and
opened by then out of the collector's way. Against: a nursery of eight bare sleeps
under a bare ``move_on_after(0.05)``, again and again beside it, under the same
load.
"""

from __future__ import annotations

import gc
from pathlib import Path
from time import perf_counter

import attrs

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from glyphoxa_trio import Config, Runtime, Tier, Tool, open_runtime, tool
from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.config.model import CalibrationConfig
from glyphoxa_trio.config.servers import McpConfig
from glyphoxa_trio.host import Caller
from glyphoxa_trio.tools.gate import EVERYTHING, Grant
from glyphoxa_trio.tools.outcome import Limit, ToolCall

SERVER = Path(__file__).parent / "servers" / "patient.py"
CEILING = 0.05
WIDTH = 8
BACKGROUND = 8
HANGING = (1, 3)  # of five fan-outs


@attrs.define
class _Load:
    """What the background does, so that it can be shown that it does it."""

    calls: int = 0


def measure(quick: bool) -> list[Figure]:
    return trio.run(_measure, 5 if quick else 1250)


async def _measure(hung: int) -> list[Figure]:
    server = ServerSpec(
        name="patient", command=("python", str(SERVER)), estimated_duration=0.01
    )
    config = Config(
        mcp=McpConfig(servers=(server,)), calibration=CalibrationConfig(at_start=False)
    )
    hangs = [False]
    tools = [_tool(at, hangs) for at in range(WIDTH)]
    async with open_runtime(config, tools=tools) as runtime:
        if not await runtime.wait_ready(within=10.0):
            raise RuntimeError(str(runtime.servers()))
        figures = await _under_load(runtime, hung, hangs, "")
        gc.collect()
        gc.freeze()
        return figures + await _under_load(runtime, hung, hangs, ", frozen")


async def _under_load(
    runtime: Runtime, hung: int, hangs: list[bool], how: str
) -> list[Figure]:
    late: list[float] = []
    bare: list[float] = []
    load = _Load()
    async with trio.open_nursery() as nursery:
        for _ in range(BACKGROUND):
            nursery.start_soon(_call_for_ever, runtime, load)
        nursery.start_soon(_bare_timers, bare)
        await trio.sleep(0.5)
        load.calls, begun = 0, perf_counter()
        at = 0
        while len(late) < hung * WIDTH:
            hangs[0] = at % 5 in HANGING
            overshoot = await _fan_out(runtime, cut=hangs[0])
            if hangs[0]:
                late += [overshoot] * WIDTH
            at += 1
        rate = load.calls / (perf_counter() - begun)
        nursery.cancel_scope.cancel()
    return [
        figure(f"lateness at 50 ms{how}", late, unit="ms", bare=bare, tail=True),
        Figure(name=f"background calls{how}", unit="1/s", n=load.calls, p50=rate),
    ]


async def _fan_out(runtime: Runtime, *, cut: bool) -> float:
    """Seconds from the ceiling to the return: negative if all answered before."""
    calls = [ToolCall(f"call_{at}", f"wait_{at}") for at in range(WIDTH)]
    caller = Caller(grant=Grant(npc="Greymantle", tools=("own",)), tier=Tier.FAST)
    ceiling = perf_counter() + CEILING
    outcomes = await runtime.host.fan_out(
        calls, caller, deadline=trio.current_time() + CEILING
    )
    overshoot = perf_counter() - ceiling
    if cut and not all(outcome.limit is Limit.TURN for outcome in outcomes):
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


def _tool(at: int, hangs: list[bool]) -> Tool:
    @tool(group="own", name=f"wait_{at}", estimated_duration_ms=5, read_only=True)
    async def wait() -> str:
        """Wait for something that sometimes never comes."""
        if hangs[0]:
            await trio.sleep_forever()
        return "It came."

    return wait


BENCHMARK = Benchmark(
    name="overshoot",
    promise="a ceiling of 50 ms ends 8 ms late at p99 and 15 ms at p99.9, under load",
    measure=measure,
    budgets=(
        Budget(figure="lateness at 50 ms", statistic="p99", at_most=8),
        Budget(figure="lateness at 50 ms", statistic="p999", at_most=15),
        Budget(figure="lateness at 50 ms, frozen", statistic="p99", at_most=8),
        Budget(figure="lateness at 50 ms, frozen", statistic="p999", at_most=15),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
