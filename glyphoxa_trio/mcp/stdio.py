"""A wire over the pipes of a stdio server's process.

Import this lazily: it needs the SDK.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import trio

from . import process
from .process import LastLines
from .transport import Loss
from .wire import Wire

_LAST_WORDS: Final = 0.2  # seconds for what a dead server still has in its pipes


@asynccontextmanager
async def open_wire(
    server: trio.Process, loss: Loss, said: LastLines
) -> AsyncGenerator[Wire]:
    """A wire to a running server that is not yet running itself."""
    assert server.stdin is not None
    assert server.stdout is not None

    async def fate() -> str | None:
        with trio.move_on_after(_LAST_WORDS):
            await server.wait()
        return None if server.returncode is None else process.how_it_ended(server)

    async def bury() -> None:
        await server.wait()
        # A child that inherited stdout would keep it open for ever.
        await trio.sleep(_LAST_WORDS)
        wire.close(process.how_it_ended(server))

    def note(line: bytes) -> None:
        said.note(b"stdout: " + line)

    wire = Wire(server.stdout, server.stdin, loss=loss, note=note, fate=fate)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.listen, server, said)
        nursery.start_soon(bury)
        yield wire
        nursery.cancel_scope.cancel()
