"""Four servers, two of them strange, killed at random while many callers call.

The storm is the one of ``benchmarks/chaos.py``, which makes ten thousand calls.
"""

from __future__ import annotations

import pytest

import trio

from benchmarks.chaos import storm
from glyphoxa_trio.tools.outcome import Status

pytestmark = pytest.mark.long

LIMIT = 120.0  # seconds; no storm that passes comes near it


@pytest.mark.parametrize("seed", [1, 2])
async def test_every_call_has_one_outcome_that_is_true_while_servers_are_killed(
    seed: int,
) -> None:
    # G2, A42, A43, N23: no call twice, none lost, nothing left behind
    with trio.fail_after(LIMIT):
        found = await storm(200, seed=seed, calls_a_kill=10)
    assert found.wrong == []
    assert sum(found.outcomes.values()) == 200
    assert found.outcomes.keys() <= {Status.OK, Status.UNAVAILABLE}
    # Or nothing was tried: servers did die, and most calls came through.
    assert found.kills >= 5
    assert found.outcomes[Status.OK] >= 100
