"""Asking somebody whether an external tool may run (D13a)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import attrs

import trio

from glyphoxa_trio.host import Listing
from glyphoxa_trio.tools.outcome import ToolCall

# Outside the tool clock: a person needs longer than a tool may. Seconds.
APPROVAL_TIMEOUT = 30.0


@attrs.frozen(kw_only=True)
class ApprovalRequest:
    """Somebody must say yes before this external tool runs."""

    npc: str
    call: ToolCall
    tool: str


Approver = Callable[[ApprovalRequest], Awaitable[bool]]


async def approved_calls(
    approver: Approver,
    npc: str,
    calls: Sequence[tuple[ToolCall, Listing]],
    *,
    within: float,
) -> frozenset[str]:
    """The ids of the calls that somebody said yes to in time, asked all at once.

    An approver that fails, or does not answer within ``within`` seconds, has not
    said yes.
    """
    approved: set[str] = set()

    async def ask(call: ToolCall, listing: Listing) -> None:
        request = ApprovalRequest(npc=npc, call=call, tool=listing.key)
        try:
            if await approver(request):
                approved.add(call.id)
        except Exception:  # border: the embedder's code; this is no yes
            pass

    with trio.move_on_after(within):
        async with trio.open_nursery() as nursery:
            for call, listing in calls:
                nursery.start_soon(ask, call, listing)
    return frozenset(approved)
