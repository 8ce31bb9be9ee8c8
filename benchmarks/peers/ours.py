"""glyphoxa_trio, as an embedder has it: a runtime, one server, its host."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
import attrs

import trio

from benchmarks.peers.measure import LIMIT, measure
from glyphoxa_trio import Config, open_runtime
from glyphoxa_trio.config import CalibrationConfig, McpConfig, ServerSpec
from glyphoxa_trio.host import Caller, ToolHost
from glyphoxa_trio.tools.gate import EVERYTHING
from glyphoxa_trio.tools.outcome import Outcome, ToolCall
from glyphoxa_trio.tools.tier import TierLimits

# A turn of DEEP may take as long as the calls without a limit need.
LIMITS = TierLimits(deep_ceiling=30.0)


@attrs.frozen
class Ours:
    host: ToolHost

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        end = await self.host.execute(f"peer.{name}", arguments)
        if not end.ok:
            raise RuntimeError(end.message)
        return end.message

    async def limited(self, name: str, arguments: dict[str, Any]) -> str | None:
        (answer,) = await self.fan_out([(name, arguments)])
        return answer

    async def fan_out(
        self, calls: list[tuple[str, dict[str, Any]]]
    ) -> list[str | None]:
        asked = [
            ToolCall(f"call_{at}", f"peer.{name}", _json(arguments))
            for at, (name, arguments) in enumerate(calls)
        ]
        return await self._within(asked, trio.current_time() + LIMIT)

    async def turn(self, rounds: list[tuple[str, dict[str, Any]]]) -> None:
        """Do what a session does with the tool clock of a turn."""
        deadline = trio.current_time() + LIMIT
        for name, arguments in rounds:
            call = ToolCall("call", f"peer.{name}", _json(arguments))
            await self._within([call], deadline)

    async def _within(self, asked: list[ToolCall], deadline: float) -> list[str | None]:
        caller = Caller(grant=EVERYTHING)
        ends = await self.host.fan_out(asked, caller, deadline=deadline)
        return [_text(end) for end in ends]


def _json(arguments: dict[str, Any]) -> str:
    return f'{{"seconds": {arguments["seconds"]}}}' if arguments else "{}"


def _text(end: Outcome) -> str | None:
    return end.message if end.ok else None


async def main(calls: int) -> None:
    server = str(Path(__file__).with_name("server.py"))
    config = Config(
        mcp=McpConfig(
            remember=False,
            servers=(
                ServerSpec(
                    name="peer", command=("python", server), estimated_duration=0.02
                ),
            ),
        ),
        tiers=LIMITS,
        calibration=CalibrationConfig(at_start=False),
    )
    async with open_runtime(config) as runtime:
        assert await runtime.wait_ready(within=10)
        await measure(Ours(runtime.host), calls)


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]), backend="trio")
