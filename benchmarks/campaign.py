"""The cost of a large campaign beside a small one.

Promised: with 100,000 actors in a campaign, the last thousand are created as fast as
the first thousand, and reading one, and a page of fifty anywhere in the list, takes as
long as among few: at most a quarter longer, at the median.

Measured: calls of tools by `Dispatch`, as a transport makes them, on a file each:
arguments, the worker thread, the rules, SQLite, the answer. The large campaign has
99,000 actors before the clock starts, the small one none; then a thousand are created
in each, and read, in turns of 50 calls, so that both meet the same machine.

    create       ``actor_create``, with an idempotency key
    look at one  ``actor_get``, anywhere in the campaign
    a page       ``actor_list`` of 50, from anywhere in the campaign
    the campaign ``campaign_get``, with its counters
"""

from __future__ import annotations

import argparse
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import attrs

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from glyphoxa_trio.campaign.cursors import written
from glyphoxa_trio.campaign.rules import create_character
from glyphoxa_trio.campaign.sqlite import SqliteFile
from glyphoxa_trio.campaign.stamps import Stamps
from glyphoxa_trio.campaign.store import Records
from glyphoxa_trio.servers.builtin import campaign as shelf
from glyphoxa_trio.servers.dispatch import Client, ClientRequest, Dispatch, RpcError

TURN = 50
NOTES = "A dwarf warrior with a mysterious past, and little patience for elves."


class Nobody:
    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        return None

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        raise RpcError(-32601, "nobody can be asked")


@attrs.define(eq=False)
class Table:
    """A server with one campaign, and the ids of its actors."""

    dispatch: Dispatch
    client: Client = attrs.field(factory=lambda: Client(session="bench"))
    campaign: str = ""
    actors: list[str] = attrs.field(factory=list)

    async def ask(self, method: str, **params: Any) -> Any:
        request = ClientRequest(
            method=method, params=params, client=self.client, channel=Nobody()
        )
        return await self.dispatch.answer(request)

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        answer = await self.ask("tools/call", name=tool, arguments=arguments)
        if answer.get("isError"):
            raise RuntimeError(answer)
        data: dict[str, Any] = answer["structuredContent"]
        return data


@asynccontextmanager
async def _table(path: Path, filled: int) -> AsyncGenerator[Table]:
    parser = argparse.ArgumentParser()
    shelf.add_options(parser)
    options = parser.parse_args(["--db", str(path)])
    async with shelf.open_offer(options) as offer:
        table = Table(Dispatch(offer))
        created = await table.call("campaign_create", name="C", gm_mode="AI")
        table.campaign = created["id"]
        await table.call("set_context", campaign_id=table.campaign)
        if filled:
            table.actors += await trio.to_thread.run_sync(_fill, path, table, filled)
        yield table


def _fill(path: Path, table: Table, count: int) -> list[str]:
    """The rules that the tool runs, a thousand to a transaction."""
    stamps = Stamps()
    file = SqliteFile.open(path)

    def some(records: Records) -> list[str]:
        of = {"name": "Thorin", "kind": "NPC", "notes": NOTES}
        return [
            create_character(records, stamps.moment(), table.campaign, **of).id
            for _ in range(1000)
        ]

    made: list[str] = []
    while len(made) < count:
        made += file.write(some)
    file.close()
    return made


def measure(quick: bool) -> list[Figure]:
    return trio.run(_measure, *((2_000, 200) if quick else (99_000, 1_000)))


async def _measure(filled: int, n: int) -> list[Figure]:
    rng = random.Random(100_000)
    with TemporaryDirectory() as folder:
        async with (
            _table(Path(folder) / "large.db", filled) as large,
            _table(Path(folder) / "small.db", 0) as small,
        ):

            async def create(table: Table) -> None:
                key = f"key {len(table.actors)}"
                of = {"name": "Thorin", "kind": "NPC", "notes": NOTES}
                made = await table.call("actor_create", **of, idempotency_key=key)
                table.actors.append(made["id"])

            async def look(table: Table) -> None:
                await table.call("actor_get", actor_id=rng.choice(table.actors))

            async def page(table: Table) -> None:
                after = rng.randrange(len(table.actors) - TURN)
                cursor = written(f"actor {table.campaign}", after)
                got = await table.call("actor_list", cursor=cursor)
                if len(got["actors"]) != TURN:
                    raise RuntimeError(f"{len(got['actors'])} on a page")

            async def campaign(table: Table) -> None:
                await table.call("campaign_get")

            async def resource(table: Table) -> None:
                await table.ask("resources/read", uri=f"campaign://{table.campaign}")

            for _ in range(2 * TURN):  # work that is done only once
                await create(large)
                await create(small)
            return [
                await _beside("create", create, large, small, n),
                await _beside("look at one", look, large, small, n),
                await _beside("a page of 50", page, large, small, n),
                await _beside("the campaign", campaign, large, small, n),
                await _beside("the campaign, as a resource", resource, large, small, n),
            ]


async def _beside(
    name: str,
    do: Callable[[Table], Awaitable[None]],
    large: Table,
    small: Table,
    n: int,
) -> Figure:
    """``n`` of it in each, in turns."""
    took: dict[int, list[float]] = {0: [], 1: []}
    for _ in range(0, n, TURN):
        for which, table in enumerate((large, small)):
            for _ in range(TURN):
                begun = perf_counter()
                await do(table)
                took[which].append(perf_counter() - begun)
    return figure(name, took[0], unit="µs", bare=took[1])


FIGURES = (
    "create",
    "look at one",
    "a page of 50",
    "the campaign",
    "the campaign, as a resource",
)
BENCHMARK = Benchmark(
    name="campaign",
    promise="with 100,000 actors everything takes as long as with few (p50)",
    measure=measure,
    budgets=tuple(
        Budget(figure=name, statistic="ratio", at_most=1.25) for name in FIGURES
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
