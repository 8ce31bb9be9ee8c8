"""The state of one answer: whether it goes on, and how much of it was heard.

A TTS service cuts text as it likes, often into words. Each frame of spoken text names
the frame that it was made of, which is a sentence here. Its words are counted by their
characters, because a service may split them, or leave out spaces. The service gets the
spoken form of a sentence, and the NPC is told of the written one.
"""

from __future__ import annotations

import asyncio
from typing import Final

import attrs

from glyphoxa_trio.aio import SceneTurn, Turn
from glyphoxa_trio.npc.markdown import SpokenForm
from glyphoxa_trio.npc.reading_aloud import AnswerReader

_REASON: Final = "the user interrupted"


@attrs.define(eq=False)
class PipelineAnswer:
    """The answer to one utterance.

    ``ended``: the NPC has ended it. ``heard_out``: nothing more of it will be heard.
    ``begun``: the pipeline was told that a response begins. ``cut``: it was
    interrupted, and nothing more of it may be said. ``failed``: the model did not
    answer.
    """

    turn: Turn | SceneTurn | None = attrs.field(default=None, init=False)
    ended: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    heard_out: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    begun: bool = attrs.field(default=False, init=False)
    cut: bool = attrs.field(default=False, init=False)
    failed: bool = attrs.field(default=False, init=False)
    _closed: bool = attrs.field(default=False, init=False)
    _reported: bool = attrs.field(default=False, init=False)
    reader: AnswerReader = attrs.field(factory=AnswerReader, init=False)
    # Each sentence by the frame that it was given in, and behind it those of which
    # nothing is spoken. Ids of frames grow.
    _given: dict[int, list[SpokenForm]] = attrs.field(factory=dict, init=False)
    _last: int | None = attrs.field(default=None, init=False)
    _frame: int = attrs.field(default=0, init=False)  # of which something was heard
    _characters: int = attrs.field(default=0, init=False)  # of it, without spaces

    def entered(self, turn: Turn | SceneTurn, *, reported: bool) -> None:
        """Begin; ``reported``: what is heard will be told to `hear`."""
        self.turn, self._reported = turn, reported
        self._report()
        if self.cut:
            turn.interrupt(_REASON)

    def begin(self) -> bool:
        """Return True the first time, for the beginning of the response."""
        first, self.begun = not self.begun, True
        return first

    def close(self) -> bool:
        """Return True the first time that a response which was begun ends."""
        if self._closed or not self.begun:
            return False
        self._closed = True
        return True

    def fail(self) -> None:
        """Record that the model did not answer."""
        self.failed = True

    def interrupt(self) -> None:
        """End it, and all that it does. Never waits."""
        if self.cut:
            return
        self.cut = True
        if self.turn is not None:
            self.turn.interrupt(_REASON)
        self.end_hearing()

    def give(self, sentence: SpokenForm, frame: int) -> None:
        """Keep the id of the frame that a sentence is in."""
        self._given[frame] = [sentence]

    def pass_over(self, sentence: SpokenForm) -> None:
        """Keep a sentence of which nothing is spoken: it has no frame."""
        self._given.setdefault(next(reversed(self._given), 0), []).append(sentence)

    def give_last(self, frame: int) -> None:
        """Keep the id of the frame that follows all sentences."""
        self._last = frame

    def hear(self, frame: int, text: str) -> None:
        """Count ``text``, which was made of that frame, as heard.

        Frames that are not of this answer are ignored.
        """
        if frame == self._last:
            # Of a sentence that was begun, all was heard, whatever the service told.
            begun = self._given.get(self._frame, ())
            self._characters = sum(len("".join(x.text.split())) for x in begun)
            self.end_hearing()
        elif frame in self._given and frame >= self._frame:
            before = self._characters if frame == self._frame else 0
            self._frame, self._characters = frame, before + len("".join(text.split()))
            self._report()

    def end_hearing(self) -> None:
        """Record that nothing more of it will be heard."""
        self.heard_out.set()
        self._report()

    def _report(self) -> None:
        """Tell the NPC what was heard, if that is known here."""
        if self.turn is None or not self._reported:
            return
        heard: list[str] = []
        for frame, sentences in self._given.items():
            if frame < self._frame:
                heard += [x.written for x in sentences]
            elif frame == self._frame:
                heard += _heard_of(sentences, self._characters)
        self.turn.heard(" ".join(heard), over=self.heard_out.is_set())


def _heard_of(sentences: list[SpokenForm], characters: int) -> list[str]:
    """Return what was heard of sentences if so many spoken characters were."""
    heard: list[str] = []
    for sentence in sentences:
        count = 0
        for word in sentence.text.split():
            characters -= len(word)
            count += characters >= 0
        heard.append(sentence.heard(count))
        if characters < 0:
            break
    return heard
