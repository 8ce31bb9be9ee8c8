"""openai-agents' `MCPServerStdio`, called directly; its timeout is the session's."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
from agents.mcp import MCPServerStdio

from benchmarks.peers.measure import LIMIT, EachByItself, measure, text_of


class OpenAiAgents(EachByItself):
    """Two connections with a server each: one limits its calls, the other does not."""

    def __init__(self, patient: MCPServerStdio, limited: MCPServerStdio) -> None:
        self.patient, self.impatient = patient, limited

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        server = self.impatient if name == "cancelled" else self.patient
        answer = await server.call_tool(name, arguments)
        return text_of(answer)

    async def limited(self, name: str, arguments: dict[str, Any]) -> str | None:
        try:
            answer = await self.impatient.call_tool(name, arguments)
        except Exception:  # its timeout is an error of the SDK's
            return None
        return text_of(answer)


def server(seconds: float) -> MCPServerStdio:
    path = str(Path(__file__).with_name("server.py"))
    return MCPServerStdio(
        {"command": sys.executable, "args": [path]},
        cache_tools_list=True,
        client_session_timeout_seconds=seconds,
    )


async def main(calls: int) -> None:
    async with server(30) as patient, server(LIMIT) as limited:
        await measure(OpenAiAgents(patient, limited), calls)


anyio.run(main, int(sys.argv[1]))
