"""Programs that run as long as this one: their lines, their end, and no orphans."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import attrs

import trio

from . import tethered

GRACE: Final = 3.0  # seconds to obey SIGTERM
_CHUNK: Final = 4096
_LONGEST: Final = 2000  # bytes of a line that are kept


@attrs.define(eq=False)
class ChildProcess:
    """A program that was started. ``lines`` yields what it writes to its stderr."""

    lines: trio.MemoryReceiveChannel[str]
    _process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        """The process that can be killed."""
        return self._process.pid

    async def wait(self) -> int:
        """Return its exit status; below 0 it is that of a signal."""
        return await trio.to_thread.run_sync(self._process.wait, abandon_on_cancel=True)

    async def end(self) -> None:
        """Ask it to end, kill it if it does not, and return when it has ended."""
        with trio.CancelScope(shield=True):
            self._process.terminate()
            with trio.move_on_after(GRACE):
                await self.wait()
                return
            self._process.kill()
            await self.wait()


@asynccontextmanager
async def a_child(
    command: Sequence[str], env: Mapping[str, str] | None = None
) -> AsyncGenerator[ChildProcess]:
    """Run a program within the block; leaving the block ends it.

    A signal of the terminal, such as Ctrl-C, does not reach it. On Linux it is killed
    when this process ends without leaving the block.

    Raises:
      OSError: it cannot be run.
    """
    inward, outward = os.pipe()
    try:
        process = _started(command, env, outward)
    except BaseException:
        os.close(inward)
        raise
    finally:
        os.close(outward)
    told, lines = trio.open_memory_channel[str](100)
    child = ChildProcess(lines, process)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_read, inward, told)
        try:
            yield child
        finally:
            await child.end()
            nursery.cancel_scope.cancel("it has ended")


def _started(
    command: Sequence[str], env: Mapping[str, str] | None, stderr: int
) -> subprocess.Popen[bytes]:
    # Not in a thread: Linux takes the end of that for the end of the parent.
    tether = [sys.executable, "-I", "-S", str(Path(tethered.__file__))]
    return subprocess.Popen(
        [*tether, str(os.getpid()), *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        env=env,
        start_new_session=True,
    )


async def _read(descriptor: int, told: trio.MemorySendChannel[str]) -> None:
    """Pass lines on. Whoever does not hear them loses them; the program never waits."""
    rest = b""
    async with trio.lowlevel.FdStream(descriptor) as stream, told:
        while chunk := await stream.receive_some(_CHUNK):
            *whole, rest = (rest + bytes(chunk)).split(b"\n")
            rest = rest[:_LONGEST]
            for line in whole:
                try:
                    told.send_nowait(line.decode(errors="replace"))
                except (trio.WouldBlock, trio.BrokenResourceError):
                    continue
