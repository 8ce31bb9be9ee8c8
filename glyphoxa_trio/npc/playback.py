"""What was given out to be played, and how much of it was: pure state, no trio.

The embedder plays, so only it knows: it reports `played`, in seconds since the
playback began or was last flushed. Whoever asks what was heard asks by piece: a
sentence of a synthesiser, an item of a speech-to-speech model.
"""

from __future__ import annotations

from collections.abc import Hashable

import attrs


@attrs.define(eq=False)
class Playback:
    """Pieces in the order in which they are played. Times are seconds."""

    _lengths: dict[Hashable, float] = attrs.field(factory=dict, init=False)
    _played: float = attrs.field(default=0.0, init=False)

    def add(self, piece: Hashable, seconds: float) -> None:
        """More audio of ``piece``, which is the last one so far, or a new one."""
        self._lengths[piece] = self._lengths.get(piece, 0.0) + seconds

    def played(self, seconds: float) -> None:
        """So much of all of it has been heard. Never less than before, nor more
        than there is."""
        self._played = max(self._played, min(seconds, self.given))

    @property
    def given(self) -> float:
        return sum(self._lengths.values())

    @property
    def left(self) -> float:
        """What is still to be played."""
        return self.given - self._played

    def length(self, piece: Hashable) -> float:
        return self._lengths.get(piece, 0.0)

    def heard(self, piece: Hashable) -> float:
        """How much of ``piece`` was played."""
        before = 0.0
        for other, length in self._lengths.items():
            if other == piece:
                return max(0.0, min(length, self._played - before))
            before += length
        return 0.0

    def flush(self) -> None:
        """Nothing of this is played any more; what comes next begins at zero."""
        self._lengths.clear()
        self._played = 0.0
