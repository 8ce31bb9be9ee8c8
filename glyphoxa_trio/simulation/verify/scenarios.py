"""Random evenings at one table: this configuration, and whatever may happen to it."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import attrs
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException

from glyphoxa_trio.npc import TurnDone
from glyphoxa_trio.simulation.plans import (
    ApproverReply,
    Asks,
    PlannedUtterance,
    RehearsalPlan,
    Reply,
    Spell,
    Step,
    rehearse,
)
from glyphoxa_trio.simulation.plans_random import (
    TICK,
    acts,
    ending,
    happenings,
    mostly,
    one_of_these,
    sometimes,
    ticks,
)
from glyphoxa_trio.simulation.promises.fake_world import Act, Ending
from glyphoxa_trio.simulation.promises.monitor import BrokenPromise, Monitor, Promise
from glyphoxa_trio.simulation.verify.reach import SETTLED, ReachInputs, arguments_of
from glyphoxa_trio.simulation.verify.verdict import Finding, NpcReach, Severity
from glyphoxa_trio.tools.tier import Tier

_ODD = "{}", "{", "[]", '{"no": "such thing"}', ""


class _TimeIsUp(BaseException):
    """No `Exception`, which Hypothesis would take for a failure and shrink."""


@attrs.define(eq=False)
class Explored:
    """The results of random evenings."""

    findings: list[Finding] = attrs.field(factory=list)
    evenings: int = 0
    turns: int = 0
    complete: bool = True
    _worst: dict[tuple[str, Tier], tuple[float, float, float]] = attrs.field(
        factory=dict
    )

    def add(self, monitor: Monitor) -> None:
        self.evenings += 1
        self.turns += monitor.turns_done
        for place, done in monitor.worst.items():
            self._take(place, done)

    def _take(self, place: tuple[str, Tier], done: TurnDone) -> None:
        times = done.timings
        before = self._worst.get(place, (0.0, 0.0, 0.0))
        now = (times.tools, times.model, times.total)
        self._worst[place] = (
            max(before[0], now[0]),
            max(before[1], now[1]),
            max(before[2], now[2]),
        )

    def worst_of(self, reach: NpcReach) -> NpcReach:
        tools, model, total = self._worst.get((reach.npc, reach.tier), (0.0, 0.0, 0.0))
        return attrs.evolve(
            reach, worst_tools=tools, worst_model=model, worst_total=total
        )


def explore(
    scene: ReachInputs,
    *,
    evenings: int,
    seconds: float | None,
    seed: int,
    tell: Callable[[], None] = lambda: None,
) -> Explored:
    """Play so many evenings, or as many as the time allows; shrink what breaks.

    Args:
      seconds: real time for all of them; None is without limit.
      tell: called after each evening.
    """
    found = Explored()
    if not scene.config.npcs or evenings <= 0:
        return found
    end = math.inf if seconds is None else time.monotonic() + seconds
    broken: list[tuple[RehearsalPlan, BrokenPromise]] = []
    kinds: Counter[str] = Counter()

    def play(plan: RehearsalPlan) -> list[BrokenPromise]:
        try:
            monitor = rehearse(plan)
        except Exception as error:  # whatever it is, a runtime must not die of it
            return [BrokenPromise(Promise.ENDS, "the runtime", 0.0, repr(error)[:200])]
        found.add(monitor)
        tell()
        return monitor.broken

    @seeded(seed)
    @settings(
        max_examples=evenings,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(any_evening(scene))
    def look(plan: RehearsalPlan) -> None:
        if time.monotonic() > end:
            raise _TimeIsUp
        faults = play(plan)
        kinds.update({fault.promise for fault in faults})
        # While it is shrunk, it has to stay the same promise that is broken.
        wanted = broken[0][1].promise if broken else None
        for fault in faults:
            if wanted in (None, fault.promise):
                broken.append((plan, fault))
                raise AssertionError(str(fault))

    try:
        with suppress(AssertionError, HypothesisException):
            look()
    except _TimeIsUp:
        found.complete = False
    if broken:
        plan, fault = broken[-1]  # it ends with the smallest
        others = sorted(x for x in kinds if x != fault.promise)
        more = f"; broken as well: {', '.join(others)}" if others else ""
        found.findings.append(
            Finding(
                severity=Severity.ERROR,
                what="a broken promise",
                text=f"{fault}{more}",
                remedy="this is a fault of glyphoxa: the example shows it",
                example=plan,
            )
        )
    return found


@st.composite
def any_evening(draw: st.DrawFn, scene: ReachInputs) -> RehearsalPlan:
    """Something happens to the people and tools of this configuration."""
    if draw(st.integers(0, 15)) == 15:
        return draw(ill_for_a_while(scene))
    people = [npc.name for npc in scene.config.npcs]
    servers = sorted(scene.known.offers)
    said = tuple(
        draw(utterances(scene, people)) for _ in range(draw(st.integers(1, 5)))
    )
    reloads = (scene.config,) if draw(mostly(False, True)) else ()
    events = happenings(
        people, servers, moments=[x.at for x in said], reloads=len(reloads)
    )
    usual = {
        key: (Act(Ending.ANSWER, latency.percentile(50)),)
        for key, latency in scene.usual.items()
    }
    wild = {key: draw(acts()) for key in usual if draw(mostly(False, True, True))}
    answers = draw(_ANSWERS) if scene.known.approver else None
    return RehearsalPlan(
        config=scene.config,
        offers=scene.known.offers,
        acts={**usual, **wild},
        utterances=said,
        events=draw(events),
        answers=answers,
        later=reloads,
        starts=scene.starts,
        measured=scene.known.measured,
        closes=draw(sometimes(ticks(0, 640), None)),
        seed=draw(st.integers(0, 99)),
    )


@st.composite
def ill_for_a_while(draw: st.DrawFn, scene: ReachInputs) -> RehearsalPlan:
    """A player asks for one tool all evening. For a while it is slow, hangs, or loads
    something; then it is well, so it has to be shown again."""
    npc = draw(st.sampled_from(scene.config.npcs))
    granted = [x for x in scene.granted(npc) if scene.usual[x.key].percentile(50) < 4]
    if not granted:
        return scene.plan(PlannedUtterance(at=SETTLED, npc=npc.name))
    listing = draw(st.sampled_from(granted))
    ends = SETTLED + draw(ticks(640, 3840))
    act = draw(st.sampled_from((None, *_ILL)))
    every, at, said = draw(ticks(1280, 1856)), SETTLED, []
    while at < ends + 420.0:
        at += 6.0 if at < ends else every
        said.append(
            PlannedUtterance(
                at=at,
                npc=npc.name,
                tier=npc.budget_tier,
                replies=((scene.asks(listing),),),
            )
        )
    spell = Spell(whom=listing.key, begins=SETTLED, ends=ends, act=act)
    return attrs.evolve(scene.plan(*said), spells=(spell,))


_ILL = (Act(Ending.ANSWER, 0.7), Act(Ending.ANSWER, 2.0), Act(Ending.HANG))
_ANSWERS = st.lists(
    st.tuples(one_of_these(ApproverReply.YES, *ApproverReply), ticks(0, 160)),
    min_size=1,
    max_size=3,
).map(tuple)


@st.composite
def utterances(
    draw: st.DrawFn, scene: ReachInputs, people: list[str]
) -> PlannedUtterance:
    npc = draw(one_of_these(*people))
    config = next(x for x in scene.config.npcs if x.name == npc)
    known = {x.exposed: arguments_of(x) for x in scene.listings}
    granted = [x.exposed for x in scene.granted(config)] or ["nonsense"]
    rounds = draw(one_of_these(0, 1, 1, 2, 3, scene.config.turn.max_rounds))
    return PlannedUtterance(
        at=draw(ticks(0, 1280)),
        npc=npc,
        speaker=draw(mostly("player", "dm")),
        words=draw(mostly("", "think carefully", "who is")),
        tier=draw(one_of_these(None, *Tier)),
        replies=(
            *(draw(calling(known, granted)) for _ in range(rounds)),
            draw(ending()),
        ),
        leaves=draw(sometimes(ticks(0, 256), float("inf"))),
        pace=draw(mostly(0.0, TICK)),
    )


@st.composite
def calling(
    draw: st.DrawFn, known: Mapping[str, Mapping[str, Any]], granted: list[str]
) -> Reply:
    steps: list[Step] = []
    for index in range(draw(one_of_these(1, 1, 2, 3, 6))):
        odd = draw(st.integers(0, 9))
        if odd == 9:
            name = draw(one_of_these("nonsense", *known))
        else:
            name = draw(one_of_these(*granted))
        arguments = json.dumps(known.get(name, {}))
        if odd == 8:
            arguments = draw(one_of_these(*_ODD))
        steps.append(Asks(name, arguments, f"c{index}" if odd != 7 else "c0"))
    return tuple(steps)
