"""The time that a turn waits for its model."""

from __future__ import annotations

import math
from collections.abc import Awaitable
from typing import Final

import attrs

import trio

from glyphoxa_trio.npc.clock import Clock
from glyphoxa_trio.providers.llm import ErrorKind, LLMError

# Seconds. A consumer that takes longer to ask for the next event is slow, and its time
# is not the model's. Up to that, delivering events counts as the model's time: a stream
# without end must not stop its clock.
PROMPT: Final = 0.02
FAREWELL: Final = 1.0  # seconds that closing a model's request may take


@attrs.define(eq=False)
class ModelTimeout:
    """The time limits of a model, on the turn's model clock.

    A model that speaks is not waited for: its time, and every limit, begin when what it
    has said so far could have been played.
    """

    _clock: Clock
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    kind: ErrorKind = attrs.field(default=ErrorKind.FIRST_TOKEN, init=False)
    limit: float = attrs.field(default=0.0, init=False)
    # since when the model is waited for
    _since: float = attrs.field(default=0.0, init=False)
    _spoken_until: float = attrs.field(default=-math.inf, init=False)
    _in_line: str = attrs.field(default="", init=False)  # why nothing is sent yet

    def wait_for(self, kind: ErrorKind, limit: float) -> None:
        """Expect something of the model within this many seconds."""
        now = trio.current_time()
        speech = max(0.0, self._spoken_until - now)
        if self._clock.running:
            end = now + speech + self._clock.remaining(now)
        else:
            self._since = now
            end = self._clock.start(now) + speech
        self.kind, self.limit, self._in_line = kind, limit, ""
        if end < now + speech + limit:
            self.kind, self.limit = ErrorKind.TURN, self._clock.budget
        self.scope.deadline = min(now + speech + limit, end)

    def speaks(self, seconds: float) -> None:
        """Record that the model has said this many more seconds of audio."""
        now = trio.current_time()
        self._spoken_until = max(now, self._spoken_until) + seconds

    def wait_in_line(self, why: str) -> None:
        """Wait before the request is sent: only the turn's time is limited."""
        self.wait_for(ErrorKind.TURN, math.inf)
        self._in_line = why

    def serve(self) -> None:
        """Stop the limits while an event of the model is delivered."""
        self.scope.deadline = math.inf

    def hang_up(self) -> None:
        """Limit the time for closing the request; nothing more is read."""
        self.scope.deadline = trio.current_time() + FAREWELL

    async def hand_on(self, handing: Awaitable[None]) -> None:
        """Deliver one event; waiting for a slow consumer is not the model's time.

        Raises:
          LLMError: `TURN`, if the model's time is used up by now.
        """
        begun = trio.current_time()
        await handing
        if not self._clock.running:
            return
        now = trio.current_time()
        if now - begun > PROMPT:
            self._clock.forgive(now - begun)
        if self._clock.remaining(now) <= 0:
            self.kind, self.limit = ErrorKind.TURN, self._clock.budget
            raise self.failure()

    def failure(self) -> LLMError:
        """Return the error that the model's time is over."""
        return LLMError(self.kind, f"{self.what} after {self.limit:g} s")

    def pause(self) -> None:
        """Stop waiting for the model."""
        now = trio.current_time()
        if self._clock.running:
            self._clock.forgive(max(0.0, min(now, self._spoken_until) - self._since))
        self._clock.stop(now)
        self.scope.deadline = math.inf

    def fresh(self) -> trio.CancelScope:
        """Return a new scope, for a caller that waits more than once."""
        self.scope = trio.CancelScope()
        return self.scope

    @property
    def exceeded(self) -> bool:
        """True if the limit has been exceeded."""
        return self.scope.cancelled_caught

    @property
    def what(self) -> str:
        """The failure, in words."""
        if self._in_line:
            return f"the model was not asked ({self._in_line})"
        return {
            ErrorKind.FIRST_TOKEN: "the model said nothing",
            ErrorKind.SILENCE: "the model went silent",
        }.get(self.kind, "the model's time for this turn was used up")
