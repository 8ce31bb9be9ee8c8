"""The words of each utterance, by the names that the wire uses: pure state.

The wire names each spoken utterance (`item`); an interaction answers it. Its words may
arrive before the interaction is known, during it, or long after, and more than once.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Generic, TypeVar

import attrs

I = TypeVar("I")  # noqa: E741  an interaction

_REMEMBERED: Final = 64  # interactions, and as many transcripts


@attrs.frozen
class Words:
    """The words understood of one utterance. ``final``: no more words follow."""

    text: str
    final: bool


@attrs.define(eq=False)
class SpokenInteractions(Generic[I]):
    """The spoken interactions of a conversation, and the words of each.

    ``nameless`` is the last interaction while its item is unknown: the client has ended
    the utterance, or the model answers it, before the server has named it.
    """

    nameless: I | None = attrs.field(default=None, init=False)
    _of: OrderedDict[str, I] = attrs.field(factory=OrderedDict, init=False)
    _words: OrderedDict[str, Words] = attrs.field(factory=OrderedDict, init=False)
    # words of the nameless one
    _last: Words | None = attrs.field(default=None, init=False)

    def knows(self, item: str) -> bool:
        """Return True if an interaction answers, or has answered, this item."""
        return item in self._of

    def begin(self, interaction: I, item: str | None) -> Words | None:
        """Record an item's interaction; return the words that came before it."""
        self.nameless, self._last = (interaction if item is None else None), None
        if item is None:
            return None
        _keep(self._of, item, interaction)
        return self._words.get(item)

    def name(self, item: str) -> I | None:
        """Name the last utterance.

        Return its interaction, or None if it has none or the name was known before.
        """
        interaction = self.nameless
        if interaction is None or item in self._of:
            return None
        self.nameless = None
        _keep(self._of, item, interaction)
        if self._last is not None:
            _keep(self._words, item, self._last)
        return interaction

    def hear(self, item: str | None, words: Words) -> I | None:
        """Record the words of an item.

        Return its interaction, or None if that is not known yet or the words are not
        new.
        """
        before = self._last if item is None else self._words.get(item)
        if before == words or (before is not None and before.final > words.final):
            return None
        if item is not None:
            _keep(self._words, item, words)
            return self._of.get(item)
        self._last = words
        return self.nameless

    def words(self, item: str) -> Words | None:
        """Return the words of an item as far as they are known."""
        return self._words.get(item)

    def forget_nameless(self) -> None:
        """Forget the nameless interaction, which a lost socket will never name."""
        self.nameless = self._last = None


V = TypeVar("V")


def _keep(of: OrderedDict[str, V], item: str, value: V) -> None:
    of[item] = value
    of.move_to_end(item)
    if len(of) > _REMEMBERED:
        of.popitem(last=False)
