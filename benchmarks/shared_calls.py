"""The calls that workers of a cluster make once for all, and what asking costs.

Promised: a read that belongs to another worker, and that nobody else makes, takes at
most 2 ms longer than one that is made directly (p50), and at most 1.1 times as long;
four workers that make the same read at once make it once.

Measured: four runtimes of this process with `serve`, a nats-server on this machine, and
a tool that waits for 100 ms; one call after the other, each with arguments of its own,
belonging to another worker than the one that asks, which makes it itself if that one
does not take it in time, as on a busy machine; then fifty reads, one after the other,
each by all four workers at once. What belongs to whom is told by the workers' own ring.
All four share one event loop, so the cost of both ends is in each figure.

Against: the same calls at a worker that is alone; as many calls as are asked for.
"""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from glyphoxa_trio import Runtime, open_runtime
from glyphoxa_trio.cluster import ClusterWorker, serve
from glyphoxa_trio.cluster.call_sharing import SharedCallEnd
from glyphoxa_trio.nats import open_nats
from glyphoxa_trio.tools.cache import CacheKey
from glyphoxa_trio.tools.decorate import tool
from glyphoxa_trio.tools.definition import Tool
from tests.nats.server import MISSING, PROGRAM, RealServer, a_server
from tests.npc.support import ScriptedLLM
from tests.runtime.test_snapshots import with_room
from tests.runtime.test_turn_keeper import silent

TAKES: Final = 0.1
WORKERS: Final = 4
READS: Final = 50
MADE: Final = "fifty reads by four workers: calls made"
UNSHARED: Final = "a read that nobody shares"


def shelf(made: list[str]) -> Tool:
    @tool(
        read_only=True,
        group="shelf",
        cacheable_seconds=600,
        estimated_duration_ms=TAKES * 1000,
    )
    async def look(at: str) -> str:
        """Look at something."""
        made.append(at)
        await trio.sleep(TAKES)
        return f"{at} is here"

    return look


async def opened(
    stack: AsyncExitStack, bus: RealServer, folder: str, made: list[str]
) -> tuple[Runtime, ClusterWorker]:
    runtime = await stack.enter_async_context(
        open_runtime(
            silent(with_room(10)),
            llm=ScriptedLLM(lambda request: ["Hm."]),
            tools=[shelf(made)],
            memory=Path(folder) / "memory.sqlite",
        )
    )
    nats = await stack.enter_async_context(open_nats(bus.url))
    return runtime, await stack.enter_async_context(serve(runtime, nats))


async def look(runtime: Runtime, at: str) -> float:
    began = perf_counter()
    end = await runtime.host.execute("shelf.look", {"at": at})
    assert end.ok, end
    return perf_counter() - began


def elsewhere(one: ClusterWorker, at: str) -> bool:
    key = CacheKey(tool="shelf.look", arguments=f'{{"at":"{at}"}}')
    return one.calls._ring.owner(key, trio.current_time()) not in ("", one.name)


async def alone(bus: RealServer, folder: str, calls: int) -> list[float]:
    async with AsyncExitStack() as stack:
        runtime, _ = await opened(stack, bus, folder, [])
        await look(runtime, "first")
        return [await look(runtime, str(x)) for x in range(calls)]


async def together(
    bus: RealServer, folder: str, calls: int
) -> tuple[list[float], dict[SharedCallEnd, int], int]:
    made: list[str] = []
    async with AsyncExitStack() as stack:
        workers = [await opened(stack, bus, folder, made) for _ in range(WORKERS)]
        while any(x.calls._ring.workers < WORKERS for _, x in workers):  # noqa: ASYNC110
            await trio.sleep(0.01)
        runtime, one = workers[0]
        reads = [x for x in map(str, range(2 * calls)) if elsewhere(one, x)][:calls]
        took = [await look(runtime, x) for x in reads]
        ends = dict(one.calls.ends)
        made.clear()
        for at in range(READS):
            async with trio.open_nursery() as nursery:
                for each, _ in workers:
                    nursery.start_soon(look, each, f"read {at}")
        return took, ends, len(made)


async def measured(bus: RealServer, quick: bool) -> list[Figure]:
    calls = 40 if quick else 200
    with TemporaryDirectory() as folder, TemporaryDirectory() as other:
        bare = await alone(bus, other, calls)
        took, ends, made = await together(bus, folder, calls)
    asked = float(WORKERS * READS)
    answered = ends.get(SharedCallEnd.ANSWERED, 0) / calls * 100
    return [
        figure(UNSHARED, took, unit="ms", bare=bare),
        Figure(name="  of them answered by the other", unit="%", n=calls, p50=answered),
        Figure(
            name=MADE,
            unit="calls",
            n=int(asked),
            p50=float(made),
            bare_p50=asked,
            ratio=made / asked,
        ),
    ]


def measure(quick: bool) -> list[Figure]:
    with a_server() as bus:
        return trio.run(measured, bus, quick)


BENCHMARK = Benchmark(
    name="shared_calls",
    promise="equal reads of four workers are made once, and asking costs 2 ms at most",
    measure=measure,
    budgets=(
        Budget(figure=UNSHARED, statistic="added", at_most=2.0),
        Budget(figure=UNSHARED, statistic="ratio", at_most=1.1),
        Budget(figure=MADE, statistic="ratio", at_most=0.3),
    ),
)

if __name__ == "__main__":
    if PROGRAM is None:
        sys.exit(MISSING)
    main(BENCHMARK)
