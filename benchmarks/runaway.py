"""The delay with which a turn ends whose model never stops.

Promised: a model of any speed ends within its limit plus 50 ms (p99), and the loop is
its own meanwhile: a timer of 10 ms is at most 20 ms late (p99).

Measured: turns of `open_runtime` with ``turn.model_total_ms`` 300 against
`benchmarks/servers/torrent.py` in a process of its own, over HTTP: words, text without
a blank, chunks of 64 KiB, thoughts, arguments, comments, and a slow drip. The longest
answer is set so high that only the clock ends it. The listener takes each event at
once. The first turn, which opens the client, is not counted.

Against: a bare timer of the same length, beside the same server.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Final

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from glyphoxa_trio import open_runtime
from glyphoxa_trio.config import Config, LlmConfig, NpcConfig, Provider, TurnConfig
from glyphoxa_trio.npc import ModelFailed

SERVER: Final = Path(__file__).parent / "servers" / "torrent.py"
KINDS: Final = (
    "flood",
    "unbroken",
    "chunks",
    "thoughts",
    "arguments",
    "comments",
    "drip",
)
LIMIT: Final = 0.3
TICK: Final = 0.01


def measure(quick: bool) -> list[Figure]:
    server = subprocess.Popen(
        [sys.executable, str(SERVER)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        figures: list[Figure] = []
        for kind in KINDS:
            figures += trio.run(_measure, kind, port, 2 if quick else 40)
        return figures
    finally:
        server.kill()
        server.wait()


async def _measure(kind: str, port: int, turns: int) -> list[Figure]:
    late: list[float] = []
    bare: list[float] = []
    ticks: list[float] = []
    model = LlmConfig(
        provider=Provider.CHAT_COMPLETIONS,
        base_url=f"http://127.0.0.1:{port}/v1",
        model=kind,
    )
    config = Config(
        llm=model,
        turn=TurnConfig(model_total=LIMIT, max_answer=10**9),
        npcs=(NpcConfig(name="Mara", personality="Kind."),),
    )
    async with open_runtime(config) as runtime:
        async with runtime.npc("Mara").say("Begin.") as turn:
            await turn.finish()
        for _ in range(turns):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_tick, ticks)
                begun = perf_counter()
                kinds = []
                async with runtime.npc("Mara").say("Go on.") as turn:
                    async for event in turn:
                        if isinstance(event, ModelFailed):
                            late.append(perf_counter() - begun - LIMIT)
                            kinds.append(event.kind.value)
                assert kinds in (["turn"], ["malformed"]), kinds
                nursery.cancel_scope.cancel()
            begun = perf_counter()
            await trio.sleep(LIMIT)
            bare.append(perf_counter() - begun - LIMIT)
    return [
        figure(f"{kind}: ends late by", late, unit="ms", bare=bare),
        figure(f"{kind}: a timer is late by", ticks, unit="ms"),
    ]


async def _tick(late: list[float]) -> None:
    while True:
        due = trio.current_time() + TICK
        await trio.sleep_until(due)
        late.append(trio.current_time() - due)


BENCHMARK = Benchmark(
    name="runaway",
    promise="a model without an end ends 50 ms after its limit, and holds nobody",
    measure=measure,
    budgets=tuple(
        Budget(figure=f"{kind}: {what}", statistic="p99", at_most=most)
        for kind in KINDS
        for what, most in (("ends late by", 50), ("a timer is late by", 20))
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
