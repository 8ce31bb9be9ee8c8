"""The choice between several models of a conversation: the first that may be asked.

A model that could not be reached, or that ended a socket for good, is avoided by this
conversation for half a minute, whatever the reason; all conversations avoid it while
its breaker is open (`providers.chain`). Then it is tried again, beside the model in
use, at a moment when no user speaks.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final

import attrs

from glyphoxa_trio.providers.chain import ModelCandidate
from glyphoxa_trio.providers.s2s import S2S, LinkClosed
from glyphoxa_trio.tools.breaker import Ticket

AGAIN: Final = 30.0  # seconds for which a model that failed is avoided
_SOON: Final = 1.0  # seconds until a breaker is examined again


@attrs.frozen(eq=False)
class ModelChoice:
    """One of the models, as this conversation uses it.

    All conversations share the ``candidate``; the ``provider`` belongs to this one and
    may be wrapped, so that its audio can be observed. ``name`` is for events.
    """

    candidate: ModelCandidate[S2S]
    provider: S2S
    voice: str | None = None
    language: str | None = None
    name: str = attrs.field()

    @name.default
    def _its_own(self) -> str:
        return self.candidate.name


@attrs.define(eq=False)
class Choices:
    """All models, in the order in which they are asked. Times are on trio's clock."""

    of: Sequence[ModelChoice] = attrs.field(validator=attrs.validators.min_len(1))
    _left_until: dict[int, float] = attrs.field(factory=dict, init=False)

    @classmethod
    def only(cls, provider: S2S, voice: str | None, language: str | None) -> Choices:
        """Return a choice of a single model."""
        candidate = ModelCandidate(provider.label, provider)
        return cls((ModelChoice(candidate, provider, voice, language),))

    def pick(self, now: float, beyond: int = -1) -> tuple[int, Ticket | None] | None:
        """Return the model to ask now, of those after the index ``beyond``.

        The result is its index and its breaker's ticket; None if none may be asked. If
        all models are considered, the first is asked even if none may be.
        """
        if len(self.of) == 1:
            return None if beyond >= 0 else (0, None)
        for at in range(beyond + 1, len(self.of)):
            if now >= self._left_until.get(at, -inf):
                ticket = self.of[at].candidate.breaker.begin(now)
                if ticket is not None:
                    return at, ticket
        return None if beyond >= 0 else (0, None)

    def answered(self, at: int, ticket: Ticket | None) -> None:
        """Record that the model's socket is open."""
        if ticket is not None:
            self.of[at].candidate.answered(ticket)

    def failed(
        self, at: int, ticket: Ticket | None, closed: LinkClosed, now: float
    ) -> None:
        """Record that the model was not reached, or ended a socket for good."""
        if len(self.of) > 1:
            self._left_until[at] = now + AGAIN
            ticket = ticket or self.of[at].candidate.breaker.begin(now)
        if ticket is not None:
            self.of[at].candidate.failed(ticket, closed)

    def left(self, at: int, ticket: Ticket | None) -> None:
        """Return the ticket: the attempt was abandoned without a result."""
        if ticket is not None:
            self.of[at].candidate.left(ticket)

    def spare(self, at: int, now: float) -> bool:
        """Return True if another model than this one may be asked."""
        return any(
            other != at
            and now >= self._left_until.get(other, -inf)
            and choice.candidate.breaker.admits(now)
            for other, choice in enumerate(self.of)
        )

    def back_at(self, at: int, now: float) -> float:
        """Return when a preferred model may be asked again; inf if there is none."""
        times = []
        for earlier in range(at):
            breaker, left = self.of[earlier].candidate.breaker, self._left_until
            time = left.get(earlier, -inf)
            if time <= now and not breaker.admits(now):
                time = now + max(_SOON, breaker.retry_in(now))
            times.append(time)
        return min(times, default=inf)
