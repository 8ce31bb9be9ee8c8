"""The spoken audio of a turn, and the words of it that were heard. Pure.

The NPC remembers of its words only what was heard. A sentence that was played to its
end was heard. Of a sentence that was cut, the words were heard that fit into the share
of it that was played; the last word only if it was complete. If its synthesis was cut,
so that its length is unknown, the sentence counts as at least as long as a person takes
to say it. A synthesizer that tells when its words end is believed instead, as far as it
has told. Nothing after it was heard. A sentence that could not be spoken counts as text
does. Words are counted as they are spoken, and remembered as they were written.

A speech-to-speech model sends words and audio separately, without saying which belong
together. Of the words of one round, those were heard that fit into the share of the
round's audio that was played.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from typing import Final

import attrs

from .markdown import SpokenForm
from .playback import Playback

# Seconds. A player counts in frames, and rounds.
TOLERANCE: Final = 0.025
# Characters per second of a person who speaks slowly.
USUAL: Final = 15.0


@attrs.define
class _SpokenText:
    """A sentence that is being spoken, or was.

    ``over``: no more audio of it comes. ``failed``: the audio is incomplete. ``ends``:
    so many words end at so many seconds of it, in order, as far as that is known.
    """

    form: SpokenForm
    over: bool = False
    failed: bool = False
    ends: list[tuple[int, float]] = attrs.field(factory=list)


@attrs.frozen
class _Item:
    """A model's speech in one round, by the vendor's item name."""

    round: int
    name: str


@attrs.define(eq=False)
class SpokenAudio:
    """The audio of one turn.

    A sentence is identified by its round and its place in the round; the speech of a
    model by its round and the vendor's item.
    """

    playback: Playback = attrs.field(factory=Playback, init=False)
    _said: dict[tuple[int, int], _SpokenText] = attrs.field(factory=dict, init=False)
    # seconds of the model's audio, by round
    _given: dict[int, float] = attrs.field(factory=dict, init=False)
    _taken: float = attrs.field(default=0.0, init=False)
    _stopped: bool = attrs.field(default=False, init=False)

    # Audio that is sent.

    def begin(
        self, round_: int, place: int, text: str, form: SpokenForm | None = None
    ) -> None:
        """Record that a sentence will be spoken, after those before it.

        ``form``: its spoken form; None if it is spoken as it is written.
        """
        self._said[round_, place] = _SpokenText(form or SpokenForm(text, text))

    def give(self, round_: int, place: int, seconds: float) -> None:
        """Add seconds of a sentence's audio that are sent to the listener."""
        self.playback.add((round_, place), seconds)

    def time_words(self, round_: int, place: int, words: int, end: float) -> None:
        """Record that the first ``words`` of a sentence end at ``end`` seconds."""
        self._said[round_, place].ends.append((words, end))

    def end(self, round_: int, place: int, *, failed: bool = False) -> None:
        """Record that all of a sentence was sent, or that the rest of it failed."""
        said = self._said[round_, place]
        said.over, said.failed = True, failed

    def give_filler(self, seconds: float) -> None:
        """Add seconds of audio that is no part of the answer."""
        self.playback.add(None, seconds)

    def give_item(self, round_: int, item: str, seconds: float) -> None:
        """Add seconds of a model's speech that are sent to the listener."""
        self.playback.add(_Item(round_, item), seconds)
        self._given[round_] = self._given.get(round_, 0.0) + seconds

    # Audio that is played.

    def take(self, seconds: float) -> None:
        """Count seconds that the listener took as played, without playback reports."""
        if not self._stopped:
            self._taken += seconds
            self.playback.played(self._taken)

    def stop(self) -> dict[str, float]:
        """Stop: nothing more is played.

        The first call returns the seconds that were heard of each of the model's items
        that were not heard to their end.
        """
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
        """Return True if a model speaks this round itself."""
        return round_ in self._given

    def heard(self, round_: int, sentences: Sequence[str], shown: int) -> list[str]:
        """Return what was heard of these sentences of a round.

        ``shown`` of them were delivered as text.
        """
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
            if text and (words := _words(said, heard, given)):
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
    """Return the words that were played to their end.

    Those after the last one whose end is known are a share of the rest.
    """
    words = said.form.text.split()
    known, at = 0, 0.0
    for count, end in said.ends:
        if heard < end - TOLERANCE:
            return said.form.words(known)
        known, at = count, end
    rest = words[known:]
    length = given - at
    if said.failed or not said.over:
        length = max(length, len(" ".join(rest)) / USUAL)
    if length > 0:
        known += floor(len(rest) * max(0.0, heard - at) / length)
    return said.form.words(known)
