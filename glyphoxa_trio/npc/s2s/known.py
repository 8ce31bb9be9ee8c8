"""The text that a model is told about the present moment: pure state.

A model is told each text only once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from glyphoxa_trio.providers.s2s import Command, ForgetText, SendText, TranscriptLine

_NO_MORE: Final = "(What you were told of this moment no longer holds.)"


@attrs.define(eq=False)
class KnownContext:
    """The text that holds now, and the text that the model knows.

    ``text`` is empty if there is nothing to tell.
    """

    text: str = attrs.field(default="", init=False)
    _told: str = attrs.field(default="", init=False)
    _item: str | None = attrs.field(default=None, init=False)
    _number: int = attrs.field(default=0, init=False)

    def holds(self, text: str) -> None:
        """Set the text that holds from now on."""
        self.text = text

    def lost(self) -> None:
        """Record that the model knows nothing, because it has no memory of the past."""
        self._told, self._item = "", None

    def tell(self, *, forgets: bool) -> Iterator[Command]:
        """Yield the commands that tell the model of a change.

        ``forgets``: the wire can remove what was told before.
        """
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
