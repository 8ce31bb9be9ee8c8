"""What somebody said, from transcripts that come late and do not say whose they are.

Gemini's wire has no names for utterances, so they are numbered here. One begins when
the server hears somebody (where it says so), when somebody interrupts the model, or
with the first words; and if nothing of that was said, with the answer to it, which is
every answer that nobody asked for in text. Words say nothing of when: they are filled
in.

Pieces of a transcript are not ordered with the model's turn, and most models never say
that one is the last. So an utterance is whole a moment after the answer to it has
begun. Pieces that come later wait until it is clear whose they are: of whoever barges
in, or is answered next, if that happens soon; else of the one that was answered.
"""

from __future__ import annotations

from math import inf
from typing import Final

import attrs

from glyphoxa_trio.providers.s2s import Event, Heard

GRACE: Final = 0.3  # seconds for the last pieces, after the answer has begun
LATE: Final = (
    2.0  # seconds after an answer in which pieces may still be of its question
)
PATIENCE: Final = 10.0  # seconds that a model has to answer what it hears
MAX_WORDS: Final = 20_000  # characters of one utterance
MAX_LATE: Final = 200  # pieces


@attrs.define(eq=False)
class Hearing:
    """One utterance after another. Times are on the clock of ``now``.

    Args:
      prefix: of the names of utterances.
      due: when to `wake` it, None for not at all.
      item: the utterance that began last.
    """

    prefix: str
    due: float | None = None
    item: str = ""
    _words: str = ""
    _whole: bool = False  # its words were told as all of them
    _answered: bool = True  # its answer has begun; there is none before the first
    _announced: bool = False  # it began with more than words
    _ended_at: float | None = -inf  # the turn that answers it; None: not yet
    _last_sign: float = 0.0
    _late: list[str] = attrs.field(factory=list)
    _lost: int = 0
    _number: int = 0

    def begins(self, now: float) -> None:
        """Somebody is heard to speak."""
        if self._answered or self._announced:
            self._begin()
        self._announced, self._last_sign = True, now

    def ends(self, now: float) -> str:
        """They have finished; returns which utterance that was."""
        if self._answered:
            self._begin()
        self._announced, self._last_sign = True, now
        return self.item

    def piece(
        self, text: str, now: float, *, answering: bool, last: bool
    ) -> list[Event]:
        """A piece of a transcript; ``answering``: the model's turn goes on."""
        if not text:
            return self._finish() if last else []
        if last and text.strip() == self._words.strip():
            return self._finish()  # all of it, once more
        self._last_sign = now
        ended_at = self._ended_at
        ended = self._answered and ended_at is not None
        if ended_at is not None and not answering and now >= ended_at + LATE:
            self._begin()  # long after the answer: it is something new
        elif (ended and answering) or (self._answered and self._whole):
            self._late.append(text)
            self._lost += len(self._late) - len(self._late[:MAX_LATE])
            del self._late[MAX_LATE:]
            self.due = None if answering else now + LATE
            return []
        if len(self._words) > MAX_WORDS:
            self._lost += 1
            return []
        self._words += text
        self._whole = False
        if last:
            return self._finish()
        if self._answered and self.due is None:
            self.due = now + GRACE
        return [self._heard(final=False)]

    def answer_begins(self, now: float) -> list[Event]:
        """The model begins to answer what was said last, or what nothing was known of
        until now: `item`."""
        events: list[Event] = []
        if self._answered:
            self._begin()
            events = [self.words()] if self._words else []  # the pieces that waited
        self._answered, self._ended_at = True, None
        self.due = now + GRACE if self._words else None
        return events

    @property
    def unanswered(self) -> bool:
        """Somebody was heard, and has no answer yet."""
        return not self._answered

    def waits(self, now: float) -> bool:
        """Whether an answer to what was heard is to be expected."""
        return self.unanswered and now < self._last_sign + PATIENCE

    def words(self) -> Event:
        """The words so far."""
        return self._heard(final=False)

    def finish(self) -> list[Event]:
        """The answer goes on without more words."""
        return self._finish() if self._answered else []

    def wake(self, now: float) -> list[Event]:
        """Do what is due."""
        if self.due is None or now < self.due:
            return []
        if self._late:
            self._words += "".join(self._late)
            self._late.clear()
            self._whole = False
        return self._finish()

    def interrupted(self, now: float) -> list[Event]:
        """Somebody barges in; what they say may have come before."""
        events = self.finish()
        if self._answered:
            self._begin()
            events += [self.words()] if self._words else []
        self._announced, self._last_sign = True, now
        return events

    def turn_ends(self, now: float) -> list[Event]:
        """The model has finished, and was not interrupted."""
        if not self._answered:
            return []
        events = self._finish()
        if self._ended_at is None:
            self._ended_at = now
        if self._late:
            self.due = now + LATE
        return events

    def take_lost(self) -> int:
        """How many pieces belong to no utterance, or were too many for theirs."""
        lost, self._lost = self._lost, 0
        return lost

    def _finish(self) -> list[Event]:
        self.due = None
        if self._whole or not self._words:
            return []
        self._whole = True
        return [self._heard(final=True)]

    def _heard(self, *, final: bool) -> Event:
        return Heard(self._words.strip(), final=final, item=self.item)

    def _begin(self) -> None:
        """Another utterance, with what waited for it."""
        self._number += 1
        self.item = f"{self.prefix}.said-{self._number}"
        self._words = "".join(self._late)
        self._late.clear()
        self._whole = self._answered = self._announced = False
        self._ended_at = self.due = None
