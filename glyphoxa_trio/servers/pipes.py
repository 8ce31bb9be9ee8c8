"""The process's own stdin and stdout, reserved for the protocol."""

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

# The folder where Linux lets a process open its own descriptors again. On systems
# without it the descriptor is duplicated, and its flags are shared.
_DESCRIPTORS: Final = "/proc/self/fd"


@attrs.define(eq=False)
class Outgoing(trio.abc.SendStream):
    """A pipe that can be written to with or without waiting."""

    _stream: trio.lowlevel.FdStream

    def send_nowait(self, data: bytes) -> int:
        """Write what fits now, and return the number of bytes.

        Errors are left to `send_all`.
        """
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
    """Reserve stdin and stdout for the block, and yield them as streams.

    Within the block, the process's stdin is empty and its stdout is stderr: a ``print``
    in a handler, or in a program that it starts, does not get between the messages.

    Raises:
      CannotServe: if stdin or stdout is closed.
    """
    # The command replaces closed streams; the interpreter's own stay None.
    if None in (sys.stdin, sys.stdout, sys.__stdin__, sys.__stdout__):
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
    """Open the same pipe or terminal again, or duplicate the descriptor.

    Non-blocking mode belongs to the open file, which a descriptor shares with its
    duplicates in other processes: setting it would break the terminal of the shell.
    Regular files are duplicated, since opening one again would lose its position.
    """
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        flags |= os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        try:
            return os.open(f"{_DESCRIPTORS}/{descriptor}", flags)
        except OSError:  # another system, or a terminal of another user
            pass
    return os.dup(descriptor)
