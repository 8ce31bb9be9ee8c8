"""The time until a first turn can begin, and until all servers are ready.

Promised: eight servers that are each ready after a second are all ready within
1.3 s; and with the tools of an earlier run known, a first turn is answered
within 150 ms of `open_runtime` while sixteen such servers are still connecting.

Measured: real processes over stdio (`benchmarks/servers/late.py`), from the call
of `open_runtime` to `wait_ready`, and to the end of a turn of the offline model
that rolls dice, with every server still starting. The process is warm: the
package, the SDK and what a first turn imports have been imported before, as in
a program that has run a while; ``cold`` is the first turn of a fresh process.
Against: the same turn with nothing known, which waits for the servers.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from time import perf_counter

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, in_fresh_process, main
from glyphoxa_trio import Config, open_runtime
from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.config.mcp import McpConfig
from glyphoxa_trio.config.model import CalibrationConfig, NpcConfig
from glyphoxa_trio.mcp import ServerState
from glyphoxa_trio.npc import TurnEnd

SERVER = Path(__file__).parent / "servers" / "late.py"
READY_AFTER = 1.0  # seconds
FEW, MANY = 8, 16


def measure(quick: bool) -> list[Figure]:
    n = 1 if quick else 7
    with tempfile.TemporaryDirectory() as folder:
        trio.run(_until_ready, _config(MANY, Path(folder)))  # now they are known
        cold = [in_fresh_process(cold_turn, folder) for _ in range(n)]
        warm = [trio.run(_first_turn, _config(MANY, Path(folder))) for _ in range(n)]
        ready = [trio.run(_until_ready, _config(FEW, None)) for _ in range(n)]
        unknown = [trio.run(_waiting_turn, _config(MANY, None)) for _ in range(n)]
    return [
        figure(f"{FEW} servers ready", ready, unit="ms"),
        figure(f"first turn, {MANY} known servers", warm, unit="ms", bare=unknown),
        figure(f"first turn, {MANY} known servers, cold", cold, unit="ms"),
    ]


def cold_turn(folder: str) -> float:
    """In a process that has imported the package and no more."""
    return trio.run(_first_turn, _config(MANY, Path(folder)))


async def _until_ready(config: Config) -> float:
    begun = perf_counter()
    async with open_runtime(config, wait_for_servers=0) as runtime:
        if not await runtime.wait_ready(within=30.0):
            raise RuntimeError(str(runtime.servers()))
        return perf_counter() - begun


async def _first_turn(config: Config) -> float:
    begun = perf_counter()
    async with open_runtime(config) as runtime:
        async with runtime.npc("Bo").say("roll 2d6+3") as turn:
            done = await turn.finish()
        took = perf_counter() - begun
        states = {row.state for row in runtime.servers()}
        if done.end is not TurnEnd.COMPLETED or not done.outcomes:
            raise RuntimeError(f"no answer: {done}")
        if ServerState.READY in states and took < READY_AFTER:
            raise RuntimeError(f"they were there already: {states}")
        if len(runtime.host.snapshot.listings) < 2 * MANY:
            raise RuntimeError("what was known is not shown")
        return took


async def _waiting_turn(config: Config) -> float:
    begun = perf_counter()
    async with open_runtime(config, wait_for_servers=30.0) as runtime:
        async with runtime.npc("Bo").say("roll 2d6+3") as turn:
            await turn.finish()
        return perf_counter() - begun


def _config(count: int, folder: Path | None) -> Config:
    servers = tuple(
        ServerSpec(
            name=f"late{number}", command=("python", str(SERVER), str(READY_AFTER))
        )
        for number in range(count)
    )
    mcp = McpConfig(servers=servers, remember=folder is not None, state_dir=folder)
    return Config(
        npcs=(NpcConfig(name="Bo", tools=("roll", "late0")),),
        mcp=mcp,
        calibration=CalibrationConfig(at_start=False),
    )


BENCHMARK = Benchmark(
    name="start",
    promise="8 servers that need 1 s are ready in 1.3 s; a first turn in 150 ms",
    measure=measure,
    budgets=(
        Budget(figure=f"{FEW} servers ready", statistic="p99", at_most=1300),
        Budget(
            figure=f"first turn, {MANY} known servers", statistic="p99", at_most=150
        ),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
