"""What was said and is not answered yet, as it sounds: pure state.

A socket may die after it has heard something and before it has told a word of it. Then
the next one hears it again, unless its answer has begun or its words are known.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs

LONGEST: Final = 30.0  # seconds that are kept of it; the oldest goes first
BEFORE: Final = 1.0  # and of what was before it began


@attrs.define(eq=False)
class Unanswered:
    """The microphone of one conversation, at ``rate``, as far as a socket has heard it.

    ``waits``: somebody speaks, or has spoken and was not answered.
    """

    rate: int
    waits: bool = attrs.field(default=False, init=False)
    _pieces: deque[bytes] = attrs.field(factory=deque, init=False)
    _bytes: int = attrs.field(default=0, init=False)

    def hear(self, pcm: bytes) -> None:
        """The socket is sent this."""
        self._pieces.append(pcm)
        self._bytes += len(pcm)
        self._trim()

    def begin(self) -> None:
        """Somebody begins to speak."""
        self.waits = True

    def settle(self) -> None:
        """It is answered, or its words are known, or nobody waits for it any more."""
        self.waits = False
        self._trim()

    def take(self) -> tuple[bytes, ...]:
        """All of it, if it waits; from now on another socket hears."""
        pieces = tuple(self._pieces) if self.waits else ()
        self.waits = False
        self._pieces.clear()
        self._bytes = 0
        return pieces

    def _trim(self) -> None:
        most = (LONGEST if self.waits else BEFORE) * self.rate * 2
        while self._bytes > most and len(self._pieces) > 1:
            self._bytes -= len(self._pieces.popleft())
