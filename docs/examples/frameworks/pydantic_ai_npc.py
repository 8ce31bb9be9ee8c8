"""An agent of pydantic-ai that asks an NPC, as a tool: docs/serve-npc.md.

python pydantic_ai_npc.py npcs.yaml "What does Greymantle know of blinded?"
"""

from __future__ import annotations

import asyncio
import os
import sys

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset


async def main(config: str, question: str) -> None:
    npcs = MCPToolset(
        StdioTransport("glyphoxa", ["serve", "npc", config]),
        init_timeout=30,
        read_timeout=70,  # longer than a turn may take
    )
    agent = Agent(
        os.environ.get("AGENT_MODEL", "openai-chat:gpt-5-mini"),
        instructions="Ask the characters with say, and report what they say.",
        toolsets=[npcs],
    )
    async with agent.run_stream(question) as result:
        print(await result.get_output())


asyncio.run(main(*sys.argv[1:]))
