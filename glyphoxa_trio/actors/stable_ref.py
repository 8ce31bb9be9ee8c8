"""The way to an actor that may be at rest: whoever asks wakes it first."""

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
    """Where messages for an actor are given, in whichever of its lives.

    Args:
      ref: the actor; None is one that has yet to be woken.
      wake: asked for another one when this one accepts nothing more; None if there is
        none any more. It raises a `GlyphoxaError` to whoever asks.
    """

    name: str
    _ref: Ref[A] | None = None
    _wake: Callable[[], Awaitable[Ref[A] | None]] | None = None

    @property
    def ref(self) -> Ref[A] | None:
        """The actor, if it accepts messages now."""
        return None if self._ref is None or self._ref.closed else self._ref

    async def ask(self, request: Request[A, R], *, within: float) -> R:
        """As `Ref.ask`; the time to wake it is part of ``within``."""
        if (ref := self.ref) is None:
            until = trio.current_time() + within
            ref = await self.woken(within=within)
            within = until - trio.current_time()
        return await ref.ask(request, within=within)

    async def woken(self, *, within: float) -> Ref[A]:
        """The actor, which accepts messages now.

        Raises:
          DeadlineExceeded: it was not awake within so many seconds.
          ActorGone: there is none any more. And whatever waking it raises.
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
        """As `Ref.tell`; one that is at rest is told nothing."""
        return self._ref is not None and self._ref.tell(request)

    def close(self) -> None:
        """As `Ref.close`."""
        if self._ref is not None:
            self._ref.close()

    async def stop(self, *, within: float) -> bool:
        """As `Ref.stop`."""
        return self._ref is None or await self._ref.stop(within=within)
