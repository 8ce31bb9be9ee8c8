"""``glyphoxa serve NAME --transport http``: serve, and stop in order."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import trio

from glyphoxa_trio.actors import lone_errors
from glyphoxa_trio.actors.interrupts import interrupts
from glyphoxa_trio.servers.dispatch import Dispatch

from .app import HttpApp, open_service
from .listening import HttpConnections, open_listening
from .options import HttpOptions


async def serve_http(
    opening: AbstractAsyncContextManager[Dispatch],
    options: HttpOptions,
    version: str,
    *,
    ending: Callable[[int], None] = lambda status: None,
) -> int:
    """Serve until SIGTERM or Ctrl-C; return the exit status.

    The first signal lets running requests finish; a second one cancels them.

    Args:
      opening: opens the dispatch that answers; entered once the address is taken.
      ending: called with the status when only closing is left.

    Raises:
      CannotServe: if the server cannot listen at the address, or the certificate
        cannot be used.
    """
    gate = HttpApp(access=options.access)
    told = trio.Event()
    status = 0
    with trio.CancelScope() as scope:

        def leave(number: int) -> None:
            nonlocal status
            if gate.service is None or told.is_set():
                status = 128 + number
                scope.cancel("a signal")
                ending(status)
            told.set()

        with lone_errors():
            connections = HttpConnections(gate.asgi, options.limits)
            async with interrupts(leave), open_listening(connections, options) as url:
                async with (
                    opening as dispatch,
                    open_service(
                        dispatch,
                        version,
                        options.access,
                        options.limits,
                        secure=options.certificate is not None,
                    ) as service,
                ):
                    gate.open(service)
                    _say(f"{dispatch.offer.name} at {url}/mcp")
                    await told.wait()
                    if not await service.drain():
                        _say("stopped; some requests were cancelled")
                    ending(status)
    return status


def _say(what: str) -> None:
    sys.stderr.write(f"glyphoxa serve: {what}\n")
    sys.stderr.flush()
