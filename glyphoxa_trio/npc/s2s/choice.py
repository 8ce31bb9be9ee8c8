"""Which of several models a conversation has: the first of them that may be asked.

One that could not be opened, or that has ended a socket for good, is left alone by
this conversation for half a minute, whatever the reason; and by all of them while its
breaker is open (`providers.chain`). Then it is tried again, beside the one that serves,
in a moment in which nobody speaks.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final

import attrs

from glyphoxa_trio.providers.chain import ModelCandidate
from glyphoxa_trio.providers.s2s import S2S, LinkClosed
from glyphoxa_trio.tools.breaker import Ticket

AGAIN: Final = 30.0  # seconds that one which failed is left alone
_SOON: Final = 1.0  # until a breaker is looked at again


@attrs.frozen(eq=False)
class ModelChoice:
    """One of the models, as this conversation speaks with it: its ``provider`` may be
    heard by somebody on the way, unlike that of the ``candidate``, which all share;
    ``name`` is for events."""

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
    """All of them, in the order in which they are asked. Times are on trio's clock."""

    of: Sequence[ModelChoice] = attrs.field(validator=attrs.validators.min_len(1))
    _left_until: dict[int, float] = attrs.field(factory=dict, init=False)

    @classmethod
    def only(cls, provider: S2S, voice: str | None, language: str | None) -> Choices:
        """One model, and none behind it."""
        candidate = ModelCandidate(provider.label, provider)
        return cls((ModelChoice(candidate, provider, voice, language),))

    def pick(self, now: float, beyond: int = -1) -> tuple[int, Ticket | None] | None:
        """Which is asked now, of those behind ``beyond``; None if none of them may be.
        Of them all the first one is asked even so: somebody has to be."""
        if len(self.of) == 1:
            return None if beyond >= 0 else (0, None)
        for at in range(beyond + 1, len(self.of)):
            if now >= self._left_until.get(at, -inf):
                ticket = self.of[at].candidate.breaker.begin(now)
                if ticket is not None:
                    return at, ticket
        return None if beyond >= 0 else (0, None)

    def answered(self, at: int, ticket: Ticket | None) -> None:
        """Its socket is open."""
        if ticket is not None:
            self.of[at].candidate.answered(ticket)

    def failed(
        self, at: int, ticket: Ticket | None, closed: LinkClosed, now: float
    ) -> None:
        """It could not be opened, or has ended for good."""
        if len(self.of) > 1:
            self._left_until[at] = now + AGAIN
            ticket = ticket or self.of[at].candidate.breaker.begin(now)
        if ticket is not None:
            self.of[at].candidate.failed(ticket, closed)

    def left(self, at: int, ticket: Ticket | None) -> None:
        """Nobody waited for its socket any more."""
        if ticket is not None:
            self.of[at].candidate.left(ticket)

    def spare(self, at: int, now: float) -> bool:
        """Whether another one than this may be asked."""
        return any(
            other != at
            and now >= self._left_until.get(other, -inf)
            and choice.candidate.breaker.admits(now)
            for other, choice in enumerate(self.of)
        )

    def back_at(self, at: int, now: float) -> float:
        """When one that comes before this may be asked again; never for the first."""
        times = []
        for earlier in range(at):
            breaker, left = self.of[earlier].candidate.breaker, self._left_until
            time = left.get(earlier, -inf)
            if time <= now and not breaker.admits(now):
                time = now + max(_SOON, breaker.retry_in(now))
            times.append(time)
        return min(times, default=inf)
