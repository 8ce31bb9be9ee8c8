"""The monitor's rules of consent and of trial calls, on scenarios made for them.

Each of these breaks a promise when the line of the product that keeps it is taken out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from glyphoxa_trio.config import (
    CalibrationConfig,
    Config,
    McpConfig,
    NpcConfig,
    ServerSpec,
    ToolOverride,
    TrustConfig,
)
from glyphoxa_trio.npc import ToolFinished
from glyphoxa_trio.simulation.plans import (
    Asks,
    Deed,
    PlannedEvent,
    PlannedPause,
    PlannedUtterance,
    RehearsalPlan,
    Spell,
    rehearse,
)
from glyphoxa_trio.simulation.promises.consent import Nature, why_not_unasked
from glyphoxa_trio.simulation.promises.fake_world import Act, Ending
from glyphoxa_trio.simulation.promises.monitor import Monitor
from glyphoxa_trio.tools.definition import ToolDefinition
from glyphoxa_trio.tools.gate import TrustMode
from glyphoxa_trio.tools.outcome import Outcome, Status
from glyphoxa_trio.tools.tier import Tier

SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}}
READS = {"readOnlyHint": True, "openWorldHint": False}
HINTS: Mapping[str, Mapping[str, Any]] = {
    "reads": READS,
    "reads_the_web": {"readOnlyHint": True},
    "overwrites": {"idempotentHint": True, "destructiveHint": True},
    "says_both": {**READS, "destructiveHint": True},
    "says_nothing": {},
}
TOOLS = tuple(
    {"name": name, "inputSchema": SCHEMA, "annotations": hints}
    for name, hints in HINTS.items()
)


def own(name: str, **more: Any) -> ToolDefinition:
    return ToolDefinition(name=name, group="own", parameters=SCHEMA, **more)


def config(*npcs: NpcConfig, **server: Any) -> Config:
    spec = ServerSpec(name="world", command=("x",), **server)
    return Config(npcs=npcs, mcp=McpConfig(servers=(spec,)))


def evening(settled: Config, *said: PlannedUtterance, **more: Any) -> RehearsalPlan:
    return RehearsalPlan(
        config=settled, offers={"world": TOOLS}, utterances=said, **more
    )


def asks(*names: str, **more: Any) -> PlannedUtterance:
    calls = [Asks(name, json.dumps({"x": n}), f"c{n}") for n, name in enumerate(names)]
    return PlannedUtterance(
        **{"at": 20.0, "npc": "Bo", "replies": (tuple(calls),), **more}
    )


def ran(monitor: Monitor) -> set[str]:
    assert monitor.scenery is not None
    return {run.key for run in monitor.scenery.journal}


def ends(monitor: Monitor) -> list[Outcome]:
    return [x.outcome for _, x in monitor.events if isinstance(x, ToolFinished)]


ALL = NpcConfig(
    name="Bo",
    tools=("*.*",),
    budget_tier=Tier.DEEP,
    trust=TrustConfig(mode=TrustMode.FULL),
)


def test_only_what_reads_what_is_here_is_measured_unasked() -> None:
    tools = (own("scribbles", idempotent=True), own("looks", read_only=True))
    monitor = rehearse(evening(config(ALL), own=tools))
    assert monitor.broken == []
    assert {x for x in ran(monitor) if x.startswith("world.")} == {"world.reads"}
    assert "own.scribbles" not in ran(monitor)


@pytest.mark.parametrize(
    "npc",
    [
        NpcConfig(name="Bo"),
        NpcConfig(name="Bo", tools=("world.*",)),  # granted, and nobody approved them
        NpcConfig(name="Bo", tools=("world.overwrites",)),
    ],
    ids=["nothing granted", "nothing approved", "another one"],
)
def test_nothing_is_measured_for_nobody(npc: NpcConfig) -> None:
    monitor = rehearse(evening(config(npc)))
    assert monitor.broken == []
    assert not any(x.startswith("world.") for x in ran(monitor))


def test_the_operators_word_counts_before_the_hints() -> None:
    here = {"reads_the_web": ToolOverride(open_world=False)}
    monitor = rehearse(evening(config(ALL, tools=here)))
    assert monitor.broken == []
    assert ran(monitor) >= {"world.reads", "world.reads_the_web"}


QUIET = CalibrationConfig(at_start=False)
WRITES = "mcp__world__says_nothing"


def test_two_calls_of_an_unknown_tool_run_at_once() -> None:
    quiet = attrs.evolve(config(ALL), calibration=QUIET)
    acts = {"world.says_nothing": (Act(Ending.ANSWER, 0.25),)}
    said = asks(*["mcp__world__reads"] * 6, tier=Tier.DEEP)
    plan = evening(quiet, said, acts={"world.reads": acts["world.says_nothing"]})
    monitor = rehearse(plan, keep=True)
    assert monitor.broken == []
    assert [x.status for x in ends(monitor)] == [Status.OK] * 6


def test_a_write_of_an_unknown_tool_goes_on() -> None:
    quiet = attrs.evolve(config(ALL), calibration=QUIET)
    acts = {"world.says_nothing": (Act(Ending.ANSWER, 3.0),)}
    monitor = rehearse(
        evening(quiet, asks(WRITES, tier=Tier.FAST), acts=acts), keep=True
    )
    assert monitor.broken == []
    assert [x.status for x in ends(monitor)] == [Status.PENDING]


def test_one_that_still_works_is_not_called_again() -> None:
    quiet = attrs.evolve(config(ALL), calibration=QUIET)
    acts = {"world.says_nothing": (Act(Ending.ANSWER, 8.0),)}
    said = [asks(WRITES, tier=Tier.FAST, at=at) for at in (20.0, 24.0)]
    monitor = rehearse(evening(quiet, *said, acts=acts), keep=True)
    assert monitor.broken == []
    assert [x.status for x in ends(monitor)] == [Status.PENDING, Status.DENIED]


@pytest.mark.parametrize("seconds", [40.0, 200.0])
def test_one_that_goes_on_ends_at_its_own_limit(seconds: float) -> None:
    quiet = attrs.evolve(config(ALL), calibration=QUIET)
    for limit in (45.0, None):
        tool = own("builds", max_duration=limit)
        acts = {"own.builds": (Act(Ending.ANSWER, seconds),)}
        monitor = rehearse(
            evening(quiet, asks("builds", tier=Tier.FAST), own=(tool,), acts=acts)
        )
        assert monitor.broken == []


def test_a_running_turn_gets_no_more_than_it_began_with() -> None:
    less = attrs.evolve(ALL, tools=("own.other",))
    narrow = attrs.evolve(config(less), calibration=QUIET)
    wide = attrs.evolve(narrow, npcs=(ALL,))
    said = asks("builds", tier=Tier.DEEP)
    said = attrs.evolve(said, replies=((PlannedPause(2.0), *said.replies[0]),))
    reload = PlannedEvent(at=21.0, deed=Deed.RELOAD)
    plan = evening(
        narrow,
        said,
        own=(own("builds", read_only=True), own("other", read_only=True)),
        later=(wide,),
        events=(reload,),
    )
    monitor = rehearse(plan, keep=True)
    assert monitor.broken == []
    assert [x.status for x in ends(monitor)] == [Status.DENIED]


def test_what_an_earlier_life_did_hides_nothing() -> None:
    quiet = attrs.evolve(config(ALL), calibration=QUIET)
    hangs = Spell(whom="world", begins=0.0, ends=60.0, act=Act(Ending.HANG))
    said = [
        asks("mcp__world__reads", tier=Tier.FAST, at=20.0 + 4 * n) for n in range(20)
    ]
    dies = PlannedEvent(at=61.0, deed=Deed.DIE, whom="world")
    plan = evening(quiet, *said, spells=(hangs,), events=(dies,))
    monitor = rehearse(plan, keep=True)
    assert monitor.broken == []
    last = [x.status for x in ends(monitor)][-8:]
    assert last == [Status.OK] * 8


def declares(name: str, **hints: Any) -> Mapping[str, Any]:
    meta = {"estimated_duration_ms": 100, "cacheable_seconds": 60}
    tool = {"name": name, "inputSchema": SCHEMA, "annotations": hints}
    return {**tool, "_meta": meta if hints else {"estimated_duration_ms": 100}}


def test_a_question_that_two_share_is_not_cut_with_the_turn_of_one() -> None:
    ada = attrs.evolve(ALL, name="Ada")
    quiet = attrs.evolve(config(ALL, ada), calibration=QUIET)
    said = [
        asks("mcp__world__reads", tier=Tier.FAST),
        asks("mcp__world__reads", tier=Tier.DEEP, npc="Ada"),
    ]
    plan = RehearsalPlan(
        config=quiet,
        offers={"world": (declares("reads", **READS),)},
        acts={"world.reads": (Act(Ending.ANSWER, 1.0),)},
        utterances=tuple(said),
    )
    monitor = rehearse(plan, keep=True)
    assert monitor.broken == []
    assert {x.status for x in ends(monitor)} == {Status.TIMEOUT, Status.OK}


def test_a_death_under_five_calls_is_one_failure() -> None:
    names = ["Bo", "Ada", "Ute", "Ole", "Eva"]
    people = [attrs.evolve(ALL, name=name) for name in names]
    quiet = attrs.evolve(config(*people), calibration=QUIET)
    said = [
        *(asks("mcp__world__reads", tier=Tier.DEEP, npc=name) for name in names),
        asks("mcp__world__reads", tier=Tier.DEEP, at=21.0),
    ]
    plan = RehearsalPlan(
        config=quiet,
        offers={"world": (declares("reads"),)},
        starts={"world": 2.0},
        acts={"world.reads": (*[Act(Ending.HANG)] * 5, Act())},
        utterances=tuple(said),
        events=(PlannedEvent(at=20.5, deed=Deed.DIE, whom="world"),),
    )
    monitor = rehearse(plan, keep=True)
    assert monitor.broken == []
    assert ends(monitor)[-1].status is Status.OK


ANY = Nature(reads=True, stays=True, twice_is_once=True, probe=False)


@pytest.mark.parametrize(
    ("what", "granted", "probed", "ahead", "says"),
    [
        (ANY, True, True, False, None),
        (ANY, True, False, True, None),
        (ANY, True, False, False, "not to be measured"),
        (ANY, False, True, True, "no NPC may use it without asking"),
        (attrs.evolve(ANY, stays=False), True, True, False, "beyond this machine"),
        (attrs.evolve(ANY, stays=False), True, True, True, None),
        (attrs.evolve(ANY, reads=False), True, True, True, "may change something"),
        (attrs.evolve(ANY, reads=False, probe=True), False, True, False, None),
    ],
)
def test_who_may_call_what_unasked(
    what: Nature, granted: bool, probed: bool, ahead: bool, says: str | None
) -> None:
    why = why_not_unasked(what, granted=granted, probed=probed, ahead=ahead)
    assert why is None if says is None else says in (why or "")
