"""What of a turn was said aloud: its sentences as audio, and which words were heard.

The rule of D12a for audio. A sentence that was played to its end was heard. Of one that
was cut in the middle those words were heard that fit into the share of it that was
played, the last one only if it was whole; where nobody knows how long it would have
been, because its synthesis was cut, it counts as at least as long as people take for
it. What comes after it was not heard. A sentence that could not be spoken counts as
text does. Pure: no trio.
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
class _Said:
    """A sentence that is being said, or was. ``over``: no more audio of it comes;
    ``failed``: though there should have."""

    text: str
    over: bool = False
    failed: bool = False


@attrs.define(eq=False)
class Aloud:
    """The audio of one turn. A sentence is known by its round and its place there."""

    playback: Playback = attrs.field(factory=Playback, init=False)
    _said: dict[tuple[int, int], _Said] = attrs.field(factory=dict, init=False)

    def begin(self, round_: int, place: int, text: str) -> None:
        """A sentence is to be said, after those before it."""
        self._said[round_, place] = _Said(text)

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

    def heard(self, round_: int, sentences: Sequence[str], shown: int) -> list[str]:
        """What was heard of these sentences of a round, of which ``shown`` are
        delivered as text."""
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


def _words(said: _Said, heard: float, given: float) -> str:
    """The words that fit into the share that was played."""
    words = said.text.split()
    length = given
    if said.failed or not said.over:
        length = max(given, len(said.text) / _USUAL)
    return " ".join(words[: floor(len(words) * heard / length)]) if length else ""
