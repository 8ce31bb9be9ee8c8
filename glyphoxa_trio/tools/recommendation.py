"""The recommendation of a statistic (``tier_by``), from measurements of tools. Pure.

A statistic is right for a tool if the tier it leads to has room for its calls: a turn
of that tier waits no longer than the ceiling, and a longer call is cut. In a faster
tier more turns may use the tool; so of the statistics whose tiers have room, the one
that asks for the least is recommended.
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

# Fewer calls are no evidence: a share of one in twenty would be chance.
ENOUGH: Final = 20
# The share of calls that may exceed the room of their tier: the aim of `adaptive`.
TOLERATED: Final = 0.01

# From the statistic that asks for the least to the one that asks for the most.
_IN_ORDER: Final = (TierBy.P50, TierBy.ADAPTIVE, TierBy.P95)


@attrs.frozen(kw_only=True)
class TierChoice:
    """The tier in which one statistic places a tool.

    Args:
      seconds: the estimate.
      ceiling: how long a turn of ``tier`` waits for tools, seconds.
      beyond: the share of calls, 0 to 1, that take longer than that."""

    tier_by: TierBy
    seconds: float
    tier: Tier
    ceiling: float
    beyond: float


@attrs.frozen(kw_only=True)
class Evidence:
    """The evidence from the measurements of one tool. ``text`` is for people."""

    samples: int
    bimodal: bool
    choices: Mapping[TierBy, TierChoice]
    recommended: TierBy
    text: str

    @property
    def kept(self) -> bool:
        """True if nearly all calls have room under the recommended statistic."""
        return self.choices[self.recommended].beyond <= TOLERATED


def evidence(
    definition: ToolDefinition, window: LatencyWindow, now: float, limits: TierLimits
) -> Evidence | None:
    """Return the tier by each statistic; None for fewer than `ENOUGH` calls.

    Health is ignored, since it comes and goes, and so is the tool's present tier.
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
    """Recommend one statistic for all these tools, with a sentence that says why.

    The configured one stays unless another is better.
    """
    every = list(tools)
    if not every:
        return configured, (
            f"tier_by stays {configured}: no tool has the {ENOUGH} measured calls"
            " that make evidence"
        )
    # A tool that no statistic can help is no reason for a stricter one.
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
    """Return the share of calls, 0 to 1, that take longer than ``seconds``.

    By the product-limit estimator: a call that was cut earlier is assumed to go on like
    those that were observed to go on.
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
    """Return the first that leaves room for nearly all calls, or the nearest to it."""
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
