"""The queue of frames to send: three lanes, each with a limit.

Control frames leave before audio; see `Lane`. Audio that waits for too long is dropped,
the oldest first, and counted. Control frames are never dropped: too many of them mean
that the server does not read, and the socket is closed.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs

from glyphoxa_trio.actors import Signal
from glyphoxa_trio.providers.live_wire import Frame, Lane

MAX_AUDIO: Final = 512 * 1024  # bytes: 8 s of base64 at 24 kHz
MAX_CONTROL: Final = 16 * 1024 * 1024  # bytes


class TooMuchControl(Exception):
    """`MAX_CONTROL` is exceeded: the queue cannot be used any more."""


@attrs.define(eq=False)
class FrameOutbox:
    """Frames to send: added without waiting, and taken out by one task."""

    dropped: int = 0
    _setup: deque[Frame] = attrs.field(factory=deque, init=False)
    _control: deque[Frame] = attrs.field(factory=deque, init=False)
    _audio: deque[Frame] = attrs.field(factory=deque, init=False)
    _control_size: int = attrs.field(default=0, init=False)
    _audio_size: int = attrs.field(default=0, init=False)
    _is_open: bool = attrs.field(default=False, init=False)
    _closed: bool = attrs.field(default=False, init=False)
    _changed: Signal = attrs.field(factory=Signal, init=False)

    @property
    def is_open(self) -> bool:
        """True once the socket is set up."""
        return self._is_open

    def put(self, frame: Frame, *, setup: bool = False) -> None:
        """Add a frame. Frames of the ``setup`` do not wait for `open`.

        Raises:
          TooMuchControl: if there are too many; the queue cannot be used afterwards.
        """
        if setup:
            self._setup.append(frame)
            self._control_size += len(frame.data)
        elif frame.lane is Lane.AUDIO:
            self._put_audio(frame)
        else:
            if frame.lane is Lane.AFTER_AUDIO:
                self._control.extend(self._audio)
                self._control_size += self._audio_size
                self._audio.clear()
                self._audio_size = 0
            self._control.append(frame)
            self._control_size += len(frame.data)
        if self._control_size > MAX_CONTROL:
            raise TooMuchControl
        self._changed.set()

    def _put_audio(self, frame: Frame) -> None:
        self._audio.append(frame)
        self._audio_size += len(frame.data)
        while self._audio_size > MAX_AUDIO and len(self._audio) > 1:
            self._audio_size -= len(self._audio.popleft().data)
            self.dropped += 1

    def open(self) -> None:
        """Let everything leave: the socket is set up."""
        self._is_open = True
        self._changed.set()

    def close(self) -> None:
        """Let nothing leave any more."""
        self._closed = True
        self._changed.set()

    async def get(self) -> Frame | None:
        """Return the next frame, or None once closed. If cancelled, it takes none."""
        while True:
            if self._closed:
                return None
            if (frame := self._next()) is not None:
                return frame
            await self._changed.changed()

    def _next(self) -> Frame | None:
        """Take the next frame, if there is one."""
        for lane in (self._setup, self._control) if self._is_open else (self._setup,):
            if lane:
                frame = lane.popleft()
                self._control_size -= len(frame.data)
                return frame
        if self._is_open and self._audio:
            frame = self._audio.popleft()
            self._audio_size -= len(frame.data)
            return frame
        return None
