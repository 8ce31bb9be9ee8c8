"""The words of a sentence in its audio, by the times of its characters. No I/O.

    written   Sir  Vex  sleeps          words of the NPC, whose ends are asked for
    spoken    Sir  Veks sleeps          what is sent, with the operator's pronunciation
    chars     S i r _ V|e k s _ s l …   what comes back, in messages that end anywhere

The vendor sends some audio without times, and may begin again with the first character.
What does not fit the sentence is not believed, and nor is anything after it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import isfinite

import attrs

from glyphoxa_trio.providers.wording import replacements


@attrs.frozen
class WordedSentence:
    """A sentence as it is spoken; ``ends`` has where each written word ends in it."""

    text: str
    ends: tuple[int, ...]

    @classmethod
    def of(cls, text: str, pronunciation: Mapping[str, str]) -> WordedSentence:
        """Replace whole words by their pronunciation, in any case, the longest first.

        Control characters become spaces.
        """
        text = "".join(mark if mark.isprintable() else " " for mark in text)
        spoken, done = "", 0
        places: dict[int, int] = {}  # in the written text, in the spoken one
        for begin, end, said in replacements(text, pronunciation):
            places |= _copied(done, begin, len(spoken))
            spoken += text[done:begin] + said
            places |= dict.fromkeys(range(begin + 1, end + 1), len(spoken))
            done = end
        places |= _copied(done, len(text), len(spoken))
        spoken += text[done:]
        words = [places[word.end()] for word in re.finditer(r"\S+", text)]
        # A word for which only blanks are said ends with the one before.
        return cls(spoken, tuple(len(spoken[:end].rstrip()) for end in words))


def _copied(begin: int, end: int, at: int) -> dict[int, int]:
    return {place: at + place - begin for place in range(begin + 1, end + 1)}


@attrs.define(eq=False)
class WordTimes:
    """The progress of one sentence: which words of it have ended, and when."""

    sentence: WordedSentence
    _at: int = attrs.field(default=0, init=False)
    _ended: int = attrs.field(default=0, init=False)
    _time: float = attrs.field(default=0.0, init=False)
    _lost: bool = attrs.field(default=False, init=False)

    def hear(self, alignment: object, begins: float) -> list[tuple[int, float]]:
        """Return the words that end with these characters, and when.

        Args:
          alignment: of a message, as the vendor sends it.
          begins: seconds of audio before that message.
        """
        timed = _timed(alignment)
        if self._lost or not timed:
            return []
        places = self._places(timed, self._at) or self._places(timed, 0)
        if places is None:
            self._lost = True
            return []
        ended: list[tuple[int, float]] = []
        for place, (_, end) in zip(places, timed, strict=True):
            self._at = max(self._at, place)
            while (
                self._ended < len(self.sentence.ends)
                and place >= self.sentence.ends[self._ended]
            ):
                self._ended += 1
                self._time = max(self._time, begins + end)
                ended.append((self._ended, self._time))
        return ended

    def _places(self, timed: Sequence[tuple[str, float]], at: int) -> list[int] | None:
        """Return where each of these is in the sentence; None if they are not there."""
        text = self.sentence.text
        places = []
        for char, _ in timed:
            if not char.isspace():
                while at < len(text) and text[at].isspace():
                    at += 1
                if text[at : at + len(char)].casefold() != char.casefold():
                    return None
                at += len(char)
            places.append(at)
        return places


def _timed(alignment: object) -> list[tuple[str, float]]:
    """Return characters with the seconds at which they end; none if it is nonsense."""
    if not isinstance(alignment, dict):
        return []
    chars, starts = alignment.get("chars"), alignment.get("charStartTimesMs")
    # The documentation has had two names for it.
    lasts = alignment.get("charDurationsMs", alignment.get("charsDurationsMs"))
    if not all(isinstance(each, list) for each in (chars, starts, lasts)):
        return []
    assert isinstance(chars, list)
    assert isinstance(starts, list)
    assert isinstance(lasts, list)
    if not len(chars) == len(starts) == len(lasts):
        return []
    if not all(isinstance(char, str) and char for char in chars):
        return []
    if not all(map(_is_time, starts + lasts)):
        return []
    return [
        (char, (start + last) / 1000)
        for char, start, last in zip(chars, starts, lasts, strict=True)
    ]


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and isfinite(value) and 0 <= value < 1e9
