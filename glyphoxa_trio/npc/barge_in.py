"""Decide whether a sound that a user makes interrupts the NPC: pure state.

    nothing ──begins──► held ──there is enough of it──► counts: the answer is void
                          └────it was too little──────► a cough: the answer goes on

While an utterance is held, the NPC pauses. An utterance that begins while no NPC speaks
counts at once, and so does every utterance if there is no minimum. An utterance that is
too short is not answered either. Words may come long after the sound, when another
utterance is in progress.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

import attrs

_REMEMBERED: Final = 32


@attrs.frozen(kw_only=True)
class Minimum:
    """The least that interrupts: ``seconds`` of speech, and ``words``."""

    seconds: float = 0.0
    words: int = 0

    @property
    def is_none(self) -> bool:
        """True if every sound interrupts."""
        return not (self.seconds or self.words)


NO_MINIMUM: Final = Minimum()


class BargeInAction(Enum):
    """The steps that a decision can require."""

    NOTHING = auto()
    HOLD = auto()  # pause playback, and keep the rest
    RESUME = auto()  # continue playback
    INTERRUPT = auto()  # drop the rest


class UtteranceState(Enum):
    """The state of an utterance."""

    HELD = auto()  # perhaps an interruption: the NPC pauses
    OPEN = auto()  # perhaps an interruption, but the NPC has continued
    COUNTS = auto()
    COUGH = auto()


_UNDECIDED: Final = (UtteranceState.HELD, UtteranceState.OPEN)


@attrs.define
class _HeardUtterance:
    """One utterance.

    ``seconds``: the length of its speech; None if nothing measures it. ``over``: no
    more of it comes.
    """

    standing: UtteranceState = UtteranceState.HELD
    seconds: float | None = None
    words: int = 0
    over: bool = False


@attrs.define(eq=False)
class BargeIn:
    """The utterances of one microphone, by their numbers."""

    minimum: Minimum = NO_MINIMUM
    _of: dict[int, _HeardUtterance] = attrs.field(factory=dict, init=False)

    @property
    def held(self) -> bool:
        """True while an utterance is held."""
        return any(x.standing is UtteranceState.HELD for x in self._of.values())

    def standing(self, utterance: int) -> UtteranceState:
        """Return the state of an utterance; an unknown or forgotten one counts."""
        found = self._of.get(utterance)
        return UtteranceState.COUNTS if found is None else found.standing

    def begins(self, utterance: int, *, busy: bool) -> BargeInAction:
        """Record that the user starts to speak.

        ``busy``: an NPC answers the user, or its speech is still being played.
        """
        if utterance in self._of:
            return BargeInAction.NOTHING
        held = self.held
        self._of[utterance] = made = _HeardUtterance()
        if len(self._of) > _REMEMBERED:
            del self._of[next(iter(self._of))]
        if self.minimum.is_none or not (busy or held):
            return self._counts(made)
        return BargeInAction.NOTHING if held else BargeInAction.HOLD

    def sounds(
        self, utterance: int, seconds: float, *, over: bool = False
    ) -> BargeInAction:
        """Set the seconds of speech so far; ``over`` if these are all."""
        found = self._of.get(utterance)
        if found is None or found.standing not in _UNDECIDED:
            return BargeInAction.NOTHING
        found.seconds, found.over = seconds, over
        return self._decide(found, last=over and seconds < self.minimum.seconds)

    def understood(self, utterance: int, words: int, *, final: bool) -> BargeInAction:
        """Set the number of words so far; ``final`` if these are all."""
        found = self._of.get(utterance)
        if found is None or found.standing not in _UNDECIDED:
            return BargeInAction.NOTHING
        found.words = words
        return self._decide(found, last=final)

    def waits_no_longer(self) -> BargeInAction:
        """Let the NPC continue, because neither sound nor words came for a while.

        What comes later may still count.
        """
        if not self.held:
            return BargeInAction.NOTHING
        for each in self._of.values():
            if each.standing is UtteranceState.HELD:
                each.standing = UtteranceState.OPEN
        return BargeInAction.RESUME

    def _decide(self, one: _HeardUtterance, *, last: bool) -> BargeInAction:
        if self._is_enough(one):
            return self._counts(one)
        if not last:
            return BargeInAction.NOTHING
        held = self.held
        one.standing = UtteranceState.COUGH
        return BargeInAction.RESUME if held and not self.held else BargeInAction.NOTHING

    def _is_enough(self, one: _HeardUtterance) -> bool:
        if one.seconds is None:  # then only words show that it is speech
            return one.words >= max(1, self.minimum.words)
        return one.seconds >= self.minimum.seconds and one.words >= self.minimum.words

    def _counts(self, one: _HeardUtterance) -> BargeInAction:
        """Let it interrupt; no held utterance is left that could interrupt again."""
        one.standing = UtteranceState.COUNTS
        for each in self._of.values():
            if each.standing is UtteranceState.HELD:
                each.standing = UtteranceState.COUNTS
        return BargeInAction.INTERRUPT
