"""The process's own stdin and stdout, for one protocol and nobody else."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import attrs

import trio

from .definition import CannotServe

# Where the kernel opens a descriptor anew. What it has not may be shared.
_DESCRIPTORS: Final = "/proc/self/fd"


@attrs.define(eq=False)
class Outgoing(trio.abc.SendStream):
    """A pipe to write to, with waiting or without."""

    _stream: trio.lowlevel.FdStream

    def send_nowait(self, data: bytes) -> int:
        """How many bytes the pipe took. What is wrong with it, `send_all` will say."""
        try:
            return os.write(self._stream.fileno(), data)
        except OSError:
            return 0

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()


@asynccontextmanager
async def own_stdio() -> AsyncGenerator[tuple[trio.abc.ReceiveStream, Outgoing]]:
    """What comes in and what goes out, for as long as the block lasts.

    Meanwhile everybody else's stdin is empty and their stdout is stderr: a ``print``
    in a handler, or in a program that it starts, does not get between the messages.

    Raises:
      CannotServe: if one of them is closed.
    """
    if sys.stdin is None or sys.stdout is None:
        raise CannotServe("stdin and stdout must be open")
    sys.stdout.flush()
    incoming = trio.lowlevel.FdStream(_alone(0, os.O_RDONLY))
    outgoing = Outgoing(trio.lowlevel.FdStream(_alone(1, os.O_WRONLY)))
    kept = [os.dup(0), os.dup(1)]
    empty = os.open(os.devnull, os.O_RDWR)
    os.dup2(empty, 0)
    os.dup2(empty if sys.stderr is None else 2, 1)
    os.close(empty)
    try:
        async with incoming, outgoing:
            yield incoming, outgoing
    finally:
        sys.stdout.flush()
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
            os.close(descriptor)


def _alone(descriptor: int, flags: int) -> int:
    """The same pipe or terminal, opened anew where that can be done.

    That it does not block is a property of what was opened, which a descriptor shares
    with its duplicates in other processes: a shell's terminal would stop working.
    Files stay as they are, since they have a place where one goes on.
    """
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        flags |= os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        try:
            return os.open(f"{_DESCRIPTORS}/{descriptor}", flags)
        except OSError:  # another system, or somebody else's terminal
            pass
    return os.dup(descriptor)
