"""``glyphoxa cluster dev``: a server of NATS, workers and a conversation, all on this
machine. What ends is started again; when the player leaves, all of it ends."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
from pathlib import Path
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import lone_errors
from glyphoxa_trio.actors.interrupts import interrupts
from glyphoxa_trio.cluster import ClusterError, RemoteRuntime
from glyphoxa_trio.config import Config
from glyphoxa_trio.config.memory import OFF

from .children import ChildProcess, a_child
from .cluster_runs import remote
from .common import BAD_INPUT, INTERRUPTED, Model, memory_of, run
from .consent import said_yes
from .play_cluster import ClusterTable, opened_screen
from .screen import Screen

_STARTING: Final = 10.0  # seconds for the server of NATS
_SERVING: Final = 60.0  # seconds for the workers
_PAUSE: Final = 0.5  # seconds before a worker is started again, and for its last lines
_QUICK: Final = 5.0  # seconds: one that ends earlier did not serve
_TRIES: Final = 3  # of a worker that ends as early each time
_LEAVING: Final = "2"  # seconds for turns that run when the player leaves
_LISTENS: Final = re.compile(r"client connections on (127\.0\.0\.1:\d+)")
_INSTALL: Final = (
    "nats-server is not installed: apt install nats-server, brew install nats-server,"
    " or https://nats.io/download"
)
_GLYPHOXA: Final = "from glyphoxa_trio.cli import main; main()"


def develop(path: Path, model: Model, *, workers: int, session: str) -> int:
    """Run everything, and talk until the input ends; return the exit status."""

    async def main(config: Config) -> int:
        program = shutil.which("nats-server") or shutil.which(
            "nats-server",
            path="/usr/sbin",  # Debian's; not everybody has it in the PATH
        )
        if program is None:
            raise ClusterError(_INSTALL)
        if memory_of(config, path) == OFF:
            raise ClusterError(
                "workers need memory that they share: memory.store is off, or"
                " mcp.remember is false"
            )
        screen = opened_screen()
        table = ClusterTable(screen)
        async with interrupts(table.talk.interrupt):
            with table.talk.scope, lone_errors():
                async with (
                    a_child([program, "-a", "127.0.0.1", "-p", "-1"]) as server,
                    trio.open_nursery() as nursery,
                ):
                    url = await _listening(server)
                    screen.quiet(f"process {server.pid}: nats-server at {url}")
                    nursery.start_soon(_server_ends, server)
                    worker = DevelopedWorker(_command(path, model), url, screen)
                    for _ in range(workers):
                        nursery.start_soon(worker.run)
                    async with remote(url, "default") as runtime:
                        await _serving(runtime, workers)
                        screen.quiet(
                            "to see another one take over: /where, kill -9 the process"
                            " that it names, and go on\nfrom elsewhere: glyphoxa"
                            f" cluster status --nats {url}"
                        )
                        await table.sit(runtime, session)
                    nursery.cancel_scope.cancel("the player leaves")
        return INTERRUPTED if table.talk.left_by_signal else 0

    return run(main, path, model)


def _command(path: Path, model: Model) -> list[str]:
    """Return the command of a worker."""
    program = [sys.executable, "-P", "-c", _GLYPHOXA, "cluster", "worker"]
    options = ["--within", _LEAVING]
    if model.name is not None:
        options += ["--model", model.name]
        if model.base_url is not None:
            options += ["--base-url", model.base_url]
    if said_yes():
        options.append("--yes")
    return [*program, *options, "--", str(path)]


async def _listening(server: ChildProcess) -> str:
    """Return the address of a server of NATS that has begun.

    Raises:
      ClusterError: it does not begin.
    """
    last = ""
    with trio.move_on_after(_STARTING):
        async for line in server.lines:
            last = line
            if found := _LISTENS.search(line):
                return f"nats://{found[1]}"
    raise ClusterError(f"nats-server does not start: {last}")


async def _server_ends(server: ChildProcess) -> None:
    raise ClusterError(f"nats-server has ended: {_ended(await server.wait())}")


async def _serving(runtime: RemoteRuntime, workers: int) -> None:
    """Wait until so many workers serve.

    Raises:
      ClusterError: they do not.
    """
    with trio.move_on_after(_SERVING):
        while True:
            if len(runtime.workers) >= workers:
                return
            await trio.sleep(0.1)
    raise ClusterError(f"the workers do not serve after {_SERVING:.0f} s")


@attrs.frozen
class DevelopedWorker:
    """A worker that is started again whenever it ends."""

    command: list[str]
    url: str
    screen: Screen

    async def run(self) -> None:
        """Keep one running until cancelled.

        Raises:
          ClusterError: it ends as soon as it has begun, again and again.
        """
        tries = 0
        while True:
            began = trio.current_time()
            env = {**os.environ, "NATS_URL": self.url}
            async with a_child(self.command, env) as worker:
                status, last = await self._end_of(worker)
            tries = 0 if trio.current_time() - began > _QUICK else tries + 1
            if status == BAD_INPUT or tries == _TRIES:
                raise ClusterError(f"a worker ends at once: {last}")
            self._show(f"process {worker.pid} {_ended(status)}; another one begins")
            await trio.sleep(_PAUSE)

    async def _end_of(self, worker: ChildProcess) -> tuple[int, str]:
        """Show its lines until it ends; return its status, and the last line."""
        last = ""

        async def hear() -> None:
            nonlocal last
            async for line in worker.lines:
                last = line.removeprefix("glyphoxa: ")
                self._show(f"process {worker.pid}: {last}")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(hear)
            status = await worker.wait()
            # A server of it that is left may keep its stderr open.
            nursery.cancel_scope.deadline = trio.current_time() + _PAUSE
        return status, last

    def _show(self, text: str) -> None:
        self.screen.pause()  # not within the line of an NPC that speaks
        self.screen.aside(text)


def _ended(status: int) -> str:
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"ended with status {status}"
