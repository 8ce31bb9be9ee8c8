"""A slow seer: an MCP server whose tools take their time, and say so.

    python config/servers/oracle.py --delay 0.8

``consult`` takes the delay (or ORACLE_DELAY seconds), ``vision`` three times as
long. Both declare it, so the runtime keeps them out of turns that cannot wait:
with the default, consulting is a STANDARD tool and a vision a DEEP one. The same
question gets the same answer, so both may be cached and asked again.
"""

from __future__ import annotations

import argparse
import os
import zlib
from collections.abc import Sequence
from typing import Any

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

OMENS = (
    "The candle leans although the air is still.",
    "Three crows settle where there was only one.",
    "The water in the bowl turns the colour of slate.",
    "Ash falls upward, and spells half a name.",
)
ANSWERS = (
    "Yes, but you will wish that you had not asked.",
    "No. Somebody near you hopes that it were otherwise.",
    "It is already done, on the far side of the river.",
    "Only if the youngest of you carries it.",
    "Ask again when the moon is thinner.",
)
SIGHTS = (
    "a door of black oak, barred from the outside",
    "lanterns moving in a line, and nobody to hold them",
    "a well with a ladder that ends in mid-air",
    "one grave, freshly dug, and two names on the stone",
)
READ_ONLY = ToolAnnotations(read_only_hint=True, open_world_hint=False)


def pick(lines: Sequence[str], *about: str) -> str:
    """One of `lines`, always the same for the same words in any case."""
    words = " ".join(" ".join(about).casefold().split())
    return lines[zlib.crc32(words.encode()) % len(lines)]


def declared(seconds: float) -> dict[str, Any]:
    """Return the metadata that declares a latency of so many seconds."""
    milliseconds = max(1, round(seconds * 1000))
    return {
        "glyphoxa/estimated_duration_ms": milliseconds,
        "glyphoxa/max_duration_ms": milliseconds * 2 + 500,
        "glyphoxa/cacheable_seconds": 300,
    }


def oracle(delay: float) -> MCPServer[Any]:
    """The server, slow by `delay` seconds."""
    server: MCPServer[Any] = MCPServer("oracle", instructions="A seer. Be patient.")

    @server.tool(annotations=READ_ONLY, meta=declared(delay))
    async def consult(question: str) -> str:
        """Put one question to the seer, who answers in riddles."""
        await anyio.sleep(delay)  # stops at once when the caller does not care
        return f"{pick(OMENS, question)} {pick(ANSWERS, question, 'answer')}"

    @server.tool(annotations=READ_ONLY, meta=declared(delay * 3))
    async def vision(place: str) -> str:
        """Ask the seer to look at a far place. This takes long."""
        await anyio.sleep(delay * 3)
        sight, omen = pick(SIGHTS, place), pick(OMENS, place, "vision")
        return f"At {place}: {sight}. {omen}"

    return server


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A slow seer over MCP.")
    parser.add_argument(
        "--delay", type=float, default=float(os.environ.get("ORACLE_DELAY", "0.8"))
    )
    oracle(parser.parse_args().delay).run()
