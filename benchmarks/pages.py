"""The operator's page with 50 turns a second, in Chromium.

Promised: the first paint within 300 ms, an event on the page within 100 ms of its
publication, at most 16 ms of scripting a frame, and 150 KB in all.

Measured: `open_service` over a runtime with one NPC and a model that answers at once,
in this process; Chromium, headless, in others. ``shown``: from the publication of a
turn's first event until its row is on the page.

Against: the arrival of the same events at the page's WebSocket.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from typing import Any

import attrs

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from benchmarks.gateway import Model
from benchmarks.turn import CONFIG
from glyphoxa_trio import Runtime, open_runtime
from glyphoxa_trio.service import open_service, service_options

READER = (sys.executable, "-m", "benchmarks.stress.page_reader")
EVERY = 0.02  # seconds between the beginnings of two turns


async def turns(runtime: Runtime) -> None:
    """Have turns, 50 a second, until cancelled."""
    npc = runtime.npc("Bo")
    due = trio.current_time()
    while True:
        async with npc.say("Good evening!") as turn:
            await turn.finish()
        due = max(due + EVERY, trio.current_time())
        await trio.sleep_until(due)


async def read(runtime: Runtime, url: str, loads: int, seconds: float) -> Any:
    """Return what the browser has seen."""
    command = [*READER, url, str(loads), str(seconds)]
    text, begun = b"", False
    async with trio.open_nursery() as nursery:
        process = await nursery.start(
            partial(trio.run_process, command, stdout=subprocess.PIPE)
        )
        async for piece in process.stdout:
            text += piece
            if not begun and b"turns" in text:
                begun = True
                nursery.start_soon(turns, runtime)
        nursery.cancel_scope.cancel()
    return json.loads(text.splitlines()[-1])


async def measured(quick: bool) -> list[Figure]:
    loads, seconds = (2, 2.0) if quick else (30, 30.0)
    async with open_runtime(CONFIG, llm=Model(), collector="settle") as runtime:
        async with open_service(runtime, service_options(http="127.0.0.1:0")) as opened:
            seen = await read(runtime, opened.url, loads, seconds)
    one = Figure(name="", unit="", n=1, p50=0.0)
    shown, arrived = ([x / 1000 for x in seen[y]] for y in ("shown", "arrived"))
    script = seen["script"] / max(1, seen["frames"])
    return [
        figure("first paint", [x / 1000 for x in seen["paint"]], unit="ms"),
        figure("shown", shown, unit="ms", bare=arrived),
        attrs.evolve(
            one, name="scripting a frame", unit="ms", n=seen["frames"], p50=script
        ),
        attrs.evolve(one, name="size", unit="KB", p50=seen["bytes"] / 1000),
    ]


def measure(quick: bool) -> list[Figure]:
    return trio.run(measured, quick)


BENCHMARK = Benchmark(
    name="pages",
    promise="an event is on the operator's page within 100 ms, with 50 turns a second",
    measure=measure,
    budgets=(
        Budget(figure="first paint", statistic="p99", at_most=300.0),
        Budget(figure="shown", statistic="p99", at_most=100.0),
        Budget(figure="scripting a frame", statistic="p50", at_most=16.0),
        Budget(figure="size", statistic="p50", at_most=150.0),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
