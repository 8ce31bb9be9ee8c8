"""The whole cost of a call of a stdio server, beside the SDK alone on asyncio.

Aimed at: a call through a host (gate, arguments, breaker, deadline, wire, measurement)
takes no longer than the SDK's `ClientSession` takes on asyncio with nothing around it,
and at most 0.75 of it with 64 callers at once.

Measured: `ToolHost.execute` of a runtime with default settings, and
``ClientSession.call_tool`` on asyncio in a thread of its own, in turns, in one process;
each has a server of its own, of ``servers/trivial.py``, which does next to nothing.

    one after the other   one caller; each call timed by itself
    64 at once            64 callers with four calls each; the time of all, by call
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Final

from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from benchmarks.connection import (
    ARGUMENTS,
    CALLERS,
    CALLS_EACH,
    SERVER,
    TURN,
    in_sequence,
    in_volleys,
)
from glyphoxa_trio import Config, open_runtime
from glyphoxa_trio.config import McpConfig, ServerSpec

VOLLEYS_A_TURN: Final = 5
PATIENCE: Final = 20.0  # seconds for both servers to come


class Bare:
    """The SDK's client on an asyncio loop; all of it in one thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()

    def sequence(self, n: int) -> list[float]:
        return self.loop.run_until_complete(self._sequence(n))

    def volleys(self, n: int) -> list[float]:
        return self.loop.run_until_complete(self._volleys(n))

    def open(self) -> None:
        self.loop.run_until_complete(self._open())

    def close(self) -> None:
        self.loop.run_until_complete(self._close())
        self.loop.close()

    async def _open(self) -> None:
        self._over = asyncio.Event()
        opened: asyncio.Future[ClientSession] = self.loop.create_future()

        async def hold() -> None:  # opened and closed in one task, as the SDK asks
            server = StdioServerParameters(command=sys.executable, args=[SERVER])
            async with stdio_client(server) as streams, ClientSession(*streams) as it:
                await it.initialize()
                await it.list_tools()
                opened.set_result(it)
                await self._over.wait()

        self._task = self.loop.create_task(hold())
        self._client = await asyncio.wait_for(opened, PATIENCE)

    async def _close(self) -> None:
        self._over.set()
        await self._task

    async def _call(self) -> None:
        answer = await self._client.call_tool("echo", dict(ARGUMENTS))
        assert answer.content

    async def _sequence(self, n: int) -> list[float]:
        took: list[float] = []
        for _ in range(n):
            begun = perf_counter()
            await self._call()
            took.append(perf_counter() - begun)
        return took

    async def _volleys(self, n: int) -> list[float]:
        async def caller() -> None:
            for _ in range(CALLS_EACH):
                await self._call()

        took: list[float] = []
        for _ in range(n):
            begun = perf_counter()
            await asyncio.gather(*(caller() for _ in range(CALLERS)))
            took.append((perf_counter() - begun) / (CALLERS * CALLS_EACH))
        return took


def measure(quick: bool) -> list[Figure]:
    return trio.run(_measure, 250 if quick else 5000, 5 if quick else 100)


async def _measure(calls: int, volleys: int) -> list[Figure]:
    spec = ServerSpec(name="trivial", command=("python", SERVER))
    config = Config(mcp=McpConfig(servers=(spec,), remember=False))
    arguments = json.dumps(ARGUMENTS)
    bare = Bare()
    with ThreadPoolExecutor(1) as thread:
        async with open_runtime(config, wait_for_servers=PATIENCE) as runtime:

            async def call() -> None:
                end = await runtime.host.execute("trivial.echo", arguments)
                assert end.ok, end

            thread.submit(bare.open).result()
            try:
                return [
                    await _in_turns(
                        "one after the other",
                        lambda n: in_sequence(call, n),
                        lambda n: thread.submit(bare.sequence, n).result(),
                        calls,
                        TURN,
                    ),
                    await _in_turns(
                        "64 at once",
                        lambda n: in_volleys(call, n),
                        lambda n: thread.submit(bare.volleys, n).result(),
                        volleys,
                        VOLLEYS_A_TURN,
                    ),
                ]
            finally:
                thread.submit(bare.close).result()


async def _in_turns(
    name: str,
    ours: Callable[[int], Awaitable[list[float]]],
    theirs: Callable[[int], list[float]],
    n: int,
    turn: int,
) -> Figure:
    """``n`` samples of each; the first turn warms up. Our loop stands meanwhile."""
    took: list[float] = []
    bare: list[float] = []
    for _ in range(1 + -(-n // turn)):
        bare += theirs(turn)
        await trio.sleep(0.01)
        took += await ours(turn)
    return figure(name, took[turn:], unit="µs", bare=bare[turn:])


BENCHMARK = Benchmark(
    name="whole_call",
    promise="a whole call over stdio takes at most the raw SDK's time, 0.75 at 64",
    measure=measure,
    budgets=(
        Budget(figure="one after the other", statistic="ratio", at_most=1.0),
        Budget(figure="64 at once", statistic="ratio", at_most=0.75),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
