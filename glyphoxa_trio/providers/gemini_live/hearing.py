"""What somebody said, from transcripts that come late and do not say when they end.

Gemini sends pieces that are not ordered with the model's turn, and most models never
say that one is the last. So an utterance is whole a moment after the answer to it
has begun, when the model calls a tool, or when its turn ends. Pieces that come still
later are those of whoever barges in, if an interruption follows; else of nobody.
"""

from __future__ import annotations

from typing import Final

import attrs

from glyphoxa_trio.providers.s2s import Event, Heard

GRACE: Final = 0.3  # seconds for the last pieces, after the answer has begun
MAX_WORDS: Final = 20_000  # characters of one utterance
MAX_LATE: Final = 200  # pieces


@attrs.define(eq=False)
class Hearing:
    """One utterance after another. Times are on the clock of ``now``.

    Args:
      due: when to `finish`, None for not by itself.
      lost: how many pieces came too late for any utterance.
    """

    due: float | None = None
    lost: int = 0
    _words: str = ""
    _told: bool = False  # as a whole
    _barging: bool = False  # it began while the model spoke
    _late: list[str] = attrs.field(factory=list)

    def piece(
        self, text: str, now: float, *, answering: bool, last: bool
    ) -> list[Event]:
        """A piece of a transcript; ``answering``: the model speaks."""
        if self._told and answering:
            self._late += [text] if text else []
            self.lost += len(self._late) - len(self._late[:MAX_LATE])
            del self._late[MAX_LATE:]
            return []
        if self._told:
            self._begin()
        events: list[Event] = []
        if text:
            self._barging = self._barging or (answering and not self._words)
            self._words += text
            events.append(Heard(text, False))
        if last or len(self._words) > MAX_WORDS:
            return events + self.finish()
        if answering and self._words and self.due is None:
            self.due = now + GRACE
        return events

    def answer_begins(self, now: float) -> None:
        """The model begins to speak: there are few pieces to come."""
        if self._words and not self._told:
            self.due = now + GRACE

    def finish(self) -> list[Event]:
        """That is all that was said, if anything was."""
        self.due = None
        if self._told or not self._words:
            return []
        self._told = True
        return [Heard(self._words.strip(), True)]

    def interrupted(self) -> list[Event]:
        """Somebody barges in; what they say may have come before."""
        if self._barging and not self._told:
            self._barging, self.due = False, None
            return []
        events = self.finish()
        late = "".join(self._late)
        self._begin()
        self._words = late
        return [*events, Heard(late, False)] if late else events

    def turn_ends(self) -> list[Event]:
        """The model has finished, and was not interrupted."""
        events = self.finish()
        self.lost += len(self._late)
        self._begin()
        return events

    def _begin(self) -> None:
        self._words, self._told, self._barging, self.due = "", False, False, None
        self._late.clear()
