"""Which words are whose: pure state.

The wire names what is said (`item`), the interactions answer it. Words may come before
anybody knows that there is an interaction, in it, or long after; and more than once.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Generic, TypeVar

import attrs

I = TypeVar("I")  # noqa: E741  an interaction

_REMEMBERED: Final = 64  # of either kind


@attrs.frozen
class Words:
    """What was understood of one utterance. ``final``: that is all of it."""

    text: str
    final: bool


@attrs.define(eq=False)
class SpokenInteractions(Generic[I]):
    """The spoken interactions of a conversation, and the words of each.

    ``nameless`` is the last one if its item is not known: the client has ended it, or
    the model answers it, before the server has said a word of it.
    """

    nameless: I | None = attrs.field(default=None, init=False)
    _of: OrderedDict[str, I] = attrs.field(factory=OrderedDict, init=False)
    _words: OrderedDict[str, Words] = attrs.field(factory=OrderedDict, init=False)
    _last: Words | None = attrs.field(default=None, init=False)  # of the nameless one

    def knows(self, item: str) -> bool:
        """Whether an interaction answers it, or has."""
        return item in self._of

    def begin(self, interaction: I, item: str | None) -> Words | None:
        """It answers this item; returns the words that came before it."""
        self.nameless, self._last = (interaction if item is None else None), None
        if item is None:
            return None
        _keep(self._of, item, interaction)
        return self._words.get(item)

    def name(self, item: str) -> I | None:
        """What was said last has this name. Returns whose that is, None if nobody's
        or known before."""
        interaction = self.nameless
        if interaction is None or item in self._of:
            return None
        self.nameless = None
        _keep(self._of, item, interaction)
        if self._last is not None:
            _keep(self._words, item, self._last)
        return interaction

    def hear(self, item: str | None, words: Words) -> I | None:
        """These are its words. Returns whose they are: None if nobody knows yet, or if
        they are no news."""
        before = self._last if item is None else self._words.get(item)
        if before == words or (before is not None and before.final > words.final):
            return None
        if item is not None:
            _keep(self._words, item, words)
            return self._of.get(item)
        self._last = words
        return self.nameless

    def words(self, item: str) -> Words | None:
        """What is known of it."""
        return self._words.get(item)

    def forget_nameless(self) -> None:
        """Its socket is gone: nobody will name it."""
        self.nameless = self._last = None


V = TypeVar("V")


def _keep(of: OrderedDict[str, V], item: str, value: V) -> None:
    of[item] = value
    of.move_to_end(item)
    if len(of) > _REMEMBERED:
        of.popitem(last=False)
