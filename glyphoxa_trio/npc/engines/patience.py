"""How long a model is waited for (D0)."""

from __future__ import annotations

import attrs

import trio

from glyphoxa_trio.npc.turn import Clock
from glyphoxa_trio.providers.llm import ErrorKind


@attrs.define(eq=False)
class Patience:
    """How long the model is waited for, on the turn's model clock (D0)."""

    _clock: Clock
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    kind: ErrorKind = attrs.field(default=ErrorKind.FIRST_TOKEN, init=False)
    limit: float = attrs.field(default=0.0, init=False)

    def wait_for(self, kind: ErrorKind, limit: float) -> None:
        now = trio.current_time()
        end = self._clock.start(now)
        self.kind, self.limit = kind, limit
        if end < now + limit:
            self.kind, self.limit = ErrorKind.TURN, self._clock.budget
        self.scope.deadline = min(now + limit, end)

    def rest(self) -> None:
        self._clock.stop(trio.current_time())
        self.scope.deadline = float("inf")

    def fresh(self) -> trio.CancelScope:
        """Another scope, for whoever waits more than once."""
        self.scope = trio.CancelScope()
        return self.scope

    @property
    def exceeded(self) -> bool:
        return self.scope.cancelled_caught

    @property
    def what(self) -> str:
        return {
            ErrorKind.FIRST_TOKEN: "the model said nothing",
            ErrorKind.SILENCE: "the model went silent",
        }.get(self.kind, "the model's time for this turn was used up")
