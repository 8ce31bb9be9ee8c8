"""The spans of tool calls, by OpenTelemetry's conventions for generative AI.

A span says how its call ended and why, and nothing of arguments and results.
"""

from __future__ import annotations

import re
from typing import Any, Final

from glyphoxa_trio.tools.outcome import Effect, Outcome, Status, ToolCall
from glyphoxa_trio.tracing import Span, begin
from glyphoxa_trio.units import milliseconds

from .catalogue import CatalogueEntry

# These say that nothing went wrong.
_WELL: Final = (Status.OK, Status.PENDING, Status.CANCELLED)
# A model may invent any id, also one made of what it was told.
_AN_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


def call_span(
    call: ToolCall, listing: CatalogueEntry | None, *, tier: str, budget: float
) -> Span:
    """Begin the span of a call.

    Args:
      listing: the tool; None if there is none of that name.
      budget: the seconds of tool time that the turn has left.
    """

    def about() -> dict[str, Any]:
        return {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": None if listing is None else listing.exposed,
            "gen_ai.tool.call.id": call.id if _AN_ID.fullmatch(call.id) else None,
            "glyphoxa.server": None if listing is None else listing.definition.group,
            "glyphoxa.tier": tier,
            "glyphoxa.budget_ms": max(0, milliseconds(budget)),
        }

    # A name that is no tool's is the model's own words.
    name = "" if listing is None else f" {listing.exposed}"
    return begin(f"execute_tool{name}", about)


def call_ended(span: Span, outcome: Outcome) -> None:
    """End the span of a call with its outcome."""
    if span:
        status, limit = outcome.status, outcome.limit
        span.set(
            {
                "glyphoxa.status": status.value,
                "glyphoxa.limit": None if limit is None else limit.value,
                "glyphoxa.effect_unknown": outcome.effect is Effect.UNKNOWN or None,
                "glyphoxa.cached": outcome.cached or None,
                "glyphoxa.shared": outcome.shared or None,
                "glyphoxa.answered_by": outcome.answered_by,
                "glyphoxa.truncated": outcome.truncated or None,
            }
        )
        if status not in _WELL:
            span.fail(status.value)
        span.end()
