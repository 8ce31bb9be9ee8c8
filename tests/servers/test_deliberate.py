"""The example server over a real process: in part and in time, or not at all.

Nothing here waits for a time of its own: the ceiling of the turn and the pace of
the council decide, and the margin of ten seconds is enough for a machine that is busy.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import trio

from glyphoxa_trio import Config, Outcome, open_runtime
from glyphoxa_trio.config import CalibrationConfig, McpConfig, ServerSpec
from glyphoxa_trio.tools.outcome import Limit, Status
from glyphoxa_trio.tools.tier import Tier, TierLimits

pytestmark = pytest.mark.long  # what it does is tested without it: `test_budget`

SERVER = Path(__file__).parents[2] / "docs" / "examples" / "servers" / "deliberate.py"
MEMBERS = 12


def council(name: str, *options: str) -> ServerSpec:
    # All of it takes 18 s, a FAST turn waits 15, and an answer gets 10 to arrive.
    command = ("python", str(SERVER), "--pace", "1.5", "--margin", "10", *options)
    return ServerSpec(name=name, command=command, start_timeout=60, timeout=60)


async def test_a_server_that_knows_its_budget_answers_in_part_and_in_time() -> None:
    config = Config(
        mcp=McpConfig(servers=(council("heedful"), council("heedless", "--heedless"))),
        calibration=CalibrationConfig(at_start=False),
        tiers=TierLimits(fast_ceiling=15.0, standard_ceiling=15.0, deep_ceiling=60.0),
    )
    ends: dict[tuple[str, Tier], Outcome] = {}

    async def ask(server: str, tier: Tier) -> None:
        ends[server, tier] = await runtime.host.execute(
            f"{server}.deliberate", {"question": "Shall we?"}, tier=tier
        )

    with trio.fail_after(120):
        async with open_runtime(config, wait_for_servers=60) as runtime:
            assert await runtime.wait_ready(within=0), runtime.warnings
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, "heedful", Tier.FAST)
                nursery.start_soon(ask, "heedless", Tier.FAST)
                nursery.start_soon(ask, "heedful", Tier.DEEP)

    in_part = ends["heedful", Tier.FAST]
    assert in_part.status is Status.OK, in_part
    assert not in_part.data["complete"]
    assert 1 <= len(in_part.data["opinions"]) < MEMBERS

    cut = ends["heedless", Tier.FAST]
    assert (cut.status, cut.limit, cut.data) == (Status.TIMEOUT, Limit.TURN, None)

    whole = ends["heedful", Tier.DEEP]
    assert whole.status is Status.OK, whole
    assert whole.data["complete"]
    assert len(whole.data["opinions"]) == MEMBERS
