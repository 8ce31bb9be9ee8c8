"""Audio as bytes: nothing is lost between two rates, two frames, two chunks."""

from __future__ import annotations

import math
import struct
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.providers.audio import (
    RATES,
    AudioError,
    Framer,
    Resampler,
    bytes_of,
    level,
    seconds_of,
)

RATE = st.sampled_from(RATES)
# Up to half a second at 48 kHz.
SAMPLES = st.integers(0, 24_000)


def noise(samples: int, seed: int) -> bytes:
    import random

    return random.Random(seed).randbytes(2 * samples)


def tone(hertz: float, rate: int, seconds: float, amplitude: float = 0.5) -> bytes:
    count = int(rate * seconds)
    wave = (math.sin(2 * math.pi * hertz * at / rate) for at in range(count))
    return struct.pack(f"<{count}h", *(round(32_767 * amplitude * x) for x in wave))


def cut(data: bytes, places: list[float]) -> Iterator[bytes]:
    """In pieces that end wherever they like, also inside a sample."""
    ends = sorted({0, len(data), *(int(place * len(data)) for place in places)})
    return (data[a:b] for a, b in pairwise(ends))


def resampled(pieces: Iterator[bytes], from_rate: int, to_rate: int) -> bytes:
    resampler = Resampler(from_rate, to_rate)
    return b"".join([resampler.feed(piece) for piece in pieces] + [resampler.end()])


@given(RATE, RATE, SAMPLES, st.integers(0, 9), st.lists(st.floats(0, 1), max_size=30))
def test_in_pieces_is_the_same_as_at_once(
    from_rate: int, to_rate: int, samples: int, seed: int, places: list[float]
) -> None:
    pcm = noise(samples, seed)
    at_once = resampled(iter([pcm]), from_rate, to_rate)
    assert resampled(cut(pcm, places), from_rate, to_rate) == at_once


@given(RATE, RATE, SAMPLES)
def test_not_a_sample_is_lost_at_another_rate(
    from_rate: int, to_rate: int, samples: int
) -> None:
    out = resampled(iter([noise(samples, 1)]), from_rate, to_rate)
    assert abs(len(out) / 2 - samples * to_rate / from_rate) <= 1


@given(RATE, SAMPLES, st.lists(st.floats(0, 1), max_size=30))
def test_the_same_rate_is_the_same_audio(
    rate: int, samples: int, places: list[float]
) -> None:
    pcm = noise(samples, 2)
    assert resampled(cut(pcm, places), rate, rate) == pcm


@pytest.mark.parametrize("from_rate", RATES)
@pytest.mark.parametrize("to_rate", RATES)
def test_a_tone_keeps_its_pitch_and_its_loudness(from_rate: int, to_rate: int) -> None:
    out = resampled(iter([tone(440, from_rate, 0.5)]), from_rate, to_rate)
    samples = struct.unpack(f"<{len(out) // 2}h", out)
    middle = samples[len(samples) // 4 : 3 * len(samples) // 4]
    crossings = sum((a < 0) != (b < 0) for a, b in pairwise(middle))
    hertz = crossings / 2 / (len(middle) / to_rate)
    assert hertz == pytest.approx(440, rel=0.02)
    heard = struct.pack(f"<{len(middle)}h", *middle)
    assert level(heard) == pytest.approx(level(tone(440, from_rate, 0.5)), abs=0.1)


def test_the_loudest_samples_do_not_turn_over() -> None:
    square = struct.pack("<h", 32_767) * 200 + struct.pack("<h", -32_768) * 200
    out = resampled(iter([square * 5]), 16_000, 48_000)
    samples = struct.unpack(f"<{len(out) // 2}h", out)
    # It rings at the edges; between them the sign is that of the input.
    assert all(sample > 0 for sample in samples[300:500])
    assert all(sample < 0 for sample in samples[900:1100])


def test_a_stream_can_be_followed_by_another() -> None:
    resampler = Resampler(48_000, 16_000)
    pcm = noise(4_800, 3)
    first = resampler.feed(pcm) + resampler.end()
    resampler.feed(b"\1")  # half a sample is nobody's
    resampler.end()
    assert resampler.feed(pcm) + resampler.end() == first


def test_a_rate_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="from_rate"):
        Resampler(0, 16_000)


def test_without_soxr_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "soxr", None)
    with pytest.raises(AudioError, match=r"glyphoxa-trio\[voice\]"):
        Resampler(48_000, 16_000)
    assert Resampler(16_000, 16_000).feed(b"abcd") == b"abcd"  # needs none


@pytest.mark.border
def test_helpers_load_nothing_heavy() -> None:
    code = (
        "import sys, glyphoxa_trio.providers.audio, glyphoxa_trio.providers.wav;"
        "print('numpy' in sys.modules, 'soxr' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == ["False", "False"]


@given(st.integers(1, 50), st.lists(st.binary(max_size=120)))
def test_frames_are_the_stream_cut_evenly(size: int, pieces: list[bytes]) -> None:
    framer = Framer(size)
    frames = [frame for piece in pieces for frame in framer.feed(piece)]
    assert {len(frame) for frame in frames} <= {size}
    rest = framer.end()
    assert len(rest) < size
    assert b"".join(frames) + rest == b"".join(pieces)
    assert framer.end() == b""


@given(RATE, st.floats(0, 100))
def test_a_length_in_bytes_is_whole_samples(rate: int, seconds: float) -> None:
    length = bytes_of(seconds, rate)
    assert length % 2 == 0
    assert 0 <= seconds - seconds_of(bytes(length), rate) < 1.001 / rate


@pytest.mark.parametrize(
    ("pcm", "decibels"),
    [
        (b"", -math.inf),
        (bytes(960), -math.inf),
        (struct.pack("<h", -32_768) * 480, 0.0),
        (tone(1_000, 16_000, 0.1, amplitude=1.0), -3.01),
        (tone(1_000, 16_000, 0.1, amplitude=0.1), -23.01),
        (struct.pack("<h", -32_768) + b"\7", 0.0),  # half a sample counts for nothing
    ],
)
def test_levels_are_decibels_below_the_loudest(pcm: bytes, decibels: float) -> None:
    assert level(pcm) == pytest.approx(decibels, abs=0.02)
