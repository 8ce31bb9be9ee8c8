"""WAV files of PCM16 mono: written whole, read while they arrive. No I/O."""

from __future__ import annotations

import struct
from typing import Final

import attrs

from .audio import WIDTH, AudioError

_PCM: Final = 1
_RIFF: Final = struct.Struct("<4sI4s")
_CHUNK: Final = struct.Struct("<4sI")
_FORMAT: Final = struct.Struct("<HHIIHH")
_ENDLESS: Final = 0xFFFFFFFF
_LONGEST_HEADER: Final = 64 * 1024  # bytes before the audio


def wav(pcm: bytes, rate: int) -> bytes:
    """Return a whole WAV file."""
    layout = _FORMAT.pack(_PCM, 1, rate, rate * WIDTH, WIDTH, 8 * WIDTH)
    body = _chunk(b"fmt ", layout) + _chunk(b"data", pcm)
    return _RIFF.pack(b"RIFF", 4 + len(body), b"WAVE") + body


def with_length(header: bytes, length: int) -> bytes:
    """Return the header of a WAV file for so many bytes of audio."""
    first = _RIFF.pack(b"RIFF", len(header) - _CHUNK.size + length, b"WAVE")
    return first + header[_RIFF.size : -4] + struct.pack("<I", length)


def _chunk(name: bytes, data: bytes) -> bytes:
    """Return a chunk of the file."""
    return _CHUNK.pack(name, len(data)) + data + b"\0" * (len(data) % 2)


@attrs.define(eq=False)
class WavReader:
    """The reader of a WAV file that arrives in pieces; it returns the audio in pieces.

    ``rate`` is known once the header has arrived. A program that writes to a pipe does
    not know how long it will speak: the length in the header is only a limit.

    Args:
      streamed: a length of 0 is not known, as programs write it that stream a file.
    """

    streamed: bool = False
    rate: int | None = attrs.field(default=None, init=False)
    _head: bytearray = attrs.field(factory=bytearray, init=False)
    _left: int | None = attrs.field(default=None, init=False)  # bytes of the audio

    def feed(self, data: bytes) -> bytes:
        """Return the audio in what has arrived; empty until the header is complete.

        Raises:
          AudioError: if it is no WAV, or not PCM16 mono.
        """
        if self._left is None:
            self._head += data
            data = self._after_header()
            if self._left is None:
                if len(self._head) > _LONGEST_HEADER:
                    raise AudioError("a WAV file without audio")
                return b""
        audio = data[: self._left]
        self._left -= len(audio)
        return audio

    def _after_header(self) -> bytes:
        """Read the header again from its start, as far as it has arrived.

        Returns the audio after it.
        """
        head = bytes(self._head)
        if not _RIFF.unpack(_begun(head, b"RIFF\0\0\0\0WAVE"))[::2] == (
            b"RIFF",
            b"WAVE",
        ):
            raise AudioError("not a WAV file")
        at = _RIFF.size
        while len(head) >= at + _CHUNK.size:
            name, length = _CHUNK.unpack_from(head, at)
            at += _CHUNK.size
            if name == b"data":
                if self.rate is None:
                    raise AudioError("a WAV file that does not say its format")
                self._head.clear()
                self._left = length or (_ENDLESS if self.streamed else 0)
                return head[at:]
            if len(head) < at + length:
                break
            if name == b"fmt ":
                self.rate = _rate(head[at : at + length])
            at += length + length % 2
        return b""


def _begun(head: bytes, pattern: bytes) -> bytes:
    """Return the first bytes of ``head``, filled up from ``pattern``."""
    return head[: len(pattern)] + pattern[len(head) :]


def _rate(layout: bytes) -> int:
    """Return the rate of a format chunk.

    Raises:
      AudioError: if the format is not PCM16 mono.
    """
    if len(layout) < _FORMAT.size:
        raise AudioError("a WAV file whose format is cut")
    kind, channels, rate, _, _, bits = _FORMAT.unpack_from(layout)
    if (kind, channels, bits) != (_PCM, 1, 8 * WIDTH) or not rate:
        raise AudioError(
            f"not PCM16 mono: format {kind}, {channels} channels, {bits} bits"
        )
    return int(rate)
