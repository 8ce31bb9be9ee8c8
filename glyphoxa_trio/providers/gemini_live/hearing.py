"""The user's utterances, from transcripts that arrive late and name no utterance.

Gemini's protocol has no ids for utterances, so they are numbered here. An utterance
begins when the server reports speech (if it does), when the user interrupts the model,
or with the first words; if none of these came, it begins with the answer to it. Every
answer that was not requested in text answers an utterance. Words do not say when they
were spoken; they are added to the utterance afterwards.

Pieces of a transcript are not ordered with the model's turn, and most models never mark
the last piece. So an utterance is complete a moment after its answer has begun. Pieces
that come later wait until it is clear where they belong: to an utterance that
interrupts the model or is answered next, if one comes soon; otherwise to the one that
was answered.
"""

from __future__ import annotations

from math import inf
from typing import Final

import attrs

from glyphoxa_trio.providers.s2s import Event, Heard

GRACE: Final = 0.3  # seconds for the last pieces, after the answer has begun
# Seconds after an answer in which pieces may still belong to its question.
LATE: Final = 2.0
PATIENCE: Final = 10.0  # seconds in which a model answers what it hears
MAX_WORDS: Final = 20_000  # characters of one utterance
MAX_LATE: Final = 200  # pieces


@attrs.define(eq=False)
class Hearing:
    """The utterances of one socket, in order. Times are on the clock of ``now``.

    Args:
      prefix: of the ids of utterances.
      due: when to `wake` it, None for never.
      item: the id of the utterance that began last.
    """

    prefix: str
    due: float | None = None
    item: str = ""
    _words: str = ""
    _whole: bool = False  # its words were reported as complete
    _answered: bool = True  # its answer has begun; True before the first utterance
    _announced: bool = False  # its beginning was reported, not only its words
    _ended_at: float | None = -inf  # the turn that answers it; None: not yet
    _last_sign: float = 0.0
    _late: list[str] = attrs.field(factory=list)
    _lost: int = 0
    _number: int = 0

    def begins(self, now: float) -> None:
        """Note that the user starts speaking."""
        if self._answered or self._announced:
            self._begin()
        self._announced, self._last_sign = True, now

    def ends(self, now: float) -> str:
        """Note that the user stops speaking; return the id of the utterance."""
        if self._answered:
            self._begin()
        self._announced, self._last_sign = True, now
        return self.item

    def piece(
        self, text: str, now: float, *, answering: bool, last: bool
    ) -> list[Event]:
        """Take a piece of a transcript.

        Args:
          text: the piece.
          answering: True during the model's turn.
          last: True if the server marks it as the last piece of its utterance.
        """
        if not text:
            return self._finish() if last else []
        if last and text.strip() == self._words.strip():
            return self._finish()  # the whole utterance once more
        self._last_sign = now
        ended_at = self._ended_at
        ended = self._answered and ended_at is not None
        if ended_at is not None and not answering and now >= ended_at + LATE:
            self._begin()  # long after the answer: a new utterance
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
        """Note that the model starts to answer `item`.

        That is the utterance spoken last, or a new one if nothing was known of it.
        """
        events: list[Event] = []
        if self._answered:
            self._begin()
            events = [self.words()] if self._words else []  # the pieces that waited
        self._answered, self._ended_at = True, None
        self.due = now + GRACE if self._words else None
        return events

    @property
    def unanswered(self) -> bool:
        """True if the user spoke and has no answer yet."""
        return not self._answered

    def waits(self, now: float) -> bool:
        """Return whether an answer to the user's speech is to be expected."""
        return self.unanswered and now < self._last_sign + PATIENCE

    def words(self) -> Event:
        """Return the event with the words so far."""
        return self._heard(final=False)

    def finish(self) -> list[Event]:
        """Return the final event of the utterance: its answer is well under way."""
        return self._finish() if self._answered else []

    def wake(self, now: float) -> list[Event]:
        """Complete the utterance, if that is due at ``now``."""
        if self.due is None or now < self.due:
            return []
        if self._late:
            self._words += "".join(self._late)
            self._late.clear()
            self._whole = False
        return self._finish()

    def interrupted(self, now: float) -> list[Event]:
        """Note that the user interrupts; their words may have arrived before."""
        events = self.finish()
        if self._answered:
            self._begin()
            events += [self.words()] if self._words else []
        self._announced, self._last_sign = True, now
        return events

    def turn_ends(self, now: float) -> list[Event]:
        """Note that the model has finished its turn without an interruption."""
        if not self._answered:
            return []
        events = self._finish()
        if self._ended_at is None:
            self._ended_at = now
        if self._late:
            self.due = now + LATE
        return events

    def take_lost(self) -> int:
        """Return and reset the number of pieces that were dropped."""
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
        """Start another utterance, with the pieces that waited for it."""
        self._number += 1
        self.item = f"{self.prefix}.said-{self._number}"
        self._words = "".join(self._late)
        self._late.clear()
        self._whole = self._answered = self._announced = False
        self._ended_at = self.due = None
