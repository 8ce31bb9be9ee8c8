"""What a microphone gives and a loudspeaker has played, without a device."""

from __future__ import annotations

import attrs

import trio
from trio.testing import MockClock

from glyphoxa_trio.devices import SoundInput, SoundOutput

RATE = 8000
SECOND = b"\x01\x02" * RATE


@attrs.define
class Device:
    """The other side of a loudspeaker: it has a buffer of its own of 0.1 s."""

    now: float = 0.0
    sound: SoundOutput = attrs.field(init=False)
    heard: bytes = b""

    def __attrs_post_init__(self) -> None:
        self.sound = SoundOutput("test", RATE, lambda: self.now)

    def wants(self, seconds: float) -> int:
        out = bytearray(b"\xee" * int(2 * RATE * seconds))
        count = self.sound.fill(memoryview(out), self.now + 0.1)
        assert not any(out[count:])  # silence
        self.heard += out[:count]
        return count

    def passes(self, seconds: float) -> None:
        self.now += seconds


async def test_played_is_what_left_the_buffer_of_the_device() -> None:
    device = Device()
    sound = device.sound
    await sound.play(SECOND, RATE)
    assert (sound.written, sound.played, sound.left) == (1, 0, 1)
    device.wants(0.5)
    assert (sound.played, sound.left) == (0, 1)  # handed over, and not heard
    device.passes(0.35)
    assert (sound.played, sound.left) == (0.25, 0.75)
    device.passes(0.25)
    assert (sound.played, sound.left) == (0.5, 0.5)
    device.wants(0.7)
    device.passes(0.6)
    assert (sound.played, sound.left) == (1, 0)
    assert device.heard == SECOND


async def test_a_flush_drops_the_rest_and_counts_from_zero() -> None:
    device = Device()
    sound = device.sound
    await sound.play(SECOND, RATE)
    device.wants(0.25)
    device.passes(1)
    assert sound.played == 0.25
    sound.flush()
    assert (sound.written, sound.played, sound.left) == (0, 0, 0)
    await sound.play(b"\x07\x07" * RATE, RATE)
    device.wants(0.25)
    device.passes(1)
    assert (sound.written, sound.played) == (1, 0.25)
    assert device.heard == SECOND[: RATE // 2] + b"\x07\x07" * (RATE // 4)


async def test_a_pause_keeps_the_rest_and_a_flush_ends_it() -> None:
    device = Device()
    sound = device.sound
    await sound.play(SECOND, RATE)
    sound.pause()
    assert device.wants(0.5) == 0
    assert sound.left == 1
    sound.resume()
    assert device.wants(0.5) == RATE
    sound.pause()
    sound.flush()
    device.wants(0.5)
    await sound.play(SECOND, RATE)
    assert device.wants(1) == 2 * RATE
    assert sound.gaps == 0  # a pause is none


async def test_a_hole_in_an_answer_is_counted_once_and_its_end_is_none() -> None:
    device = Device()
    sound = device.sound
    await sound.play(SECOND, RATE)
    device.wants(1.5)
    device.wants(0.5)
    assert sound.gaps == 1
    await sound.play(SECOND, RATE)
    device.wants(0.5)
    sound.finish()
    device.wants(1)
    device.wants(1)
    assert sound.gaps == 1


async def test_audio_of_another_rate_comes_to_its_end() -> None:
    device = Device()
    sound = device.sound
    await sound.play(b"\0\0" * 22_050, 22_050)
    assert 0.5 < sound.written < 1  # the conversion has the rest
    sound.settle()
    assert abs(sound.written - 1) < 0.001


async def test_a_full_loudspeaker_is_waited_for(autojump_clock: MockClock) -> None:
    sound = SoundOutput("test", RATE, trio.current_time)
    out = memoryview(bytearray(len(SECOND)))

    async def device() -> None:
        while True:
            await trio.sleep(1)
            sound.fill(out, trio.current_time())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(device)
        began = trio.current_time()
        await sound.play(SECOND * 35, RATE)
        assert 5 <= trio.current_time() - began < 5.1
        nursery.cancel_scope.cancel()


def test_a_microphone_that_nobody_listens_to_loses_and_counts() -> None:
    sound = SoundInput("test", RATE)
    for _ in range(3):
        sound.put(memoryview(SECOND))
    assert sound.overflows == 1
    assert sound.take() == SECOND * 2
    assert sound.take() == b""
    sound.put(memoryview(b"\1\1"), True)  # the device's own
    assert sound.overflows == 2
    assert not sound.ended.is_set()
