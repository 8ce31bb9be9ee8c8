"""Everything that goes wrong.

A full disk is one error of the database for every write, by a trigger: no disk is
filled.
"""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

import attrs
import psycopg

import trio

from glyphoxa_trio.cluster import RemoteRuntime
from glyphoxa_trio.npc.events import TurnEnd

from ...memory.postgres import server as postgres
from ...nats import server as nats
from .judge import Judge
from .links import Fault, Link
from .places import Worker, Workers, until
from .tables import Table

EVERY: Final = 10  # kills between two restarts of each server
_TRIES: Final = 2
_REACHED: Final = 2.5  # seconds for a worker to be where it is to be killed
T = TypeVar("T")


@attrs.frozen(eq=False)
class Servers:
    """The servers, and the thread in which they are started again: it stays, since they
    end with the thread that has started them."""

    bus: nats.RealServer
    database: postgres.Server
    thread: ThreadPoolExecutor


@attrs.define(eq=False)
class Chaos:
    """Everything that goes wrong, and everybody who speaks meanwhile."""

    random: random.Random
    workers: Workers
    links: list[Link]
    servers: Servers
    judge: Judge
    near: RemoteRuntime  # a client whose link never breaks
    quiet: list[Table]
    new_table: Callable[[], Table]
    nursery: trio.Nursery
    done: Counter[str]

    async def run(self, kills: int) -> None:
        """Kill so many workers, and have everything else happen besides."""
        kinds = (
            *(self.when_quiet, self.in_turn, self.in_effect, self.in_claim),
            self.in_drain,
        )
        async with trio.open_nursery() as weather:
            weather.start_soon(self.stop_workers)
            weather.start_soon(self.break_links)
            weather.start_soon(self.fill_disks)
            for n in range(kills):
                if n % EVERY == EVERY // 3:
                    weather.start_soon(self.restart_bus)
                if n % EVERY == EVERY * 2 // 3:
                    weather.start_soon(self.restart_database)
                await trio.sleep(self.random.uniform(0.1, 0.7))
                await self._one(kinds[n % len(kinds)])
            weather.cancel_scope.cancel()

    async def _one(self, kill: Callable[[], Awaitable[bool]]) -> None:
        what = kill.__name__.replace("_", " ")
        for _ in range(_TRIES):
            with trio.move_on_after(2 * _REACHED):
                if await kill():
                    self.done[f"kill -9 {what}"] += 1
                    return
        # Other faults were in its way.
        await until(self.workers.ready)
        self.workers.kill(self.random.choice(self.workers.ready()))
        self.done["kill -9 at any moment"] += 1

    # -- kills: each returns True if it was made where it should be

    def _owner(self, table: Table) -> Worker | None:
        owner = self.near.owner(table.name)
        place = None if owner is None else self.workers.of(owner[0])
        return None if place is None or place.expected else place

    def _kill(self, place: Worker | None) -> bool:
        if place is None:
            return False
        self.workers.kill(place)
        return True

    async def _ready(self, check: Callable[[], bool]) -> bool:
        with trio.move_on_after(_REACHED):
            await until(check)
            return True
        return False

    def _table(self) -> Table:
        return self.random.choice([x for x in self.quiet if not x.speaking.locked()])

    async def when_quiet(self) -> bool:
        table = self._table()
        if await table.say("hail") != TurnEnd.COMPLETED:
            return False
        killed = self._kill(self._owner(table))
        self.nursery.start_soon(table.say, "hail")
        return killed

    async def in_turn(self) -> bool:
        table = self._table()
        self.nursery.start_soon(table.say, "story", 8.0)
        await trio.lowlevel.checkpoint()
        wanted = self.random.randint(1, 2)
        if not await self._ready(lambda: table.sentences >= wanted):
            return False
        await trio.sleep(self.random.uniform(0.0, 0.3))
        return self._kill(self._owner(table))

    async def in_effect(self) -> bool:
        """In the middle of an effect, or about where it is written that it begins."""
        table = self._table()
        if await table.say("hail") != TurnEnd.COMPLETED:
            return False
        whom = f"{table.name}/{table.last + 1}"
        self.nursery.start_soon(table.say, "pay", 8.0)
        await trio.lowlevel.checkpoint()
        if self.random.random() < 0.4:
            await trio.sleep(self.random.uniform(0.0, 0.06))
            return self._kill(self._owner(table))
        if not await self._ready(lambda: whom in self.judge.paid()):
            return False
        await trio.sleep(self.random.uniform(0.0, 0.35))
        return self._kill(self._owner(table))

    async def in_claim(self) -> bool:
        """While the claim waits in the database, for a lock that is ours, or right
        after; the database still makes it then."""
        table = self.new_table()
        with suppress(psycopg.Error):
            connection = await self._blocking(self._lock, table.name)
            try:
                self.nursery.start_soon(table.say, "hail")
                place = await self._claimer()
                if place is None:
                    return False
                early = self.random.random() < 0.5
                if early:
                    self._kill(place)
                    await trio.sleep(self.random.uniform(0.0, 0.2))
            finally:
                with trio.CancelScope(shield=True):
                    await self._blocking(connection.close)
            if not early:
                await trio.sleep(self.random.uniform(0.0, 0.02))
                self._kill(place)
            return True
        return False

    def _lock(self, name: str) -> psycopg.Connection[Any]:
        campaign = self.judge.campaign()
        connection = psycopg.connect(self.judge.address)
        try:
            connection.execute(
                "insert into glyphoxa.session (tenant, name, campaign)"
                " values ('', %s, %s)",
                (name, campaign),
            )
        except BaseException:
            connection.close()
            raise
        return connection

    async def _claimer(self) -> Worker | None:
        with trio.move_on_after(_REACHED):
            while True:
                name = await self._blocking(self.judge.claiming)
                if name is not None:
                    place = self.workers.places[int(name)]
                    return None if place.expected or not place.name else place
                await trio.sleep(0.03)
        return None

    async def in_drain(self) -> bool:
        table = self._table()
        self.nursery.start_soon(table.say, "story", 8.0)
        await trio.lowlevel.checkpoint()
        if not await self._ready(lambda: table.sentences >= 1):
            return False
        place = self._owner(table)
        if place is None:
            return False
        number = place.number
        self.workers.signal(number, signal.SIGTERM)
        await trio.sleep(self.random.uniform(0.0, 0.5))
        self.workers.signal(number, signal.SIGKILL)
        return place.number == number  # else it had ended

    # -- everything else

    async def stop_workers(self) -> None:
        while True:
            await trio.sleep(self.random.uniform(0.3, 2.0))
            if not (ready := self.workers.ready()):
                continue
            number = self.random.choice(ready).number
            self.workers.signal(number, signal.SIGSTOP)
            self.done["SIGSTOP for 0.2 to 10 s"] += 1
            try:
                await trio.sleep(0.2 * 50 ** self.random.random())
            finally:
                self.workers.signal(number, signal.SIGCONT)

    async def break_links(self) -> None:
        async with trio.open_nursery() as nursery:
            while True:
                await trio.sleep(self.random.uniform(0.2, 1.2))
                link = self.random.choice(self.links)
                fault = self.random.choice([*Fault])
                seconds = 0.1 * 30 ** self.random.random()
                if link.is_whole:
                    nursery.start_soon(link.suffer, fault, seconds)
                    self.done[f"{link.name} {fault}"] += 1

    async def fill_disks(self) -> None:
        while True:
            await trio.sleep(self.random.uniform(3.0, 9.0))
            with suppress(psycopg.Error):
                await self._blocking(self.judge.fill_disk, True)
                self.done["disk of the database full"] += 1
            try:
                await trio.sleep(self.random.uniform(0.1, 1.5))
            finally:
                with trio.CancelScope(shield=True):
                    await self._surely(partial(self.judge.fill_disk, False))

    async def _surely(self, do: Callable[[], None]) -> None:
        """Do something in the database as soon as it is there."""
        while True:
            with suppress(psycopg.Error):
                return await self._blocking(do)
            await trio.sleep(0.1)

    async def restart_bus(self) -> None:
        with trio.CancelScope(shield=True):
            self.done["NATS restarted"] += 1
            await self._in_thread(self.servers.bus.kill)
            await trio.sleep(self.random.choice((0.0, 0.3, 1.5)))
            await self._in_thread(self.servers.bus.start)

    async def restart_database(self) -> None:
        how = self.random.choice((signal.SIGINT, signal.SIGQUIT))
        crash = " after a crash" if how is signal.SIGQUIT else ""
        with trio.CancelScope(shield=True):
            self.done[f"PostgreSQL restarted{crash}"] += 1
            await self._in_thread(partial(self.servers.database.stop, how))
            await trio.sleep(self.random.choice((0.0, 0.3, 1.5)))
            await self._in_thread(self.servers.database.start)

    async def _in_thread(self, do: Callable[[], None]) -> None:
        await self._blocking(self.servers.thread.submit(do).result)

    async def _blocking(self, do: Callable[..., T], *args: Any) -> T:
        return await trio.to_thread.run_sync(do, *args)
