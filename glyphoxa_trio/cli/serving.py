"""The lines of commands that serve other programs, and their orderly end."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from .leaving import Leaving
from .render import on_screen

if TYPE_CHECKING:
    from glyphoxa_trio.service import Service


async def serve_until_told(service: Service, leaving: Leaving, what: str) -> None:
    """Say where a service is, and return once it is told to stop, and has stopped.

    Args:
      what: what it serves.
    """
    note(f"serving {what} at {service.url}")
    note(f"the table, for players: {service.url}/")
    note(f"the page for operators: {service.url}/operator")
    if service.probes_url:
        note(f"health and metrics at {service.probes_url}")
    if service.token is not None:
        note(f"the operator's token: {service.token.reveal()}")
    await leaving.told.wait()
    note("stopping")
    if not await service.drain():
        note("some turns were interrupted")


def note(text: str) -> None:
    """Print a line of the error stream."""
    sys.stderr.write(f"glyphoxa: {on_screen(text)}\n")
    sys.stderr.flush()
