"""The audio of an utterance that is not answered yet: pure state.

A socket may die after it has heard an utterance and before it has sent a word of it.
Then the next socket hears the audio again, unless the answer has begun or the words are
known.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs

LONGEST: Final = 30.0  # seconds that are kept of it; the oldest are dropped first
BEFORE: Final = 1.0  # seconds that are kept from before it began


@attrs.define(eq=False)
class Unanswered:
    """The microphone of one conversation, as far as a socket has heard it.

    ``rate``: samples per second. ``waits``: the user speaks, or has spoken and was not
    answered.
    """

    rate: int
    waits: bool = attrs.field(default=False, init=False)
    _pieces: deque[bytes] = attrs.field(factory=deque, init=False)
    _bytes: int = attrs.field(default=0, init=False)

    def hear(self, pcm: bytes) -> None:
        """Add a piece of audio that the socket is sent."""
        self._pieces.append(pcm)
        self._bytes += len(pcm)
        self._trim()

    def begin(self) -> None:
        """Record that the user starts to speak."""
        self.waits = True

    def settle(self) -> None:
        """Record that the utterance needs no repetition.

        It is answered, its words are known, or no listener waits for it.
        """
        self.waits = False
        self._trim()

    def take(self) -> tuple[bytes, ...]:
        """Return the audio if it waits, and forget it: the next socket hears it."""
        pieces = tuple(self._pieces) if self.waits else ()
        self.waits = False
        self._pieces.clear()
        self._bytes = 0
        return pieces

    def _trim(self) -> None:
        most = (LONGEST if self.waits else BEFORE) * self.rate * 2
        while self._bytes > most and len(self._pieces) > 1:
            self._bytes -= len(self._pieces.popleft())
