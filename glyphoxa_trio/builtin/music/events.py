"""Music that the embedding application plays, as told by events."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs

import trio


@attrs.frozen(kw_only=True)
class MusicEvent:
    """A change in the music to be heard. ``fade`` is in seconds."""

    fade: float


@attrs.frozen(kw_only=True)
class PlayMusic(MusicEvent):
    """Play this file over and over, until the next event; ``volume`` is 0 to 100.

    The track before it fades out while this one fades in.
    """

    path: Path
    mood: str
    volume: float


@attrs.frozen(kw_only=True)
class StopMusic(MusicEvent):
    """Fade out the music."""


@attrs.define(eq=False, kw_only=True)
class Announcer:
    """An `Output` that plays nothing itself, but announces the music by events."""

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
