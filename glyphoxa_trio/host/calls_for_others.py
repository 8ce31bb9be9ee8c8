"""Calls that are made here for other processes with the same tools.

They have no NPC. The other process has asked if its NPC may make the call, and counts
it; here it is one more reader of a result that is cached for all.
"""

from __future__ import annotations

from typing import Any, Self

import attrs

import trio

from glyphoxa_trio.tools.cache import CacheKey
from glyphoxa_trio.tools.definition import CallContext, ToolUnavailable
from glyphoxa_trio.tools.outcome import ToolResult
from glyphoxa_trio.tools.window import SampleKind

from .attempts import Attempt, Attempts, classify
from .catalogue import CatalogueEntry
from .elsewhere import AnswerElsewhere


@attrs.define(eq=False)
class CallForOthers:
    """One call that is made for another process. Made by `ToolHost.call_for_others`.

    It counts as waiting until its block is left; the call ends then, unless somebody
    else waits.
    """

    _attempts: Attempts
    _key: CacheKey
    _cached: ToolResult | None
    _attempt: Attempt | None
    _seconds: float
    _early: SampleKind | None = attrs.field(default=None, init=False)

    @property
    def is_cached(self) -> bool:
        """True if the result is there already."""
        return self._cached is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._attempt is not None:
            self._attempts.leave(self._attempt, self._early)

    async def answer(self) -> AnswerElsewhere:
        """Wait for the result, inside the block.

        Raises:
          ToolUnavailable: the call failed, or has not ended in time.
        """
        if self._cached is not None or self._attempt is None:
            await trio.lowlevel.checkpoint()
            return self._valid(self._cached)
        with trio.move_on_after(self._seconds):
            kind, answer = classify(await self._attempt.task.settled())
            return self._valid(answer if kind is SampleKind.OK else None)
        self._early = SampleKind.CENSORED
        raise ToolUnavailable("the call has not ended in time")

    def _valid(self, answer: ToolResult | None) -> AnswerElsewhere:
        if answer is None:
            raise ToolUnavailable("the call failed")
        left = self._attempts.cache.left(self._key, trio.current_time())
        return AnswerElsewhere(answer, left)


def call_for_others(
    attempts: Attempts,
    listing: CatalogueEntry,
    arguments: dict[str, Any],
    key: CacheKey,
    *,
    tenant: str,
    seconds: float,
) -> CallForOthers:
    """Begin a call, or join one that is in flight here, or find its result cached.

    Raises:
      ToolUnavailable: its breaker, or earlier calls that linger, forbid it.
    """
    now = trio.current_time()
    cached = attempts.cache.get(key, now)
    if cached is not None:
        return CallForOthers(attempts, key, cached, None, seconds)
    attempt = attempts.in_flight(key)
    # Not one that waits for another process: two could wait for each other.
    if attempt is None or attempt.elsewhere:
        until = now + seconds
        context = CallContext(
            tenant=tenant, call_id="shared", deadline=until, awaited_until=until
        )
        attempt = attempts.start(listing, arguments, context, key, own=True)
    attempt.task.add_waiter()
    return CallForOthers(attempts, key, None, attempt, seconds)


def may_be_shared(listing: CatalogueEntry) -> bool:
    """Return True if nobody else need see that a call of the tool is not made: it only
    reads, and its answer is the same for all NPCs of a tenant."""
    tool, definition = listing.tool, listing.definition
    return (
        definition.cacheable > 0
        and definition.read_only
        and not definition.per_npc
        and not tool.per_session
        and not tool.blocking
    )
