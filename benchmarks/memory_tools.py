"""The time of a call of each tool of memory, without the host.

Promised, with 10,000 lines, 500 entities and 1,500 facts in a file: each tool's p99 is
at most the median that it declares (`search_sessions` 100 ms, `query_entities` 50,
`get_summary` 80, `search_facts` 200, `remember` 50, the two of sessions 100), so that
all of them are for fast turns, and an unknown name is told within that time, too.

Measured: the handlers, called for one NPC with other words each time, on the file that
`benchmarks.transcripts` plays, with entities and facts besides.

Against: the one method of the store that does the work, called with the same words.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from benchmarks.transcripts import MAIN, Talk, tables
from glyphoxa_trio.builtin.memory import tools
from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.errors import UnknownItem
from glyphoxa_trio.memory.knowledge import Entity, EntityKind, Fact, Relationship
from glyphoxa_trio.memory.opening import open_memory
from glyphoxa_trio.memory.visibility import Viewer
from glyphoxa_trio.tools.definition import CallContext, ToolError

LINES, ENTITIES, FACTS = 10_000, 500, 1_500
BO = Viewer("Bo")
DECLARED = {
    "search_sessions": 100.0,
    "query_entities": 50.0,
    "get_summary": 80.0,
    "search_facts": 200.0,
    "remember": 50.0,
    "search_history": 100.0,
    "get_session_summary": 100.0,
    "an unknown name": 80.0,
}

Once = Callable[[int], Awaitable[object]]


async def filled(store: Memory, lines: int) -> Talk:
    talk = Talk.begin()
    for table in await tables(store):
        await table.play(store, talk, lines if table.claim.campaign == MAIN else 1000)
    await store.graph.put(
        MAIN,
        entities=[
            Entity(
                id=f"e{at}",
                kind=EntityKind.NPC,
                name=talk.names[at].capitalize(),
                summary=talk.sentence(at),
            )
            for at in range(ENTITIES)
        ],
        relationships=[
            Relationship(source=f"e{at}", type="knows", target=f"e{at * 7 % ENTITIES}")
            for at in range(ENTITIES)
        ],
        facts=[
            Fact(text=f"{talk.sentence(at)} {at}", about=(f"e{at % ENTITIES}",))
            for at in range(FACTS)
        ],
    )
    return talk


async def timed(times: int, once: Once) -> list[float]:
    found = []
    for number in range(times):
        began = perf_counter()
        await once(number)
        found.append(perf_counter() - began)
    return found


async def measured(quick: bool) -> list[Figure]:
    with TemporaryDirectory() as folder:
        async with open_memory(str(Path(folder) / "memory.db")) as store:
            talk = await filled(store, 1000 if quick else LINES)
            return await figures(store, talk, 20 if quick else 300)


async def figures(store: Memory, talk: Talk, times: int) -> list[Figure]:
    made = tools(
        store, campaign_of=lambda _: MAIN, viewer_of=lambda _: BO, now=lambda: 1.8e9
    )
    handlers = {tool.key: tool.handler for tool in made}
    graph, said = store.graph, store.transcripts
    (last, *_) = await said.evenings(MAIN, BO, limit=1)

    async def call(key: str, **arguments: Any) -> None:
        answer: Any = handlers[key](arguments, CallContext(npc="Bo"))
        await answer

    async def unknown(number: int) -> None:
        try:
            await call("memory.get_summary", entity_id=f"{name(number)}x")
        except ToolError:
            return
        raise RuntimeError("there is such an entity")

    async def unknown_to_the_store(number: int) -> None:
        try:
            await graph.identity(MAIN, BO, f"{name(number)}x")
        except UnknownItem:
            return

    def name(number: int) -> str:
        return talk.names[number * 7 % 400]

    def words(number: int) -> str:
        return f"what did {name(number)} do"

    async def remembered(number: int) -> None:
        await graph.put(MAIN, facts=[Fact(text=f"{words(number)}, once more.")])

    several: dict[str, tuple[Once, Once]] = {
        "search_sessions": (
            lambda n: call("memory.search_sessions", query=words(n)),
            lambda n: said.search(MAIN, BO, words(n), limit=5),
        ),
        "query_entities": (
            lambda n: call("memory.query_entities", name=name(n)),
            lambda n: graph.entities(MAIN, BO, name=name(n)),
        ),
        "get_summary": (
            lambda n: call("memory.get_summary", entity_id=name(n)),
            lambda n: graph.identity(MAIN, BO, name(n)),
        ),
        "search_facts": (
            lambda n: call("memory.search_facts", query=words(n)),
            lambda n: said.search(MAIN, BO, words(n)),
        ),
        "remember": (
            lambda n: call("memory.remember", fact=f"{words(n)}.", about=[name(n)]),
            remembered,
        ),
        "search_history": (
            lambda n: call("sessions.search_history", query=words(n)),
            lambda n: said.search(MAIN, BO, words(n), limit=50),
        ),
        "get_session_summary": (
            lambda _: call("sessions.get_summary", session_id="last"),
            lambda _: said.evening(MAIN, BO, last.id),
        ),
        "an unknown name": (unknown, unknown_to_the_store),
    }
    return [
        figure(
            what,
            await timed(times, once),
            unit="ms",
            bare=await timed(times, of_the_store),
        )
        for what, (once, of_the_store) in several.items()
    ]


def measure(quick: bool) -> list[Figure]:
    return trio.run(measured, quick)


BENCHMARK = Benchmark(
    name="memory_tools",
    promise="a tool of memory is done within the median that it declares",
    measure=measure,
    budgets=tuple(
        Budget(figure=what, statistic="p99", at_most=most)
        for what, most in DECLARED.items()
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
