"""An evening of chaos, from its servers to its report."""

from __future__ import annotations

import gc
import os
import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.cluster import RemoteRuntime, connect
from glyphoxa_trio.memory.postgres import open_postgres
from glyphoxa_trio.nats import open_nats
from glyphoxa_trio.npc.events import TurnEnd

from ...memory.postgres import server as postgres
from ...nats import server as nats
from .faults import Chaos, Servers
from .judge import Judge, twice
from .links import Link, open_link
from .places import Workers, the_workers
from .tables import Table, Tally, WatchedLink

CLIENTS: Final = 2
TABLES: Final = 15  # of each client
QUIET: Final = 8  # tables that speak only when a worker is to be killed there
SETTLING: Final = 30.0  # seconds, in the end, for a table to be answered


@attrs.define(eq=False)
class Report:
    """What was done and said, and what must be zero: lists of what is wrong."""

    done: Counter[str]
    tally: Tally
    acknowledged: int
    paid: int
    tables: int
    broken: dict[str, list[str]]
    stories: dict[str, list[str]]  # of utterances that were lost

    @property
    def is_well(self) -> bool:
        return not any(self.broken.values())

    def lines(self) -> Iterator[str]:
        for title, counts in (("done", self.done), ("said", self.tally.ends)):
            yield f"{title}:"
            for name, n in sorted(counts.items()):
                yield f"  {name:<45}{n:>7}"
        yield f"  {'in all':<45}{self.tally.ends.total():>7}"
        yield f"  {'at so many tables':<45}{self.tables:>7}"
        yield f"  {'acknowledged as written':<45}{self.acknowledged:>7}"
        yield f"  {'completed, and not known to be written':<45}{self.tally.unkept:>7}"
        yield f"  {'effects run':<45}{self.paid:>7}"
        yield "must be zero:"
        for name, found in self.broken.items():
            yield f"  {name:<45}{len(found):>7}"
            yield from (f"    {x}"[:300] for x in found[:10])
        for name, story in self.stories.items():
            yield f"the journal about {name}:"
            yield from (f"  {x}" for x in story)


def descriptors() -> list[str]:
    found = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found.append(f"{number}: {os.readlink(f'/proc/self/fd/{number}')}")
    return found


def children() -> set[int]:
    """Return the processes that this one has started, dead or alive."""
    found: set[int] = set()
    for task in Path(f"/proc/{os.getpid()}/task").iterdir():
        with suppress(OSError):  # a thread that has ended
            found.update(map(int, (task / "children").read_text().split()))
    return found


def left(before: list[str], after: list[str]) -> list[str]:
    return sorted(set(after) - set(before))


async def settled(tables: list[Table], tally: Tally) -> None:
    """Have every table answered once more, now that nothing is broken any more."""

    async def one(table: Table) -> None:
        with trio.move_on_after(SETTLING):
            while await table.say("hail", 5.0) != TurnEnd.COMPLETED:  # noqa: ASYNC110
                await trio.sleep(0.2)
            return
        tally.silent.append(table.name)

    async with trio.open_nursery() as nursery:
        for table in tables:
            nursery.start_soon(one, table)


async def spoken(
    kills: int,
    seed: int,
    servers: Servers,
    workers: Workers,
    links: list[Link],
    judge: Judge,
    tables: dict[str, Table],
    tally: Tally,
    done: Counter[str],
) -> None:
    """Connect clients, have them speak while workers are killed, and leave."""
    rng = random.Random(seed)
    over = trio.Event()
    port = servers.bus.port
    async with trio.open_nursery() as ways, AsyncExitStack() as stack:

        async def client(port: int) -> RemoteRuntime:
            link = await stack.enter_async_context(
                open_nats(f"nats://127.0.0.1:{port}")
            )
            watched: Any = WatchedLink(link, tables)
            return await stack.enter_async_context(connect(watched))

        def table(name: str, runtime: RemoteRuntime) -> Table:
            one = Table(name, runtime, tally, random.Random(f"{seed} {name}"))
            tables[name] = one
            return one

        def new_table() -> Table:
            return table(f"new{len(tables)}", near)

        near = await client(port)
        quiet = [table(f"quiet{n}", near) for n in range(QUIET)]
        for n in range(CLIENTS):
            dial = partial(trio.open_tcp_stream, "127.0.0.1", port)
            links.append(await open_link(ways, "link client-NATS", dial))
            far = await client(links[-1].port)
            for m in range(TABLES):
                table(f"far{n}.{m}", far)
        async with trio.open_nursery() as nursery:
            for one in tables.values():
                if one.runtime is not near:
                    nursery.start_soon(one.talk, over)
            chaos = Chaos(
                *(rng, workers, links, servers, judge),
                *(near, quiet, new_table, nursery, done),
            )
            await chaos.run(kills)
            over.set()
        await settled([*tables.values()], tally)
        await stack.aclose()
        ways.cancel_scope.cancel()


async def chaos(
    kills: int, seed: int, servers: Servers, address: str, folder: Path
) -> Report:
    """Kill so many workers of the database ``address``, and judge what comes of it."""
    judge, tally = Judge(address, folder / "ledger"), Tally()
    tables: dict[str, Table] = {}
    async with open_postgres(address):
        pass  # its tables are there now
    judge.begin()
    done: Counter[str] = Counter()
    tasks, before = trio.lowlevel.current_statistics().tasks_living, descriptors()
    born = children()
    async with the_workers(servers.bus, address, folder) as (workers, links):
        await spoken(kills, seed, servers, workers, links, judge, tables, tally, done)
    await trio.sleep(0.1)
    gc.collect()
    tasks_left = trio.lowlevel.current_statistics().tasks_living - tasks
    log = (folder / "log").read_text().splitlines()
    written, paid = judge.written(), judge.paid()
    lost = [
        f"{x.name} #{n} was written {written[x.name, n]} times"
        for x in tables.values()
        for n in x.kept
        if written[x.name, n] != 1
    ]
    return Report(
        done + workers.counts,
        tally,
        acknowledged=sum(len(x.kept) for x in tables.values()),
        paid=paid.total(),
        tables=len(tables),
        broken={
            "acknowledged turns lost": told(tally.lost) + lost,
            "utterances run twice": told(tally.again),
            "effects run twice": twice(paid),
            "effects acknowledged and not run": [
                x for table in tables.values() for x in table.payments if not paid[x]
            ],
            "writes of a second writer": judge.second_writers(),
            "utterances without exactly one end": tally.wrong_ends,
            "clients hanging": tally.hanging,
            "tables without an answer in the end": tally.silent,
            "workers that ended by themselves": workers.ended,
            "errors in the log of the workers": errors_in(log),
            "tasks left": ["a task"] * tasks_left,
            "descriptors left": left(before, descriptors()),
            "processes left": [str(x) for x in children() - born - own(servers)],
        },
        stories={
            f"{name} {number}": judge.story(name, int(number[1:]))
            for name, number, *_ in map(str.split, [*tally.lost, *lost])
        },
    )


def errors_in(log: list[str]) -> list[str]:
    """Return the errors whose tracebacks are in a log."""
    found, within = [], False
    for line in log:
        if within and line[:1] not in (" ", ""):
            found.append(line)
            within = False
        within |= line.startswith("Traceback")
    return found + ["a traceback without an end"] * within


def told(found: dict[str, str]) -> list[str]:
    return [f"{x}: {y}" for x, y in found.items()]


def own(servers: Servers) -> set[int]:
    """Return the processes of the servers, which are others than in the beginning."""
    found = servers.bus._process, servers.database._process
    return {x.pid for x in found if x is not None}


class NoServer(Exception):
    """A program that this needs is not installed; the text says which."""


def run(kills: int, seed: int) -> Report:
    """Run it on servers of its own.

    Raises:
      NoServer: if there is none.
    """
    if nats.PROGRAM is None:
        raise NoServer(nats.MISSING)
    with (
        ThreadPoolExecutor(1) as thread,
        nats.a_server() as bus,
        postgres.a_server() as database,
        TemporaryDirectory() as folder,
    ):
        if database is None:
            raise NoServer("PostgreSQL is not installed (apt install postgresql)")
        with database.database() as address:
            servers = Servers(bus, database, thread)
            return trio.run(chaos, kills, seed, servers, address, Path(folder))
