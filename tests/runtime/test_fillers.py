"""Fillers as they are configured, with servers of which some are slow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio import Config, Runtime, open_runtime
from glyphoxa_trio.config import load_text
from glyphoxa_trio.config.voices import FillerConfig
from glyphoxa_trio.npc import Filler
from glyphoxa_trio.simulation.promises.fake_world import Act, FakeWorld

from ..npc.support import Reply, ScriptedLLM, call

# The example of seed 003, as far as it concerns waiting; another server has no words.
SEED = """
mcp:
  remember: false
  servers:
    aviation_atis:
      command: [python3, -m, atis]
      defaults:
        timeout_ms: 10000
        slow_response_threshold_ms: 2000
        slow_response_message: "Let me look that up for you, one moment..."
      tools:
        - name: get_metar
          slow_response_threshold_ms: 500
          slow_response_message: The weather at {airport}...
    other:
      command: other
calibration: {at_start: false}
overload: {enabled: false}
npcs:
  - name: Bo
    budget_tier: deep
    trust: {mode: full}
    tools: [aviation_atis, other]
"""
ESTIMATE = {"_meta": {"estimated_duration_ms": 1500}, "inputSchema": {"type": "object"}}
OFFERS = {
    "aviation_atis": ({"name": "get_atis"}, {"name": "get_metar"}),
    "other": ({"name": "look"},),
}


def scenery() -> FakeWorld:
    offers = {
        server: tuple({**tool, **ESTIMATE} for tool in tools)
        for server, tools in OFFERS.items()
    }
    return FakeWorld(lambda key, arguments: Act(seconds=3.0), offers)


def seed(text: str = SEED) -> Config:
    return load_text(text, source=Path("table.yaml"), env={})


async def said(runtime: Runtime) -> list[tuple[float, str]]:
    start = trio.current_time()
    async with runtime.npc("Bo").say("Think carefully!") as turn:
        return [
            (round(trio.current_time() - start, 9), event.text)
            async for event in turn
            if isinstance(event, Filler)
        ]


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        (
            "aviation_atis__get_atis",
            "{}",
            (2.0, "Let me look that up for you, one moment..."),
        ),
        (
            "aviation_atis__get_metar",
            '{"airport": "KSEA"}',
            (0.5, "The weather at KSEA..."),
        ),
        ("aviation_atis__get_metar", "{}", (0.5, "Hm, let me see.")),
        ("other__look", "{}", (0.7, "Hm, let me see.")),
    ],
)
async def test_the_seeds_example_speaks_up_after_its_delay(
    autojump_clock: MockClock,
    tool: str,
    arguments: str,
    expected: tuple[float, str],
) -> None:
    # A18, A27, G41
    script: list[Reply] = [[call(f"mcp__{tool}", arguments)], ["So."]]
    llm = ScriptedLLM(script)
    async with open_runtime(
        seed(), llm=llm, environment=scenery().environment()
    ) as runtime:
        await runtime.wait_ready(within=10)
        assert await said(runtime) == [expected]


async def test_a_reload_changes_lines_thresholds_and_words(
    autojump_clock: MockClock,
) -> None:
    script: list[Reply] = [[call("mcp__other__look")], ["So."]] * 3
    llm, config = ScriptedLLM(script), seed()

    def filler(**more: Any) -> Config:
        return attrs.evolve(config, filler=FillerConfig(lines=("Wait.",), **more))

    async with open_runtime(
        config, llm=llm, environment=scenery().environment()
    ) as runtime:
        await runtime.wait_ready(within=10)
        assert await said(runtime) == [(0.7, "Hm, let me see.")]
        await runtime.reload(filler(after=1.0))
        assert await said(runtime) == [(1.0, "Wait.")]
        await runtime.reload(filler(enabled=False))
        assert await said(runtime) == []
