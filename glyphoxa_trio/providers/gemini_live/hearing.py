"""What somebody said, from transcripts that come late and do not say when they end.

Gemini sends pieces that are not ordered with the model's turn, and most models never
say that one is the last. So an utterance is whole a moment after the answer to it
has begun, when the model calls a tool, or when its turn ends. Pieces that come right
after that are those of whoever barges in, if an interruption follows, else of nobody;
those that come much later are something new in any case.
"""

from __future__ import annotations

from typing import Final

import attrs

from glyphoxa_trio.providers.s2s import Event, Heard

GRACE: Final = 0.3  # seconds for the last pieces, after the answer has begun
LATE: Final = 2.0  # seconds in which pieces may still be of what was whole
MAX_WORDS: Final = 20_000  # characters of one utterance
MAX_LATE: Final = 200  # pieces


@attrs.define(eq=False)
class Hearing:
    """One utterance after another. Times are on the clock of ``now``.

    Args:
      due: when to `finish`, None for not by itself.
    """

    due: float | None = None
    _words: str = ""
    _told_at: float | None = None  # as a whole
    _barging: bool = False  # it began while the model spoke
    _late: list[str] = attrs.field(factory=list)
    _lost: int = 0

    def piece(
        self, text: str, now: float, *, answering: bool, last: bool
    ) -> list[Event]:
        """A piece of a transcript; ``answering``: the model's turn goes on."""
        if not text:
            return self.finish(now) if last else []
        told_at = self._told_at
        if told_at is not None and answering and now < told_at + LATE:
            self._late.append(text)
            self._lost += len(self._late) - len(self._late[:MAX_LATE])
            del self._late[MAX_LATE:]
            return []
        if told_at is not None:
            self._begin()
        self._barging = self._barging or (answering and not self._words)
        self._words += text
        events: list[Event] = [Heard(self._words.strip(), final=False)]
        if last or len(self._words) > MAX_WORDS:
            return events + self.finish(now)
        if answering and self.due is None:
            self.due = now + GRACE
        return events

    def answer_begins(self, now: float) -> None:
        """The model begins to speak: there are few pieces to come."""
        if self._words and self._told_at is None:
            self.due = now + GRACE

    def finish(self, now: float) -> list[Event]:
        """That is all that was said, if anything was."""
        self.due = None
        if self._told_at is not None or not self._words:
            return []
        self._told_at = now
        return [Heard(self._words.strip(), final=True)]

    def wake(self, now: float) -> list[Event]:
        """Finish, if that is due."""
        is_due = self.due is not None and now >= self.due
        return self.finish(now) if is_due else []

    def interrupted(self, now: float) -> list[Event]:
        """Somebody barges in; what they say may have come before."""
        if self._barging and self._told_at is None:
            self._barging, self.due = False, None
            return []
        events = self.finish(now)
        late = "".join(self._late)
        self._late.clear()
        self._begin()
        self._words = late
        return [*events, Heard(late.strip(), final=False)] if late else events

    def turn_ends(self, now: float) -> list[Event]:
        """The model has finished, and was not interrupted."""
        events = self.finish(now)
        self._begin()
        return events

    def take_lost(self) -> int:
        """How many more pieces came too late for any utterance."""
        lost, self._lost = self._lost, 0
        return lost

    def _begin(self) -> None:
        self._lost += len(self._late)
        self._late.clear()
        self._words, self._told_at, self._barging, self.due = "", None, False, None
