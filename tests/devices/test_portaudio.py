"""Devices as PortAudio gives them: which is meant, and what happens when it goes.

PortAudio here is a library of the test's own, which has a thread that calls us, as the
real one has; tests/cli/test_talk.py opens the real one.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import attrs
import pytest

import trio

from glyphoxa_trio.devices import (
    DeviceError,
    DeviceInfo,
    list_devices,
    open_loudspeaker,
    open_microphone,
    portaudio,
)
from glyphoxa_trio.devices.portaudio import LOUDSPEAKER, MICROPHONE, chosen

RATE = 16_000


class PortAudioError(Exception):
    """As the library's."""


@attrs.define(eq=False)
class Stream:
    """A stream whose thread calls every millisecond, until it is unplugged."""

    callback: Any
    blocksize: int
    latency: float
    fails: str = ""
    time: float = 0.0
    closed: bool = False
    _going: threading.Event = attrs.field(factory=threading.Event, init=False)
    _thread: threading.Thread = attrs.field(init=False)

    @property
    def active(self) -> bool:
        return self._going.is_set()

    def start(self) -> None:
        if self.fails:
            raise PortAudioError(self.fails, -9996)
        self._going.set()
        self._thread = threading.Thread(target=self._call, daemon=True)
        self._thread.start()

    def _call(self) -> None:
        when = SimpleNamespace(currentTime=1.0, outputBufferDacTime=1.05)
        pcm = bytearray(b"\1\1" * self.blocksize)
        status = SimpleNamespace(input_overflow=False, output_underflow=False)
        while self._going.wait(0) and not self.closed:
            self.callback(pcm, self.blocksize, when, status)
            threading.Event().wait(0.001)

    def unplug(self) -> None:
        self._going.clear()

    def abort(self, ignore_errors: bool) -> None:
        self._going.clear()

    def close(self, ignore_errors: bool) -> None:
        self._going.clear()
        self._thread.join(10)
        self.closed = True


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The library; ``streams`` are those that were opened."""
    made: Any = ModuleType("sounddevice")
    made.streams, made.fails = [], ""
    made.PortAudioError = PortAudioError
    made.default = SimpleNamespace(device=[0, 1])
    device = {"hostapi": 0, "default_samplerate": float(RATE)}
    made.query_devices = lambda: [
        {**device, "name": name, "max_input_channels": i, "max_output_channels": o}
        for name, i, o in (("Headset mic", 1, 0), ("Headset", 0, 2), ("Box", 2, 2))
    ]
    made.query_hostapis = lambda: [{"name": "Fake"}]

    def opened(
        *, callback: Any, blocksize: int, latency: float, **more: object
    ) -> Stream:
        assert more["channels"] == 1
        stream = Stream(callback, blocksize, latency, made.fails)
        made.streams.append(stream)
        return stream

    made.RawInputStream = made.RawOutputStream = opened
    monkeypatch.setitem(sys.modules, "sounddevice", made)
    monkeypatch.setattr(portaudio, "_GONE", 0.05)
    yield made
    for stream in made.streams:
        stream.unplug()


async def test_a_microphone_is_heard_and_closed(library: Any) -> None:
    async with open_microphone() as sound:
        assert (sound.name, sound.rate) == ("Headset mic", RATE)
        with trio.fail_after(60):
            while not (heard := sound.take()):  # noqa: ASYNC110
                await trio.sleep(0.01)
    assert set(heard) == {1}
    (stream,) = library.streams
    assert stream.closed


async def test_a_loudspeaker_plays_and_knows_its_own_delay(library: Any) -> None:
    async with open_loudspeaker("box") as sound:
        (stream,) = library.streams
        await sound.play(b"\2\2" * RATE, RATE)
        with trio.fail_after(60):
            while sound.played < 0.92:  # noqa: ASYNC110
                await trio.sleep(0.01)
        # The last 0.02 s begin to be heard 0.05 s later, and the clock stands still.
        assert sound.left == pytest.approx(0.07)
        stream.time = 0.08
        assert sound.left == 0


@pytest.mark.parametrize("kind", [MICROPHONE, LOUDSPEAKER])
async def test_a_device_that_goes_ends_the_talk_in_words(
    library: Any, kind: str
) -> None:
    opening = open_microphone if kind == MICROPHONE else open_loudspeaker
    with pytest.raises(DeviceError, match=f"the {kind} 'Box' has gone"):
        async with opening("Box"):
            library.streams[0].unplug()
            with trio.fail_after(60):
                await trio.sleep_forever()
    assert library.streams[0].closed


async def test_a_device_that_is_taken_is_refused(library: Any) -> None:
    library.fails = "Device unavailable"
    with pytest.raises(DeviceError, match="'Box' cannot be opened: Device unavail"):
        async with open_microphone("2"):
            pass


async def test_the_devices_are_listed(library: Any) -> None:
    mic, head, box = await list_devices()
    assert (mic.number, mic.name, mic.default_for) == (0, "Headset mic", (MICROPHONE,))
    assert head.default_for == (LOUDSPEAKER,)
    assert (box.inputs, box.outputs, box.system, box.rate) == (2, 2, "Fake", RATE)


def _device(number: int, name: str, inputs: int = 1, outputs: int = 1) -> DeviceInfo:
    return DeviceInfo(
        number=number, name=name, system="", inputs=inputs, outputs=outputs, rate=RATE
    )


@pytest.mark.parametrize(
    ("wanted", "found"), [("1", 1), ("usb", 2), ("USB", 2), ("line", 0), (None, 0)]
)
def test_a_name_a_part_of_it_or_a_number_is_enough(
    wanted: str | None, found: int
) -> None:
    there = [_device(0, "Line"), _device(1, "Line 2"), _device(2, "My USB")]
    assert chosen(there, wanted, MICROPHONE).number == found


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("usb", "several are called 'usb'; there is 0 USB 1, 1 USB 2"),
        ("7", "no microphone is called '7'; there is 0 USB 1, 1 USB 2"),
        ("box", "no microphone is called 'box'"),  # it only plays
    ],
)
def test_what_is_not_clear_is_refused_with_the_names(wanted: str, said: str) -> None:
    there = [_device(0, "USB 1"), _device(1, "USB 2"), _device(2, "Box", inputs=0)]
    with pytest.raises(DeviceError) as caught:
        chosen(there, wanted, MICROPHONE)
    assert str(caught.value).startswith(said)


def test_a_machine_without_devices_has_files() -> None:
    with pytest.raises(DeviceError, match=r"no microphone; .* --file-in FILE"):
        chosen([_device(0, "Box", inputs=0)], None, MICROPHONE)
    with pytest.raises(DeviceError, match=r"no loudspeaker; .* --file-out FILE"):
        chosen([], None, LOUDSPEAKER)


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        ("OSError('PortAudio library not found')", "apt install libportaudio2"),
        ("ImportError('no')", r"glyphoxa-trio\[talk\]"),
        ("RuntimeError('no server')", "does not start: no server"),
    ],
)
async def test_a_library_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: str, said: str
) -> None:
    (tmp_path / "sounddevice.py").write_text(f"raise {raised}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "sounddevice", raising=False)
    with pytest.raises(DeviceError, match=said):
        await list_devices()
