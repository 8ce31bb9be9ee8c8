"""A wire over the pipes of a stdio server's process, and the care for both.

The process is ours and not the SDK's, because the SDK's own transport does not
say whose process it runs, leaves children of a server behind, and takes up to
6 s to end one. Import this lazily: it needs the SDK.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import trio

from glyphoxa_trio.config import ServerSpec

from . import process
from .descendants import Descendants
from .process import LastLines
from .transport import ConnectionFailed, Loss
from .wire import Wire

_LAST_WORDS: Final = 0.2  # seconds for what a dead server still has in its pipes


@asynccontextmanager
async def open_wire(
    spec: ServerSpec, loss: Loss, said: LastLines
) -> AsyncGenerator[tuple[Wire, int]]:
    """A server's process, its pid, and a wire to it that is not yet running.

    Leaving ends the process as `process.end` does.

    Raises:
      ConnectionFailed: if it cannot be started.
    """
    descendants = Descendants()
    try:
        server = await process.start(spec, descendants)
    except OSError as error:
        raise ConnectionFailed(f"cannot be started: {error}") from error
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
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(process.listen, server, said)
            nursery.start_soon(bury)
            yield wire, server.pid
            nursery.cancel_scope.cancel()
    finally:
        await process.end(server, descendants, said)
