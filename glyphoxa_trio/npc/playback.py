"""The audio that was sent to be played, and how much of it was played. Pure state.

Only the embedder knows what was played. It reports `played`, in seconds since playback
began or was last flushed. Callers ask what was heard of each piece: a sentence of a
synthesizer, or an item of a speech-to-speech model.
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
    """The pieces in the order in which they are played. Times are seconds."""

    _stretches: list[_Stretch] = attrs.field(factory=list, init=False)
    _played: float = attrs.field(default=0.0, init=False)

    def add(self, piece: Hashable, seconds: float) -> None:
        """Add audio of ``piece``, to be played after all earlier audio."""
        if self._stretches and self._stretches[-1].piece == piece:
            self._stretches[-1].ends += seconds
        else:
            given = self.given
            self._stretches.append(_Stretch(piece, given, given + seconds))

    def begin(self) -> None:
        """Count only reported playback from now on."""
        self._played = 0.0

    def played(self, seconds: float) -> None:
        """Set how much was played of everything; it never decreases."""
        self._played = max(self._played, min(seconds, self.given))

    @property
    def pieces(self) -> tuple[Hashable, ...]:
        """Each piece once, in the order in which they began."""
        return tuple(dict.fromkeys(stretch.piece for stretch in self._stretches))

    @property
    def given(self) -> float:
        """The seconds of all audio."""
        return self._stretches[-1].ends if self._stretches else 0.0

    @property
    def left(self) -> float:
        """The seconds that are still to be played."""
        return self.given - self._played

    def length(self, piece: Hashable) -> float:
        """Return how many seconds of ``piece`` there are."""
        return sum(x.ends - x.begins for x in self._stretches if x.piece == piece)

    def heard(self, piece: Hashable) -> float:
        """Return how many seconds of ``piece`` were played."""
        return sum(
            min(x.ends, self._played) - x.begins
            for x in self._stretches
            if x.piece == piece and x.begins < self._played
        )

    def forget(self) -> None:
        """Forget pieces that were played to their end; the counting continues."""
        last = self._stretches[-1:]
        kept = [x for x in self._stretches[:-1] if x.ends > self._played]
        self._stretches = kept + last

    def flush(self) -> None:
        """Drop everything; the next audio begins at zero."""
        self._stretches.clear()
        self._played = 0.0
