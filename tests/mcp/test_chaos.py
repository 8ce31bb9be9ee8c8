"""Four servers, two of them strange, killed at random while many callers call.

The storm is the one of ``benchmarks/chaos.py``, which makes ten thousand calls.
"""

from __future__ import annotations

import pytest

import trio

from benchmarks.chaos import kills, storm
from glyphoxa_trio.tools.outcome import Status

pytestmark = pytest.mark.border

LIMIT = 60.0  # seconds; no storm that passes comes near it


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


async def test_a_killed_server_ends_its_calls_at_once_and_comes_back() -> None:
    # A26: with a first backoff of 50 ms; the best of five, above what the same child
    # takes in the same run without us
    with trio.fail_after(LIMIT):
        found = await kills(5)
    assert len(found.ended) == 20
    assert min(found.ended) < 0.010 + max(found.bare_ended)
    assert min(found.ready) < 0.250 + max(found.bare_ready)  # which has the backoff
