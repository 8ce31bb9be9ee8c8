"""Which statistic should place a tool: what its measurements say. Pure (D8, G40).

A statistic is right for a tool if the tier it leads to has room for its calls: a
turn of that tier waits no longer than the ceiling, and what takes longer is cut.
What a faster tier gains is that more turns may use the tool; so of the statistics
that keep the promise, the one that asks for the least is recommended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from glyphoxa_trio.units import in_ms

from .definition import ToolDefinition
from .estimate import TierBy, estimate
from .tier import Tier, TierLimits
from .window import LatencyWindow, SampleKind

# Fewer calls are no evidence: a share of one in twenty would be an accident.
ENOUGH: Final = 20
# Of its calls may find no room in its tier: the promise of `adaptive`.
TOLERATED: Final = 0.01

# From the one that asks for the least to the one that asks for the most.
_IN_ORDER: Final = (TierBy.P50, TierBy.ADAPTIVE, TierBy.P95)


@attrs.frozen(kw_only=True)
class TierChoice:
    """Where one statistic places a tool.

    Args:
      seconds: the estimate.
      ceiling: how long a turn of ``tier`` waits for tools, seconds.
      beyond: the share of calls, 0 to 1, that take longer than that.
    """

    tier_by: TierBy
    seconds: float
    tier: Tier
    ceiling: float
    beyond: float


@attrs.frozen(kw_only=True)
class Evidence:
    """What the measurements of one tool say. ``text`` is for people."""

    samples: int
    bimodal: bool
    choices: Mapping[TierBy, TierChoice]
    recommended: TierBy
    text: str

    @property
    def kept(self) -> bool:
        """Whether the recommended statistic leaves room for nearly all calls."""
        return self.choices[self.recommended].beyond <= TOLERATED


def evidence(
    definition: ToolDefinition, window: LatencyWindow, now: float, limits: TierLimits
) -> Evidence | None:
    """What each statistic makes of a tool; None for fewer than `ENOUGH` calls.

    Health is left out, since it comes and goes, and so is where the tool is now.
    """
    samples = window.latency_count(now)
    if samples < ENOUGH:
        return None
    choices: dict[TierBy, TierChoice] = {}
    for tier_by in _IN_ORDER:
        found = estimate(definition, window, now=now, limits=limits, tier_by=tier_by)
        by_number = found.tier if found.tier_by_number is None else found.tier_by_number
        tier = max(by_number, definition.min_tier)
        ceiling = limits.ceiling(tier)
        choices[tier_by] = TierChoice(
            tier_by=tier_by,
            seconds=found.seconds,
            tier=tier,
            ceiling=ceiling,
            beyond=share_beyond(window, ceiling, now),
        )
    recommended = _least(choices)
    bimodal = window.bimodal(now)
    return Evidence(
        samples=samples,
        bimodal=bimodal,
        choices=choices,
        recommended=recommended,
        text=_in_words(choices, recommended, bimodal=bimodal),
    )


def recommend(tools: Iterable[Evidence], configured: TierBy) -> tuple[TierBy, str]:
    """One statistic for all these tools, and a sentence that says why.

    The configured one stays unless another is better.
    """
    every = list(tools)
    if not every:
        return configured, (
            f"tier_by stays {configured}: no tool has the {ENOUGH} measured calls"
            " that make evidence"
        )
    # What no statistic can help is no reason for a stricter one.
    late = {
        tier_by: sum(
            x.choices[tier_by].beyond > max(TOLERATED, x.choices[x.recommended].beyond)
            for x in every
        )
        for tier_by in _IN_ORDER
    }
    best = min((configured, *_IN_ORDER), key=lambda tier_by: late[tier_by])
    worst = max(x.choices[configured].beyond for x in every)
    helpless = sum(not x.kept for x in every)
    said = (
        f"of {len(every)} tools with {ENOUGH} measured calls or more,"
        f" {late[configured]} overrun the ceiling of their tier under {configured}"
        f" (the worst in {_percent(worst)} of its calls)"
    )
    if best is not configured:
        said += f", {late[best]} under {best}: set calibration.tier_by to {best}"
    else:
        said += f": {configured} {'stays' if helpless else 'is right'}"
    if helpless:
        said += (
            f"; {helpless} would under any: what helps is a longer ceiling or a quicker"
            " tool"
        )
    return best, said


def share_beyond(window: LatencyWindow, seconds: float, now: float) -> float:
    """The share of calls, 0 to 1, that take longer than ``seconds``.

    By the product-limit estimator: a call that was cut earlier is reckoned to go on
    as those do that were seen to go on.
    """
    # At a tie the call that ended comes before the one that was cut.
    every = sorted(
        (sample.seconds, sample.kind is SampleKind.CENSORED)
        for sample in window.samples(now)
        if sample.kind in (SampleKind.OK, SampleKind.TIMEOUT, SampleKind.CENSORED)
    )
    share = 1.0
    for watched, (took, was_cut) in zip(range(len(every), 0, -1), every, strict=True):
        if took > seconds:
            break
        if not was_cut:
            share *= (watched - 1) / watched
    return share


def _least(choices: Mapping[TierBy, TierChoice]) -> TierBy:
    """The first that keeps the promise; if none does, the first that is nearest."""
    return min(_IN_ORDER, key=lambda tier_by: max(TOLERATED, choices[tier_by].beyond))


def _in_words(
    choices: Mapping[TierBy, TierChoice], recommended: TierBy, *, bimodal: bool
) -> str:
    same: dict[tuple[Tier, float], list[TierChoice]] = {}
    for choice in choices.values():
        same.setdefault((choice.tier, choice.beyond), []).append(choice)
    parts = [
        f"{' and '.join(f'{x.tier_by} ({in_ms(x.seconds)})' for x in alike)}"
        f" {'make' if len(alike) > 1 else 'makes'} it {tier}, where"
        f" {_percent(beyond)} of its calls take longer than {in_ms(alike[0].ceiling)}"
        for (tier, beyond), alike in same.items()
    ]
    speeds = "two speeds" if bimodal else "one speed"
    kept = choices[recommended].beyond <= TOLERATED
    best = f"best is {recommended}" if kept else "none has room for it"
    return f"{speeds}: {'; '.join(parts)}; {best}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
