"""The stable reference to an actor that may be stopped and is started when needed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import attrs

import trio

from glyphoxa_trio.errors import ActorGone, DeadlineExceeded

from .call import A, Request
from .mailbox import Ref

R = TypeVar("R")


@attrs.define(eq=False)
class StableRef(Generic[A]):
    """A reference that stays valid while the actor behind it is stopped and restarted.

    Args:
      ref: the actor; None if it has yet to be started.
      wake: called to start another one when this one accepts no more messages; it
        returns None if there is none any more. A `GlyphoxaError` of it is raised in
        the caller.
    """

    name: str
    _ref: Ref[A] | None = None
    _wake: Callable[[], Awaitable[Ref[A] | None]] | None = None

    @property
    def ref(self) -> Ref[A] | None:
        """The actor, if it accepts messages now; else None."""
        return None if self._ref is None or self._ref.closed else self._ref

    async def ask(self, request: Request[A, R], *, within: float) -> R:
        """Ask as `Ref.ask`; the time to start the actor is part of ``within``."""
        if (ref := self.ref) is None:
            until = trio.current_time() + within
            ref = await self.woken(within=within)
            within = until - trio.current_time()
        return await ref.ask(request, within=within)

    async def woken(self, *, within: float) -> Ref[A]:
        """Return the actor, which accepts messages now, and start it if needed.

        Raises:
          DeadlineExceeded: if it was not started within so many seconds.
          ActorGone: if there is none any more.
          GlyphoxaError: any error of starting it.
        """
        if self.ref is None and self._wake is not None:
            with trio.move_on_after(within) as patience:
                self._ref = await self._wake()
            if patience.cancelled_caught:
                raise DeadlineExceeded(f"{self.name}: not awake within {within:.3f}s")
        if (ref := self.ref) is None:
            raise ActorGone(f"{self.name} stopped")
        return ref

    def tell(self, request: Request[A, Any]) -> bool:
        """Send as `Ref.tell`; returns False for an actor that is stopped."""
        return self._ref is not None and self._ref.tell(request)

    def close(self) -> None:
        """Close the mailbox, as `Ref.close`."""
        if self._ref is not None:
            self._ref.close()

    async def stop(self, *, within: float) -> bool:
        """Stop the actor, as `Ref.stop`."""
        return self._ref is None or await self._ref.stop(within=within)
