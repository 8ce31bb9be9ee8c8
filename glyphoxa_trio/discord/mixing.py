"""The NPCs' speech as one source of a voice channel: 48 kHz, stereo, 20 ms a frame.

The library reads it in a thread of its own. Each listener's answers are a stream; the
streams are added up, and each counts what was played of it.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Mapping
from typing import Final

import attrs
import discord

RATE: Final = 48_000
FRAME: Final = 960  # samples of a channel, 20 ms
_LONGEST: Final = 120 * RATE * 2  # bytes of a stream that may wait
_TAIL: Final = 10  # frames of silence before the source ends


@attrs.define(eq=False)
class _ListenerStream:
    """PCM16, mono, that waits; ``played`` counts bytes since the last flush."""

    waiting: bytearray = attrs.field(factory=bytearray)
    played: int = 0
    held: bool = False


class MixedSpeech(discord.AudioSource):
    """Speech for several listeners at once. Its methods never wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: dict[int, _ListenerStream] = {}
        self._silent = 0

    def add(self, listener: int, pcm: bytes) -> None:
        """Add speech for a listener, PCM16, mono, 48 kHz. Beyond two minutes it is
        dropped."""
        with self._lock:
            stream = self._streams.setdefault(listener, _ListenerStream())
            if len(stream.waiting) < _LONGEST:
                stream.waiting += pcm

    def flush(self, listener: int) -> None:
        """Drop what waits for a listener, and count from zero."""
        with self._lock:
            self._streams.pop(listener, None)

    def hold(self, listener: int, *, held: bool) -> None:
        """Pause a listener's stream, or go on."""
        with self._lock:
            self._streams.setdefault(listener, _ListenerStream()).held = held

    @property
    def waits(self) -> bool:
        """True if there is something to play."""
        with self._lock:
            return any(x.waiting and not x.held for x in self._streams.values())

    def played(self) -> Mapping[int, float]:
        """Return the milliseconds that were played for each listener."""
        with self._lock:
            return {
                listener: x.played / 2 / RATE * 1000
                for listener, x in self._streams.items()
            }

    def read(self) -> bytes:
        """Return the next frame; b"" after some silence. Called by the library."""
        with self._lock:
            parts = [self._take(x) for x in self._streams.values()]
        frames = [x for x in parts if x]
        self._silent = 0 if frames else self._silent + 1
        if self._silent > _TAIL:
            self._silent = 0
            return b""
        mono = _sum(frames)
        stereo = array("h", bytes(FRAME * 4))
        stereo[0::2] = stereo[1::2] = mono
        return stereo.tobytes()

    def _take(self, stream: _ListenerStream) -> bytes:
        if stream.held or not stream.waiting:
            return b""
        piece = bytes(stream.waiting[: FRAME * 2])
        del stream.waiting[: FRAME * 2]
        stream.played += len(piece)
        return piece.ljust(FRAME * 2, b"\0")


def _sum(frames: list[bytes]) -> array[int]:
    if not frames:
        return array("h", bytes(FRAME * 2))
    if len(frames) == 1:
        return array("h", frames[0])
    samples = zip(*(array("h", frame) for frame in frames), strict=True)
    return array("h", (max(-32768, min(32767, sum(x))) for x in samples))
