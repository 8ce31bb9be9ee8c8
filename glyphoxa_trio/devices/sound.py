"""Our side of a device: audio that it gives, and audio that it plays.

Audio is PCM16, little endian, mono. `SoundInput.put` and `SoundOutput.fill` are for the
device's own thread: they copy a few hundred bytes, and neither wait nor raise.
Everything else is for trio's thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

import trio

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.providers.audio import Resampler, bytes_of

from .ring import RingBuffer

_HEARD: Final = 2.0  # seconds of a microphone that may wait for us
_AHEAD: Final = 30.0  # seconds that may wait for a loudspeaker
_LOOK: Final = 0.02  # seconds between two looks for room
_SILENCE: Final = memoryview(bytes(64 * 1024))  # more than a device asks for at a time


class DeviceError(GlyphoxaError):
    """A device, or the file in its place, cannot be used, or has gone."""


@attrs.define(eq=False)
class SoundInput:
    """A microphone: its ``name``, for people, and its sample ``rate``, in Hz.

    ``ended`` is set when no sound follows; a device never sets it.
    """

    name: str
    rate: int
    ended: trio.Event = attrs.field(factory=trio.Event, init=False)
    _ring: RingBuffer = attrs.field(init=False)
    _taken: memoryview = attrs.field(init=False)
    _overflows: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._ring = RingBuffer(bytes_of(_HEARD, self.rate))
        self._taken = memoryview(bytearray(self._ring.size))

    @property
    def overflows(self) -> int:
        """The number of times that audio was lost: we or the device were too slow."""
        return self._overflows

    def put(self, pcm: memoryview, overflowed: bool = False) -> None:
        """Add audio. Of what is too much the newest is lost."""
        written = self._ring.write(pcm)
        self._overflows += overflowed or written < len(pcm)

    def take(self) -> bytes:
        """Return the audio since the last call; empty if there is none."""
        return bytes(self._taken[: self._ring.read_into(self._taken)])


@attrs.define(eq=False)
class SoundOutput:
    """A loudspeaker.

    Positions are seconds of audio since the beginning, or since the last `flush`.

    Args:
      name: for people.
      rate: its sample rate, in Hz.
      clock: the clock of the times that `fill` gets.
    """

    name: str
    rate: int
    _clock: Callable[[], float]
    _ring: RingBuffer = attrs.field(init=False)
    # How much was read when `fill` was last here, and when the last of it is heard.
    _mark: tuple[int, float] = attrs.field(default=(0, 0.0), init=False)
    _base: int = attrs.field(default=0, init=False)  # where the positions begin
    _resampler: Resampler | None = attrs.field(default=None, init=False)
    _paused: bool = attrs.field(default=False, init=False)
    _speaks: bool = attrs.field(default=False, init=False)  # more is to come
    _dry: bool = attrs.field(default=True, init=False)
    _gaps: int = attrs.field(default=0, init=False)
    _underflows: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._ring = RingBuffer(bytes_of(_AHEAD, self.rate))

    @property
    def gaps(self) -> int:
        """The number of silences in the middle of an answer, for want of audio."""
        return self._gaps

    @property
    def underflows(self) -> int:
        """The number of times that the device was given its audio too late."""
        return self._underflows

    @property
    def written(self) -> float:
        """The position at which the next audio begins."""
        return self._seconds(self._ring.written - self._base)

    @property
    def played(self) -> float:
        """The position that is heard now. What the device has in its own buffer is not
        played."""
        return self._seconds(max(0, self._heard() - self._base))

    @property
    def left(self) -> float:
        """Seconds that are still to be heard; 0 in a silence."""
        return self._seconds(self._ring.written - max(self._base, self._heard()))

    async def play(self, pcm: bytes, rate: int) -> None:
        """Add audio of this rate; wait for room if more than 30 s are to be played.

        If this is cancelled, a part of it may have been added.

        Raises:
          AudioError: audio of that rate cannot be converted.
        """
        if self._resampler is None or self._resampler.from_rate != rate:
            await self._add(self._tail())
            self._resampler = Resampler(rate, self.rate)
        await self._add(self._resampler.feed(pcm))
        self._speaks = True

    def settle(self) -> None:
        """Add the end of a sound that the conversion of its rate still holds.

        Call it when no audio has come for a moment. It may cut a sound in two.
        """
        self._ring.write(self._tail())

    def finish(self) -> None:
        """Expect no more audio of this answer."""
        self._speaks = False

    def flush(self) -> None:
        """Drop what was not played; positions begin at zero."""
        self._tail()
        self._ring.drop()
        self._base = self._ring.written
        self._speaks = self._paused = False

    def pause(self) -> None:
        """Be silent, and keep the rest until `resume` or `flush`."""
        self._paused = True

    def resume(self) -> None:
        """Go on where it was paused."""
        self._paused = False

    def fill(self, out: memoryview, heard_at: float, underflowed: bool = False) -> int:
        """Fill ``out`` with audio, and then with silence; return how much is audio.

        Args:
          heard_at: when the beginning of it will be heard.
        """
        self._underflows += underflowed
        # A flush is taken note of in a pause, too.
        count = self._ring.read_into(out[:0] if self._paused else out)
        out[count:] = _SILENCE[: len(out) - count]
        if count:
            self._mark = (self._ring.read, heard_at + self._seconds(count))
            self._dry = False
        if count < len(out) and not self._paused and not self._dry:
            self._gaps += self._speaks
            self._dry = True
        return count

    async def _add(self, pcm: bytes) -> None:
        rest = memoryview(pcm)
        # The device's thread must not be made to tell us that there is room.
        while rest := rest[self._ring.write(rest) :]:  # noqa: ASYNC110
            await trio.sleep(_LOOK)

    def _tail(self) -> bytes:
        return b"" if self._resampler is None else self._resampler.end()

    def _heard(self) -> int:
        """Return the number of bytes that were heard."""
        read, until = self._mark
        left = max(0.0, until - self._clock())
        return read - bytes_of(left, self.rate)

    def _seconds(self, size: int) -> float:
        return size / 2 / self.rate
