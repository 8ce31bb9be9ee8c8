"""G.711, the sound of telephones: PCM16 at 8 kHz as one byte a sample, and back. Pure.

Both laws are a logarithm in eight segments of sixteen steps. A byte stands for the
middle of its step, so what was decoded becomes the same byte again, but for the second
of the two zeros of the µ-law. Both ways are tables, which are computed once.
"""

from __future__ import annotations

import sys
from array import array
from enum import StrEnum
from functools import cache
from typing import Final

RATE: Final = 8_000  # Hz
PCM: Final = "pcm"  # what sound is if it is not G.711


class Law(StrEnum):
    """Which G.711: PCMU (µ-law: North America, Japan) or PCMA (A-law: elsewhere)."""

    PCMU = "pcmu"
    PCMA = "pcma"


def law_of(encoding: str, rate: int) -> Law | None:
    """The law of sound of that encoding and rate; None for PCM.

    Raises:
      ValueError: for an encoding that is none, and for G.711 at another rate.
    """
    if encoding == PCM:
        return None
    if encoding not in [*Law]:
        raise ValueError(f"encoding: one of {PCM}, {', '.join(Law)}, got {encoding!r}")
    if rate != RATE:
        raise ValueError(f"rate: {encoding} has {RATE} Hz, got {rate}")
    return Law(encoding)


def decoded(data: bytes, law: Law) -> bytes:
    """PCM16, little endian, of G.711."""
    low, high = _halves(law)
    pcm = bytearray(2 * len(data))
    pcm[0::2] = data.translate(low)
    pcm[1::2] = data.translate(high)
    return bytes(pcm)


def encoded(pcm: bytes, law: Law) -> bytes:
    """G.711 of PCM16, little endian.

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
    """The sample that a byte stands for."""
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
    """The byte in whose step the sample is; one that is too loud is the loudest."""
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
    """The low and the high byte of the sample of each byte."""
    values = [value_of(code, law) & 0xFFFF for code in range(256)]
    return bytes(x & 0xFF for x in values), bytes(x >> 8 for x in values)


@cache
def _codes(law: Law) -> bytes:
    """The byte of each sample, by the sample's 16 bits without a sign."""
    # Samples that differ in the last two bits are in one step, and the sign is one bit.
    above = b"".join(bytes([code_of(size << 2, law)]) * 4 for size in range(8192))
    below = bytes(code ^ 0x80 for code in above[1:] + above[-1:])
    return above + below[::-1]
