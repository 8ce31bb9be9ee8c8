"""WAV, judged by the reader and the writer of the standard library."""

from __future__ import annotations

import io
import struct
import wave

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.providers.audio import RATES, AudioError
from glyphoxa_trio.providers.wav import WavReader, wav

PCM = st.binary(max_size=400).map(lambda data: data[: len(data) // 2 * 2])


def written(pcm: bytes, rate: int, *, channels: int = 1, width: int = 2) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(channels)
        writer.setsampwidth(width)
        writer.setframerate(rate)
        writer.writeframes(pcm)
    return file.getvalue()


def with_chunk(file: bytes, name: bytes, data: bytes) -> bytes:
    """Another chunk before the others, as many programs write them."""
    chunk = name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)
    return file[:12] + chunk + file[12:]


@given(PCM, st.sampled_from(RATES))
def test_what_is_written_can_be_read(pcm: bytes, rate: int) -> None:
    with wave.open(io.BytesIO(wav(pcm, rate))) as reader:
        assert reader.getparams()[:4] == (1, 2, rate, len(pcm) // 2)
        assert reader.readframes(-1) == pcm


@given(PCM, st.sampled_from(RATES), st.binary(max_size=60), st.integers(1, 30))
def test_a_file_is_read_while_it_comes(
    pcm: bytes, rate: int, other: bytes, size: int
) -> None:
    file = with_chunk(written(pcm, rate), b"LIST", other) + b"LIST\0\0\0\0"
    reader = WavReader()
    pieces = [reader.feed(file[at : at + size]) for at in range(0, len(file), size)]
    assert (b"".join(pieces), reader.rate) == (pcm, rate)


def test_a_length_that_nobody_knows_is_no_end() -> None:
    file = bytearray(written(b"", 22_050))
    file[-4:] = struct.pack("<I", 0x7FFFF000)  # as espeak-ng writes to a pipe
    reader = WavReader()
    assert reader.feed(bytes(file) + b"abcd") == b"abcd"
    assert reader.feed(b"ef") == b"ef"


@pytest.mark.parametrize(
    ("file", "why"),
    [
        (b"<html>no", "not a WAV"),
        (written(b"", 8_000).replace(b"WAVE", b"AVI "), "not a WAV"),
        (written(b"", 8_000, channels=2), "2 channels"),
        (written(b"", 8_000, width=1), "8 bits"),
        (b"RIFF\0\0\0\0WAVEdata\0\0\0\0", "its format"),
        (b"RIFF\0\0\0\0WAVEfmt \2\0\0\0\1\0", "cut"),
        (with_chunk(written(b"", 8_000), b"junk", bytes(70_000)), "without audio"),
    ],
)
def test_another_file_is_refused(file: bytes, why: str) -> None:
    reader = WavReader()
    with pytest.raises(AudioError, match=why):
        for at in range(0, len(file), 1_000):
            reader.feed(file[at : at + 1_000])
