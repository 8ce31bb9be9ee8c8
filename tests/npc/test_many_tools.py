"""Real servers, a real socket to a scripted model: what an NPC may use, end to end.

Rows N24 to N26, N29 to N32, A3, A9, A37, A38; A8, N15, N16 for the names. Each test
has an absolute limit that none that passes comes near.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

import trio

from glyphoxa_trio import Config, Runtime, Tier, open_runtime
from glyphoxa_trio.config import (
    NO_GROUPS,
    CalibrationConfig,
    LlmConfig,
    McpConfig,
    NpcConfig,
    Provider,
    ServerSpec,
    ToolOverride,
    TrustConfig,
)
from glyphoxa_trio.npc import ToolsShown, TurnEnd
from glyphoxa_trio.runtime.grants import approved_by
from glyphoxa_trio.testing.model_server import (
    CallTools,
    Reply,
    SayText,
    ScriptedModelServer,
    open_model_server,
)
from glyphoxa_trio.tools.gate import Reason, TrustMode
from glyphoxa_trio.tools.naming import NamingStyle
from glyphoxa_trio.tools.outcome import Status

from .support import ask

pytestmark = pytest.mark.border

ATLAS = Path(__file__).parent / "servers" / "atlas.py"
LIMIT = 30.0  # seconds
FULL = TrustConfig(mode=TrustMode.FULL)
ONE = "mcp__atlas__measure_01"


def atlas(count: int = 3, *habits: str, **more: Any) -> ServerSpec:
    fields: dict[str, Any] = {"name": "atlas", "estimated_duration": 0.02} | more
    command = ("python", str(ATLAS), str(count), *habits)
    return ServerSpec(command=command, **fields)


def npc(name: str, *tools: str, trust: TrustConfig | None = None) -> NpcConfig:
    return NpcConfig(name=name, tools=tools, trust=trust, budget_tier=Tier.DEEP)


@attrs.define(eq=False)
class Scene:
    runtime: Runtime
    server: ScriptedModelServer

    def shown(self, request: int = -1) -> list[str]:
        tools = self.server.requests[request].get("tools", ())
        return [entry["function"]["name"] for entry in tools]


@asynccontextmanager
async def open_scene(
    *script: Reply,
    npcs: tuple[NpcConfig, ...],
    servers: tuple[ServerSpec, ...],
    naming: NamingStyle = NamingStyle.DOUBLE,
    trust: TrustConfig | None = None,
) -> AsyncIterator[Scene]:
    off = NO_GROUPS
    with trio.fail_after(LIMIT):
        async with open_model_server(script) as server:
            config = Config(
                npcs=npcs,
                mcp=McpConfig(servers=servers, naming=naming, remember=False),
                llm=LlmConfig(
                    provider=Provider.CHAT_COMPLETIONS,
                    model="scripted",
                    base_url=server.base_url,
                ),
                builtin=off,
                calibration=CalibrationConfig(at_start=False),
                trust=trust or TrustConfig(),
            )
            async with open_runtime(config, wait_for_servers=LIMIT) as runtime:
                yield Scene(runtime, server)


async def test_the_model_searches_loads_calls_and_answers() -> None:
    # N24 to N26; A2: by its exposed name the right tool of the right server
    script: list[Reply] = [
        CallTools([("tool_search", {"query": "distance way 7", "limit": 1})]),
        CallTools([("mcp__atlas__measure_07", {"place": "the moat"})]),
        SayText("Twelve feet."),
    ]
    bo = npc("Bo", "atlas", trust=FULL)
    async with open_scene(*script, npcs=(bo,), servers=(atlas(20),)) as scene:
        heard = await ask(scene.runtime.npc("Bo"), "How far?", tier=Tier.STANDARD)
        assert heard.done.end is TurnEnd.COMPLETED
        assert heard.done.text == "Twelve feet."
        search, measured = heard.done.outcomes
        assert (search.status, measured.status) == (Status.OK, Status.OK)
        assert measured.message == "measure_07 of the moat: 12 feet."
        assert scene.shown(0) == ["tool_search"]
        assert (
            scene.shown(1)
            == scene.shown(2)
            == [*scene.shown(0), "mcp__atlas__measure_07"]
        )
        prompts = [
            [m["content"] for m in request["messages"] if m["role"] == "system"]
            for request in scene.server.requests
        ]
        assert prompts[0] == prompts[1] == prompts[2]
        ((prompt,),) = prompts[:1]
        assert (
            "- mcp__atlas__measure_19 (atlas): Measure the distance of a place"
            in prompt
        )
        answer = json.loads(scene.server.requests[1]["messages"][-1]["content"])
        (found,) = answer["data"]["tools"]
        assert found["parameters"]["required"] == ["place"]
        assert len(heard.of(ToolsShown)[0].deferred) == 20


@pytest.mark.parametrize(
    ("everyones", "own", "tools", "status"),
    [
        (None, None, ("atlas",), Status.DENIED),  # N29
        (None, None, ("atlas.measure_01",), Status.OK),  # written down in full
        (FULL, None, ("atlas",), Status.OK),  # N30
        (TrustConfig(allow_tools=(ONE,)), None, ("atlas",), Status.OK),  # N31, N32
        (TrustConfig(allow_tools=(ONE,)), None, ("atlas.measure_02",), Status.DENIED),
        # An NPC's own trust takes the place of everybody's, both ways.
        (None, FULL, ("atlas",), Status.OK),
        (FULL, TrustConfig(), ("atlas",), Status.DENIED),
        (
            TrustConfig(allow_tools=(ONE,)),
            TrustConfig(allow_tools=("atlas.measure_02",)),
            ("atlas",),
            Status.DENIED,
        ),
        (None, TrustConfig(allow_tools=("atlas.*",)), ("atlas",), Status.OK),
        (None, TrustConfig(allow_tools=()), ("mcp__atlas__*",), Status.DENIED),
    ],
)
async def test_trust_is_each_npcs_own(
    everyones: TrustConfig | None,
    own: TrustConfig | None,
    tools: tuple[str, ...],
    status: Status,
) -> None:  # A3, A37, A38: what is not shown does not run either
    script: list[Reply] = [CallTools([(ONE, {"place": "here"})]), SayText("So.")]
    bo = npc("Bo", *tools, trust=own)
    async with open_scene(
        *script, npcs=(bo,), servers=(atlas(),), trust=everyones
    ) as scene:
        heard = await ask(scene.runtime.npc("Bo"), "Measure!", tier=Tier.STANDARD)
        assert [outcome.status for outcome in heard.done.outcomes] == [status]
        assert (ONE in scene.shown(0)) == (status is Status.OK)


async def test_each_npc_sees_its_own_list_under_the_names_of_the_operator() -> None:
    # A3, A9, A28, N32; `allow`, `expose_as` and `description` of a server
    overrides = {
        "measure_01": ToolOverride(expose_as="pace_out"),
        "measure_02": ToolOverride(description="How deep the water is."),
    }
    server = atlas(4, allow=("measure_01", "measure_02", "measure_03"), tools=overrides)
    npcs = (
        npc("Ann", "pace_out"),
        npc("Bea", "mcp__atlas__*", trust=FULL),
        npc("Cid", "atlas.measure_01", "atlas.measure_02"),
        npc("Dan"),
    )
    async with open_scene(SayText("So."), npcs=npcs, servers=(server,)) as scene:
        shown: dict[str, list[str]] = {}
        for one in npcs:
            await ask(scene.runtime.npc(one.name), "Well?", tier=Tier.STANDARD)
            shown[one.name] = scene.shown()
        two, three = "mcp__atlas__measure_02", "mcp__atlas__measure_03"
        assert shown == {
            "Ann": ["pace_out"],
            "Bea": [two, three],  # the glob is one of names, and it has another
            "Cid": ["pace_out", two],
            "Dan": [],
        }
        (spec,) = [
            entry["function"]
            for entry in scene.server.requests[2]["tools"]
            if entry["function"]["name"] == two
        ]
        assert spec["description"] == "How deep the water is."
        assert "atlas.measure_00" not in scene.runtime.host.snapshot.by_key


async def test_two_servers_may_offer_the_same_names() -> None:
    # A8, N15, N16: a collision leaves out both, and says how to settle it
    servers = (atlas(1), atlas(1, name="chart"))
    bo = npc("Bo", "*", trust=FULL)
    async with open_scene(SayText("So."), npcs=(bo,), servers=servers) as scene:
        assert sorted(scene.runtime.host.snapshot.by_exposed) == [
            "mcp__atlas__measure_00",
            "mcp__chart__measure_00",
        ]
    async with open_scene(
        SayText("So."), npcs=(bo,), servers=servers, naming=NamingStyle.BARE
    ) as scene:
        assert list(scene.runtime.host.snapshot.by_exposed) == []
        (warning,) = scene.runtime.warnings
        assert "would both be exposed as 'measure_00'" in warning.text
        assert "expose_as" in warning.text


async def test_a_tool_that_its_server_describes_otherwise_is_held_back() -> None:
    script: list[Reply] = [
        CallTools([(ONE, {"place": "here"})]),
        SayText("Twelve."),
        CallTools([(ONE, {"place": "here"})]),
        SayText("I cannot."),
        CallTools([(ONE, {"place": "here"})]),
        SayText("Twelve again."),
    ]
    npcs = (npc("Bo", ONE), npc("Kit", "atlas", trust=FULL))
    async with open_scene(*script, npcs=npcs, servers=(atlas(3, "sly"),)) as scene:
        host = scene.runtime.host
        told, warnings = trio.open_memory_channel[str](10)
        host.approvals.approved = approved_by(scene.runtime.config)
        host.approvals.warn = lambda server, text: told.send_nowait(text)
        host.review()
        bo = scene.runtime.npc("Bo")
        first = await ask(bo, "Measure!", tier=Tier.STANDARD)
        assert first.done.outcomes[0].ok
        assert "held back: atlas.measure_01;" in await warnings.receive()
        second = await ask(bo, "Again!", tier=Tier.STANDARD)
        assert scene.shown() == []
        ((name, no),) = second.of(ToolsShown)[0].hidden
        assert (name, no.reason) == (ONE, Reason.CHANGED)
        (outcome,) = second.done.outcomes
        assert outcome.status is Status.DENIED
        # Whoever trusts fully has approved nothing that could be held back.
        assert host.explain(grant=scene.runtime.npc("Kit").grant)[1][1] is None
        host.approve("atlas.measure_01")
        third = await ask(bo, "And now?", tier=Tier.STANDARD)
        assert third.done.outcomes[0].ok
        assert scene.shown() == [ONE]
