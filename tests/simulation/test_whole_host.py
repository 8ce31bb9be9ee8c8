"""Random configurations and random scenarios: the promises of a runtime hold.

Random catalogues, grants, tiers, servers and models, speakers who interrupt each
other, reloads, elevations, approvals, on virtual time, under the whole production
code. Each promise of `glyphoxa_trio.simulation.promises` was seen to be broken when
the line of the product that keeps it was taken out: `make mutants` does that.

D0 to D7, D11, D12, D12a, D13, D13a, D16; rows G16, G17, G18, G20, G26, G31, A37,
A38, A44, A45.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings

from glyphoxa_trio.npc import TurnEvent
from glyphoxa_trio.simulation.plans import RehearsalPlan, rehearse
from glyphoxa_trio.simulation.plans_random import plans
from glyphoxa_trio.simulation.promises.monitor import Monitor

# A plan with two configurations and a long scenario fills pages.
pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")


@settings(
    max_examples=settings().max_examples * 3,  # ci: 300
    suppress_health_check=[HealthCheck.too_slow],
)
@given(plans())
def test_a_runtime_keeps_its_promises(plan: RehearsalPlan) -> None:
    # G16 to G18, G20, G26, G31, A37, A38, A44, A45
    monitor = rehearse(plan)
    assert not monitor.broken, "\n".join(map(str, monitor.broken))


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(plans())
def test_the_same_plan_is_the_same_run(plan: RehearsalPlan) -> None:
    # Else a broken promise could not be shrunk, nor shown to anybody.
    heard: list[list[TurnEvent]] = []
    hear: Callable[[Monitor, TurnEvent], None] = Monitor._hear

    def listen(monitor: Monitor, event: TurnEvent) -> None:
        heard[-1].append(event)
        hear(monitor, event)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Monitor, "_hear", listen)
        for _ in range(2):
            heard.append([])
            rehearse(plan)
    assert heard[0] == heard[1]
