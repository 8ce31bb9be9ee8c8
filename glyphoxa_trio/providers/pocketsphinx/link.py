"""`pocketsphinx` as a `Recognizer`: a worker process for each microphone.

Decoding takes a tenth of the time of what is said, and nothing else in its process runs
meanwhile: so it has one of its own, which is killed when the block is left. Where
somebody begins and ends is noticed here, so that it is known at once, and a microphone
at which nobody speaks costs the worker nothing.
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
_START: Final = 30.0  # seconds to load the model: it needs half of one
_PATIENCE: Final = 15.0  # seconds for the worker to take audio, or to find its words
_CHUNK: Final = 64 * 1024
_COMPLAINT: Final = 4 * 1024  # bytes of stderr that are worth reading


def installed() -> bool:
    return find_spec("pocketsphinx") is not None


def _phrases(phrases: tuple[str, ...]) -> tuple[str, ...]:
    if phrases:
        grammar(phrases)  # raises
    return phrases


@attrs.frozen(kw_only=True)
class Pocketsphinx:
    """The English model that comes with it, whatever the language.

    Args:
      phrases: understand these and nothing else. None: try to understand anything.
      endpointing: how utterances are found.

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
        options = json.dumps({"phrases": self.phrases})
        # Found as we were, also where it is only checked out.
        path = {"PYTHONPATH": os.pathsep.join(x for x in sys.path if x)}
        try:
            return await start([sys.executable, "-P", "-m", WORKER, options], env=path)
        except OSError as error:
            raise SpeechError(f"pocketsphinx cannot be started: {error}") from None


@attrs.define(eq=False)
class _RecognizerProcess:
    """One process, asked about one utterance after the other."""

    process: trio.Process
    _lines: bytearray = attrs.field(factory=bytearray, init=False)
    _given_up: str = attrs.field(default="", init=False)

    async def ready(self) -> None:
        """Wait until its model is loaded.

        Raises:
          SpeechError: if it is not, in half a minute.
        """
        with trio.move_on_after(_START) as patience:
            await self._answer()
        if patience.cancelled_caught:
            raise SpeechError(f"pocketsphinx: not ready after {_START:g} s")

    async def understand(self, listening: RecognitionRun) -> None:
        """Tell what is said, for ever.

        Raises:
          SpeechError: if the process has died, or was given up.
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
        """Give it the utterance. Who does not take it, or does not answer, is killed;
        whoever waits for the words is told by that."""
        assert self.process.stdin is not None
        pcm = b"-"
        with suppress(trio.BrokenResourceError):
            while pcm:
                pcm = await listening.utterances.piece()
                with trio.move_on_after(_PATIENCE) as patience:
                    await self.process.stdin.send_all(packet(pcm) if pcm else END)
                if patience.cancelled_caught:
                    self._give_up("it takes no more audio")
                    return
            await trio.sleep(_PATIENCE)
            self._give_up("it does not find its words")

    def _give_up(self, why: str) -> None:
        self._given_up = why
        self.process.kill()

    async def _words(self, listening: RecognitionRun) -> str:
        """The words of this utterance; those so far are told."""
        while "final" not in (said := await self._answer()):
            await listening.tell(Partial(said["partial"]))
        return said["final"]

    async def _answer(self) -> dict[str, str]:
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
        """Why it says nothing any more."""
        assert self.process.stderr is not None
        with trio.move_on_after(1):
            said = await self.process.stderr.receive_some(_COMPLAINT)
            status = await self.process.wait()
            words = one_line(bytes(said))
            return self._given_up or words or f"ended with status {status}"
        return "closed its output"
