"""The words of an answer's events as a synthesizer is to say them, ours or another
program's. Pure."""

from __future__ import annotations

import attrs

from .events import Filler, Sentence
from .markdown import MarkdownReader, SpokenForm


@attrs.define(eq=False)
class AnswerReader:
    """Reads the sentences and fillers of answers, in the order of their events.

    What a Markdown block leaves out ends with the model's response, its round. A filler
    is read by itself.
    """

    _reader: MarkdownReader = attrs.field(factory=MarkdownReader, init=False)
    _of: tuple[str, int, int] | None = attrs.field(default=None, init=False)

    def read(self, event: Sentence | Filler) -> SpokenForm:
        """Return the spoken form of an event's text; it may be empty."""
        if isinstance(event, Filler):
            return MarkdownReader().read(event.text)
        of = event.npc, event.turn, event.round
        if of != self._of:
            self._of, self._reader = of, MarkdownReader()
        return self._reader.read(event.text)
