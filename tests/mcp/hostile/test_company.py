"""Behaviours of the catalogue beside a good server: the short form, a quarter of them.

Many bad servers share a process here, for a second or two each, and what is asserted
is of an order of magnitude that a machine with other work does not spoil: nobody's
call waits a quarter of a second by our doing, where a server that freezes the loop
costs seconds. `make hostile` has the exact bounds, one server at a time.
"""

from __future__ import annotations

import pytest

from .catalogue import CASES, IDLE, Case
from .company import Seen, kept

GROUPS = 6
PART = 4
SECONDS = 2.0
WITHIN = 60.0  # seconds, after which a run counts as frozen and is killed
LATE = 250.0  # ms above what a call costs
OVER = 500.0  # ms that a bad server's call may exceed its limit by our doing
MEMORY = 64.0  # MB above the control, for each server that is there at once
ENDS = 4_000.0  # ms; two seconds, and as much for a machine with other work

# Next to each other stand those that do the same: each group has some of all.
CHOSEN = list(CASES.values())[::PART]
COMPANY = [CHOSEN[number::GROUPS] for number in range(GROUPS)]


@pytest.fixture(scope="module")
def controls() -> list[Seen]:
    return []


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


@pytest.mark.long
@pytest.mark.parametrize("number", range(GROUPS))
async def test_no_bad_server_keeps_a_good_one_waiting(
    number: int, controls: list[Seen]
) -> None:
    if not controls:
        controls.append(await kept(SECONDS / 2, [IDLE], within=WITHIN))
    (control,) = controls
    cases = COMPANY[number]
    seen = await kept(SECONDS, cases, within=WITHIN)
    assert not seen.failed
    late = max(seen.ours) - median(control.ours)
    assert late < LATE, (late, [case.name for case in cases])
    assert seen.over < OVER, (seen.over, seen.ended)
    assert seen.closing < ENDS, seen.closing
    assert seen.memory - control.memory < MEMORY * len(cases), seen.memory


def test_the_catalogue_has_what_it_should() -> None:
    kinds = {(case.behaviour, *case.options.values()) for case in CASES.values()}
    assert len(CASES) >= 200
    assert len(kinds) >= 150
    assert sum(bool(case.http) for case in CASES.values()) >= 50


@pytest.mark.border
async def test_a_run_that_freezes_is_killed_and_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The control of all above: a process that does not answer is seen.
    with pytest.raises(TimeoutError, match="frozen for"):
        await kept(60.0, [Case("good")], within=0.2)
