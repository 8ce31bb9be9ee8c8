"""Behaviours of the catalogue beside a good server: the short form, a quarter of them.

Many bad servers share a process here, for a second or two each. No call of the good
server may fail, the process may not freeze, and it needs little memory. `make hostile`
measures how late each call is, one bad server at a time.
"""

from __future__ import annotations

import pytest

from .catalogue import CASES, IDLE, Case
from .company import Seen, kept

GROUPS = 6
PART = 4
SECONDS = 2.0
WITHIN = 120.0  # seconds, after which a run counts as frozen and is killed
MEMORY = 64.0  # MB above the control, for each server that is there at once

# Next to each other stand those that do the same: each group has some of all.
CHOSEN = list(CASES.values())[::PART]
COMPANY = [CHOSEN[number::GROUPS] for number in range(GROUPS)]


@pytest.fixture(scope="module")
def controls() -> list[Seen]:
    return []


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
    assert seen.wall  # some were answered, that is
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
