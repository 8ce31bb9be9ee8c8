"""The cost of eight parallel calls above the slowest of them.

Promised: eight tools of 100 ms take at most 106 ms together, at the 99th
percentile: a fan-out costs its slowest call, never the sum.

Measured: `ToolHost.fan_out` of eight calls, one to each of eight tools that sleep
for 100 ms, inside a STANDARD budget. Against: eight bare ``trio.sleep(0.1)`` in a
nursery, alternating with it in the same run.
"""

from __future__ import annotations

from time import perf_counter

import attrs

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from glyphoxa_trio import Tier, Tool, open_host, tool
from glyphoxa_trio.host import Caller
from glyphoxa_trio.tools.gate import Grant
from glyphoxa_trio.tools.outcome import ToolCall

WIDTH = 8


@tool(group="slow", estimated_duration_ms=100, max_duration_ms=800, read_only=True)
async def ponder(question: str) -> str:
    """Think about a question for 100 ms."""
    await trio.sleep(0.1)
    return f"It is about {question}."


def measure(quick: bool) -> list[Figure]:
    return trio.run(_measure, 3 if quick else 60)


async def _measure(n: int) -> list[Figure]:
    took: list[float] = []
    bare: list[float] = []
    calls = [
        ToolCall(f"call_{at}", f"ponder_{at}", '{"question": "the well"}')
        for at in range(WIDTH)
    ]
    caller = Caller(grant=Grant(npc="Greymantle", tools=("slow",)), tier=Tier.STANDARD)
    async with open_host() as host:
        host.register(*map(_named, range(WIDTH)))
        for at in range(-1, n):  # the first one warms up
            begun = perf_counter()
            outcomes = await host.fan_out(
                calls, caller, deadline=trio.current_time() + 1.5
            )
            took.append(perf_counter() - begun)
            if not all(outcome.ok for outcome in outcomes):
                raise RuntimeError(f"{at}: {outcomes}")
            begun = perf_counter()
            async with trio.open_nursery() as nursery:
                for _ in range(WIDTH):
                    nursery.start_soon(trio.sleep, 0.1)
            bare.append(perf_counter() - begun)
    return [figure("eight tools of 100 ms", took[1:], unit="ms", bare=bare[1:])]


def _named(at: int) -> Tool:
    definition = attrs.evolve(ponder.definition, name=f"ponder_{at}")
    return attrs.evolve(ponder, definition=definition)


BENCHMARK = Benchmark(
    name="fan_out",
    promise="eight tools of 100 ms take at most 106 ms together (p99)",
    measure=measure,
    budgets=(Budget(figure="eight tools of 100 ms", statistic="p99", at_most=106),),
)

if __name__ == "__main__":
    main(BENCHMARK)
