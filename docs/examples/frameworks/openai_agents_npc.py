"""An agent of OpenAI Agents that asks an NPC, as a tool: docs/serve-npc.md.

python openai_agents_npc.py npcs.yaml "What does Greymantle know of blinded?"
"""

from __future__ import annotations

import asyncio
import sys

from agents import Agent, Runner, set_default_openai_api
from agents.mcp import MCPServerStdio

set_default_openai_api("chat_completions")  # which servers of other models have, too


async def main(config: str, question: str) -> None:
    npcs = MCPServerStdio(
        {"command": "glyphoxa", "args": ["serve", "npc", config]},
        client_session_timeout_seconds=70,  # longer than a turn may take
    )
    async with npcs:
        agent = Agent(
            name="Game master",
            instructions="Ask the characters with say, and report what they say.",
            mcp_servers=[npcs],
        )
        result = Runner.run_streamed(agent, question)
        async for _ in result.stream_events():
            pass
        print(result.final_output)


asyncio.run(main(*sys.argv[1:]))
