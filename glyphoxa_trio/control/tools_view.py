"""The tools as a turn would see them: measured, shown or hidden and why, as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs

from glyphoxa_trio.host import CatalogueEntry
from glyphoxa_trio.runtime import Runtime, find_npc
from glyphoxa_trio.runtime.grants import HiddenToolProblem
from glyphoxa_trio.tools.estimate import Estimate, TierBy
from glyphoxa_trio.tools.gate import EVERYTHING, Reason, Refusal, refusal
from glyphoxa_trio.tools.recommendation import TOLERATED, recommend
from glyphoxa_trio.tools.search import SEARCH
from glyphoxa_trio.tools.tier import Tier, badge
from glyphoxa_trio.tools.usability import Usability

_UNAPPROVED: Final = Refusal(
    reason=Reason.NEEDS_APPROVAL,
    text="it is not approved yet",
    remedy="look at it and approve it with glyphoxa mcp approve TOOL",
)


@attrs.frozen
class ToolRow:
    """A tool as a turn would see it.

    Args:
      deferred: a model is told of it in a line, and loads it to use it.
      hidden: why it is not shown and what would change that; "" if it is shown.
    """

    listing: CatalogueEntry
    estimate: Estimate
    deferred: bool
    hidden: str

    @property
    def shown(self) -> str:
        return "no" if self.hidden else "in a line" if self.deferred else "yes"

    def as_json(self) -> dict[str, Any]:
        """Return it as `glyphoxa tools --json` writes it."""
        estimate = self.estimate
        return {
            "tool": self.listing.key,
            "exposed_as": self.listing.exposed,
            "declared_ms": ms_or_none(self.listing.definition.estimated_duration),
            "p50_ms": ms_or_none(estimate.p50),
            "p99_ms": ms_or_none(estimate.p99),
            "samples": estimate.samples,
            "badge": None if estimate.p50 is None else badge(estimate.p50),
            "tier": str(estimate.tier),
            "health": health(self.listing, estimate),
            "shown": not self.hidden,
            "deferred": self.deferred and not self.hidden,
            "hidden": self.hidden or None,
        }


@attrs.frozen(kw_only=True)
class ToolsView:
    """The tools of a turn: of an NPC, or of all."""

    tier: Tier
    npc: str
    tools: Sequence[ToolRow]
    note: str  # about the question, "" if there is nothing to say
    deferred: str  # about tools in a line, "" if there are none

    def as_json(self) -> dict[str, Any]:
        """Return the object that `glyphoxa tools --json` writes."""
        return {
            "tier": str(self.tier),
            "npc": self.npc or None,
            "tools": [tool.as_json() for tool in self.tools],
        }


async def view_of_tools(
    runtime: Runtime, *, tier: Tier | None, npc: str | None
) -> ToolsView:
    """Return the tools as a turn would see them.

    Raises:
      UnknownNpc: for an NPC that is not there.
    """
    grant, ceiling = EVERYTHING, Tier.DEEP
    if npc is not None:
        found = find_npc(runtime.config, npc)
        grant, ceiling = runtime.npc(found.name).grant, found.budget_tier
    seen = min(ceiling, Tier.DEEP if tier is None else tier)
    beyond = tier is not None and tier > ceiling
    estimates = await runtime.host.report()
    room = runtime.host.settings.limits.ceiling(seen)
    explained = [
        (listing, refusal(candidate, grant, tier=seen, remaining=room))
        for listing, candidate in runtime.host.candidates()
    ]
    approved = runtime.host.approvals.approved
    waiting = {  # no NPC may use them yet
        one.key
        for one in runtime.unapproved()
        if one.changed or not approved(one.listing.definition, one.listing.exposed)
    }
    judged = {x.tool: x for x in runtime.usability(grant.npc)} if grant.npc else {}
    external = sum(
        no is None and x.definition.external and not x.tool.added for x, no in explained
    )
    threshold = runtime.config.mcp.defer_threshold
    deferred = external > threshold
    tools: list[ToolRow] = []
    for listing, no in explained:
        if no is not None and no.reason is Reason.NOT_GRANTED:
            continue
        if no is None and not grant.npc and listing.key in waiting:
            no = _UNAPPROVED
        tools.append(
            ToolRow(
                listing,
                estimates.get(listing.key, listing.estimate),
                deferred and listing.definition.external,
                "" if no is None else _why(no, judged.get(listing.key)),
            )
        )
    return ToolsView(
        tier=seen,
        npc=grant.npc,
        tools=tools,
        note=_beyond(grant.npc, tier, ceiling) if tier is not None and beyond else "",
        deferred=(
            f"in a line: these {external} tools of servers are more than"
            f" mcp.defer_threshold ({threshold}), so models are told of each in a"
            f" line, and load what they need with {SEARCH.name}"
        )
        if deferred
        else "",
    )


def _why(no: Refusal, judged: Usability | None) -> str:
    """Why a tool is hidden in this turn, and what changes that."""
    if judged is None:
        return hidden_because(no)
    return f"{no.text}; it {judged.text}" if judged.usable else judged.text


def _beyond(npc: str, tier: Tier, ceiling: Tier) -> str:
    """The answer to a question about turns that the NPC never has."""
    return (
        f"{npc} has no {tier} turns, because its budget_tier is {ceiling}: raise it to"
        f" {tier}, or in play type /elevate {npc} {tier}"
    )


async def advice_on_tiers(runtime: Runtime) -> tuple[TierBy, list[str]]:
    """Return the best ``tier_by`` by what was measured, and why, in lines."""
    found = await runtime.host.evidence()
    configured = runtime.config.calibration.tier_by
    best, said = recommend(found.values(), configured)
    return best, [
        said,
        *(
            f"  {key}: {one.text}"
            for key, one in sorted(found.items())
            if one.choices[configured].beyond > TOLERATED
        ),
    ]


def absences(runtime: Runtime) -> list[str]:
    """Return warnings: absent servers, grants that mean nothing."""
    texts = [f"{warning.server}: {warning.text}" for warning in runtime.warnings]
    said = [x for x in runtime.problems() if not isinstance(x, HiddenToolProblem)]
    return [*texts, *map(str, said)]  # the view has the hidden ones in their rows


def health(listing: CatalogueEntry, estimate: Estimate) -> str:
    """Return ``good``, or the fault of a tool."""
    if listing.availability != "ready":
        return str(listing.availability)
    return f"degraded: {estimate.degraded}" if estimate.degraded else "good"


def hidden_because(no: Refusal | None) -> str:
    """Why a tool is not shown and what would change it; empty if it is shown."""
    if no is None:
        return ""
    return f"{no.text}; {no.remedy}" if no.remedy else no.text


def ms_or_none(value: float | None) -> float | None:
    """Return seconds as milliseconds with a decimal, for JSON."""
    return None if value is None else round(value * 1000, 1)
