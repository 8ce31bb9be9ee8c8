"""Tools of one's own as a server: a list of them, or a file that defines some.

    from glyphoxa_trio import tool
    from glyphoxa_trio.servers import serve

    @tool(estimated_duration_ms=10, read_only=True)
    async def get_weather(location: str) -> str:
        \"\"\"Get the weather of a place.\"\"\"
        ...

    if __name__ == "__main__":
        serve("weather", [get_weather])

With these last lines, ``python weather.py`` serves it over stdio, and ``python
weather.py --transport http`` over HTTP. ``glyphoxa serve weather.py`` does the same
with a file that lacks them.
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
    """Serve tools to MCP clients until they disconnect; the last call of a program.

    Reads the options of ``glyphoxa serve`` from the command line; without any, it
    serves on stdio. The tools run as in a runtime: arguments are checked, limits are
    kept, a `ToolError` is an answer, and latencies are sent in ``_meta``.

    Args:
      name: the name of the server, as clients show it to people.
      instructions: how to use the tools, for the client's model.
      arguments: used in place of the command line's.

    Raises:
      SystemExit: with the exit status, if it is not 0.
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
        """Add no options."""

    @asynccontextmanager
    async def open_offer(
        self, options: argparse.Namespace
    ) -> AsyncGenerator[ServerDefinition]:
        yield self._offer
