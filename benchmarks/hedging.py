"""The gain of a second server for the slowest calls of a tool, and its cost.

Promised: of a tool that answers in about 200 ms, and in 3 s every fiftieth time, the
p99 falls to a fifth or less when a second server of the same kind may be asked as
well, with at most 6 % more calls.

Measured: twice.

On virtual time, for exact shares: a host and the production code of calls, and two
tools in the process whose answers take what a random number says, each its own:
log-normal around 200 ms, or 3 s. 10,000 calls follow one another, first without
hedging, then with it as it is by default. ``in vain`` is how long attempts were in
the air whose answer was not needed, against the time of all calls without hedging,
``over budget`` the share of calls that were not asked again though they were slow.
``8 % slow`` is where it ends: the slow ones are more than one in twenty, so the p95
is one of them, and there is nothing to be gained by asking again after it.

With two real server processes over stdio (`benchmarks/servers/bimodal.py`), for
sanity: 15 ms, and 600 every fiftieth time, twenty callers at a time; the servers say
how many calls they were told to cancel.

Against, in both: the same without hedging, in the same run.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from glyphoxa_trio import CallContext, Config, Tool, open_runtime
from glyphoxa_trio.config import CalibrationConfig, McpConfig, ServerSpec
from glyphoxa_trio.host import open_host
from glyphoxa_trio.host.hedging import HedgingStatistics
from glyphoxa_trio.tools.definition import ToolDefinition
from glyphoxa_trio.tools.hedging import NO_HEDGING, HedgingRules
from glyphoxa_trio.tools.outcome import ToolResult

SERVER = Path(__file__).parent / "servers" / "bimodal.py"
RULES = HedgingRules(enabled=True, replicas=(("north", "south"),))
CALLS = 10_000
USUALLY, OFTEN = 0.02, 0.08  # of all calls
SLOW = 3.0  # seconds
CALLERS = 20


def measure(quick: bool) -> list[Figure]:
    calls = 400 if quick else CALLS
    figures = _virtual("", USUALLY, calls)
    figures += _virtual(", 8 % slow", OFTEN, calls)
    return figures + trio.run(_real, 400 if quick else 4000)


# On virtual time


def _virtual(day: str, slow: float, calls: int) -> list[Figure]:
    def run(rules: HedgingRules) -> tuple[list[float], HedgingStatistics]:
        clock = MockClock(autojump_threshold=0)
        return trio.run(_simulated, rules, slow, calls, clock=clock)

    bare, _ = run(NO_HEDGING)
    took, figures = run(RULES)
    return [
        figure(f"a call{day}", took, unit="ms", bare=bare),
        _share(f"second calls{day}", figures.started, calls),
        _share(f"second calls that were faster{day}", figures.won, figures.started),
        _share(f"over budget{day}", figures.over_budget, calls),
        _share(f"in vain{day}", figures.wasted, sum(bare), n=figures.started),
    ]


async def _simulated(
    rules: HedgingRules, slow: float, calls: int
) -> tuple[list[float], HedgingStatistics]:
    took: list[float] = []
    async with open_host(hedging=rules) as host:
        host.register(_tool("north", slow), _tool("south", slow))
        for _ in range(calls):
            began = trio.current_time()
            end = await host.execute("north.look")
            if not end.ok:
                raise RuntimeError(str(end))
            took.append(trio.current_time() - began)
            await wait_all_tasks_blocked()  # the calibrator has heard of it
        return took, host.statistics().executor.hedging


def _tool(group: str, slow: float) -> Tool:
    rng = random.Random(group)

    async def look(_: Mapping[str, Any], __: CallContext) -> ToolResult:
        late = rng.random() < slow
        await trio.sleep(SLOW if late else 0.2 * rng.lognormvariate(0, 0.1))
        return ToolResult(text=("The moon is up.",))

    definition = ToolDefinition(
        name="look",
        group=group,
        external=True,  # or two tools of one name could not be told apart
        read_only=True,
        estimated_duration=0.2,
    )
    return Tool(definition=definition, handler=look)


def _share(name: str, part: float, of: float, *, n: int | None = None) -> Figure:
    count = int(of) if n is None else n
    return Figure(name=name, unit="%", n=count, p50=100 * part / of if of else None)


# With real servers


async def _real(calls: int) -> list[Figure]:
    bare, _, _ = await _called(NO_HEDGING, calls)
    took, figures, cancelled = await _called(RULES, calls)
    return [
        figure("a call, real servers", took, unit="ms", bare=bare),
        _share("second calls, real servers", figures.started, calls),
        _share("losers cancelled, real servers", cancelled, figures.started),
    ]


async def _called(
    rules: HedgingRules, calls: int
) -> tuple[list[float], HedgingStatistics, int]:
    servers = tuple(
        ServerSpec(name=name, command=("python", str(SERVER), str(seed)))
        for seed, name in enumerate(("north", "south"))
    )
    config = Config(
        mcp=McpConfig(servers=servers, remember=False),
        calibration=CalibrationConfig(at_start=False),
        hedging=rules,
    )
    took: list[float] = []
    async with open_runtime(config) as runtime:
        if not await runtime.wait_ready(within=10.0):
            raise RuntimeError(str(runtime.servers()))
        host = runtime.host

        async def call_again_and_again() -> None:
            while len(took) < calls:
                began = perf_counter()
                end = await host.execute("north.look")
                if not end.ok:
                    raise RuntimeError(str(end))
                took.append(perf_counter() - began)

        async with trio.open_nursery() as nursery:
            for _ in range(CALLERS):
                nursery.start_soon(call_again_and_again)
        await trio.sleep(0.2)
        said = [await host.execute(f"{name}.cancelled") for name in ("north", "south")]
        cancelled = sum(int(end.message) for end in said)
        return took, host.statistics().executor.hedging, cancelled


BENCHMARK = Benchmark(
    name="hedging",
    promise="a second server takes the p99 to a fifth, for at most 6 % more calls",
    measure=measure,
    budgets=(
        Budget(figure="a call", statistic="ratio_p99", at_most=0.2),
        Budget(figure="second calls", statistic="p50", at_most=6),
        Budget(figure="second calls, 8 % slow", statistic="p50", at_most=6),
        Budget(figure="a call, real servers", statistic="ratio_p99", at_most=0.2),
        Budget(figure="second calls, real servers", statistic="p50", at_most=6),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
