"""Recognizers that are given one utterance at a time, and a chain of them.

Theory of operation of the chain. An utterance goes to the first recognizer whose
breaker admits it, while it is spoken. If that one fails, the next one is given the same
utterance from its beginning: no word is lost. After five failed utterances in a row a
recognizer is left alone for ten seconds, and one that was too slow at once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from functools import partial
from typing import Final, Protocol

import attrs

import trio

from glyphoxa_trio.actors import lone_errors

from .audio import Resampler, bytes_of
from .chain import ModelCandidate, labelled
from .endpointing import RATE, USUAL, Endpointing
from .llm import ErrorKind
from .speech import Final as Said
from .speech import NotUnderstood, Partial, Recognition, Recognizer, SpeechError
from .utterances import MicrophoneUtterances, RecognitionRun, open_listening

_AFTER: Final = 1.5  # seconds of silence that end an utterance for any recognizer

Tell = Callable[[str], Awaitable[None]]


class UtteranceRecognizer(Protocol):
    """A model that is given one utterance at a time, at the rate `endpointing.RATE`."""

    @property
    def label(self) -> str: ...

    async def recognize(
        self, audio: AsyncIterator[bytes], *, language: str | None, tell: Tell
    ) -> str:
        """Return the words of one utterance, empty if there are none.

        Args:
          audio: its audio, while it is spoken.
          tell: called with all words so far, if they are known earlier.

        Raises:
          SpeechError: if it cannot be recognized, or takes too long after its end.
        """
        ...


@attrs.define(eq=False, kw_only=True)
class ByUtterance:
    """A `Recognizer` of a model that is given one utterance at a time.

    Args:
      endpointing: how utterances are detected.
    """

    model: UtteranceRecognizer
    endpointing: Endpointing = USUAL

    @property
    def label(self) -> str:
        return self.model.label

    @property
    def rate(self) -> int:
        return RATE

    @asynccontextmanager
    async def listen(
        self, *, language: str | None = None
    ) -> AsyncIterator[RecognitionRun]:
        """Listen to one speaker. Nothing is sent before they speak.

        Raises:
          SpeechError: see `Recognizer.listen`.
        """
        understand = partial(understand_with, self.model, language=language)
        how = self.endpointing
        async with open_listening(how.detector(), understand, how=how) as listening:
            yield listening


async def understand_with(
    model: UtteranceRecognizer, listening: RecognitionRun, *, language: str | None
) -> None:
    """Recognize one utterance after another, until cancelled.

    Raises:
      SpeechError: if every later utterance would fail as well.
    """
    while True:
        await listening.begin()
        told = ""

        async def tell(words: str) -> None:
            nonlocal told
            if words != told:
                told = words
                await listening.tell(Partial(words))

        audio = _UtteranceAudio(listening.utterances)
        try:
            text = await model.recognize(audio, language=language, tell=tell)
        except SpeechError as error:
            if error.lasting:
                raise
            # It may have failed while the speaker goes on.
            await listening.utterances.whole()
            await listening.tell(NotUnderstood(str(error)))
        else:
            await listening.utterances.whole()
            await listening.tell(Said(text))


@attrs.define(eq=False)
class _UtteranceAudio:
    """The audio of the utterance that is being read. Cancelling loses none of it."""

    _utterances: MicrophoneUtterances

    def __aiter__(self) -> _UtteranceAudio:
        return self

    async def __anext__(self) -> bytes:
        if piece := await self._utterances.piece():
            return piece
        raise StopAsyncIteration


@attrs.define(eq=False)
class RecognizerChain:
    """Recognizers of utterances, in the order in which they are asked."""

    _candidates: Sequence[ModelCandidate[UtteranceRecognizer]] = attrs.field(
        validator=attrs.validators.min_len(1)
    )

    @property
    def label(self) -> str:
        return ", else ".join(each.model.label for each in self._candidates)

    async def recognize(
        self, audio: AsyncIterator[bytes], *, language: str | None, tell: Tell
    ) -> str:
        """Return the words of one utterance, by the first that understands it.

        Raises:
          SpeechError: with all reasons, if none does.
        """
        tape = _Tape(audio)
        reasons: list[str] = []
        errors: list[SpeechError] = []
        for candidate in self._candidates:
            now = trio.current_time()
            ticket = candidate.breaker.begin(now)
            if ticket is None:
                why = candidate.unavailable(now)
                reasons.append(labelled(candidate.model.label, why))
                continue
            try:
                async with aclosing(tape.from_the_beginning()) as again:
                    words = await candidate.model.recognize(
                        again, language=language, tell=tell
                    )
            except SpeechError as error:
                if error.kind is ErrorKind.FIRST_TOKEN:
                    candidate.breaker.suspect(trio.current_time())
                candidate.failed(ticket, error)
                reasons.append(labelled(candidate.model.label, error))
                errors.append(error)
            except BaseException:
                candidate.left(ticket)
                raise
            else:
                candidate.answered(ticket)
                return words
        asked = len(errors) == len(self._candidates)
        lasting = asked and all(error.lasting for error in errors)
        kind = errors[-1].kind if lasting else ErrorKind.OVERLOADED
        raise SpeechError("; ".join(reasons), kind)


@attrs.define(eq=False)
class _Tape:
    """The audio of one utterance, which can be heard again while it is spoken."""

    _audio: AsyncIterator[bytes]
    _kept: list[bytes] = attrs.field(factory=list, init=False)

    async def from_the_beginning(self) -> AsyncGenerator[bytes]:
        """Yield all of it, as it comes."""
        at = 0
        while True:
            if at == len(self._kept):
                piece = await anext(self._audio, None)
                if piece is None:
                    return
                self._kept.append(piece)
            at += 1
            yield self._kept[at - 1]


@attrs.define(eq=False, kw_only=True)
class ByListening:
    """An `UtteranceRecognizer` of any `Recognizer`, which hears one utterance and
    silence after it.

    Args:
      timeout: seconds for one utterance, from its end to its words.
    """

    recognizer: Recognizer
    timeout: float = 15.0

    @property
    def label(self) -> str:
        return self.recognizer.label

    async def recognize(
        self, audio: AsyncIterator[bytes], *, language: str | None, tell: Tell
    ) -> str:
        """Return the words of one utterance; see `UtteranceRecognizer.recognize`."""
        patience = trio.CancelScope()
        rate = self.recognizer.rate
        resampler = Resampler(RATE, rate)

        async def hear(recognition: Recognition) -> None:
            async for pcm in audio:
                recognition.hear(resampler.feed(pcm))
            recognition.hear(resampler.end() + bytes(bytes_of(_AFTER, rate)))
            patience.deadline = trio.current_time() + self.timeout

        with lone_errors():
            async with (
                self.recognizer.listen(language=language) as recognition,
                trio.open_nursery() as nursery,
            ):
                nursery.start_soon(hear, recognition)
                with patience:
                    words = await _words(recognition, tell)
                if patience.cancelled_caught:
                    raise SpeechError(
                        f"{self.label}: no words after {self.timeout:g} s",
                        ErrorKind.FIRST_TOKEN,
                    )
                nursery.cancel_scope.cancel("its words are known")
        return words


async def _words(recognition: Recognition, tell: Tell) -> str:
    """Return the words of the first utterance that ends."""
    async with AsyncExitStack() as stack:
        events = recognition.events()
        if isinstance(events, AsyncGenerator):
            await stack.enter_async_context(aclosing(events))
        async for event in events:
            match event:
                case Partial(text):
                    await tell(text)
                case Said(text):
                    return text
                case NotUnderstood(detail):
                    raise SpeechError(detail)
    raise SpeechError("it has stopped to listen")
