"""Audio as bytes: PCM16, little endian, mono. No I/O; every rate is in Hz.

Resampling itself is done by `soxr`, from the extra ``voice``, which is imported only
when two rates differ.
"""

from __future__ import annotations

import sys
from array import array
from math import inf, log10, sqrt
from typing import Any, Final

import attrs

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.extras import missing

WIDTH: Final = 2  # bytes of a sample
RATES: Final = (8_000, 16_000, 22_050, 24_000, 44_100, 48_000)
_LOUDEST: Final = 32_768


class AudioError(GlyphoxaError):
    """Audio has the wrong format, or cannot be converted here."""


def seconds_of(pcm: bytes, rate: int) -> float:
    """Return the duration of ``pcm``."""
    return len(pcm) / WIDTH / rate


def bytes_of(seconds: float, rate: int) -> int:
    """Return the number of bytes of so much audio, in whole samples."""
    return int(seconds * rate) * WIDTH


def level(pcm: bytes) -> float:
    """Return the loudness (RMS) in dB below the loudest; -inf for silence."""
    samples = array("h", pcm[: len(pcm) // WIDTH * WIDTH])
    if sys.byteorder == "big":
        samples.byteswap()
    squares = sum(x * x for x in samples)
    return 20 * log10(sqrt(squares / len(samples)) / _LOUDEST) if squares else -inf


@attrs.define(eq=False)
class Framer:
    """A cutter of a stream of bytes into pieces of one size; it keeps the rest."""

    size: int = attrs.field(validator=attrs.validators.ge(1))
    _rest: bytearray = attrs.field(factory=bytearray, init=False)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the frames that are complete now, in order."""
        self._rest += data
        whole = len(self._rest) // self.size * self.size
        ready = bytes(self._rest[:whole])
        del self._rest[:whole]
        return [ready[at : at + self.size] for at in range(0, whole, self.size)]

    def end(self) -> bytes:
        """Return the rest, which is shorter than a frame, and forget it."""
        rest = bytes(self._rest)
        self._rest.clear()
        return rest


@attrs.define(eq=False)
class Resampler:
    """A converter of a stream of audio to another rate.

    The output is the same, however the input is cut into pieces; a piece may end
    anywhere, also inside a sample. The output is up to 0.15 s behind the input; `end`
    returns the rest.

    Raises:
      AudioError: if the rates differ and `soxr` is not installed.
      ValueError: for a rate below 1.
    """

    from_rate: int = attrs.field(validator=attrs.validators.ge(1))
    to_rate: int = attrs.field(validator=attrs.validators.ge(1))
    _stream: Any = attrs.field(default=None, init=False, repr=False)
    _rest: bytes = attrs.field(default=b"", init=False, repr=False)  # half a sample

    def __attrs_post_init__(self) -> None:
        self._begin()

    def feed(self, pcm: bytes) -> bytes:
        """Return the audio that is ready so far, ``pcm`` included."""
        if self._stream is None:
            return pcm
        data = self._rest + pcm
        whole = len(data) // WIDTH * WIDTH
        self._rest = data[whole:]
        return self._convert(data[:whole], last=False)

    def end(self) -> bytes:
        """Return the rest. The next piece begins another stream.

        Half a sample, if one is left over, is dropped.
        """
        if self._stream is None:
            return b""
        tail = self._convert(b"", last=True)
        self._begin()
        return tail

    def _begin(self) -> None:
        self._rest = b""
        if self.from_rate != self.to_rate:
            # Samples of 16 bits would be dithered, and so never come out the same
            # twice.
            self._stream = _soxr().ResampleStream(
                self.from_rate, self.to_rate, 1, dtype="float32", quality="HQ"
            )

    def _convert(self, pcm: bytes, *, last: bool) -> bytes:
        import numpy as np

        samples = np.frombuffer(pcm, dtype="<i2").astype(np.float32)
        out = self._stream.resample_chunk(samples, last=last)
        bounded = np.clip(np.rint(out), -_LOUDEST, _LOUDEST - 1)
        return bytes(bounded.astype("<i2").tobytes())


def _soxr() -> Any:
    try:
        import soxr
    except ImportError:
        raise AudioError(missing("audio of another rate", "voice")) from None
    return soxr
