"""A FAST turn right after its idle server was killed.

Promised: a server over stdio that starts in 50 ms and served is ready again at most
150 ms (p99) after SIGKILL, and every call of a FAST turn that was made in the moment
of the kill is answered, three at once by a tool that reads, then three one after the
other, also by one that may write. (A call with side effects that meets the very
moment of a death is never sent twice: its outcome cannot be known.)

Measured: `open_runtime` with `benchmarks/servers/sudden.py`, which sleeps for 30 ms
before it reads, and is ready in some 50. Servers are added one after the other, each
is killed once while nobody calls it, and the calls are made through the host with the
clock of a FAST turn, without a pause. Its first death in a minute is what is promised,
so each is killed once. A call that is not answered is counted.

Against: the same server as a bare process, from its start to its list of tools.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Final

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from glyphoxa_trio import Config, Outcome, Runtime, Tier, open_runtime
from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.config.model import CalibrationConfig
from glyphoxa_trio.host import Caller
from glyphoxa_trio.mcp import ServerState
from glyphoxa_trio.tools.gate import EVERYTHING
from glyphoxa_trio.tools.outcome import ToolCall

SERVER: Final = str(Path(__file__).parent / "servers" / "sudden.py")
COMMAND: Final = (sys.executable, "-I", "-S", SERVER)
FAST: Final = 0.5
KILLS: Final = 120
PATIENCE: Final = 60.0  # seconds; only a hang takes so long
AT_ONCE: Final = ("read", "read", "read")
IN_SEQUENCE: Final = ("write", "read", "write")


def measure(quick: bool) -> list[Figure]:
    return trio.run(_measure, 3 if quick else KILLS)


async def _measure(kills: int) -> list[Figure]:
    ready: list[float] = []
    bare: list[float] = []
    at_once: list[float] = []
    unanswered = 0
    async with open_runtime(
        Config(calibration=CalibrationConfig(at_start=False))
    ) as runtime:
        for number in range(kills):
            bare.append(await trio.to_thread.run_sync(_bare_start))
            name = f"server_{number}"
            runtime.add_server(
                ServerSpec(name=name, command=COMMAND, start_timeout=PATIENCE)
            )
            await _until_ready(runtime, name, other_than=None)
            for outcome in await _calls(runtime, name, AT_ONCE):  # warm, and idle
                _certain(outcome)
            pid = _pid(runtime, name)
            assert pid is not None
            async with trio.open_nursery() as nursery:
                killed = perf_counter()
                os.kill(pid, signal.SIGKILL)

                async def come_back(
                    name: str = name, pid: int = pid, killed: float = killed
                ) -> None:
                    await _until_ready(runtime, name, other_than=pid)
                    ready.append(perf_counter() - killed)

                nursery.start_soon(come_back)
                outcomes = await _calls(runtime, name, AT_ONCE)
                at_once.append(perf_counter() - killed)
                for tool in IN_SEQUENCE:
                    outcomes += await _calls(runtime, name, (tool,))
            for outcome in outcomes:
                if not outcome.ok:
                    unanswered += 1
                    print(outcome, file=sys.stderr)
            await runtime.remove_server(name)
    n = kills * len(AT_ONCE + IN_SEQUENCE)
    return [
        figure("ready again", ready, unit="ms", bare=bare),
        figure("three FAST calls at once, made at the kill", at_once, unit="ms"),
        Figure(name="calls without an answer", unit="", n=n, p50=unanswered),
    ]


async def _calls(
    runtime: Runtime, server: str, tools: tuple[str, ...]
) -> list[Outcome]:
    calls = [
        ToolCall(str(at), f"{server}.{tool}", json.dumps({"at": at}))
        for at, tool in enumerate(tools)
    ]
    caller = Caller(grant=EVERYTHING, tier=Tier.FAST, npc="Greymantle")
    until = trio.current_time() + FAST
    return list(await runtime.host.fan_out(calls, caller, deadline=until))


def _certain(outcome: Outcome) -> None:
    if not outcome.ok:
        raise RuntimeError(f"a server that is well did not answer: {outcome}")


def _pid(runtime: Runtime, server: str) -> int | None:
    """The process of a server that is ready; None if it is not."""
    for row in runtime.servers():
        if row.name == server and row.state is ServerState.READY:
            return row.pid
    return None


async def _until_ready(
    runtime: Runtime, server: str, *, other_than: int | None
) -> None:
    with trio.fail_after(PATIENCE):
        while _pid(runtime, server) in (None, other_than):  # noqa: ASYNC110
            await trio.sleep(0.001)


def _bare_start() -> float:
    """Seconds from the start of the same process to its list of tools."""
    began = perf_counter()
    with subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number, method in enumerate(("initialize", "tools/list")):
            line = json.dumps({"jsonrpc": "2.0", "id": number, "method": method})
            process.stdin.write(line.encode() + b"\n")
            process.stdin.flush()
            process.stdout.readline()
        took = perf_counter() - began
        process.kill()
    return took


BENCHMARK = Benchmark(
    name="killed",
    promise=(
        "an idle server that starts in 50 ms is ready again 150 ms after SIGKILL, and"
        " FAST calls made at that moment are answered"
    ),
    measure=measure,
    budgets=(
        Budget(figure="ready again", statistic="p99", at_most=150),
        Budget(figure="calls without an answer", statistic="p50", at_most=0),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
