"""`pocketsphinx` as a `Recognizer`: a worker process for each microphone.

Decoding takes a tenth of the duration of the speech, and blocks its process meanwhile.
So it runs in a process of its own, which is killed when the block is left. The start
and end of speech are detected here, so that they are known at once, and a silent
microphone costs the worker nothing.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import lone_errors
from glyphoxa_trio.process import end, one_line, start
from glyphoxa_trio.providers.endpointing import RATE, USUAL, Endpointing
from glyphoxa_trio.providers.speech import Final as Said
from glyphoxa_trio.providers.speech import Partial, SpeechError
from glyphoxa_trio.providers.utterances import RecognitionRun, open_listening

from .wire import END, grammar, packet

WORKER: Final = "glyphoxa_trio.providers.pocketsphinx.worker"
_START: Final = 30.0  # seconds to load the model, which normally takes half a second
_PATIENCE: Final = 15.0  # seconds for the worker to take audio, or to find the words
_CHUNK: Final = 64 * 1024
_COMPLAINT: Final = 4 * 1024  # bytes of stderr that are read


def installed() -> bool:
    """Return whether the package is installed."""
    return find_spec("pocketsphinx") is not None


def _phrases(phrases: tuple[str, ...]) -> tuple[str, ...]:
    if phrases:
        grammar(phrases)  # raises
    return phrases


@attrs.frozen(kw_only=True)
class Pocketsphinx:
    """A recognizer with the English model of the package, whatever the language.

    Args:
      phrases: the only phrases to understand. None of them: free speech.
      endpointing: how utterances are detected.

    Raises:
      ValueError: for phrases without words.
    """

    phrases: tuple[str, ...] = attrs.field(default=(), converter=_phrases)
    endpointing: Endpointing = USUAL

    @property
    def label(self) -> str:
        return "pocketsphinx"

    @property
    def rate(self) -> int:
        return RATE

    @asynccontextmanager
    async def listen(
        self, *, language: str | None = None
    ) -> AsyncIterator[RecognitionRun]:
        """Listen to one speaker; entering waits until the model is loaded.

        Raises:
          SpeechError: see `Recognizer.listen`; also for a phrase with a word that the
            model does not know.
        """
        is_speech = self.endpointing.detector()
        worker = _RecognizerProcess(await self._start())
        try:
            await worker.ready()
            async with open_listening(
                is_speech, worker.understand, how=self.endpointing
            ) as listening:
                yield listening
        finally:
            await end(worker.process)

    async def _start(self) -> trio.Process:
        """Start the worker process.

        Raises:
          SpeechError: if that is not possible.
        """
        options = json.dumps({"phrases": self.phrases})
        # The same import path as ours, also in a checkout that is not installed.
        path = {"PYTHONPATH": os.pathsep.join(x for x in sys.path if x)}
        try:
            return await start([sys.executable, "-P", "-m", WORKER, options], env=path)
        except OSError as error:
            raise SpeechError(f"pocketsphinx cannot be started: {error}") from None


@attrs.define(eq=False)
class _RecognizerProcess:
    """One worker process, which gets one utterance after another."""

    process: trio.Process
    _lines: bytearray = attrs.field(factory=bytearray, init=False)
    _given_up: str = attrs.field(default="", init=False)

    async def ready(self) -> None:
        """Wait until the model is loaded.

        Raises:
          SpeechError: if it is not loaded within 30 s.
        """
        with trio.move_on_after(_START) as patience:
            await self._answer()
        if patience.cancelled_caught:
            raise SpeechError(f"pocketsphinx: not ready after {_START:g} s")

    async def understand(self, listening: RecognitionRun) -> None:
        """Recognize utterances, until cancelled.

        Raises:
          SpeechError: if the process has died, or was killed for its silence.
        """
        while True:
            await listening.begin()
            with lone_errors():
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._send, listening)
                    text = await self._words(listening)
                    nursery.cancel_scope.cancel()
            await listening.tell(Said(text))

    async def _send(self, listening: RecognitionRun) -> None:
        """Send the utterance; kill a worker that does not read it, or does not answer.

        `_words` then fails, and reports the reason.
        """
        assert self.process.stdin is not None
        pcm = b"-"
        with suppress(trio.BrokenResourceError):
            while pcm:
                pcm = await listening.utterances.piece()
                with trio.move_on_after(_PATIENCE) as patience:
                    await self.process.stdin.send_all(packet(pcm) if pcm else END)
                if patience.cancelled_caught:
                    self._give_up("it no longer reads audio")
                    return
            await trio.sleep(_PATIENCE)
            self._give_up("it did not find the words in time")

    def _give_up(self, why: str) -> None:
        """Kill the process, for this reason."""
        self._given_up = why
        self.process.kill()

    async def _words(self, listening: RecognitionRun) -> str:
        """Return the words of this utterance; report partial words meanwhile."""
        while "final" not in (said := await self._answer()):
            await listening.tell(Partial(said["partial"]))
        return said["final"]

    async def _answer(self) -> dict[str, str]:
        """Read one line of the process."""
        assert self.process.stdout is not None
        while b"\n" not in self._lines:
            data = await self.process.stdout.receive_some(_CHUNK)
            if not data:
                raise SpeechError(f"pocketsphinx: {await self._why()}")
            self._lines += data
        answer, _, rest = bytes(self._lines).partition(b"\n")
        self._lines[:] = rest
        said: dict[str, str] = json.loads(answer)
        return said

    async def _why(self) -> str:
        """Return why the process has ended."""
        assert self.process.stderr is not None
        with trio.move_on_after(1):
            said = await self.process.stderr.receive_some(_COMPLAINT)
            status = await self.process.wait()
            words = one_line(bytes(said))
            return self._given_up or words or f"ended with status {status}"
        return "closed its output"
