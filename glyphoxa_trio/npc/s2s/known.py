"""What a model is told of this moment, and that only once: pure state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from glyphoxa_trio.providers.s2s import Command, ForgetText, SendText, TranscriptLine

_NO_MORE: Final = "(What you knew of this moment does not hold any more.)"


@attrs.define(eq=False)
class KnownContext:
    """The text that holds, and what the model knows of it.

    ``text`` is empty if there is nothing to be known.
    """

    text: str = attrs.field(default="", init=False)
    _told: str = attrs.field(default="", init=False)
    _item: str | None = attrs.field(default=None, init=False)
    _number: int = attrs.field(default=0, init=False)

    def holds(self, text: str) -> None:
        """This holds from now on, and nothing else."""
        self.text = text

    def lost(self) -> None:
        """The model that is spoken to knows nothing of it."""
        self._told, self._item = "", None

    def tell(self, *, forgets: bool) -> Iterator[Command]:
        """What has changed. ``forgets``: what was told before can be taken back."""
        if self.text == self._told:
            return
        if self._item is not None:
            yield ForgetText(self._item)
        took_back, self._told, self._item = self._item is not None, self.text, None
        if not self.text and took_back:
            return
        if forgets:
            self._number += 1
            self._item = f"known_{self._number}"
        line = TranscriptLine("user", self.text or _NO_MORE)
        yield SendText(line, reply=False, item=self._item)
