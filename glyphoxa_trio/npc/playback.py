"""What was given out to be played, and how much of it was: pure state, no trio.

The embedder plays, so only it knows: it reports `played`, in seconds since the
playback began or was last flushed. Whoever asks what was heard asks by piece: a
sentence of a synthesiser, an item of a speech-to-speech model.
"""

from __future__ import annotations

from collections.abc import Hashable

import attrs


@attrs.define
class _Stretch:
    """Audio of one piece without another's in between, and where it ends."""

    piece: Hashable
    begins: float
    ends: float


@attrs.define(eq=False)
class Playback:
    """Pieces in the order in which they are played. Times are seconds."""

    _stretches: list[_Stretch] = attrs.field(factory=list, init=False)
    _played: float = attrs.field(default=0.0, init=False)

    def add(self, piece: Hashable, seconds: float) -> None:
        """More audio of ``piece``; it is played after all that was added before."""
        if self._stretches and self._stretches[-1].piece == piece:
            self._stretches[-1].ends += seconds
        else:
            given = self.given
            self._stretches.append(_Stretch(piece, given, given + seconds))

    def begin(self) -> None:
        """Whoever plays it says from now on how much of it was."""
        self._played = 0.0

    def played(self, seconds: float) -> None:
        """So much of all of it has been heard. Never less than before, nor more
        than there is."""
        self._played = max(self._played, min(seconds, self.given))

    @property
    def pieces(self) -> tuple[Hashable, ...]:
        """Each of them once, in the order in which they began."""
        return tuple(dict.fromkeys(stretch.piece for stretch in self._stretches))

    @property
    def given(self) -> float:
        return self._stretches[-1].ends if self._stretches else 0.0

    @property
    def left(self) -> float:
        """What is still to be played."""
        return self.given - self._played

    def length(self, piece: Hashable) -> float:
        return sum(x.ends - x.begins for x in self._stretches if x.piece == piece)

    def heard(self, piece: Hashable) -> float:
        """How much of ``piece`` was played."""
        return sum(
            min(x.ends, self._played) - x.begins
            for x in self._stretches
            if x.piece == piece and x.begins < self._played
        )

    def forget(self) -> None:
        """What was played to its end is nobody's any more; the counting goes on."""
        last = self._stretches[-1:]
        kept = [x for x in self._stretches[:-1] if x.ends > self._played]
        self._stretches = kept + last

    def flush(self) -> None:
        """Nothing of this is played any more; what comes next begins at zero."""
        self._stretches.clear()
        self._played = 0.0
