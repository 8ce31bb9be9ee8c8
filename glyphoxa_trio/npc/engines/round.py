"""What the model of one round is shown and told: decided here, and nowhere else.

A turn and a speculation of it go the same way, so that the two can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence

from glyphoxa_trio.host import Listing, Shelf, Showing, ToolHost, showing
from glyphoxa_trio.host.search import Permitted
from glyphoxa_trio.npc.conversation import Conversation, Exchange
from glyphoxa_trio.providers.llm import LLMRequest, ToolSpec
from glyphoxa_trio.tools.gate import Grant
from glyphoxa_trio.tools.tier import Tier


def view_of(
    host: ToolHost,
    shelf: Shelf,
    *,
    tier: Tier,
    grant: Grant,
    remaining: float,
    threshold: int,
    permitted: Permitted,
) -> Showing:
    """Ask the gate what this round's model may see. The next round of ``shelf``."""
    return showing(
        host.explain(tier, grant=grant, remaining=remaining),
        shelf,
        threshold=threshold,
        permitted=permitted,
    )


def request_of(
    conversation: Conversation, exchange: Exchange, view: Showing, *, last: bool
) -> LLMRequest:
    """What the model is told. In the ``last`` round it has to answer in words."""
    return LLMRequest(
        messages=conversation.prompt(exchange, notice=view.summary),
        tools=_specs(view.shown),
        tools_forbidden=last or not view.shown,
    )


def _specs(shown: Sequence[Listing]) -> tuple[ToolSpec, ...]:
    return tuple(
        ToolSpec(
            name=listing.exposed,
            description=listing.definition.description,
            parameters=listing.definition.parameters,
        )
        for listing in shown
    )
