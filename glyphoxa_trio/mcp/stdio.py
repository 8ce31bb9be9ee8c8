"""A wire over the pipes of a stdio server's process.

Import this lazily: it needs the SDK.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import struct
import termios
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import attrs

import trio

from . import process
from .condensing import Condenser
from .process import LastLines
from .transport import SessionLost
from .wire import PipeDispatcher

_LAST_WORDS: Final = 0.2  # seconds to read what a dead server left in its pipes
_LAST_SIGH: Final = 0.01  # seconds for the same, if no request waits for an answer


@asynccontextmanager
async def open_wire(
    server: trio.Process, loss: SessionLost, said: LastLines, condenser: Condenser
) -> AsyncGenerator[PipeDispatcher]:
    """Yield a wire to a server that is running; the caller runs the wire.

    Args:
      server: the process, with three pipes.
      loss: takes the reason when the connection ends.
      said: takes the server's stderr, and lines on stdout that are not messages.
      condenser: reads large answers.
    """
    stdin = server.stdin
    assert isinstance(stdin, trio.lowlevel.FdStream)
    assert isinstance(server.stdout, trio.lowlevel.FdStream)

    async def fate() -> str | None:
        with trio.move_on_after(_LAST_WORDS):
            await server.wait()
        return None if server.returncode is None else process.how_it_ended(server)

    async def bury() -> None:
        await server.wait()
        # Do not wait until stdout is closed: a child that inherited it may keep it open
        # for ever. An idle server has no answers in its pipes, so it is replaced
        # sooner.
        await trio.sleep(_LAST_WORDS if wire.waits else _LAST_SIGH)
        wire.close(process.how_it_ended(server))

    def note(line: bytes) -> None:
        said.note(b"stdout: " + line)

    def write_now(data: bytes) -> bool:
        try:
            return os.write(stdin.fileno(), data) == len(data)
        except OSError:  # the pipe is full; or broken, which the writer reports as well
            return False

    wire = PipeDispatcher(
        _Output(server.stdout),
        stdin,
        loss=loss,
        note=note,
        fate=fate,
        unread=lambda: unread(stdin.fileno()),
        write_now=write_now,
        condenser=condenser,
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.listen, server, said)
        nursery.start_soon(bury)
        yield wire
        nursery.cancel_scope.cancel()


@attrs.define(eq=False)
class _Output(trio.abc.ReceiveStream):
    """The output of a server. Waits for the pipe first, and then reads.

    trio's own stream reads first. A server that gets one request after another has
    nothing to read then, and that costs a round of the loop for each of its answers.
    """

    _pipe: trio.lowlevel.FdStream

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        while True:
            await trio.lowlevel.wait_readable(self._pipe)
            try:
                return os.read(self._pipe.fileno(), max_bytes or select.PIPE_BUF)
            except BlockingIOError:
                pass
            except OSError as error:
                if error.errno == errno.EBADF:
                    raise trio.ClosedResourceError("it was closed") from None
                raise trio.BrokenResourceError from error

    async def aclose(self) -> None:
        await self._pipe.aclose()


def unread(pipe: int) -> int | None:
    """Return how many bytes are in a pipe without a reader.

    A request that a dead server has not read had no effect. But if another process has
    inherited the server's stdin, it may read on, and nothing is certain: then None is
    returned.
    """
    try:
        readers = select.poll()
        readers.register(pipe, 0)
        if not any(state & select.POLLERR for _, state in readers.poll(0)):
            return None
        counted = fcntl.ioctl(pipe, termios.FIONREAD, bytes(struct.calcsize("i")))
    except (OSError, ValueError):  # closed by now, or not a pipe
        return None
    (found,) = struct.unpack("i", counted)
    return int(found)
