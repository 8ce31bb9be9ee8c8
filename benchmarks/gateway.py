"""The cost of a turn through the WebSocket of `glyphoxa run`.

Promised: an utterance through the socket adds at most 1 ms to the first sentence, and
250 µs of processor to a turn of ten events in at most four messages; 2,000 idle clients
and 500 with a turn every ten seconds need at most two cores.

Measured: `open_service` over a runtime with one NPC and a model that answers at once,
in this process; the clients are the Python client in another process. ``first
sentence``: from saying something until it is there. ``a turn``: the processor time of
this process. ``crowd``: the same for all its clients, as cores, and how long a turn of
them takes.

Against: the same turns of the same runtime, without the service.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from time import perf_counter, process_time
from typing import Any

import attrs

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main, percentile
from benchmarks.turn import CONFIG
from glyphoxa_trio import Runtime, open_runtime
from glyphoxa_trio.npc import Sentence
from glyphoxa_trio.providers.llm import Finished, LLMEvent, LLMRequest, TextChunk
from glyphoxa_trio.service import open_service, service_options

CLIENT = (sys.executable, "-m", "benchmarks.stress.gateway_client")
AT_ONCE = 50  # turns whose processor time is taken together
SAID = ("Good ", "evening, ", "stranger! ", "Sit down. ", "What will it be?")


class Model:
    """Answers at once, in pieces: a turn of ten events."""

    label = "at once"

    @asynccontextmanager
    async def stream(
        self, request: LLMRequest
    ) -> AsyncIterator[AsyncIterator[LLMEvent]]:
        yield self._events()

    async def _events(self) -> AsyncIterator[LLMEvent]:
        await trio.lowlevel.checkpoint()
        for text in SAID:
            yield TextChunk(text)
        yield Finished()


async def bare_turns(runtime: Runtime, count: int) -> tuple[list[float], list[float]]:
    """Return the times until the first sentence, and processor times, in seconds."""
    first, cost = [], []
    npc = runtime.session("bare").npc("Bo")
    for _ in range(count // AT_ONCE):
        used = process_time()
        for _ in range(AT_ONCE):
            began = perf_counter()
            async with npc.say("Good evening!") as turn:
                at = None
                async for event in turn:
                    if at is None and isinstance(event, Sentence):
                        at = perf_counter()
                        first.append(at - began)
        cost.append((process_time() - used) / AT_ONCE)
    return first, cost


async def turns_of_a_client(url: str, count: int) -> tuple[dict[str, Any], float]:
    """Return what the client has seen, and the processor time a turn, in seconds."""
    used = process_time()
    done = await trio.run_process(
        [*CLIENT, url, "turns", str(count)], capture_stdout=True
    )
    return json.loads(done.stdout), (process_time() - used) / count


async def crowd_of(
    url: str, idle: int, talking: int, seconds: float
) -> tuple[dict[str, Any], float]:
    """Return what the clients have seen, and how many cores this process took."""
    command = [*CLIENT, url, "crowd", str(idle), str(talking), str(seconds)]
    used = began = cores = 0.0
    text = b""
    async with trio.open_nursery() as nursery:
        process = await nursery.start(
            partial(trio.run_process, command, stdout=subprocess.PIPE)
        )
        async for piece in process.stdout:
            text += piece
            if not began and b"ready" in text:
                began, used = perf_counter(), process_time()
            if not cores and b"over" in text:
                cores = (process_time() - used) / (perf_counter() - began)
    return json.loads(text.splitlines()[-1]), cores


async def measured(quick: bool) -> list[Figure]:
    count = 50 if quick else 2000
    async with open_runtime(CONFIG, llm=Model(), collector="settle") as runtime:
        async with open_service(runtime, service_options(http="127.0.0.1:0")) as opened:
            url = f"{opened.url.replace('http', 'ws', 1)}/ws"
            await bare_turns(runtime, AT_ONCE)
            await turns_of_a_client(url, AT_ONCE)
            first, cost = await bare_turns(runtime, count)
            seen, used = await turns_of_a_client(url, count)
            idle, talking, seconds = (20, 5, 2.0) if quick else (2000, 500, 30.0)
            crowd, cores = await crowd_of(url, idle, talking, seconds)
    failed = seen["failed"] + crowd["failed"]
    bare = sum(cost) / len(cost)
    one = Figure(name="", unit="", n=1, p50=0.0)
    return [
        figure(
            "first sentence", [x / 1000 for x in seen["first"]], unit="ms", bare=first
        ),
        attrs.evolve(
            one,
            name="a turn, processor",
            unit="µs",
            n=count,
            p50=used * 1e6,
            bare_p50=bare * 1e6,
        ),
        attrs.evolve(one, name="a turn, added", unit="µs", p50=(used - bare) * 1e6),
        attrs.evolve(one, name="messages a turn", p50=percentile(99, seen["messages"])),
        attrs.evolve(one, name="crowd: cores", n=idle + talking, p50=cores),
        figure("crowd: a turn", [x / 1000 for x in crowd["whole"] or [0.0]], unit="ms"),
        attrs.evolve(one, name="turns that failed", p50=float(failed)),
    ]


def measure(quick: bool) -> list[Figure]:
    return trio.run(measured, quick)


BENCHMARK = Benchmark(
    name="gateway",
    promise="a turn through the socket costs at most 250 µs and 1 ms more",
    measure=measure,
    budgets=(
        Budget(figure="first sentence", statistic="added", at_most=1.0),
        Budget(figure="a turn, added", statistic="p50", at_most=250.0),
        Budget(figure="messages a turn", statistic="p50", at_most=4.0),
        Budget(figure="crowd: cores", statistic="p50", at_most=2.0),
        Budget(figure="turns that failed", statistic="p50", at_most=0.0),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
