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
    nursery: trio.Nursery,
    approver: Approver,
    npc: str,
    calls: Sequence[tuple[ToolCall, Listing]],
    *,
    within: float,
) -> frozenset[str]:
    """The ids of the calls that somebody said yes to in time, asked all at once.

    An approver that fails, or does not answer within ``within`` seconds, has not
    said yes. It is asked in ``nursery`` and not in the caller's task: one that
    ignores its cancellation, a thread that waits for a key, holds nobody (D3a).
    """
    approved: set[str] = set()
    answered = trio.Event()
    waiting = len(calls)
    scopes = [trio.CancelScope() for _ in calls]

    async def ask(call: ToolCall, listing: Listing, scope: trio.CancelScope) -> None:
        nonlocal waiting
        request = ApprovalRequest(npc=npc, call=call, tool=listing.key)
        try:
            with scope:
                if await approver(request):
                    approved.add(call.id)
        except Exception:  # border: the embedder's code; this is no yes
            pass
        finally:
            waiting -= 1
            if not waiting:
                answered.set()

    if calls:
        for (call, listing), scope in zip(calls, scopes, strict=True):
            nursery.start_soon(ask, call, listing, scope)
        try:
            with trio.move_on_after(within):
                await answered.wait()
        finally:
            for scope in scopes:
                scope.cancel("nobody waits for this approval any more")
    return frozenset(approved)
