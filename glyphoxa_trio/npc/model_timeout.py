"""How long a model is waited for."""

from __future__ import annotations

import math
from collections.abc import Awaitable
from typing import Final

import attrs

import trio

from glyphoxa_trio.npc.clock import Clock
from glyphoxa_trio.providers.llm import ErrorKind, LLMError

# Seconds. Whoever takes longer to ask for the next event is waited for; up to that,
# handing events on is the model's time: a stream without end must not stop its clock.
PROMPT: Final = 0.02
FAREWELL: Final = 1.0  # seconds for a model to be hung up on


@attrs.define(eq=False)
class ModelTimeout:
    """How long the model is waited for, on the turn's model clock.

    Nobody waits for a model that speaks: its time, and every limit, begin when what it
    has said so far could have been played.
    """

    _clock: Clock
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    kind: ErrorKind = attrs.field(default=ErrorKind.FIRST_TOKEN, init=False)
    limit: float = attrs.field(default=0.0, init=False)
    _since: float = attrs.field(default=0.0, init=False)  # it is waited for
    _spoken_until: float = attrs.field(default=-math.inf, init=False)
    _in_line: str = attrs.field(default="", init=False)  # why nothing is sent yet

    def wait_for(self, kind: ErrorKind, limit: float) -> None:
        """The model is to say something within so many seconds."""
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
        """The model has said so much more."""
        now = trio.current_time()
        self._spoken_until = max(now, self._spoken_until) + seconds

    def wait_in_line(self, why: str) -> None:
        """Nothing is sent yet: the turn's time runs, and no other limit."""
        self.wait_for(ErrorKind.TURN, math.inf)
        self._in_line = why

    def serve(self) -> None:
        """What the model said is handed on now; it is not to say anything."""
        self.scope.deadline = math.inf

    def hang_up(self) -> None:
        """Nothing more is to be heard; the model is left, and that has an end too."""
        self.scope.deadline = trio.current_time() + FAREWELL

    async def hand_on(self, handing: Awaitable[None]) -> None:
        """Hand one thing on; waiting for a slow consumer is not the model's time.

        Raises:
          LLMError: `TURN`, if that is used up now.
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
        """What it means that the model's time is over."""
        return LLMError(self.kind, f"{self.what} after {self.limit:g} s")

    def pause(self) -> None:
        """The model is not waited for any more."""
        now = trio.current_time()
        if self._clock.running:
            self._clock.forgive(max(0.0, min(now, self._spoken_until) - self._since))
        self._clock.stop(now)
        self.scope.deadline = math.inf

    def fresh(self) -> trio.CancelScope:
        """Another scope, for whoever waits more than once."""
        self.scope = trio.CancelScope()
        return self.scope

    @property
    def exceeded(self) -> bool:
        return self.scope.cancelled_caught

    @property
    def what(self) -> str:
        if self._in_line:
            return f"the model was not asked ({self._in_line})"
        return {
            ErrorKind.FIRST_TOKEN: "the model said nothing",
            ErrorKind.SILENCE: "the model went silent",
        }.get(self.kind, "the model's time for this turn was used up")
