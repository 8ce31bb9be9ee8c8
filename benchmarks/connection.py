"""The cost of a call over stdio, beside the SDK's own client.

Promised: a session of ours takes at most 0.6 of the time that the SDK's
`ClientSession` over its own ``stdio_client`` takes for a call that waits for the
one before it, and at most 0.3 with 64 callers at once (aim: 0.35 and 0.15).

Measured: both clients in one program, each with a server of its own, the one of
``servers/trivial.py``, which does next to nothing. They call the same tool with
the same arguments, in turns. Ours is what a connection holds: the session of
`open_session`, its `call_tool` as a connection calls it, with the budget in
``_meta``. Against: ``ClientSession.call_tool`` with the same ``meta``.

    one after the other   one caller; each call timed by itself
    64 at once            64 callers with four calls each; the time of all, by call
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter
from typing import Final, cast

import mcp_types as types
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.mcp import open_session
from glyphoxa_trio.mcp.process import LastLines

SERVER: Final = str(Path(__file__).parent / "servers" / "trivial.py")
ARGUMENTS: Final = {"term": "grapple", "edition": 5}
META: Final = {"glyphoxa/remaining_ms": 250}
TURN: Final = 250  # calls before the other one's turn
CALLERS: Final = 64
CALLS_EACH: Final = 4

Call = Callable[[], Awaitable[object]]


def measure(quick: bool) -> list[Figure]:
    return trio.run(_measure, 250 if quick else 5000, 5 if quick else 100)


async def _measure(calls: int, volleys: int) -> list[Figure]:
    spec = ServerSpec(name="trivial", command=("python", SERVER))
    bare = StdioServerParameters(command=sys.executable, args=[SERVER])
    async with (
        open_session(spec, on_tools_changed=_ignore, stderr=LastLines()) as session,
        stdio_client(bare) as streams,
        ClientSession(*streams) as client,
    ):
        await client.initialize()
        await session.list_tools()
        await client.list_tools()

        async def ours() -> None:
            answer = await session.call_tool("echo", ARGUMENTS, META)
            assert answer["content"][0]["text"] == "page 112"

        async def theirs() -> None:
            meta = cast("types.RequestParamsMeta", META)
            answer = await client.call_tool("echo", dict(ARGUMENTS), meta=meta)
            # What a caller of ours is given is given to a caller of theirs.
            said = answer.model_dump(by_alias=True, mode="json", exclude_none=True)
            assert said["content"][0]["text"] == "page 112"

        return [
            await _in_turns("one after the other", in_sequence, ours, theirs, calls),
            await _in_turns("64 at once", in_volleys, ours, theirs, volleys),
        ]


def _ignore() -> None:
    """The list of tools does not change."""


async def _in_turns(
    name: str,
    timed: Callable[[Call, int], Awaitable[list[float]]],
    ours: Call,
    theirs: Call,
    n: int,
) -> Figure:
    """``n`` samples of each; the first turn warms up."""
    turn = min(n, TURN if timed is in_sequence else 5)
    took: list[float] = []
    bare: list[float] = []
    for _ in range(1 + -(-n // turn)):
        bare += await timed(theirs, turn)
        took += await timed(ours, turn)
    return figure(name, took[turn:], unit="µs", bare=bare[turn:])


async def in_sequence(call: Call, n: int) -> list[float]:
    took: list[float] = []
    for _ in range(n):
        begun = perf_counter()
        await call()
        took.append(perf_counter() - begun)
    return took


async def in_volleys(call: Call, n: int) -> list[float]:
    async def caller() -> None:
        for _ in range(CALLS_EACH):
            await call()

    took: list[float] = []
    for _ in range(n):
        begun = perf_counter()
        async with trio.open_nursery() as nursery:
            for _ in range(CALLERS):
                nursery.start_soon(caller)
        took.append((perf_counter() - begun) / (CALLERS * CALLS_EACH))
    return took


BENCHMARK = Benchmark(
    name="connection",
    promise="a call over stdio takes at most 0.6 of the SDK's time, 0.3 at 64 at once",
    measure=measure,
    budgets=(
        Budget(figure="one after the other", statistic="ratio", at_most=0.6),
        Budget(figure="64 at once", statistic="ratio", at_most=0.3),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
