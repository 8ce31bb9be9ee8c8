"""``make hostile``: every behaviour of the catalogue beside a good server, by itself.

One line for each: how late the calls of the good server were by our doing (p50, p99,
the worst, in ms, above the median of a control run), how long they took, the worst
loop lag of an idle process meanwhile, by how much a call of the bad server exceeded its
limit, and the memory above the control's. A line that misses a bound ends in ``MISSED``
and is run once more before it counts. Then the program is told to end beside each of
them; see `signals`. The exit status is 1 if something is left.

    python -m tests.mcp.hostile [SECONDS [PART OF A NAME ...]]
"""

from __future__ import annotations

import sys

import trio

from .catalogue import CASES, IDLE, Case
from .company import Seen, kept
from .signals import endings

LATE = 20.0  # ms that a call may be late by our doing
OVER = 50.0  # ms that a call of a bad server may exceed its limit by our doing
MEMORY = 64.0  # MB above the control
CLOSING = 2_000.0  # ms
PATIENCE = 40.0  # seconds for one run, of which it lasts two


def share(values: list[float], part: float) -> float:
    """The value below which so large a part of all is."""
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


async def _one(case: Case, seconds: float, control: Seen) -> bool:
    try:
        seen = await kept(seconds, [case], within=PATIENCE)
    except (TimeoutError, RuntimeError) as error:
        print(f"{case.name:44} {str(error)[-300:]}  MISSED", flush=True)
        return False
    costs = share(control.ours, 0.5)
    late = [max(0.0, value - costs) for value in seen.ours]
    above = seen.memory - control.memory
    missed = [
        name
        for name, is_so in (
            ("late", max(late) > LATE),
            ("failed", bool(seen.failed)),
            ("over", seen.over > OVER),
            ("memory", above > MEMORY),
            ("closing", seen.closing > CLOSING),
        )
        if is_so
    ]
    print(
        f"{case.name:44} late {share(late, 0.5):5.1f} {share(late, 0.99):6.1f} "
        f"{max(late):7.1f}  took {share(seen.wall, 0.99):6.1f} {max(seen.wall):7.1f}  "
        f"bare {seen.bare:5.1f}  over {seen.over:4.0f} {seen.over_wall:5.0f}  "
        f"memory {above:+5.0f}  closing {seen.closing:5.0f}  "
        f"{' '.join(f'{k} {v}' for k, v in next(iter(seen.ended.values())).items())}"
        + (f"  MISSED {' '.join(missed)} {seen.failed[:1]}" if missed else ""),
        flush=True,
    )
    return not missed


async def main() -> int:
    seconds, *parts = sys.argv[1:] or ["5"]
    control = await kept(float(seconds), [IDLE], within=PATIENCE)
    chosen = [
        case
        for case in CASES.values()
        if not parts or any(part in case.name for part in parts)
    ]
    missed = [c for c in chosen if not await _one(c, float(seconds), control)]
    still = [c.name for c in missed if not await _one(c, float(seconds), control)]
    print(f"{len(chosen)} behaviours, {len(still)} missed a bound: {still}")
    ends = await endings(chosen)
    print(f"{len(ends)} ends missed two seconds: {ends}")
    return 1 if still or ends else 0


if __name__ == "__main__":
    sys.exit(trio.run(main))
