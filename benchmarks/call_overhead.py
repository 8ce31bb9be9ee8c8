"""The cost of one tool call above its bare handler.

Promised: a call of an in-process async tool, through gate, arguments, cache
look-up, breaker, deadline, shared task and measurement, takes at most 150 µs more than
the handler alone, at the median; we aim for 75. A refusal by an open breaker
takes less than a millisecond.

Measured: `open_host` with the tools below, one call after the other, each timed
by itself. The calibrator runs beside, as it always does, so its work on each
measurement is part of the figures. Against: ``await tool.handler(...)`` of the
same tool, in the same run, in turns of 500 calls.

    everything granted   `ToolHost.execute`, the operator's own grant
    one NPC's grant      `ToolHost.fan_out` of one call, eight patterns, 40 tools
    cacheable, miss      as before, each call with arguments never seen before
    cacheable, hit       as before, each call with the same arguments
    breaker open         as before, a tool that has failed five times
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any

import attrs

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from glyphoxa_trio import Outcome, Tier, Tool, open_host, tool
from glyphoxa_trio.host import Caller, ToolHost
from glyphoxa_trio.tools.definition import CallContext
from glyphoxa_trio.tools.gate import Grant
from glyphoxa_trio.tools.outcome import Status, ToolCall

CHUNK = 500
GRAPPLE = '{"term": "grapple", "edition": 5}'
GRANT = Grant(
    npc="Greymantle",
    tools=(
        "roll",
        "rules.search_rules",
        "world-search.*",
        "mcp__ledger__*",
        "memory",
        "lore.page_*",
        "look_up",
        "lore.recall",
    ),
    allow_tools=("mcp__ledger__read_tab",),
)


@tool(group="lore", estimated_duration_ms=1, max_duration_ms=400, read_only=True)
async def look_up(term: str, edition: int = 5) -> dict[str, object]:
    """Look up a term in the lore of the realm."""
    return {"term": term, "edition": edition, "page": 112}


@tool(
    group="lore",
    estimated_duration_ms=1,
    max_duration_ms=400,
    read_only=True,
    cacheable_seconds=3600,
)
async def recall(term: str, edition: int = 5) -> dict[str, object]:
    """Recall what was said of a term."""
    return {"term": term, "edition": edition, "page": 112}


@tool(group="lore", estimated_duration_ms=1, read_only=True, name="page_torn")
async def torn(term: str, edition: int = 5) -> dict[str, object]:
    """Read a page that is not there any more."""
    raise LookupError(term)


def measure(quick: bool) -> list[Figure]:
    return trio.run(_measure, 500 if quick else 4000)


async def _measure(n: int) -> list[Figure]:
    async with open_host() as host:
        host.register(look_up, recall, torn, *_others())

        async def execute(at: int) -> Outcome:
            return await host.execute("look_up", GRAPPLE)

        async def granted(at: int) -> Outcome:
            return await _call(host, "look_up", GRAPPLE)

        async def miss(at: int) -> Outcome:
            return await _call(
                host, "recall", GRAPPLE.replace("grapple", f"grapple {at}")
            )

        async def hit(at: int) -> Outcome:
            return await _call(host, "recall", GRAPPLE)

        async def refused(at: int) -> Outcome:
            return await _call(host, "page_torn", GRAPPLE)

        for _ in range(5):
            await _call(host, "page_torn", GRAPPLE)
        await _call(host, "recall", GRAPPLE)
        return [
            await _beside("everything granted", look_up, execute, Status.OK, n),
            await _beside("one NPC's grant", look_up, granted, Status.OK, n),
            await _beside("cacheable, miss", recall, miss, Status.OK, n),
            await _beside("cacheable, hit", recall, hit, Status.OK, n),
            await _beside("breaker open", look_up, refused, Status.UNAVAILABLE, n),
        ]


async def _beside(
    name: str,
    plain: Tool,
    call: Callable[[int], Awaitable[Outcome]],
    expected: Status,
    n: int,
) -> Figure:
    """``n`` calls and as many of the bare handler, in turns."""
    took: list[float] = []
    bare: list[float] = []
    context = CallContext()
    arguments = {"term": "grapple", "edition": 5}
    for at in range(-CHUNK, n):  # the first turn warms up
        if at % CHUNK == 0:
            for _ in range(CHUNK):
                begun = perf_counter()
                await _handled(plain, arguments, context)
                bare.append(perf_counter() - begun)
        begun = perf_counter()
        outcome = await call(at)
        took.append(perf_counter() - begun)
        if outcome.status is not expected:
            raise RuntimeError(f"{name}: {outcome}")
    return figure(name, took[CHUNK:], unit="µs", bare=bare[CHUNK:])


async def _handled(plain: Tool, arguments: dict[str, Any], context: CallContext) -> Any:
    answer = plain.handler(arguments, context)
    assert isinstance(answer, Awaitable)
    return await answer


async def _call(host: ToolHost, name: str, arguments: str) -> Outcome:
    call = ToolCall("call_1", name, arguments)
    caller = Caller(grant=GRANT, tier=Tier.FAST, npc="Greymantle", session="Greymantle")
    (outcome,) = await host.fan_out([call], caller, deadline=trio.current_time() + 0.5)
    return outcome


def _others() -> list[Tool]:
    """More tools in the catalogue: no real configuration has only one."""
    return [
        attrs.evolve(
            look_up,
            definition=attrs.evolve(
                look_up.definition, name=f"other_{at}", group=f"group_{at % 6}"
            ),
        )
        for at in range(37)
    ]


BENCHMARK = Benchmark(
    name="call_overhead",
    promise="a call costs at most 150 µs above the bare handler (p50)",
    measure=measure,
    budgets=(
        Budget(figure="everything granted", statistic="added", at_most=150),
        Budget(figure="one NPC's grant", statistic="added", at_most=150),
        Budget(figure="cacheable, miss", statistic="added", at_most=150),
        Budget(figure="cacheable, hit", statistic="added", at_most=150),
        Budget(figure="breaker open", statistic="p99", at_most=1000),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
