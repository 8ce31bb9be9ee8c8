"""The audio that a new socket must hear again if the old one breaks. Pure state."""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs

FRAME: Final = 0.08  # seconds, as the vendor advises
LONGEST: Final = 30.0  # seconds that are kept of an utterance, or while nobody hears
LEAD: Final = 2.0  # seconds in which speech may have begun that is not yet reported


@attrs.define(eq=False)
class KeptAudio:
    """The last frames of a microphone.

    ``dropped``: seconds that no socket has heard.
    """

    dropped: float = 0.0
    _frames: deque[bytes] = attrs.field(factory=deque, init=False)
    _before: int = attrs.field(default=0, init=False)  # frames of this socket
    _unsent: int = attrs.field(default=0, init=False)  # of those that are kept

    def add(self, frame: bytes, *, sent: bool, whole: bool) -> None:
        """Keep a frame.

        Args:
          sent: a socket takes it.
          whole: it may belong to an utterance, so those before it are kept as well.
        """
        self._frames.append(frame)
        self._unsent += not sent
        most = LONGEST if whole else LEAD
        while len(self._frames) * FRAME > most:
            self._drop()

    def settle(self, ends: float) -> None:
        """Forget what this socket has dealt with, up to so many seconds of it."""
        while self._frames and (self._before + 1) * FRAME <= ends:
            self._drop()

    def again(self) -> list[bytes]:
        """Return what a new socket must hear first."""
        self._before = self._unsent = 0
        return list(self._frames)

    def clear(self) -> None:
        """Forget everything: it could not be understood."""
        while self._frames:
            self._drop()

    @property
    def seconds(self) -> float:
        return len(self._frames) * FRAME

    def _drop(self) -> None:
        if len(self._frames) <= self._unsent:
            self._unsent -= 1
            self.dropped += FRAME
        self._frames.popleft()
        self._before += 1
