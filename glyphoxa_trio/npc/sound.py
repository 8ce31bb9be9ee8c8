"""What a speech-to-speech model gave out as audio, and how much of it was heard.

The rule of D12a for audio. Words and audio of such a model come side by side and nobody
says which belongs to which, so of a response that was played in part those words were
heard that fit into the share of it that was played. Pure: no trio.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor

import attrs

from .aloud import TOLERANCE
from .playback import Playback


@attrs.define(eq=False)
class SpokenItems:
    """The audio of one turn, by round and by the vendor's item."""

    playback: Playback = attrs.field(factory=Playback, init=False)
    _given: dict[int, float] = attrs.field(factory=dict, init=False)
    _taken: float = attrs.field(default=0.0, init=False)

    def give(self, round_: int, item: str, seconds: float) -> None:
        """So much more of an item is given out."""
        self.playback.add((round_, item), seconds)
        self._given[round_] = self._given.get(round_, 0.0) + seconds

    def take(self, seconds: float) -> None:
        """The listener has taken so much more: played, as long as they do not say."""
        self._taken += seconds
        self.playback.played(self._taken)

    def heard(self, round_: int, sentences: Sequence[str], shown: int) -> list[str]:
        """What was heard of these sentences of a round; what has no audio counts as
        text does, of which ``shown`` are delivered."""
        given = self._given.get(round_, 0.0)
        if not given:
            return list(sentences[:shown])
        heard = sum(
            self.playback.heard(piece)
            for piece in self.playback.pieces
            if isinstance(piece, tuple) and piece[0] == round_
        )
        if heard >= given - TOLERANCE:
            return list(sentences)
        words = " ".join(sentences).split()
        said = " ".join(words[: floor(len(words) * heard / given)])
        return [said] if said else []

    def cut(self) -> dict[str, float]:
        """What would not be heard to its end if it stopped now: seconds heard, by
        item."""
        heard: dict[str, float] = {}
        given: dict[str, float] = {}
        for piece in self.playback.pieces:
            assert isinstance(piece, tuple)
            item = piece[1]
            heard[item] = heard.get(item, 0.0) + self.playback.heard(piece)
            given[item] = given.get(item, 0.0) + self.playback.length(piece)
        return {x: heard[x] for x in heard if heard[x] < given[x] - TOLERANCE}
