"""G.711: what the recommendation says of it, and nothing lost that it keeps."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.providers.g711 import Law, code_of, decoded, encoded, value_of

LAWS = pytest.mark.parametrize("law", [*Law])
EVERY = range(-32_768, 32_768)


def pcm(*samples: int) -> bytes:
    return struct.pack(f"<{len(samples)}h", *samples)


def samples(data: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(data) // 2}h", data)


@pytest.mark.parametrize(
    ("law", "code", "sample"),
    [
        # Silence, the least there is, the ends of segments, the loudest: worked out by
        # hand from the tables of the recommendation, times four or eight.
        (Law.PCMU, 0xFF, 0),
        (Law.PCMU, 0xFE, 2 * 4),
        (Law.PCMU, 0xF0, 30 * 4),
        (Law.PCMU, 0xEF, 33 * 4),
        (Law.PCMU, 0x8F, 4191 * 4),
        (Law.PCMU, 0x80, 8031 * 4),
        (Law.PCMU, 0x00, -8031 * 4),
        (Law.PCMU, 0x7E, -2 * 4),
        (Law.PCMA, 0xD5, 1 * 8),
        (Law.PCMA, 0x55, -1 * 8),
        (Law.PCMA, 0xD4, 3 * 8),
        (Law.PCMA, 0xC5, 33 * 8),
        (Law.PCMA, 0xAA, 4032 * 8),
        (Law.PCMA, 0x2A, -4032 * 8),
        (Law.PCMA, 0xA5, 2112 * 8),
    ],
)
def test_known_bytes_stand_for_known_samples(law: Law, code: int, sample: int) -> None:
    assert value_of(code, law) == sample
    assert samples(decoded(bytes([code]), law)) == (sample,)
    assert encoded(pcm(sample), law) == bytes([code])


@LAWS
def test_what_was_decoded_stays_what_it_is(law: Law) -> None:
    every = bytes(range(256))
    once = decoded(every, law)
    assert decoded(encoded(once, law), law) == once
    same = [a == b for a, b in zip(encoded(once, law), every, strict=True)]
    assert same.count(False) == (law is Law.PCMU)  # it has two zeros


@LAWS
def test_no_sample_is_further_off_than_half_a_step(law: Law) -> None:
    values = sorted({value_of(code, law) for code in range(256)})
    assert len(values) == 256 - (law is Law.PCMU)
    heard = samples(decoded(encoded(pcm(*EVERY), law), law))
    for sample, found in zip(EVERY, heard, strict=True):
        # A step is about a sixteenth of its segment, which begins at a power of two.
        step = max(16, abs(found) // 16)
        assert abs(found - sample) <= step / 2 + 8 or abs(sample) > abs(values[0])
    assert list(heard) == sorted(heard)  # louder is never quieter
    assert max(abs(a - b) for a, b in zip(heard, EVERY, strict=True)) <= 644


@LAWS
def test_the_sign_is_one_bit(law: Law) -> None:
    for sample in range(1, 32_768):
        assert code_of(sample, law) ^ 0x80 == code_of(-sample, law)


@LAWS
def test_the_table_is_the_arithmetic(law: Law) -> None:
    assert encoded(pcm(*EVERY), law) == bytes(code_of(x, law) for x in EVERY)


@LAWS
@given(st.binary(max_size=400))
def test_pieces_are_as_the_whole(law: Law, data: bytes) -> None:
    half = len(data) // 2
    assert decoded(data[:half], law) + decoded(data[half:], law) == decoded(data, law)


def test_half_a_sample_is_no_sample() -> None:
    with pytest.raises(ValueError, match="two bytes a sample"):
        encoded(b"abc", Law.PCMA)
