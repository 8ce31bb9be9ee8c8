"""A server of the Python SDK with prompts, their completion, and a tool that asks.

python storyteller.py
"""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

server = MCPServer("storyteller")


class Choice(BaseModel):
    colour: str
    amount: int = 1


@server.prompt()
def recap(hero: str, style: str = "plain") -> str:
    """What happened to a hero so far."""
    return f"Tell me in a {style} style what happened to {hero}."


@server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
async def complete(ref: Any, argument: Any, context: Any) -> types.Completion | None:
    values = ["plain", "playful", "grim"]
    return types.Completion(values=[x for x in values if x.startswith(argument.value)])


@server.tool()
async def buy(what: str, ctx: Context) -> str:
    """Buy something; asks for the colour."""
    answer = await ctx.elicit(f"Which colour of {what}?", Choice)
    if answer.action == "accept":
        return f"{answer.data.amount} {answer.data.colour} {what}"
    return f"no colour: {answer.action}"


if __name__ == "__main__":
    server.run()
