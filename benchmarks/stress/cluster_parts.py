"""Worker processes of a benchmark, and what is said to them."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter

import attrs

import trio

from glyphoxa_trio import Npc
from glyphoxa_trio.cluster import RemoteNpc, RemoteRuntime, connect
from glyphoxa_trio.nats import open_nats
from glyphoxa_trio.npc import Sentence, Turn, TurnEnd
from tests.nats.server import a_server

PATIENCE = 30.0  # seconds


@attrs.define(eq=False)
class Worker:
    """A process that serves sessions; ``name`` is the one that it has on the bus."""

    process: subprocess.Popen[str]
    name: str = ""

    @property
    def pid(self) -> int:
        return self.process.pid

    def processor(self) -> float:
        """Return the seconds of processor that all of its threads have had."""
        return time.clock_gettime((~self.pid << 3) | 2)

    async def line(self) -> str:
        """Return the next line that it prints."""
        assert self.process.stdout is not None
        text = await trio.to_thread.run_sync(self.process.stdout.readline)
        if not text:
            raise RuntimeError("a worker has ended")
        return text.strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def freeze(self) -> None:
        """Stop it, and wait until it stands still."""
        self.process.send_signal(signal.SIGSTOP)
        while any(
            (thread / "stat").read_text().rpartition(") ")[2][0] != "T"
            for thread in Path(f"/proc/{self.pid}/task").iterdir()
        ):
            time.sleep(0.001)

    async def drained(self) -> float:
        """Have it give everything away; return the seconds that took."""
        began = perf_counter()
        self.process.send_signal(signal.SIGTERM)
        await self.line()
        took = perf_counter() - began
        await trio.to_thread.run_sync(self.process.wait)
        return took


@attrs.define(eq=False)
class Cluster:
    """Workers on one bus and one store, and a client of them."""

    bus: str
    store: str
    runtime: RemoteRuntime
    workers: list[Worker] = attrs.field(factory=list)

    async def grow(self, count: int) -> None:
        """Start workers until so many live, and wait until the client knows them."""
        command = [sys.executable, "-m", "benchmarks.stress.cluster_worker"]
        started = [
            Worker(
                subprocess.Popen(  # noqa: ASYNC220 (which takes a millisecond)
                    [*command, self.bus, self.store],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for _ in range(count - len(self.workers))
        ]
        self.workers += started
        with trio.fail_after(PATIENCE):
            for worker in started:
                worker.name = await worker.line()
            names = {x.name for x in self.workers}
            # Nothing tells of a beat.
            while names - {x.worker for x in self.runtime.workers}:  # noqa: ASYNC110
                await trio.sleep(0.02)

    def owner(self, session: str) -> Worker:
        """Return the worker that has a session, as the client has learnt."""
        found = self.runtime.owner(session)
        assert found is not None
        return next(x for x in self.workers if x.name == found[0])

    def lose(self, worker: Worker) -> None:
        worker.kill()
        self.workers.remove(worker)

    def processor(self) -> float:
        return sum(x.processor() for x in self.workers)


@asynccontextmanager
async def a_cluster(store: str, workers: int) -> AsyncGenerator[Cluster]:
    """Run a bus, so many workers, and a client of them, until the block is left."""
    with a_server() as bus:
        async with (
            open_nats(bus.url) as nats,
            connect(nats, wait_for_workers=0) as runtime,
        ):
            cluster = Cluster(bus.url, store, runtime)
            try:
                await cluster.grow(workers)
                yield cluster
            finally:
                for worker in cluster.workers:
                    worker.kill()


@attrs.define
class Times:
    """Seconds of turns, from their beginning: until their first sentences, and until
    their ends. ``processor``: a turn, by groups of them. ``lost``: turns whose worker
    was taken for dead."""

    first: list[float] = attrs.field(factory=list)
    whole: list[float] = attrs.field(factory=list)
    processor: list[float] = attrs.field(factory=list)
    lost: int = 0

    @property
    def end(self) -> list[float]:
        """The seconds from the first sentences to the ends."""
        return [w - f for f, w in zip(self.first, self.whole, strict=True)]


async def spoken(
    npc: Npc | RemoteNpc[Turn], text: str, times: Times | None = None
) -> str:
    """Take a turn to its end, which must be a good one; return what was said.

    With ``times``, a lost one is counted.
    """
    began = perf_counter()
    first = 0.0
    async with npc.say(text) as turn:
        async for event in turn:
            if not first and isinstance(event, Sentence):
                first = perf_counter() - began
    whole = perf_counter() - began
    done = turn.done
    if times is not None and done is not None and done.end is TurnEnd.LOST:
        times.lost += 1
        return ""
    if done is None or done.end is not TurnEnd.COMPLETED:
        raise RuntimeError(f"a turn did not end well: {done}")
    if times is not None:
        times.first.append(first)
        times.whole.append(whole)
    return done.text
