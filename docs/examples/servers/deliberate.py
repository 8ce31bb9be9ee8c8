"""A council that is asked for advice, and answers in the time that is left.

    python docs/examples/servers/deliberate.py --pace 0.12

Each of its twelve members takes ``--pace`` seconds to speak. A runtime says with
every call how long it waits for the answer, and `budget` turns that into a cancel
scope: in a FAST turn some members have spoken by then and their opinions are the
answer, in a DEEP one all of them. With ``--heedless`` it does not look at its
budget. It is cut off in FAST turns then, and whatever was said by then is lost.
"""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from typing import Any, TypedDict

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ToolAnnotations

from glyphoxa_trio.servers import budget

COUNCIL = {
    "the miller": "Wait for the harvest.",
    "the widow": "Pay what is owed first.",
    "the smith": "Strike before it cools.",
    "the priest": "Ask who gains by it.",
    "the hunter": "Go at dusk, and by the stream.",
    "the ferryman": "The river is too high this week.",
    "the tailor": "Nobody recognises a borrowed coat.",
    "the brewer": "Not on an empty stomach.",
    "the beggar": "I have seen them at the north gate.",
    "the captain": "Take six, and leave two behind.",
    "the scribe": "It was tried in my grandmother's day.",
    "the child": "Why not just ask them?",
}
# What an answer of use takes, not what the longest one does: the runtime shows a
# tool where its estimate fits.
META = {"glyphoxa/estimated_duration_ms": 300}


class Advice(TypedDict):
    """The opinions so far, and a flag that is true if all members have spoken."""

    opinions: list[str]
    complete: bool


def council(pace: float, margin: float, *, heedless: bool) -> MCPServer[Any]:
    """Return the server; each member takes ``pace`` seconds, an answer ``margin``."""
    server: MCPServer[Any] = MCPServer("council")

    @server.tool(
        annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
        meta=META,
    )
    async def deliberate(question: str, ctx: Context[Any, Any]) -> Advice:
        """Ask the village council for advice."""
        opinions: list[str] = []
        with nullcontext() if heedless else budget(ctx, margin=margin):
            for member, opinion in COUNCIL.items():
                await anyio.sleep(pace)
                opinions.append(f"{member}: {opinion}")
        return Advice(opinions=opinions, complete=len(opinions) == len(COUNCIL))

    return server


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A council over MCP.")
    parser.add_argument("--pace", type=float, default=0.12, help="seconds a member")
    parser.add_argument("--margin", type=float, default=0.05, help="seconds to answer")
    parser.add_argument("--heedless", action="store_true", help="ignore the budget")
    given = parser.parse_args()
    council(given.pace, given.margin, heedless=given.heedless).run()
