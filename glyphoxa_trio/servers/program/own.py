"""Somebody's own tools as a server: a list of them, or a file that has some.

    from glyphoxa_trio import tool
    from glyphoxa_trio.servers import serve

    @tool(estimated_duration_ms=10, read_only=True)
    async def get_weather(location: str) -> str:
        \"\"\"Get the weather of a place.\"\"\"
        ...

    if __name__ == "__main__":
        serve("weather", [get_weather])

``python weather.py`` serves it over stdio then, ``python weather.py --transport
http`` over HTTP. ``glyphoxa serve weather.py`` does the same with a file that has
no such end.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager

import attrs

from glyphoxa_trio.tools.definition import Tool

from ..definition import ServerDefinition


def serve(
    name: str,
    tools: Iterable[Tool],
    *,
    title: str = "",
    instructions: str = "",
    arguments: Sequence[str] | None = None,
) -> None:
    """Serve tools to MCP clients until they leave; the end of a program.

    It reads the options of ``glyphoxa serve`` from the command line: without any, it
    serves stdio. The tools run as in a runtime: arguments are checked, limits kept,
    a `ToolError` is an answer, and latencies are told in ``_meta``.

    Args:
      name: of the server, as clients show it to people.
      instructions: for the client's model, how to use the tools.
      arguments: in place of the command line's.

    Raises:
      SystemExit: with the status, if it did not end well.
    """
    from .command import run

    offer = ServerDefinition(
        name=name, title=title, instructions=instructions, tools=tuple(tools)
    )
    words = sys.argv[1:] if arguments is None else arguments
    status = run(_Fixed(offer), words, prog=name, what=title or f"the tools of {name}")
    if status:
        sys.exit(status)


@attrs.frozen
class _Fixed:
    _offer: ServerDefinition

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """None."""

    @asynccontextmanager
    async def open_offer(
        self, options: argparse.Namespace
    ) -> AsyncGenerator[ServerDefinition]:
        yield self._offer
