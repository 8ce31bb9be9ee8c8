"""The gate: `refusal` decides which tools a model is shown and which calls may run.

It is asked when tools are shown and again when a call arrives, each time with the state
of that moment. No call bypasses it.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple

import attrs

from glyphoxa_trio.units import in_ms

from .definition import ToolDefinition
from .estimate import Estimate, EstimateSource
from .holding import REMEDY, HeldTool
from .naming import matches, names_in_full
from .outcome import Status
from .tier import Tier


class TrustMode(StrEnum):
    """The rule for tools of external servers: with approval, or without."""

    LIMITED = "limited"
    FULL = "full"


@attrs.frozen(kw_only=True)
class Grant:
    """The tools that one NPC may use: the names and patterns configured for it.

    Args:
      tools: exposed names, canonical keys, globs of either, or whole groups.
      allow_tools: external tools that need no approval under `TrustMode.LIMITED`.
      approver: a person can be asked to approve the others.
      also: another grant that has to permit it too: a running turn keeps its old grant
        when its NPC is granted less."""

    npc: str = ""
    tools: tuple[str, ...] = ()
    trust: TrustMode = TrustMode.LIMITED
    allow_tools: tuple[str, ...] = ()
    approver: bool = False
    also: Grant | None = None

    @property
    def trusts_fully(self) -> bool:
        """True if no tool needs an approval, so that none can be held back."""
        return self.trust is TrustMode.FULL and (
            self.also is None or self.also.trusts_fully
        )

    def covers(self, definition: ToolDefinition, exposed: str) -> bool:
        """Return True if the tool is on the NPC's list."""
        if self.also is not None and not self.also.covers(definition, exposed):
            return False
        return _covers(self.tools, definition.key, definition.group, exposed)

    def approves(self, definition: ToolDefinition, exposed: str) -> bool:
        """Return True if it may run without asking: ours, trusted, named in full."""
        if self.also is not None and not self.also.approves(definition, exposed):
            return False
        if not definition.external or self.trust is TrustMode.FULL:
            return True
        key, group = definition.key, definition.group
        return _covers(self.allow_tools, key, group, exposed) or _names_in_full(
            self.tools, key, group, exposed
        )


EVERYTHING: Final = Grant(npc="", tools=("*", "*.*"), trust=TrustMode.FULL)
"""The operator's own grant; no NPC has it."""


class Availability(StrEnum):
    """The state of a tool's server."""

    READY = "ready"
    RESTARTING = "restarting"  # stays visible; a call waits inside its deadline
    DOWN = "down"


@attrs.frozen(kw_only=True)
class Candidate:
    """A tool at this moment, as the gate sees it.

    ``obstacle`` is the reason, in words, why it cannot be called right now, if any: an
    open breaker, or earlier calls that do not stop. ``changed``: it has changed since
    it was approved. ``agreed``: a person approved it as it is. ``starts_in``: seconds
    until its server can answer, for a tool that is to be called; a tool that is only to
    be shown has 0, and stays visible while its server starts. ``held``: its code blocks
    the event loop too often, so it may not be called.
    """

    definition: ToolDefinition
    exposed: str
    estimate: Estimate
    availability: Availability = Availability.READY
    obstacle: str | None = None
    changed: bool = False
    starts_in: float = 0.0
    agreed: bool = False
    held: HeldTool | None = None


class Reason(StrEnum):
    """The reason why a tool is not shown, or a call not run."""

    UNKNOWN = "unknown"
    NOT_GRANTED = "not_granted"
    CHANGED = "changed"
    NOT_TRUSTED = "not_trusted"
    NEEDS_APPROVAL = "needs_approval"
    OVER_TIER = "over_tier"
    UNAVAILABLE = "unavailable"
    HOLDS_LOOP = "holds_loop"
    OVER_BUDGET = "over_budget"
    NOT_LOADED = "not_loaded"
    REPEATED = "repeated"
    TOO_MANY = "too_many"


_STATUS: Final = {
    Reason.UNAVAILABLE: Status.UNAVAILABLE,
    Reason.HOLDS_LOOP: Status.UNAVAILABLE,
    Reason.OVER_TIER: Status.SKIPPED,
    Reason.OVER_BUDGET: Status.SKIPPED,
    Reason.NOT_LOADED: Status.SKIPPED,
    Reason.TOO_MANY: Status.SKIPPED,
}


@attrs.frozen(kw_only=True)
class Refusal:
    """A refusal, in words for the model (``text``) and the operator (``remedy``).

    ``data`` is what the model needs to correct its call, such as a schema.
    """

    reason: Reason
    text: str
    remedy: str = ""
    data: Any = None

    @property
    def status(self) -> Status:
        """The status of a call that is refused for this reason."""
        return _STATUS.get(self.reason, Status.DENIED)


def refusal(
    candidate: Candidate,
    grant: Grant,
    *,
    tier: Tier,
    remaining: float,
    approved: bool = False,
) -> Refusal | None:
    """Return why this tool may not be shown or run; None if it may.

    Args:
      tier: the effective tier of the turn.
      remaining: the rest of the turn's tool budget, seconds.
      approved: the approver has approved this very call.
    """
    definition, estimate = candidate.definition, candidate.estimate
    name = candidate.exposed
    if no := not_granted(definition, name, grant):
        return no
    if candidate.changed and not grant.trusts_fully:
        # An approval of one call does not help: the approver did not see the change.
        return Refusal(
            reason=Reason.CHANGED,
            text=f"{name} has changed since it was approved, and is held back",
            remedy=(
                "its server describes it differently now: look at it, then"
                f" glyphoxa mcp approve {definition.key}"
            ),
        )
    if not (approved or candidate.agreed or grant.approves(definition, name)):
        remedy = f"name {definition.key!r} in the NPC's tools or in trust.allow_tools"
        if not grant.approver:
            return Refusal(
                reason=Reason.NOT_TRUSTED, text=f"{name} is not allowed", remedy=remedy
            )
        if tier is Tier.FAST:  # asking a person does not fit a FAST turn
            return Refusal(
                reason=Reason.NEEDS_APPROVAL,
                text=f"{name} needs an approval, which a fast turn has no time for",
                remedy=remedy,
            )
    if estimate.tier > tier:
        return Refusal(
            reason=Reason.OVER_TIER,
            text=f"{name} is too slow for a {tier} answer",
            remedy=_tier_remedy(definition, estimate),
        )
    if candidate.availability is Availability.DOWN or candidate.obstacle:
        why = candidate.obstacle or f"the server {definition.group!r} is down"
        return Refusal(
            reason=Reason.UNAVAILABLE,
            text=f"{name} cannot be used now: {why}",
            remedy="it returns by itself when it answers again",
        )
    if candidate.held is not None:
        minutes = minutes_to_trial(candidate.held.next_trial)
        return Refusal(
            reason=Reason.HOLDS_LOOP,
            text=f"{name} cannot be used now: it has blocked everything else",
            remedy=(
                f"{candidate.held.text}: {REMEDY}; as it is, it is tried again after"
                f" about {minutes} min of talk"
            ),
        )
    if candidate.starts_in and candidate.starts_in + estimate.seconds > remaining:
        return Refusal(
            reason=Reason.UNAVAILABLE,
            text=(
                f"{name} cannot be used yet: its server is starting, about"
                f" {in_ms(candidate.starts_in)}"
            ),
            remedy="it can be used when its server has started",
        )
    if estimate.seconds > remaining:
        return Refusal(
            reason=Reason.OVER_BUDGET,
            text=(
                f"needs about {in_ms(estimate.seconds)}, "
                f"{in_ms(max(0.0, remaining))} left"
            ),
            remedy=_next_trial(estimate)
            or f"it fits a turn that has {in_ms(estimate.seconds)} left for tools",
        )
    return None


def not_granted(
    definition: ToolDefinition, exposed: str, grant: Grant
) -> Refusal | None:
    """Return the gate's first refusal: of a tool that is not on the NPC's list; None if
    it is on the list, where the other reasons are still to be looked at."""
    if grant.covers(definition, exposed):
        return None
    return Refusal(
        reason=Reason.NOT_GRANTED,
        text=f"{exposed} is not available to you",
        remedy=f"add {definition.key!r} to the NPC's tools",
    )


def why_slow(definition: ToolDefinition, estimate: Estimate) -> str:
    """Return why a tool is in its tier and in no faster one, for people."""
    if estimate.degraded:
        return f"it is degraded ({estimate.degraded})"
    if definition.min_tier is estimate.tier and estimate.tier > Tier.FAST:
        return f"its min_tier is {definition.min_tier}"
    took = in_ms(estimate.seconds)
    match estimate.source:
        case EstimateSource.UNKNOWN:
            return "its duration is not known, and calibration.unknown is deep"
        case EstimateSource.DECLARED:
            return f"it declares {took}"
        case EstimateSource.TRIAL:
            return f"a call of it was cut, after about {took}"
        case EstimateSource.MEASURED:
            return f"it measures {took}"
        case EstimateSource.ELSEWHERE:
            return f"it measures {took} elsewhere"


def minutes_to_trial(seconds: float) -> int:
    """Return the time to a hidden tool's trial in whole minutes; at least one."""
    return max(1, round(seconds / 60))


def _tier_remedy(definition: ToolDefinition, estimate: Estimate) -> str:
    if again := _next_trial(estimate):
        return again
    why = why_slow(definition, estimate)
    if estimate.source is EstimateSource.UNKNOWN:
        return f"{why}: measure it with glyphoxa calibrate CONFIG {definition.key}"
    # Not every NPC has such turns, and the gate does not know the NPC's budget.
    way = f"a {estimate.tier} turn has room for it, if the NPC's budget_tier allows one"
    return f"{why}: {way}"


def _next_trial(estimate: Estimate) -> str:
    """Return when a tool that its measurements hide is tried again; or nothing."""
    if estimate.next_trial is None:
        return ""
    why = estimate.degraded or f"its last calls took about {in_ms(estimate.seconds)}"
    minutes = minutes_to_trial(estimate.next_trial)
    return f"{why}; it is tried again after about {minutes} min of talk"


class _Names(NamedTuple):
    key: str
    group: str


# Every turn asks this of every tool; the answers change only with the configuration.
@lru_cache(maxsize=16_384)
def _covers(patterns: tuple[str, ...], key: str, group: str, exposed: str) -> bool:
    return any(matches(p, _Names(key, group), exposed) for p in patterns)


@lru_cache(maxsize=16_384)
def _names_in_full(
    patterns: tuple[str, ...], key: str, group: str, exposed: str
) -> bool:
    return any(names_in_full(p, _Names(key, group), exposed) for p in patterns)
