"""What is well is shown again within five minutes of talk, whatever was slow before.

An ordinary tool, as servers of other people list it, and the default configuration: a
minute of slowness, a hang, a cold start. Each was fatal for a day once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from glyphoxa_trio.config import Config, McpConfig, NpcConfig, ServerSpec
from glyphoxa_trio.npc import ToolFinished, ToolsShown
from glyphoxa_trio.simulation.plans import (
    Asks,
    PlannedUtterance,
    RehearsalPlan,
    Spell,
    rehearse,
)
from glyphoxa_trio.simulation.promises.calls import Promise
from glyphoxa_trio.simulation.promises.fake_world import Act, Ending
from glyphoxa_trio.simulation.promises.monitor import Monitor
from glyphoxa_trio.tools.outcome import Status
from glyphoxa_trio.tools.readmission import Readmission
from glyphoxa_trio.tools.tier import Tier

NAME = "mcp__oracle__consult"
SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}}
QUICK = Act(Ending.ANSWER, 0.02)
READS: Mapping[str, Any] = {
    "name": "consult",
    "inputSchema": SCHEMA,
    "annotations": {"readOnlyHint": True, "openWorldHint": False},
}
WRITES: Mapping[str, Any] = {"name": "consult", "inputSchema": SCHEMA}
DECLARES: Mapping[str, Any] = {**WRITES, "_meta": {"estimated_duration_ms": 100}}
SLOW = Spell(whom="oracle", begins=120.0, ends=180.0, act=Act(Ending.ANSWER, 0.7))
HANGS = Spell(whom="oracle", begins=120.0, ends=180.0, act=Act(Ending.HANG))
COLD = Spell(whom="oracle", begins=0.0, ends=22.0)
SLOW_AT_FIRST = Spell(whom="oracle", begins=0.0, ends=60.0, act=SLOW.act)
SPELLS = [SLOW, HANGS, COLD, SLOW_AT_FIRST]


def evening(
    spell: Spell, tool: Mapping[str, Any], tier: Tier, *, every: float = 6.0
) -> RehearsalPlan:
    """Ten minutes in which somebody asks for the tool again and again."""
    return RehearsalPlan(
        config=Config(
            npcs=(NpcConfig(name="Bo", budget_tier=tier, tools=("oracle.consult",)),),
            mcp=McpConfig(servers=(ServerSpec(name="oracle", command=("x",)),)),
        ),
        offers={"oracle": (tool,)},
        acts={"oracle.consult": (QUICK,)},
        spells=(spell,),
        utterances=tuple(
            PlannedUtterance(
                at=(1 + n) * every,
                npc="Bo",
                tier=tier,
                replies=((Asks(NAME, f'{{"x": {n}}}'),),),
            )
            for n in range(int(600 / every))
        ),
    )


def hidden(monitor: Monitor) -> list[float]:
    return [
        at
        for at, event in monitor.events
        if isinstance(event, ToolsShown) and not event.round and not event.shown
    ]


def answered(monitor: Monitor) -> list[float]:
    return [
        at
        for at, event in monitor.events
        if isinstance(event, ToolFinished) and event.outcome.status is Status.OK
    ]


@pytest.mark.parametrize(
    ("tool", "tier"),
    [
        (READS, Tier.FAST),
        (WRITES, Tier.FAST),
        pytest.param(DECLARES, Tier.FAST, marks=pytest.mark.long),
        pytest.param(WRITES, Tier.STANDARD, marks=pytest.mark.long),
        pytest.param(READS, Tier.DEEP, marks=pytest.mark.long),
    ],
    ids=["reads", "writes", "declares", "writes, standard", "reads, deep"],
)
@pytest.mark.parametrize("spell", SPELLS, ids=["slow", "hangs", "cold", "slow first"])
def test_a_tool_that_was_ill_for_a_while_is_back(
    spell: Spell, tool: Mapping[str, Any], tier: Tier
) -> None:
    monitor = rehearse(evening(spell, tool, tier), keep=True)
    assert monitor.broken == []
    assert [at for at in hidden(monitor) if at > spell.ends + 300] == []
    assert max(answered(monitor)) > 590


def test_one_that_is_not_shown_again_breaks_the_promise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Readmission, "wait", lambda self, seconds: False)
    monitor = rehearse(evening(HANGS, DECLARES, Tier.FAST), keep=True)
    assert hidden(monitor)
    assert {fault.promise for fault in monitor.broken} == {Promise.SHOWN_AGAIN}
