"""The cost of a large catalogue: none per call, and the list of tools once per round.

Promised: a call costs the same with 1,000 tools registered as with 10, at most
1.2 times as much. What may be shown is asked of the gate for each tool, once per
round of a turn; that cost grows with the catalogue and has no budget.

Measured: three hosts in one process, used in turns. A call's latency is
`ToolHost.fan_out` of one call of a tool that answers at once. A call's
processor time is that of sixteen callers at once whose tools take 1 to 40 ms:
their estimates move, and each move that matters publishes a new catalogue. The
showing is `ToolHost.explain`, as a round asks it: for an NPC that is granted ten
tools, and for the operator who is granted all. Against: for the latency the bare
handler, for the processor time the bare handler of the same slow tool under
sixteen callers, for the showing a loop that touches each listing's estimate.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import AsyncExitStack
from time import perf_counter, process_time
from typing import Any

import attrs

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from glyphoxa_trio import Tier, Tool, open_host, tool
from glyphoxa_trio.host import Caller, ToolHost
from glyphoxa_trio.tools.definition import CallContext
from glyphoxa_trio.tools.gate import EVERYTHING, Grant
from glyphoxa_trio.tools.outcome import ToolCall

SIZES = (10, 100, 1000)
CALLERS = 16
CHUNK = 100
TEN = Grant(npc="Greymantle", tools=tuple(f"lore.page_{at}" for at in range(10)))
CALLER = Caller(grant=EVERYTHING, tier=Tier.FAST)


@tool(group="lore", estimated_duration_ms=1, max_duration_ms=400, read_only=True)
async def recall(term: str) -> dict[str, object]:
    """Recall what was said of a term."""
    return {"term": term, "page": 112}


@tool(group="lore", estimated_duration_ms=20, max_duration_ms=400, read_only=True)
async def ponder(term: str) -> dict[str, object]:
    """Think about a term for a while."""
    await trio.sleep(random.uniform(0.001, 0.04))
    return {"term": term, "page": 112}


def measure(quick: bool) -> list[Figure]:
    return trio.run(_measure, (10, 40) if quick else SIZES, 1 if quick else 20)


async def _measure(sizes: Sequence[int], rounds: int) -> list[Figure]:
    figures: list[Figure] = []
    async with AsyncExitStack() as stack:
        hosts: dict[int, ToolHost] = {}
        for size in sizes:
            hosts[size] = await stack.enter_async_context(open_host())
            pages = [_page(at) for at in range(size - 2)]
            hosts[size].register(recall, ponder, *pages)
            await _latency(hosts[size])  # warm
        latency: dict[int, list[float]] = {size: [] for size in sizes}
        shown: dict[tuple[int, str], list[float]] = {}
        touched: dict[int, list[float]] = {size: [] for size in sizes}
        bare: list[float] = []
        for _ in range(rounds):
            bare += await _bare_latency()
            for size, host in hosts.items():
                latency[size] += await _latency(host)
                for whose, grant in (("ten granted", TEN), ("all", EVERYTHING)):
                    shown.setdefault((size, whose), []).extend(_shown(host, grant))
                touched[size] += _touched(host)
        work: dict[int, list[float]] = {size: [] for size in sizes}
        bare_work: list[float] = []
        for _ in range(max(1, rounds // 4)):
            bare_work.append(await _work(None))
            for size, host in hosts.items():
                work[size].append(await _work(host))
    for size in sizes:
        name = f"latency, {size} tools"
        figures.append(figure(name, latency[size], unit="µs", bare=bare))
    for size in sizes:
        name = f"processor, {size} tools"
        figures.append(figure(name, work[size], unit="µs", bare=bare_work))
    for (size, whose), seconds in shown.items():
        name = f"showing {size} tools, {whose}"
        figures.append(figure(name, seconds, unit="µs", bare=touched[size]))
    by_name = {figure.name: figure for figure in figures}
    for what in ("latency", "processor"):
        small = by_name[f"{what}, {sizes[0]} tools"]
        large = by_name[f"{what}, {sizes[-1]} tools"]
        name = f"{what}, {sizes[-1]} : {sizes[0]}"
        assert large.p50 is not None
        assert small.p50 is not None
        times = large.p50 / small.p50
        figures.append(Figure(name=name, unit="x", n=large.n, p50=times))
    return figures


async def _latency(host: ToolHost) -> list[float]:
    call = ToolCall("call_1", "recall", '{"term": "grapple"}')
    took: list[float] = []
    for _ in range(CHUNK):
        begun = perf_counter()
        (outcome,) = await host.fan_out(
            [call], CALLER, deadline=trio.current_time() + 0.5
        )
        took.append(perf_counter() - begun)
        if not outcome.ok:
            raise RuntimeError(str(outcome))
    return took


async def _bare_latency() -> list[float]:
    took: list[float] = []
    for _ in range(CHUNK):
        begun = perf_counter()
        await _handle(recall)
        took.append(perf_counter() - begun)
    return took


async def _work(host: ToolHost | None) -> float:
    """Seconds of processor time a call, sixteen callers at once."""
    call = ToolCall("call_1", "ponder", '{"term": "grapple"}')

    async def caller() -> None:
        for _ in range(CHUNK // 4):
            if host is None:
                await _handle(ponder)
                continue
            (outcome,) = await host.fan_out(
                [call], CALLER, deadline=trio.current_time() + 0.5
            )
            if not outcome.ok:
                raise RuntimeError(str(outcome))

    begun = process_time()
    async with trio.open_nursery() as nursery:
        for _ in range(CALLERS):
            nursery.start_soon(caller)
    return (process_time() - begun) / (CALLERS * (CHUNK // 4))


async def _handle(plain: Tool) -> None:
    answer: Any = plain.handler({"term": "grapple"}, CallContext())
    await answer


def _shown(host: ToolHost, grant: Grant) -> list[float]:
    took: list[float] = []
    for _ in range(5):
        begun = perf_counter()
        host.explain(Tier.FAST, grant=grant)
        took.append(perf_counter() - begun)
    return took


def _touched(host: ToolHost) -> list[float]:
    took: list[float] = []
    for _ in range(5):
        begun = perf_counter()
        for listing in host.snapshot.listings:
            _ = listing.estimate.tier
        took.append(perf_counter() - begun)
    return took


def _page(at: int) -> Tool:
    return attrs.evolve(
        recall, definition=attrs.evolve(recall.definition, name=f"page_{at}")
    )


BENCHMARK = Benchmark(
    name="catalogue",
    promise="a call with 1,000 tools costs at most 1.2 times one with 10",
    measure=measure,
    budgets=(
        Budget(figure="latency, 1000 : 10", statistic="p50", at_most=1.2),
        Budget(figure="processor, 1000 : 10", statistic="p50", at_most=1.2),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
