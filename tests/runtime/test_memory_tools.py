"""The tools of memory in a runtime: the design's own NPCs, floors, and replacement."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trio.testing import MockClock

from glyphoxa_trio import open_runtime
from glyphoxa_trio.config import Config, ConfigError, McpConfig, ServerSpec, load_text
from glyphoxa_trio.memory.in_memory import InMemory
from glyphoxa_trio.memory.visibility import Viewer
from glyphoxa_trio.runtime import Environment
from glyphoxa_trio.runtime.assembly import builtin_tools, memory_tools
from glyphoxa_trio.tools.outcome import ToolCall
from glyphoxa_trio.tools.tier import Tier
from tests.builtin.memory.support import HERE, NOW, Told, said
from tests.npc.support import ScriptedLLM

from ..mcp.fakes import FakeServer

# As the design has it, word by word.
NPCS = """\
npcs:
  - name: Greymantle the Sage
    personality: "An ancient elven scholar with vast knowledge..."
    engine: cascaded
    budget_tier: standard
    tools:
      - roll
      - search_rules
      - get_rule
      - query_entities
      - get_summary
      - search_sessions

  - name: Bartok the Barkeep
    personality: "A jovial halfling who runs the tavern..."
    engine: s2s
    budget_tier: fast
    tools:
      - roll
      - roll_table
      - query_entities
"""

REFERENCE = Path(__file__).parents[2] / "config/reference.yaml"


def configured(text: str) -> Config:
    return load_text(text, source=Path("npcs.yaml"), env={})


def keys(config: Config, **more: Any) -> set[str]:
    tools, problems = builtin_tools(config, **more)
    assert problems == []
    return {tool.key for tool in tools}


def asked(name: str, /, **arguments: Any) -> ToolCall:
    return ToolCall(f"c-{name}", name, json.dumps(arguments))


async def test_the_designs_npcs_run_as_they_are_written(
    autojump_clock: MockClock,
) -> None:  # G5, G6, G7
    spoken = {"provider": "openai_realtime", "model": "m", "api_key": "k"}
    text = f"{NPCS}\ns2s: {json.dumps(spoken)}\nmcp: {{remember: false}}\n"
    llm = ScriptedLLM(
        [
            [
                asked("query_entities", name="Aria"),
                asked("search_sessions", query="the mill"),
                asked("get_summary", entity_id="me"),
            ],
            ["I know nothing of it."],
        ]
    )
    async with open_runtime(configured(text), llm=llm) as runtime:
        assert [str(x) for x in runtime.problems()] == []
        async with runtime.npc("Greymantle the Sage").say("Do you remember?") as turn:
            done = await turn.finish()
    assert done.text == "I know nothing of it."
    assert sorted(llm.shown()[0]) == [
        *("get_rule", "get_summary", "query_entities"),
        *("roll", "search_rules", "search_sessions"),
    ]
    answers = [x for x in llm.requests[1].messages if x.role == "tool"]
    assert [json.loads(x.content)["message"] for x in answers] == [
        "I remember nothing of that.",
        "I remember nothing of that.",
        "Nothing is known of me yet.",
    ]


def test_the_groups_are_on_and_each_can_be_switched_off() -> None:
    groups = {x.partition(".")[0] for x in keys(Config())}
    assert {"memory", "sessions"} <= groups
    for off, other in [("memory", "sessions"), ("sessions", "memory")]:
        config = configured(f"builtin: {{{off}: {{enabled: false}}}}")
        groups = {x.partition(".")[0] for x in keys(config)}
        assert off not in groups
        assert other in groups


def test_the_floors_of_the_reference_are_valid() -> None:  # G16
    text = REFERENCE.read_text(encoding="utf-8")
    floors = [x for x in text.splitlines() if "min_tier: standard}" in x]
    config = configured("tools:\n" + "\n".join(x.replace("#", "") for x in floors))
    tools, problems = builtin_tools(config)
    assert problems == []
    tiers = {x.key: x.definition.min_tier for x in tools}
    assert tiers["memory.search_sessions"] is Tier.STANDARD
    assert tiers["memory.query_entities"] is Tier.FAST


def test_a_server_called_memory_takes_the_place_of_the_group() -> None:
    server = ServerSpec(name="memory", command=("x",))
    config = Config(mcp=McpConfig(servers=(server,)))
    assert not [x for x in keys(config) if x.startswith("memory.")]
    assert "sessions.get_summary" in keys(config)
    off = Config(mcp=McpConfig(servers=(server,), enabled=False))
    assert "memory.get_summary" in keys(off)


async def test_its_tools_are_served_under_its_name(autojump_clock: MockClock) -> None:
    text = """
npcs: [{name: Bo, tools: [memory.*, get_session_summary]}]
trust: {mode: full}
mcp: {remember: false, servers: [{name: memory, command: x}]}
"""
    world = Environment(open_session=FakeServer().open)
    llm = ScriptedLLM([["Hm."]])
    async with open_runtime(
        configured(text), llm=llm, environment=world, wait_for_servers=5
    ) as runtime:
        async with runtime.npc("Bo").say("hi") as turn:
            await turn.finish()
    (shown,) = llm.shown()
    assert "get_session_summary" in shown
    assert any(x.startswith("mcp__memory__") for x in shown)
    assert "search_sessions" not in shown


async def test_a_runtimes_store_takes_the_place_of_none() -> None:
    told = Told(InMemory())
    await told.evening(said("Aria", "The mill burned.", player="p1"))
    config = configured("builtin: {sessions: {enabled: false}}")
    lasting = memory_tools(
        config,
        told.memory,
        campaign_of=lambda _: HERE,
        viewer_of=lambda context: Viewer(context.npc),
        now=lambda: NOW,
    )
    tools, _ = builtin_tools(config, lasting)
    found = [x for x in tools if x.definition.group in ("memory", "sessions")]
    assert found == lasting
    assert {x.definition.group for x in found} == {"memory"}


async def test_an_unknown_tool_of_memory_is_still_an_error() -> None:
    text = "npcs: [{name: Bo, tools: [search_session]}]\nmcp: {remember: false}"
    with pytest.raises(ConfigError, match="did you mean search_sessions"):
        async with open_runtime(configured(text), llm=ScriptedLLM([])):
            pass
