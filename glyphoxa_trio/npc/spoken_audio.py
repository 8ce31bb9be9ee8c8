"""What of a turn was said aloud: its sentences as audio, and which words were heard.

The rule of D12a for audio. A sentence that was played to its end was heard. Of one that
was cut in the middle those words were heard that fit into the share of it that was
played, the last one only if it was whole; where nobody knows how long it would have
been, because its synthesis was cut, it counts as at least as long as people take for
it. What comes after it was not heard. A sentence that could not be spoken counts as
text does.

A speech-to-speech model says words and audio side by side, and nobody says which
belongs to which: of what it says in one round those words were heard that fit into the
share of its audio that was played. Pure: no trio.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from typing import Final

import attrs

from .playback import Playback

# Seconds. Whoever plays counts in frames, and rounds.
TOLERANCE: Final = 0.025
# Characters in a second, of somebody who speaks in no hurry.
_USUAL: Final = 15.0


@attrs.define
class _SpokenText:
    """A sentence that is being said, or was. ``over``: no more audio of it comes;
    ``failed``: though there should have."""

    text: str
    over: bool = False
    failed: bool = False


@attrs.frozen
class _Item:
    """What a model says in a round, by the vendor's name."""

    round: int
    name: str


@attrs.define(eq=False)
class SpokenAudio:
    """The audio of one turn. A sentence is known by its round and its place there, what
    a model says by itself by its round and the vendor's item."""

    playback: Playback = attrs.field(factory=Playback, init=False)
    _said: dict[tuple[int, int], _SpokenText] = attrs.field(factory=dict, init=False)
    _given: dict[int, float] = attrs.field(factory=dict, init=False)  # by the model
    _taken: float = attrs.field(default=0.0, init=False)
    _stopped: bool = attrs.field(default=False, init=False)

    # What is given out.

    def begin(self, round_: int, place: int, text: str) -> None:
        """A sentence is to be said, after those before it."""
        self._said[round_, place] = _SpokenText(text)

    def give(self, round_: int, place: int, seconds: float) -> None:
        """So much more of its audio is given out."""
        self.playback.add((round_, place), seconds)

    def end(self, round_: int, place: int, *, failed: bool = False) -> None:
        """All of it was given out, or the rest of it cannot be said."""
        said = self._said[round_, place]
        said.over, said.failed = True, failed

    def give_filler(self, seconds: float) -> None:
        """Audio that is no part of the answer."""
        self.playback.add(None, seconds)

    def give_item(self, round_: int, item: str, seconds: float) -> None:
        """So much more of what a model says by itself is given out."""
        self.playback.add(_Item(round_, item), seconds)
        self._given[round_] = self._given.get(round_, 0.0) + seconds

    # What becomes of it.

    def take(self, seconds: float) -> None:
        """The listener has taken so much more: played, as long as they do not say."""
        if not self._stopped:
            self._taken += seconds
            self.playback.played(self._taken)

    def stop(self) -> dict[str, float]:
        """Nothing more of it is played. Returns what of the model's items is not heard
        to its end, with the seconds that were; once."""
        cut = {} if self._stopped else self._cut()
        self._stopped = True
        return cut

    def _cut(self) -> dict[str, float]:
        heard: dict[str, float] = {}
        given: dict[str, float] = {}
        for piece in self.playback.pieces:
            if isinstance(piece, _Item):
                item = piece.name
                heard[item] = heard.get(item, 0.0) + self.playback.heard(piece)
                given[item] = given.get(item, 0.0) + self.playback.length(piece)
        return {x: heard[x] for x in heard if heard[x] < given[x] - TOLERANCE}

    def is_spoken(self, round_: int) -> bool:
        """Whether a model says this round by itself."""
        return round_ in self._given

    def heard(self, round_: int, sentences: Sequence[str], shown: int) -> list[str]:
        """What was heard of these sentences of a round, of which ``shown`` are
        delivered as text."""
        if self.is_spoken(round_):
            return self._heard_of_model(round_, sentences)
        found: list[str] = []
        for place, text in enumerate(sentences):
            said = self._said.get((round_, place))
            if said is None:
                break
            given = self.playback.length((round_, place))
            heard = self.playback.heard((round_, place))
            if said.failed and not given:
                found += [text] if place < shown else []
                continue
            to_its_end = said.over and heard >= given - TOLERANCE
            if to_its_end and not said.failed:
                found.append(text)
                continue
            if words := _words(said, heard, given):
                found.append(words)
            if not to_its_end:
                break
        return found

    def _heard_of_model(self, round_: int, sentences: Sequence[str]) -> list[str]:
        given = self._given[round_]
        heard = sum(
            self.playback.heard(piece)
            for piece in self.playback.pieces
            if isinstance(piece, _Item) and piece.round == round_
        )
        if heard >= given - TOLERANCE:
            return list(sentences)
        words = " ".join(sentences).split()
        said = " ".join(words[: floor(len(words) * heard / given)])
        return [said] if said else []


def _words(said: _SpokenText, heard: float, given: float) -> str:
    """The words that fit into the share that was played."""
    words = said.text.split()
    length = given
    if said.failed or not said.over:
        length = max(given, len(said.text) / _USUAL)
    return " ".join(words[: floor(len(words) * heard / length)]) if length else ""
