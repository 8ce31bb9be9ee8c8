"""Tracks that fade into each other: each is played by something of its own.

At most two are heard: one that plays, and one on its way out.
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
    """A track that is heard, as long as its block lasts."""

    async def set_volume(self, volume: float) -> None:
        """0 to 100. Raises `ToolUnavailable`."""
        ...

    async def over(self) -> str:
        """Wait until nothing is heard any more; why."""
        ...


# Entered, the track has begun, at that volume. Raises as `Output.play` does.
OpenTrack = Callable[[Path, float], AbstractAsyncContextManager[PlayingTrack]]


@attrs.define(eq=False)
class _Voice:
    """One track. ``step`` is how far its fade has come."""

    path: Path
    step: int
    leaving: trio.Event = attrs.field(factory=trio.Event)
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    over: bool = False


@attrs.define(eq=False, kw_only=True)
class Mixer:
    """An `Output`. Its tracks live in ``nursery``."""

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
        # In a task of its own, which is cancelled with this one until it has begun.
        voice = await self.nursery.start(self._life, path)
        if voice.over:
            raise ToolUnavailable(f"{path.name} ended as soon as it had begun")
        self.stop()
        self._now = voice

    def stop(self) -> None:
        leaving, self._now = self._now, None
        if leaving is None:
            return
        if self._leaving is not None:  # a third one would be noise
            self._leaving.scope.cancel("another one fades out")
        self._leaving = leaving
        leaving.leaving.set()

    @property
    def _steps(self) -> int:
        """Volumes of a whole fade; without one it is all or nothing."""
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
        """In, for as long as it is wanted, and out."""
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
