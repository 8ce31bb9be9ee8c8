"""Music that somebody else plays: an embedding application, told by events."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs

import trio


@attrs.frozen(kw_only=True)
class MusicEvent:
    """What is to be done now. ``fade`` is in seconds."""

    fade: float


@attrs.frozen(kw_only=True)
class PlayMusic(MusicEvent):
    """Play this file over and over, until the next event; ``volume`` is 0 to 100.

    What played before fades out while this one fades in.
    """

    path: Path
    mood: str
    volume: float


@attrs.frozen(kw_only=True)
class StopMusic(MusicEvent):
    """Fade out what plays."""


@attrs.define(eq=False, kw_only=True)
class Announcer:
    """An `Output` that only says what is to be heard."""

    tell: Callable[[MusicEvent], None]
    volume: float
    crossfade: float
    _playing: Path | None = attrs.field(default=None, init=False)

    @property
    def playing(self) -> Path | None:
        return self._playing

    async def play(self, path: Path, mood: str) -> None:
        await trio.lowlevel.checkpoint()
        self._playing = path
        self.tell(
            PlayMusic(path=path, mood=mood, volume=self.volume, fade=self.crossfade)
        )

    def stop(self) -> None:
        if self._playing is not None:
            self._playing = None
            self.tell(StopMusic(fade=self.crossfade))
