"""The cost of being observed, in time of the processor: metrics, events and traces.

Promised: a turn costs at most a twentieth more with metrics and a tap of its events,
and at most three tenths more if every turn is traced as well. Wanted, and not reached:
a twentieth with all of it. Most of it is the SDK's, which makes a span and encodes it.

Measured: a turn from `say` to its end, in processor time of the process
(`process_time`), which other work on the machine does not change. Each sample is the
mean of twenty turns, and of the export of their spans, if there are any: they are sent
in batches by OTLP over HTTP, to a process that drops them. The ways to be observed take
turns, and so do the turns that nobody observes, in the same run. There are two kinds:

    at once   three tools in this process, and an answer in forty pieces, when model
              and tools cost nothing: the least that a turn can cost
    servers   three calls of a server over pipes, and a model over HTTP, on loopback

    metrics   `open_metrics`, and a tap that looks at every event
    traces    the SDK of OpenTelemetry
    all       both
    all, one in ten   both, with a sampler that records every tenth trace

``hooks`` is what the code for spans costs in the turn of three calls when nobody
collects any. Its time is measured alone, since a turn without that code does not exist.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from pathlib import Path
from time import process_time
from typing import Final

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from benchmarks.metrics import CONFIG as AT_ONCE
from benchmarks.metrics import Model, pages
from glyphoxa_trio import Config, Runtime, open_runtime
from glyphoxa_trio.config import (
    CalibrationConfig,
    LlmConfig,
    McpConfig,
    NpcConfig,
    Provider,
    ServerSpec,
    TurnConfig,
)
from glyphoxa_trio.npc import TurnEnd, TurnEvent
from glyphoxa_trio.observability import open_metrics
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tracing import begin, here, within

GROUP: Final = 20  # turns that are timed together
TOOL: Final = "mcp__trivial__echo"
SERVERS: Final = Path(__file__).parent / "servers"
PATIENCE: Final = 20.0  # seconds for the servers to come


def measure(quick: bool) -> list[Figure]:
    return trio.run(_measure, 4 if quick else 60)


async def _measure(rounds: int) -> list[Figure]:
    figures = [figure("hooks", [_hooks() for _ in range(50)], unit="µs")]
    with (
        _process(str(SERVERS / "collector.py")) as collector,
        _process("-m", "benchmarks.servers.scripted_model", TOOL) as model,
    ):
        batch = BatchSpanProcessor(OTLPSpanExporter(collector))
        every = TracerProvider(shutdown_on_exit=False)
        some = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(0.1)), shutdown_on_exit=False
        )
        for provider in (every, some):
            provider.add_span_processor(batch)
        try:
            for kind, open_table in (
                ("at once", lambda: open_runtime(AT_ONCE, tools=pages(), llm=Model())),
                ("servers", lambda: open_runtime(_with_servers(model))),
            ):
                spent = await _compare(open_table, every, some, rounds)
                bare = spent.pop("bare")
                figures += [
                    figure(f"{kind}, {way}", times, unit="µs", bare=bare)
                    for way, times in spent.items()
                ]
        finally:
            await trio.to_thread.run_sync(batch.shutdown)
    return figures


async def _compare(
    open_table: Callable[[], AbstractAsyncContextManager[Runtime]],
    every: TracerProvider,
    some: TracerProvider,
    rounds: int,
) -> dict[str, list[float]]:
    """Seconds of the processor for a turn, by the way in which it is observed."""
    spent: dict[str, list[float]] = {}
    async with AsyncExitStack() as stack:
        bare = await stack.enter_async_context(open_table())
        seen = await stack.enter_async_context(open_table())
        await bare.wait_ready(within=PATIENCE)
        await seen.wait_ready(within=PATIENCE)
        await stack.enter_async_context(open_metrics(seen))
        stack.enter_context(seen.events.tap(_look))
        ways = {
            "bare": (bare, None),
            "metrics": (seen, None),
            "traces": (bare, every),
            "all": (seen, every),
            "all, one in ten": (seen, some),
        }
        for round_ in range(-1, rounds):
            for way, (runtime, collected_by) in ways.items():
                seconds = await _turns(runtime, collected_by)
                if round_ >= 0:  # the first ones are warm afterwards
                    spent.setdefault(way, []).append(seconds)
    return spent


def _look(event: TurnEvent) -> None:
    """What a program does with an event that is none of its business."""


async def _turns(runtime: Runtime, provider: TracerProvider | None) -> float:
    npc = runtime.npc("Bo")
    # A program sets its provider once. Here turns with and without one alternate.
    trace._TRACER_PROVIDER = provider
    began = process_time()
    for _ in range(GROUP):
        async with npc.say("What is a room?") as turn:
            done = await turn.finish()
        if done.end is not TurnEnd.COMPLETED or [x.ok for x in done.outcomes] != [
            True,
            True,
            True,
        ]:
            raise RuntimeError(f"a turn did not end well: {done}")
    if provider is not None:
        await trio.to_thread.run_sync(provider.force_flush)
    return (process_time() - began) / GROUP


def _hooks() -> float:
    """Seconds of the processor for the code of one turn's spans; there are none."""
    many = 200
    trace._TRACER_PROVIDER = None
    began = process_time()
    for _ in range(many):
        with within(here()), begin("invoke_agent", dict) as turn:
            for _ in range(2):
                with begin("chat", dict) as chat:
                    chat.set({})
            for _ in range(3):
                call = begin("execute_tool", dict)
                with call.current():
                    here()
                with call.current():
                    pass
                call.end()
            turn.set({})
    return (process_time() - began) / many


def _with_servers(model: str) -> Config:
    command = (sys.executable, str(SERVERS / "trivial.py"))
    return Config(
        npcs=(NpcConfig(name="Bo", tools=("trivial.echo",)),),
        llm=LlmConfig(
            provider=Provider.CHAT_COMPLETIONS,
            model="scripted",
            base_url=model,
            api_key=Secret("a-key"),
        ),
        mcp=McpConfig(
            servers=(ServerSpec(name="trivial", command=command),), remember=False
        ),
        calibration=CalibrationConfig(at_start=False),
        turn=TurnConfig(history=2),
    )


@contextmanager
def _process(*arguments: str) -> Generator[str]:
    """A program of ours; yields the line that it writes first."""
    command = [sys.executable, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


BENCHMARK = Benchmark(
    name="observing",
    promise="metrics and events cost a turn a twentieth, and traces three tenths",
    measure=measure,
    budgets=(
        Budget(figure="at once, metrics", statistic="ratio", at_most=1.05),
        Budget(figure="servers, metrics", statistic="ratio", at_most=1.05),
        Budget(figure="at once, all", statistic="ratio", at_most=1.3),
        Budget(figure="servers, all", statistic="ratio", at_most=1.3),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
