"""The workers as this process sees them: places, and a process at each of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import attrs
from psycopg.conninfo import conninfo_to_dict

import trio

from ...nats import server as nats
from .links import Link, open_link
from .workers import NOT_BEGUN

WORKERS: Final = 4
_BEGINNING: Final = 60.0
_ENDING: Final = 15.0


async def until(check: Callable[[], object], pause: float = 0.01) -> None:
    """Wait until something is so, which mostly other processes make so."""
    while not check():  # noqa: ASYNC110
        await trio.sleep(pause)


@attrs.define(eq=False)
class Worker:
    """One place for a worker: the process that is there now, and its ways."""

    at: int
    links: tuple[Link, Link]
    addresses: tuple[str, str]
    number: int = 0  # of the process
    name: str = ""  # once it serves
    expected: set[int] = attrs.field(factory=set)  # the statuses that its end may have


@attrs.define(eq=False)
class Workers:
    """The workers, and the parent of their processes, which starts each that ends."""

    parent: trio.Process
    counts: Counter[str]
    places: list[Worker] = attrs.field(factory=list)
    ended: list[str] = attrs.field(factory=list)  # by themselves
    stopping: bool = False
    _last: int = 0

    def start(self, place: Worker) -> None:
        self._last += 1
        place.number, place.name, place.expected = self._last, "", set()
        self._tell(f"start {place.number} {' '.join(place.addresses)}")

    def signal(self, number: int, which: signal.Signals) -> None:
        """Send a process a signal, if it is still there."""
        for place in self.places:
            if place.number == number and which in (signal.SIGKILL, signal.SIGTERM):
                place.expected |= {-which, 0} if which == signal.SIGTERM else {-which}
        self._tell(f"signal {number} {int(which)}")

    def kill(self, place: Worker) -> None:
        self.signal(place.number, signal.SIGKILL)

    def of(self, name: str) -> Worker | None:
        return next((x for x in self.places if x.name == name), None)

    def ready(self) -> list[Worker]:
        return [x for x in self.places if x.name and not x.expected]

    def _tell(self, line: str) -> None:
        assert self.parent.stdin is not None
        os.write(self.parent.stdin.fileno(), f"{line}\n".encode())  # type: ignore[attr-defined]

    async def drained(self) -> None:
        """Have all of them end; one that does not, or not well, is noted."""
        with trio.move_on_after(_ENDING):
            await until(lambda: len(self.ready()) == WORKERS)
        self.stopping = True
        for place in self.places:
            self.signal(place.number, signal.SIGTERM)
        with trio.move_on_after(_ENDING):
            await until(lambda: not any(x.number for x in self.places))
        late = [x.number for x in self.places if x.number]
        self.ended += [f"worker {x} does not end" for x in late]

    async def listen(self) -> None:
        """Hear what becomes of the processes, until the parent ends."""
        rest = b""
        assert self.parent.stdout is not None
        async for data in self.parent.stdout:
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                what, number, told = line.decode().split()
                for place in self.places:
                    if place.number == int(number):
                        self._hear(place, what, told)

    def _hear(self, place: Worker, what: str, told: str) -> None:
        if what == "ready":
            place.name = told
            return
        status = int(told)
        if self.stopping:
            place.number = 0
            if status not in (0, NOT_BEGUN):
                self.ended.append(f"a worker that was to drain ended with {status}")
            return
        if status == NOT_BEGUN and not place.name:
            self.counts["starts without a server"] += 1
        elif status not in place.expected:
            self.ended.append(f"worker {place.number} ended with {status}")
        self.start(place)


@asynccontextmanager
async def the_workers(
    bus: nats.RealServer, address: str, folder: Path
) -> AsyncGenerator[tuple[Workers, list[Link]]]:
    """Run workers, each with ways of its own to both servers, until the block is left;
    then they drain."""
    parent = await trio.lowlevel.open_process(
        [
            *(sys.executable, "-m", "tests.cluster.chaos.workers"),
            *(str(folder / "ledger"), str(folder / "log")),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    workers = Workers(parent, Counter())
    async with trio.open_nursery() as nursery:
        given = conninfo_to_dict(address)
        socket = Path(str(given["host"]), ".s.PGSQL.5432")
        for at in range(WORKERS):
            dial = partial(trio.open_tcp_stream, "127.0.0.1", bus.port)
            one = await open_link(nursery, "link worker-NATS", dial)
            dial = partial(trio.open_unix_socket, socket)
            two = await open_link(nursery, "link worker-PostgreSQL", dial)
            store = f"postgresql://{given['user']}@127.0.0.1:{two.port}"
            store += f"/{given['dbname']}?application_name={at}"
            addresses = f"nats://127.0.0.1:{one.port}", store
            workers.places.append(Worker(at, (one, two), addresses))
        nursery.start_soon(workers.listen)
        try:
            for place in workers.places:
                workers.start(place)
            with trio.fail_after(_BEGINNING):
                await until(lambda: len(workers.ready()) == WORKERS)
            yield workers, [link for x in workers.places for link in x.links]
            await workers.drained()
        finally:
            workers.stopping = True
            assert parent.stdin is not None
            await parent.stdin.aclose()
            with trio.CancelScope(shield=True):
                await parent.wait()
            nursery.cancel_scope.cancel()
    assert parent.stdout is not None
    await parent.stdout.aclose()
