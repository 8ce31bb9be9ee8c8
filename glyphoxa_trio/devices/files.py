"""WAV files and null devices in place of a microphone and a loudspeaker.

They take the time of the audio, as a device does: a piece every 20 ms, by trio's clock.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, asynccontextmanager
from io import RawIOBase
from pathlib import Path
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import lone_errors
from glyphoxa_trio.errors import said
from glyphoxa_trio.providers.audio import AudioError, bytes_of
from glyphoxa_trio.providers.wav import WavReader, wav, with_length

from .sound import DeviceError, SoundInput, SoundOutput

RATE: Final = 24_000  # of a loudspeaker that is a file, in Hz
_QUIET_RATE: Final = 16_000  # of a microphone that is silent
_PIECE: Final = 0.02  # seconds
_LEAD: Final = 0.5  # seconds that a microphone is on before anybody speaks
_LATE: Final = 0.2  # seconds that are caught up with; beyond that time stands still
_BLOCK: Final = 64 * 1024  # bytes that are read at a time


@attrs.define(eq=False)
class _WavInputFile:
    """A file that is read as it is needed."""

    path: Path
    _read: Callable[[int], bytes]
    _wav: WavReader = attrs.field(factory=WavReader, init=False)
    _ready: bytes = attrs.field(default=b"", init=False)

    async def rate(self) -> int:
        """Read up to the audio, and return its rate.

        Raises:
          DeviceError: it cannot be read, or is not WAV with PCM16 mono.
        """
        while not self._ready:
            if not await self._more():
                raise DeviceError(f"{self.path}: there is no audio in it")
        assert self._wav.rate is not None
        return self._wav.rate

    async def next(self, size: int) -> bytes:
        """Return the next bytes; fewer at the end, and none after it."""
        while len(self._ready) < size and await self._more():
            pass
        piece, self._ready = self._ready[:size], self._ready[size:]
        return piece

    async def _more(self) -> bool:
        try:
            # A pipe may never give anything, and that must not keep us.
            data = await trio.to_thread.run_sync(
                self._read, _BLOCK, abandon_on_cancel=True
            )
            self._ready += self._wav.feed(data)
        except AudioError as error:
            raise DeviceError(f"{self.path}: {error}") from None
        except OSError as error:
            raise DeviceError(f"{self.path}: {said(error)}") from None
        return bool(data)


@asynccontextmanager
async def open_file_input(path: Path | None) -> AsyncGenerator[SoundInput]:
    """Hear half a second of silence, a WAV file, at the speed at which it was spoken,
    and then silence.

    Args:
      path: None is a microphone that hears nothing at all.

    Raises:
      DeviceError: it cannot be read, or is not WAV with PCM16 mono.
    """
    with lone_errors(), ExitStack() as stack:
        heard, rate, name = None, _QUIET_RATE, "a null device"
        if path is not None:
            try:
                # Unbuffered: a buffer would wait until it is full.
                file: RawIOBase = await trio.to_thread.run_sync(
                    lambda: path.open("rb", buffering=0), abandon_on_cancel=True
                )
            except OSError as error:
                raise DeviceError(f"{path}: {error.strerror}") from None
            stack.enter_context(file)
            heard = _WavInputFile(path, lambda size: file.read(size) or b"")
            rate, name = await heard.rate(), path.name
        sound = SoundInput(name, rate)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_hear, heard, sound)
            yield sound
            nursery.cancel_scope.cancel("the microphone is closed")


async def _hear(file: _WavInputFile | None, sound: SoundInput) -> None:
    size = bytes_of(_PIECE, sound.rate)
    sound.put(memoryview(bytes(bytes_of(_LEAD, sound.rate))))
    due = trio.current_time() + _LEAD
    while True:
        piece = b"" if file is None or sound.ended.is_set() else await file.next(size)
        if file is not None and not piece:
            sound.ended.set()
        sound.put(memoryview(piece.ljust(size, b"\0")))
        due = _next(due)
        await trio.sleep_until(due)


def _next(due: float) -> float:
    """Return when the next piece is due. A file loses nothing to a program that was
    held up, as a device would."""
    return max(due + _PIECE, trio.current_time() - _LATE)


@asynccontextmanager
async def open_file_output(path: Path | None) -> AsyncGenerator[SoundOutput]:
    """Play into a WAV file, at the speed of a loudspeaker.

    It has what was heard: no silences, and nothing of what was flushed. Its header is
    right at any moment.

    Args:
      path: None is a loudspeaker that nobody hears.

    Raises:
      DeviceError: it cannot be written.
    """
    name = "a null device" if path is None else path.name
    sound = SoundOutput(name, RATE, trio.current_time)
    with lone_errors(), ExitStack() as stack:
        write = None
        if path is not None:
            try:
                file = stack.enter_context(path.open("wb", buffering=0))
            except OSError as error:
                raise DeviceError(f"{path}: {error.strerror}") from None
            write = _WavOutputFile(path, file).add
            write(b"")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_play, sound, write)
            yield sound
            nursery.cancel_scope.cancel("the loudspeaker is closed")


@attrs.define(eq=False)
class _WavOutputFile:
    """A file that is written as it is heard."""

    path: Path
    _file: RawIOBase
    _pcm: int = attrs.field(default=0, init=False)  # bytes

    def add(self, pcm: bytes) -> None:
        """Add audio, and then say in the header how much there is.

        Raises:
          DeviceError: it cannot be written.
        """
        header = wav(b"", RATE)
        try:
            self._file.seek(len(header) + self._pcm)
            self._file.write(pcm)
            self._pcm += len(pcm)
            self._file.seek(0)
            self._file.write(with_length(header, self._pcm))
        except OSError as error:
            raise DeviceError(f"{self.path}: {said(error)}") from None


async def _play(sound: SoundOutput, write: Callable[[bytes], None] | None) -> None:
    out = memoryview(bytearray(bytes_of(_PIECE, sound.rate)))
    due = trio.current_time()
    while True:
        count = sound.fill(out, due)
        if count and write is not None:
            await trio.to_thread.run_sync(write, bytes(out[:count]))
        due = _next(due)
        await trio.sleep_until(due)
