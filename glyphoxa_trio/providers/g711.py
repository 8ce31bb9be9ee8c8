"""G.711, the encoding of telephones: PCM16 at 8 kHz as one byte a sample. No I/O.

Both laws are a logarithm in eight segments of sixteen steps. A byte stands for the
middle of its step, so decoded audio is encoded to the same bytes again, except for the
second of the two zeros of the µ-law. Both directions use tables, which are computed
once.
"""

from __future__ import annotations

import sys
from array import array
from enum import StrEnum
from functools import cache
from typing import Final

RATE: Final = 8_000  # Hz
PCM: Final = "pcm"  # the encoding of audio that is not G.711


class Law(StrEnum):
    """A variant of G.711.

    PCMU is the µ-law of North America and Japan, PCMA the A-law of other countries.
    """

    PCMU = "pcmu"
    PCMA = "pcma"


def law_of(encoding: str, rate: int) -> Law | None:
    """Return the law of audio with that encoding and rate; None for PCM.

    Raises:
      ValueError: for an unknown encoding, and for G.711 at another rate than 8 kHz.
    """
    if encoding == PCM:
        return None
    if encoding not in [*Law]:
        raise ValueError(f"encoding: one of {PCM}, {', '.join(Law)}, got {encoding!r}")
    if rate != RATE:
        raise ValueError(f"rate: {encoding} has {RATE} Hz, got {rate}")
    return Law(encoding)


def decoded(data: bytes, law: Law) -> bytes:
    """Decode G.711 to PCM16, little endian."""
    low, high = _halves(law)
    pcm = bytearray(2 * len(data))
    pcm[0::2] = data.translate(low)
    pcm[1::2] = data.translate(high)
    return bytes(pcm)


def encoded(pcm: bytes, law: Law) -> bytes:
    """Encode PCM16, little endian, as G.711.

    Raises:
      ValueError: for half a sample.
    """
    if len(pcm) % 2:
        raise ValueError("PCM16 has two bytes a sample")
    samples = array("H", pcm)
    if sys.byteorder == "big":
        samples.byteswap()
    return bytes(map(_codes(law).__getitem__, samples))


def value_of(code: int, law: Law) -> int:
    """Return the sample that a byte stands for."""
    if law is Law.PCMU:
        code ^= 0xFF
        segment, step = code >> 4 & 7, code & 15
        size = ((2 * step + 33) << segment) - 33  # of 14 bits
        return (-size if code & 0x80 else size) << 2
    code ^= 0x55
    segment, step = code >> 4 & 7, code & 15
    size = 2 * step + 1 if segment == 0 else (2 * step + 33) << segment - 1  # of 13
    return (size if code & 0x80 else -size) << 3


def code_of(sample: int, law: Law) -> int:
    """Return the byte of the step that contains a sample; louder ones are clipped."""
    if law is Law.PCMU:
        size = min(abs(sample) >> 2, 8158) + 33  # so every segment begins at 33 << n
        segment = size.bit_length() - 6
        code = segment << 4 | size >> segment + 1 & 15
        return (code | 0x80 if sample < 0 else code) ^ 0xFF
    size = min(abs(sample) >> 3, 4095)
    segment = max(0, size.bit_length() - 5)
    code = segment << 4 | size >> max(1, segment) & 15
    return (code if sample < 0 else code | 0x80) ^ 0x55


@cache
def _halves(law: Law) -> tuple[bytes, bytes]:
    """Return the low and the high byte of the sample, by its G.711 byte."""
    values = [value_of(code, law) & 0xFFFF for code in range(256)]
    return bytes(x & 0xFF for x in values), bytes(x >> 8 for x in values)


@cache
def _codes(law: Law) -> bytes:
    """Return the G.711 byte of each sample, by the sample's 16 bits without a sign."""
    # Samples that differ only in the last two bits share a step, and the sign is one
    # bit.
    above = b"".join(bytes([code_of(size << 2, law)]) * 4 for size in range(8192))
    below = bytes(code ^ 0x80 for code in above[1:] + above[-1:])
    return above + below[::-1]
