"""Whether somebody who makes a sound while an NPC speaks interrupts it: pure state.

    nothing ──begins──► held ──there is enough of it──► counts: what was said is void
                          └────it was too little──────► a cough: nothing was lost

While somebody is held, the NPC holds still. An utterance that begins while no NPC
speaks counts at once, and so does every one if nothing is asked of it. What is too
little is not answered either. Words may come long after the sound: by then there is
another utterance.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

import attrs

_REMEMBERED: Final = 32


@attrs.frozen(kw_only=True)
class Minimum:
    """So much must be said to interrupt: ``seconds`` of speech, and ``words``."""

    seconds: float = 0.0
    words: int = 0

    @property
    def is_none(self) -> bool:
        return not (self.seconds or self.words)


NO_MINIMUM: Final = Minimum()


class BargeInAction(Enum):
    """What is to be done now."""

    NOTHING = auto()
    HOLD = auto()  # play nothing, and keep it
    RESUME = auto()  # go on with it
    INTERRUPT = auto()  # it is void


class UtteranceState(Enum):
    """What an utterance is."""

    HELD = auto()  # perhaps an interruption: the NPC holds still
    OPEN = auto()  # perhaps, and the NPC has gone on meanwhile
    COUNTS = auto()
    COUGH = auto()


_UNDECIDED: Final = (UtteranceState.HELD, UtteranceState.OPEN)


@attrs.define
class _HeardUtterance:
    """``seconds``: of speech; None if nobody counts them. ``over``: no more comes."""

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
        return any(x.standing is UtteranceState.HELD for x in self._of.values())

    def standing(self, utterance: int) -> UtteranceState:
        """What it is; one that was forgotten, or never heard of, counts."""
        found = self._of.get(utterance)
        return UtteranceState.COUNTS if found is None else found.standing

    def begins(self, utterance: int, *, busy: bool) -> BargeInAction:
        """Somebody begins to speak. ``busy``: while an NPC answers them, or what it
        has said is still played."""
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
        """So much of it is speech. ``over``: and that is all of it."""
        found = self._of.get(utterance)
        if found is None or found.standing not in _UNDECIDED:
            return BargeInAction.NOTHING
        found.seconds, found.over = seconds, over
        return self._decide(found, last=over and seconds < self.minimum.seconds)

    def understood(self, utterance: int, words: int, *, final: bool) -> BargeInAction:
        """So many words are in it. ``final``: and that is all of them."""
        found = self._of.get(utterance)
        if found is None or found.standing not in _UNDECIDED:
            return BargeInAction.NOTHING
        found.words = words
        return self._decide(found, last=final)

    def waits_no_longer(self) -> BargeInAction:
        """Nothing was heard for a while, neither sound nor words: the NPC goes on. What
        comes all the same may count yet."""
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
        if one.seconds is None:  # then words are what shows that it is speech
            return one.words >= max(1, self.minimum.words)
        return one.seconds >= self.minimum.seconds and one.words >= self.minimum.words

    def _counts(self, one: _HeardUtterance) -> BargeInAction:
        """It interrupts; so nothing is left that another one could."""
        one.standing = UtteranceState.COUNTS
        for each in self._of.values():
            if each.standing is UtteranceState.HELD:
                each.standing = UtteranceState.COUNTS
        return BargeInAction.INTERRUPT
