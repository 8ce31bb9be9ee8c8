"""Cross-fading tracks, each played by a player of its own.

At most two are heard: one that plays, and one that fades out.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final, Protocol

import attrs

import trio

from glyphoxa_trio.tools.definition import ToolUnavailable

STEP: Final = 0.05  # seconds between two volumes of a fade


class PlayingTrack(Protocol):
    """A track that plays until its block is left."""

    async def set_volume(self, volume: float) -> None:
        """Set the volume, 0 to 100. Raises `ToolUnavailable`."""
        ...

    async def over(self) -> str:
        """Wait until the track has ended, and return why."""
        ...


# When the block is entered, the track plays, at the given volume. Raises the errors of
# `Output.play`.
OpenTrack = Callable[[Path, float], AbstractAsyncContextManager[PlayingTrack]]


@attrs.define(eq=False)
class _Voice:
    """One track. ``step`` is the position in its fade."""

    path: Path
    step: int
    leaving: trio.Event = attrs.field(factory=trio.Event)
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    over: bool = False


@attrs.define(eq=False, kw_only=True)
class Mixer:
    """An `Output` whose tracks run in ``nursery``."""

    nursery: trio.Nursery
    open_track: OpenTrack
    volume: float
    crossfade: float  # seconds
    warn: Callable[[str], None]
    _now: _Voice | None = attrs.field(default=None, init=False)
    _leaving: _Voice | None = attrs.field(default=None, init=False)

    @property
    def playing(self) -> Path | None:
        return None if self._now is None else self._now.path

    async def play(self, path: Path, mood: str) -> None:
        # In a task of its own; until the track has begun, cancelling this cancels it.
        voice = await self.nursery.start(self._life, path)
        if voice.over:
            raise ToolUnavailable(f"{path.name} ended as soon as it had begun")
        self.stop()
        self._now = voice

    def stop(self) -> None:
        leaving, self._now = self._now, None
        if leaving is None:
            return
        if self._leaving is not None:  # a third track would be noise
            self._leaving.scope.cancel("another one fades out")
        self._leaving = leaving
        leaving.leaving.set()

    @property
    def _steps(self) -> int:
        """The number of volumes in a whole fade; 1 if there is no fade."""
        return max(1, round(self.crossfade / STEP))

    def _volume(self, voice: _Voice) -> float:
        return self.volume * voice.step / self._steps

    async def _life(self, path: Path, task_status: trio.TaskStatus[_Voice]) -> None:
        voice = _Voice(path, step=0 if self.crossfade else self._steps)
        try:
            with voice.scope:
                async with self.open_track(path, self._volume(voice)) as track:
                    task_status.started(voice)
                    await self._hear(voice, track)
        finally:
            voice.over = True
            if self._now is voice:
                self._now = None
            if self._leaving is voice:
                self._leaving = None

    async def _hear(self, voice: _Voice, track: PlayingTrack) -> None:
        """Fade the track in, play it until it is stopped, and fade it out."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._fade, voice, track, nursery.cancel_scope)
            why = await track.over()
            self.warn(f"{voice.path.name}: {why}")
            nursery.cancel_scope.cancel("it is over")

    async def _fade(
        self, voice: _Voice, track: PlayingTrack, end: trio.CancelScope
    ) -> None:
        try:
            while voice.step < self._steps and not voice.leaving.is_set():
                with trio.move_on_after(STEP):
                    await voice.leaving.wait()
                if not voice.leaving.is_set():
                    voice.step += 1
                    await track.set_volume(self._volume(voice))
            await voice.leaving.wait()
            while voice.step > 0 and self.crossfade:
                await trio.sleep(STEP)
                voice.step -= 1
                await track.set_volume(self._volume(voice))
        except ToolUnavailable as error:
            self.warn(f"{voice.path.name}: {error}")
        end.cancel("it has faded out")
