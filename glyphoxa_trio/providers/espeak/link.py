"""`espeak-ng` as a `Synthesizer`: one process for each sentence."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final

import attrs

import trio

from glyphoxa_trio.process import end, one_line, start
from glyphoxa_trio.providers.audio import WIDTH, AudioError, Resampler
from glyphoxa_trio.providers.speech import SpeechError, VoiceStyle
from glyphoxa_trio.providers.wav import WavReader

from .wire import options, said

PROGRAM: Final = "espeak-ng"
RATE: Final = 22_050  # of its own voices; others are resampled to it
PATIENCE: Final = 5.0  # seconds for the next piece, which normally takes milliseconds
_PIECE: Final = 8 * 1024  # bytes read at a time, 0.2 s of speech
_COMPLAINT: Final = 4 * 1024  # bytes of stderr that are read


def installed(program: str = PROGRAM) -> bool:
    """Return whether the program is on ``PATH``."""
    return shutil.which(program) is not None


@attrs.frozen(kw_only=True)
class Espeak:
    """The program, found on ``PATH`` when it is needed.

    Several sentences at a time are several processes. `VoiceStyle.name` is one of its
    voices, such as ``en-us`` or ``en+f3``.

    Args:
      program: its name or path.
      rate: of the audio that is returned, in Hz.
    """

    program: str = PROGRAM
    rate: int = RATE

    @property
    def label(self) -> str:
        return self.program

    @asynccontextmanager
    async def speak(
        self, text: str, voice: VoiceStyle
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Speak one sentence; leaving kills the process and waits until it is gone.

        Raises:
          SpeechError: see `Synthesizer.speak`.
        """
        process = await self._start(voice)
        try:
            assert process.stdin is not None
            # It reads all of the text before it speaks, so this cannot deadlock. If it
            # has exited already, its status says why.
            with suppress(trio.BrokenResourceError), _patience():
                await process.stdin.send_all(said(text, voice.pronunciation))
                await process.stdin.aclose()
            yield _Pieces(process, self.rate)
        finally:
            await end(process)

    async def _start(self, voice: VoiceStyle) -> trio.Process:
        """Start the program.

        Raises:
          SpeechError: if that is not possible.
        """
        try:
            return await start([self.program, *options(voice)])
        except FileNotFoundError:
            raise SpeechError(
                f"{self.program} is not installed: apt install espeak-ng, "
                "brew install espeak-ng"
            ) from None
        except (OSError, ValueError) as error:
            raise SpeechError(f"{self.program} cannot be started: {error}") from None


@attrs.define(eq=False)
class _Pieces:
    """The audio of one process, as it is read."""

    _process: trio.Process
    _rate: int
    _wav: WavReader = attrs.field(factory=WavReader, init=False)
    _resampler: Resampler | None = attrs.field(default=None, init=False)
    _rest: bytes = attrs.field(default=b"", init=False)  # half a sample
    _over: bool = attrs.field(default=False, init=False)

    def __aiter__(self) -> _Pieces:
        return self

    async def __anext__(self) -> bytes:
        assert self._process.stdout is not None
        while not self._over:
            with _patience():
                data = bytes(await self._process.stdout.receive_some(_PIECE))
                if not data:
                    await self._finish()
            try:
                piece = self._heard(data)
            except AudioError as error:
                raise SpeechError(f"{PROGRAM}: {error}") from None
            if piece:
                return piece
        raise StopAsyncIteration

    def _heard(self, data: bytes) -> bytes:
        """Convert what was read; no data ends the stream."""
        audio = self._rest + self._wav.feed(data) if data else self._rest
        whole = len(audio) // WIDTH * WIDTH
        audio, self._rest = audio[:whole], audio[whole:]
        if self._resampler is None:
            if self._wav.rate is None:
                return b""
            self._resampler = Resampler(self._wav.rate, self._rate)
        piece = self._resampler.feed(audio)
        return piece if data else piece + self._resampler.end()

    async def _finish(self) -> None:
        """Check that the process has ended well.

        Raises:
          SpeechError: if it has not.
        """
        self._over = True
        assert self._process.stderr is not None
        complaint = bytes(await self._process.stderr.receive_some(_COMPLAINT))
        if await self._process.wait() != 0:
            why = one_line(complaint) or f"ended with status {self._process.returncode}"
            raise SpeechError(f"{PROGRAM}: {why}")


@contextmanager
def _patience() -> Iterator[None]:
    """Limit the wait for the process.

    Raises:
      SpeechError: if it takes longer.
    """
    try:
        with trio.fail_after(PATIENCE):
            yield
    except trio.TooSlowError:
        raise SpeechError(f"{PROGRAM}: silent for {PATIENCE:g} s") from None
