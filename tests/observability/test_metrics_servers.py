"""Real servers under the metrics: killed, lost, away, renaming. Real processes."""

from __future__ import annotations

import os
import signal
from typing import Any

import attrs
import pytest

import trio

from glyphoxa_trio.config import McpConfig, NpcConfig, RestartConfig, ServerSpec
from glyphoxa_trio.mcp import ServerState, ServerStatus
from glyphoxa_trio.observability import open_metrics
from glyphoxa_trio.tools.tier import Tier

from ..mcp.support import plain
from ..npc.support import ScriptedLLM, call
from .support import LIMIT, config, opened
from .test_metrics import CALLS, say, shown

pytestmark = pytest.mark.border

UP = "ai_agent_mcp_server_up"
RESTARTS = "ai_agent_mcp_server_restarts_total"


@attrs.define(eq=False)
class Statuses:
    """What servers are told to be, and waiting for one to be something."""

    now: dict[str, ServerStatus] = attrs.field(factory=dict)
    _moved: trio.Event = attrs.field(factory=trio.Event)

    def told(self, event: object) -> None:
        if isinstance(event, ServerStatus):
            self.now[event.name] = event
            self._moved.set()
            self._moved = trio.Event()

    async def until(self, name: str, state: ServerState, *, restarts: int = 0) -> int:
        """Wait for it; the pid."""
        with trio.fail_after(LIMIT):
            while not (
                name in self.now
                and self.now[name].state is state
                and self.now[name].restarts >= restarts
            ):
                await self._moved.wait()
        return self.now[name].pid or 0


def served(*servers: ServerSpec, **more: Any) -> Any:
    npcs = (NpcConfig(name="Bo", tools=("plain.echo",), budget_tier=Tier.DEEP),)
    return config(npcs=npcs, mcp=McpConfig(servers=servers, remember=False), **more)


async def test_a_server_that_is_killed_is_down_then_up_and_counted() -> None:
    # A48, A49
    slowly = RestartConfig(backoff=0.3)
    statuses = Statuses()
    chosen = served(plain(restart=slowly), plain(name="other"))
    async with opened(chosen, on_server_event=statuses.told) as runtime:
        async with open_metrics(runtime) as metrics:
            pid = await statuses.until("plain", ServerState.READY)
            await statuses.until("other", ServerState.READY)
            both = {("plain",): 1.0, ("other",): 1.0}
            assert shown(metrics.registry, UP) == both
            assert shown(metrics.registry, RESTARTS) == dict.fromkeys(both, 0.0)
            for round_ in (1, 2):
                os.kill(pid, signal.SIGKILL)
                await statuses.until("plain", ServerState.RESTARTING)
                assert shown(metrics.registry, UP) == {**both, ("plain",): 0.0}
                states = shown(metrics.registry, "glyphoxa_servers")
                assert (states["ready",], states["restarting",]) == (1, 1)
                pid = await statuses.until("plain", ServerState.READY, restarts=round_)
                assert shown(metrics.registry, UP) == both
                assert shown(metrics.registry, RESTARTS) == {
                    ("plain",): round_,
                    ("other",): 0,
                }


async def test_a_server_that_gives_up_blocks_its_tools() -> None:
    once = RestartConfig(backoff=0.01, max_restarts=0)
    statuses = Statuses()
    chosen = served(plain(restart=once))
    async with opened(chosen, on_server_event=statuses.told) as runtime:
        async with open_metrics(runtime) as metrics:
            os.kill(await statuses.until("plain", ServerState.READY), signal.SIGKILL)
            await statuses.until("plain", ServerState.FAILED)
            tools = len(statuses.now["plain"].tools)
            assert tools
            assert shown(metrics.registry, UP) == {("plain",): 0}
            blocked = shown(metrics.registry, "glyphoxa_tools_blocked")
            assert blocked == {
                ("server",): tools,
                ("breaker",): 0,
                ("strays",): 0,
                ("stalls",): 0,
            }
            assert shown(metrics.registry, "glyphoxa_servers")["failed",] == 1


async def test_a_server_that_is_taken_away_is_not_shown_any_more() -> None:
    statuses = Statuses()
    async with opened(served(plain()), on_server_event=statuses.told) as runtime:
        async with open_metrics(runtime) as metrics:
            await statuses.until("plain", ServerState.READY)
            await runtime.remove_server("plain")
            assert shown(metrics.registry, UP) == {}
            assert shown(metrics.registry, RESTARTS) == {}


async def test_calls_of_a_server_have_its_name() -> None:
    # A46: over a real pipe
    llm = ScriptedLLM([[call("mcp__plain__echo", '{"who": "Yrsa"}')], ["Well."]])
    async with opened(served(plain()), llm=llm) as runtime:
        async with open_metrics(runtime) as metrics:
            await say(runtime, tier=Tier.DEEP)
            assert shown(metrics.registry, CALLS) == {("plain", "ok", "echo"): 1}
