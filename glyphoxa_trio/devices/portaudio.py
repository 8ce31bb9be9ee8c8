"""The devices of this machine, by PortAudio and the library `sounddevice`.

PortAudio calls us in a thread of its own, every 20 ms. What is done there is a copy
into or out of a ring; trio looks at the ring, and is never woken by that thread.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.actors import lone_errors
from glyphoxa_trio.extras import missing

from .sound import DeviceError, SoundInput, SoundOutput

_PIECE: Final = 50  # of them in a second
_LATENCY: Final = 0.06  # seconds of a device's own buffer, if it lets us choose
_GONE: Final = 2.0  # seconds without a sign of a device, after which it is gone
_CLOSING: Final = 2.0  # seconds for a device to close

MICROPHONE: Final = "microphone"
LOUDSPEAKER: Final = "loudspeaker"


@attrs.frozen(kw_only=True)
class DeviceInfo:
    """A device, by its ``number`` and ``name``: how many channels it can give and
    play, and its usual sample ``rate``, in Hz. ``default_for``: what it is the default
    of, "microphone" or "loudspeaker"."""

    number: int
    name: str
    system: str
    inputs: int
    outputs: int
    rate: int
    default_for: tuple[str, ...] = ()

    def channels(self, kind: str) -> int:
        """The number of its channels as a microphone or as a loudspeaker."""
        return self.inputs if kind == MICROPHONE else self.outputs


async def list_devices() -> tuple[DeviceInfo, ...]:
    """Return the devices of this machine.

    Raises:
      DeviceError: PortAudio or `sounddevice` is not installed, or does not work.
    """
    return await trio.to_thread.run_sync(_devices)


def chosen(devices: Sequence[DeviceInfo], wanted: str | None, kind: str) -> DeviceInfo:
    """Return the device that is meant by a number, a name or a part of one; None is the
    default.

    Raises:
      DeviceError: none is meant, or several are.
    """
    able = [one for one in devices if one.channels(kind)]
    if not able:
        raise DeviceError(
            f"this machine has no {kind}; a WAV file can be in its place:"
            f" {'--file-in' if kind == MICROPHONE else '--file-out'} FILE"
        )
    if wanted is None:
        return next((one for one in able if kind in one.default_for), able[0])
    if wanted.isascii() and wanted.isdigit():
        found = [one for one in able if one.number == int(wanted)]
    else:
        folded = wanted.casefold()
        found = [one for one in able if one.name.casefold() == folded] or [
            one for one in able if folded in one.name.casefold()
        ]
    if len(found) == 1:
        return found[0]
    names = ", ".join(f"{one.number} {one.name}" for one in found or able)
    what = "several are called" if found else f"no {kind} is called"
    raise DeviceError(f"{what} {wanted!r}; there is {names}")


@asynccontextmanager
async def open_microphone(wanted: str | None = None) -> AsyncGenerator[SoundInput]:
    """Hear a microphone at its usual rate until the block is left.

    Args:
      wanted: its number, its name or a part of it; None is the default.

    Raises:
      DeviceError: it is not there, cannot be opened, or has gone; the last one while
        the block runs.
    """
    device = chosen(await list_devices(), wanted, MICROPHONE)
    sound = SoundInput(device.name, device.rate)
    calls = _DeviceThread()

    def hear(pcm: Any, frames: int, when: Any, status: Any) -> None:
        calls.count()
        sound.put(memoryview(pcm), bool(status.input_overflow))

    async with _streaming("RawInputStream", device, MICROPHONE, hear, calls):
        yield sound


@asynccontextmanager
async def open_loudspeaker(wanted: str | None = None) -> AsyncGenerator[SoundOutput]:
    """Play by a loudspeaker at its usual rate until the block is left.

    Args:
      wanted: its number, its name or a part of it; None is the default.

    Raises:
      DeviceError: as `open_microphone`.
    """
    device = chosen(await list_devices(), wanted, LOUDSPEAKER)
    calls = _DeviceThread()
    sound = SoundOutput(device.name, device.rate, calls.now)

    def play(out: Any, frames: int, when: Any, status: Any) -> None:
        calls.count()
        delay = max(0.0, when.outputBufferDacTime - when.currentTime)
        sound.fill(memoryview(out), calls.now() + delay, bool(status.output_underflow))

    async with _streaming("RawOutputStream", device, LOUDSPEAKER, play, calls):
        yield sound


@attrs.define(eq=False)
class _DeviceThread:
    """The calls of a device's thread, and the device's clock."""

    number: int = attrs.field(default=0, init=False)
    _stream: Any = attrs.field(default=None, init=False)
    _now: float = attrs.field(default=0.0, init=False)

    def count(self) -> None:
        self.number += 1

    def of(self, stream: Any) -> None:
        self._stream = stream

    def now(self) -> float:
        """The time of PortAudio's clock; once the device is closed, its last one."""
        if self._stream is not None and not self._stream.closed:
            self._now = float(self._stream.time)
        return self._now


@asynccontextmanager
async def _streaming(
    stream: str,
    device: DeviceInfo,
    kind: str,
    callback: Callable[[Any, int, Any, Any], None],
    calls: _DeviceThread,
) -> AsyncGenerator[None]:
    """Keep a stream open.

    Raises:
      DeviceError: see `open_microphone`.
    """
    library = await trio.to_thread.run_sync(_library)

    def opened() -> Any:
        made = getattr(library, stream)(
            samplerate=device.rate,
            blocksize=device.rate // _PIECE,
            device=device.number,
            channels=1,
            dtype="int16",
            latency=_LATENCY,
            callback=callback,
        )
        calls.of(made)
        made.start()
        return made

    try:
        running = await trio.to_thread.run_sync(opened)
    except library.PortAudioError as error:
        why = str(error.args[0] if error.args else error)
        raise DeviceError(
            f"the {kind} {device.name!r} cannot be opened: {why}"
        ) from None
    with lone_errors():
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(
                    _watch, running, calls, f"the {kind} {device.name!r}"
                )
                yield
                nursery.cancel_scope.cancel(f"the {kind} is closed")
        finally:
            # A device that has gone may never come back from this.
            with trio.move_on_after(_CLOSING, shield=True):
                await trio.to_thread.run_sync(
                    _closed, running, library, abandon_on_cancel=True
                )


def _closed(stream: Any, library: Any) -> None:
    try:
        stream.abort(ignore_errors=True)
        stream.close(ignore_errors=True)
    except library.PortAudioError:  # it was there a moment ago
        pass


async def _watch(stream: Any, calls: _DeviceThread, what: str) -> None:
    """Fail when a device gives no sign any more. Runs until it is cancelled."""
    while True:
        before = calls.number
        await trio.sleep(_GONE)
        if calls.number == before or not stream.active:
            raise DeviceError(f"{what} has gone: is it still plugged in?")


def _library() -> Any:
    """Import `sounddevice`, which starts PortAudio.

    Raises:
      DeviceError: one of the two is not installed, or does not work.
    """
    try:
        import sounddevice
    except ImportError:
        raise DeviceError(missing("a microphone or loudspeaker", "talk")) from None
    except OSError:  # its own word for a library that it does not find
        raise DeviceError(
            "PortAudio is not installed (apt install libportaudio2); WAV files need"
            " none: --file-in FILE, --file-out FILE"
        ) from None
    except Exception as error:  # border: PortAudio's start, as it says it
        raise DeviceError(f"PortAudio does not start: {error}") from None
    return sounddevice


def _devices() -> tuple[DeviceInfo, ...]:
    library = _library()
    try:
        found, systems = library.query_devices(), library.query_hostapis()
        usual = tuple(library.default.device)
    except library.PortAudioError as error:
        raise DeviceError(f"the devices cannot be listed: {error}") from None
    return tuple(
        DeviceInfo(
            number=number,
            name=one["name"],
            system=systems[one["hostapi"]]["name"],
            inputs=one["max_input_channels"],
            outputs=one["max_output_channels"],
            rate=int(one["default_samplerate"]),
            default_for=tuple(
                kind
                for kind, default in zip((MICROPHONE, LOUDSPEAKER), usual, strict=True)
                if default == number
            ),
        )
        for number, one in enumerate(found)
    )
