"""WAV files in place of devices, at the speed of devices."""

from __future__ import annotations

import os
import wave
from pathlib import Path

import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio.devices import DeviceError, open_file_input, open_file_output
from glyphoxa_trio.providers.wav import wav

RATE = 8000
SPOKEN = bytes(range(1, 251)) * 32  # half a second


@pytest.mark.border
async def test_a_file_is_heard_at_its_own_speed_and_then_silence(
    tmp_path: Path,
) -> None:
    path = tmp_path / "question.wav"
    path.write_bytes(wav(SPOKEN, RATE))
    async with open_file_input(path) as sound:
        assert (sound.name, sound.rate) == ("question.wav", RATE)
        heard, began = b"", trio.current_time()
        with trio.fail_after(60):
            await sound.ended.wait()
            assert trio.current_time() - began > 0.45
            heard = sound.take().removeprefix(bytes(RATE))  # the lead
            while len(heard) < len(SPOKEN) + RATE // 10:
                await trio.sleep(0.01)
                heard += sound.take()
    assert heard.startswith(SPOKEN)
    assert not any(heard[len(SPOKEN) :])


async def test_a_null_microphone_is_silent_and_has_no_end(
    autojump_clock: MockClock,
) -> None:
    async with open_file_input(None) as sound:
        await trio.sleep(1)
        heard = sound.take()
        assert len(heard) > sound.rate
        assert not any(heard)
        assert not sound.ended.is_set()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "there is no audio in it"),
        (b"RIFF", "there is no audio in it"),
        (b"nonsense" * 9000, "not a WAV file"),
        (wav(b"", 8000), "there is no audio in it"),
        (wav(SPOKEN, RATE).replace(b"\1\0\1\0", b"\1\0\2\0", 1), "2 channels"),
    ],
)
async def test_garbage_is_refused_by_name(
    tmp_path: Path, content: bytes, said: str
) -> None:
    path = tmp_path / "bad.wav"
    path.write_bytes(content)
    with pytest.raises(DeviceError, match=rf"bad\.wav: .*{said}"):
        async with open_file_input(path):
            pass


async def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="No such file"):
        async with open_file_input(tmp_path / "none.wav"):
            pass
    with pytest.raises(DeviceError, match="No such file"):
        async with open_file_output(tmp_path / "none" / "answer.wav"):
            pass


async def test_a_pipe_that_gives_nothing_can_be_left(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    end = os.open(path, os.O_RDWR)
    with trio.move_on_after(0.05) as scope:
        async with open_file_input(path):
            pass
    assert scope.cancelled_caught
    os.write(end, b"RIFF")  # lets the thread go that reads it
    os.close(end)


@pytest.mark.border
async def test_what_is_played_is_in_the_file_and_what_was_flushed_is_not(
    tmp_path: Path,
) -> None:
    path = tmp_path / "answer.wav"
    async with open_file_output(path) as sound:
        one = b"\1\1" * (sound.rate // 10)
        await sound.play(one + b"\2\2" * sound.rate * 5, sound.rate)
        with trio.fail_after(60):
            while sound.played < 0.1:  # noqa: ASYNC110
                await trio.sleep(0.01)
        sound.flush()
        await sound.play(b"\3\3" * (sound.rate // 10), sound.rate)
        with trio.fail_after(60):
            while sound.left:  # noqa: ASYNC110
                await trio.sleep(0.01)
        heard = _heard(path)  # its header is right while it is written
    assert heard.startswith(one)
    assert heard.endswith(b"\3\3" * (sound.rate // 10))
    assert len(heard) < 2 * sound.rate * 5  # most of the rest was not heard
    assert _heard(path) == heard


def _heard(path: Path) -> bytes:
    with wave.open(str(path)) as file:
        assert file.getparams()[:3] == (1, 2, 24_000)
        heard: bytes = file.readframes(file.getnframes())
        return heard


async def test_a_loudspeaker_that_nobody_hears_takes_its_time(
    autojump_clock: MockClock,
) -> None:
    async with open_file_output(None) as sound:
        await sound.play(b"\1\1" * sound.rate, sound.rate)
        await trio.sleep(0.5)
        assert 0.45 < sound.played < 0.55
        await trio.sleep(0.6)
        assert (sound.played, sound.left) == (1.0, 0.0)


async def test_a_full_disk_ends_it_in_words() -> None:
    with pytest.raises(DeviceError, match=r"/dev/full: .*No space"):
        async with open_file_output(Path("/dev/full")) as sound:
            await sound.play(b"\1\1" * sound.rate, sound.rate)
            await trio.sleep(10)
