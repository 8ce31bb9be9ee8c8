"""The bounds of a channel that is flooded with messages. Pure state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import attrs

from glyphoxa_trio.errors import GlyphoxaError


class Flooded(GlyphoxaError):
    """Too many messages are being answered.

    ``tell``: the channel was not told since it was last calm.
    """

    def __init__(self, text: str, *, tell: bool) -> None:
        super().__init__(text)
        self.tell = tell


@attrs.define(eq=False)
class ChannelLimits:
    """Counts the messages of each member that wait or are answered."""

    per_user: int
    per_channel: int
    _open: Counter[int] = attrs.field(factory=Counter, init=False)
    _told: bool = attrs.field(default=False, init=False)

    @contextmanager
    def place(self, user: int) -> Iterator[None]:
        """Hold a place for a message while the block lasts.

        Raises:
          Flooded: there is none.
        """
        if self._open.total() >= self.per_channel:
            raise self._refused("Too many speak here at once")
        if self._open[user] >= self.per_user:
            raise self._refused("One at a time, please")
        self._open[user] += 1
        try:
            yield
        finally:
            self._open[user] -= 1
            self._open += Counter()  # without those at zero
            if not self._open:
                self._told = False

    def _refused(self, why: str) -> Flooded:
        told, self._told = self._told, True
        text = f"{why}: some of what is said now is not answered."
        return Flooded(text, tell=not told)
