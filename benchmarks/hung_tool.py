"""The delay by a tool that hangs: its limit, and not a moment more.

Promised: with a limit of 500 ms, a tool of an MCP server that sleeps for ten
seconds gives control back within 505 ms, the results of the other calls are
kept, and the server is told (``notifications/cancelled``) within 10 ms of the
limit.

Measured: `open_runtime` with a real server process over stdio
(`benchmarks/servers/patient.py`), and a fan-out of four calls: the hanging one,
one that the same server answers, and two of our own, at once and after 200 ms.
The limit is once the turn's (a deadline of 500 ms), once the tool's own
(``max_duration`` of 500 ms in a turn that has 4 s). The server stamps the
cancellation on the monotonic clock, which `perf_counter` reads as well on Linux.
Against: a bare ``move_on_after(0.5)`` around a sleep, before each of them.
"""

from __future__ import annotations

import json
from pathlib import Path
from time import perf_counter

import attrs

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from glyphoxa_trio import Config, Outcome, Runtime, Tier, open_runtime, tool
from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.config.mcp import McpConfig
from glyphoxa_trio.config.model import CalibrationConfig
from glyphoxa_trio.config.overrides import ToolOverride
from glyphoxa_trio.host import Caller
from glyphoxa_trio.tools.gate import EVERYTHING
from glyphoxa_trio.tools.outcome import Limit, Status, ToolCall

SERVER = Path(__file__).parent / "servers" / "patient.py"
LIMIT = 0.5
# Each tool hangs once: the gate would refuse one that hung before.
EACH = 12


@tool(group="own", estimated_duration_ms=1, read_only=True)
async def at_once() -> str:
    """Answer at once."""
    return "here"


@tool(group="own", estimated_duration_ms=200, read_only=True)
async def soon() -> str:
    """Answer after 200 ms."""
    await trio.sleep(0.2)
    return "here"


@attrs.define
class _Seen:
    """Seconds from the call to its return, and to the server's being told."""

    back: list[float] = attrs.field(factory=list)
    told: list[float] = attrs.field(factory=list)
    bare: list[float] = attrs.field(factory=list)


def measure(quick: bool) -> list[Figure]:
    return trio.run(_measure, 1 if quick else EACH)


async def _measure(n: int) -> list[Figure]:
    async with open_runtime(_config(), tools=[at_once, soon]) as runtime:
        if not await runtime.wait_ready(within=10.0):
            raise RuntimeError(str(runtime.servers()))
        await _calls(runtime, ["own_at_once", "echo"], within=1.0)  # warm
        turn = await _hang(runtime, range(n), by=Limit.TURN)
        own = await _hang(runtime, range(EACH, EACH + n), by=Limit.TOOL)
    return [
        figure("control back, the turn's limit", turn.back, unit="ms", bare=turn.bare),
        figure("control back, the tool's limit", own.back, unit="ms", bare=own.bare),
        figure("server told, the turn's limit", turn.told, unit="ms"),
        figure("server told, the tool's limit", own.told, unit="ms"),
    ]


async def _hang(runtime: Runtime, which: range, *, by: Limit) -> _Seen:
    within = LIMIT if by is Limit.TURN else 4.0
    seen = _Seen()
    limits: dict[str, float] = {}
    for at in which:
        begun = perf_counter()
        with trio.move_on_after(LIMIT):
            await trio.sleep(10.0)
        seen.bare.append(perf_counter() - begun)
        names = [f"slow_{at}", "echo", "own_at_once", "own_soon"]
        begun = perf_counter()
        hung, *others = await _calls(runtime, names, within=within)
        seen.back.append(perf_counter() - begun)
        limits[names[0]] = begun + LIMIT
        if (hung.status, hung.limit) != (Status.TIMEOUT, by):
            raise RuntimeError(f"it was not cut as expected: {hung}")
        if not all(outcome.ok for outcome in others):
            raise RuntimeError(f"a result was lost: {others}")
    await trio.sleep(0.1)
    (said,) = await _calls(runtime, ["cancellations"], within=1.0)
    told: dict[str, float] = said.data if isinstance(said.data, dict) else {}
    seen.told = [told[name] - limit for name, limit in limits.items()]
    return seen


async def _calls(runtime: Runtime, names: list[str], *, within: float) -> list[Outcome]:
    calls = []
    for name in names:
        group, _, own = name.partition("_")
        key = f"own.{own}" if group == "own" else f"patient.{name}"
        calls.append(ToolCall(name, key, json.dumps({})))
    caller = Caller(grant=EVERYTHING, tier=Tier.DEEP, npc="Greymantle")
    return await runtime.host.fan_out(
        calls, caller, deadline=trio.current_time() + within
    )


def _config() -> Config:
    limited = ToolOverride(max_duration=LIMIT)
    server = ServerSpec(
        name="patient",
        command=("python", str(SERVER)),
        estimated_duration=0.01,
        tools={f"slow_{at}": limited for at in range(EACH, 2 * EACH)},
    )
    return Config(
        mcp=McpConfig(servers=(server,)), calibration=CalibrationConfig(at_start=False)
    )


BENCHMARK = Benchmark(
    name="hung_tool",
    promise="a hung tool gives control back within 505 ms of a limit of 500",
    measure=measure,
    budgets=(
        Budget(figure="control back, the turn's limit", statistic="p99", at_most=505),
        Budget(figure="control back, the tool's limit", statistic="p99", at_most=505),
        Budget(figure="server told, the turn's limit", statistic="p99", at_most=10),
        Budget(figure="server told, the tool's limit", statistic="p99", at_most=10),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
