"""A chain of synthesizers: the next one says a sentence when the first one fails.

Theory of operation. A sentence goes to the first synthesizer whose breaker admits it.
If that one fails before its first audio, the next one is asked for the same sentence.
After its first audio it keeps the sentence to its end, even if it fails: what was heard
is not said again by another voice.

*Time.* The caller's deadline covers all of them together; each may take half of the
time that is left while another one may follow, and no more than its own limit.

*Breakers.* After five failed sentences in a row a synthesizer is left alone for ten
seconds; then one sentence tries it. One that was too slow, or broke off in a sentence,
is left alone at once, because each further attempt would be heard by the players.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from math import inf
from typing import Final

import attrs

import trio

from glyphoxa_trio.tools.breaker import Ticket

from .audio import Resampler
from .chain import ModelCandidate, labelled
from .llm import ErrorKind
from .speech import SpeechError, Synthesizer, TellsWords, VoiceStyle

PATIENCE: Final = 10.0  # seconds for a whole chain, if the caller has no deadline
_SHARE: Final = 0.5
# Failures that took time which players have waited for.
_SLOW: Final = frozenset({ErrorKind.FIRST_TOKEN, ErrorKind.SILENCE})


@attrs.frozen
class NamedVoice:
    """A synthesizer with a voice of its own.

    Args:
      synthesizer: makes the speech.
      voice: the name of the voice that is used if the NPC's has none, or none that
        this synthesizer knows.
      knows: the names of the NPCs' voices are those of this synthesizer.
    """

    synthesizer: Synthesizer
    voice: str | None = None
    knows: bool = True

    @property
    def label(self) -> str:
        return self.synthesizer.label

    @property
    def rate(self) -> int:
        return self.synthesizer.rate

    def speak(
        self, text: str, voice: VoiceStyle
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Speak one sentence; see `Synthesizer.speak`."""
        name = (voice.name if self.knows else None) or self.voice
        return self.synthesizer.speak(text, attrs.evolve(voice, name=name))


@attrs.define(eq=False)
class SynthesizerChain:
    """Synthesizers, in the order in which they are asked, at the rate of the first."""

    _candidates: Sequence[ModelCandidate[Synthesizer]] = attrs.field(
        validator=attrs.validators.min_len(1)
    )

    @property
    def label(self) -> str:
        return ", else ".join(each.model.label for each in self._candidates)

    @property
    def rate(self) -> int:
        return self._candidates[0].model.rate

    @asynccontextmanager
    async def speak(
        self, text: str, voice: VoiceStyle
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Speak one sentence: entering waits for the first audio.

        Raises:
          SpeechError: with all reasons, if no synthesizer begins; or that of the one
            which breaks off.
        """
        async with AsyncExitStack() as stack:
            yield await self._begin(text, voice, stack)

    async def _begin(
        self, text: str, voice: VoiceStyle, stack: AsyncExitStack
    ) -> _BegunSpeech:
        """Ask the synthesizers in turn; return the audio of the first that begins."""
        await trio.lowlevel.checkpoint_if_cancelled()
        until = trio.current_effective_deadline()
        if until == inf:
            until = trio.current_time() + PATIENCE
        reasons: list[str] = []
        kind = ErrorKind.OVERLOADED
        for at, candidate in enumerate(self._candidates):
            now = trio.current_time()
            ticket = candidate.breaker.begin(now)
            if ticket is None:
                why = candidate.unavailable(now)
                reasons.append(labelled(candidate.model.label, why))
                continue
            follows = any(x.breaker.admits(now) for x in self._candidates[at + 1 :])
            limit = now + _SHARE * (until - now) if follows else inf
            resampler = Resampler(candidate.model.rate, self.rate)
            said = _attempt(candidate, ticket, text, voice, limit, until, resampler)
            try:
                return await stack.enter_async_context(said)
            except SpeechError as error:
                reasons.append(labelled(candidate.model.label, error))
                kind = error.kind
        raise SpeechError("; ".join(reasons), kind)


@asynccontextmanager
async def _attempt(
    candidate: ModelCandidate[Synthesizer],
    ticket: Ticket,
    text: str,
    voice: VoiceStyle,
    limit: float,
    until: float,
    resampler: Resampler,
) -> AsyncIterator[_BegunSpeech]:
    """Run one synthesizer from its first audio on, and record how it ended.

    Args:
      limit: when its first audio must have arrived.
      until: the caller's deadline.
    """
    began = trio.current_time()
    error: SpeechError | None = None
    said: _BegunSpeech | None = None
    try:
        with trio.CancelScope(deadline=limit) as scope:
            async with candidate.model.speak(text, voice) as pieces:
                whole = _BegunSpeech(pieces, resampler)
                await whole.begin()
                await trio.lowlevel.checkpoint_if_cancelled()
                scope.deadline = inf
                said = whole
                yield said
        if scope.cancelled_caught:
            raise _slow(candidate, limit - began)
    except SpeechError as failure:
        error = failure
        raise
    except trio.Cancelled:
        if said is None and trio.current_time() >= until:
            error = _slow(candidate, until - began)  # by the caller's own deadline
        raise
    finally:
        if error is not None:
            if said is not None or error.kind in _SLOW:
                candidate.breaker.suspect(trio.current_time())
            candidate.failed(ticket, error)
        elif said is not None and said.finished:
            candidate.answered(ticket)
        else:
            candidate.left(ticket)


def _slow(candidate: ModelCandidate[Synthesizer], seconds: float) -> SpeechError:
    return SpeechError(
        f"{candidate.model.label}: no audio within {seconds:g} s", ErrorKind.FIRST_TOKEN
    )


@attrs.define(eq=False)
class _BegunSpeech:
    """The audio of the synthesizer that has begun, its first piece included."""

    _pieces: AsyncIterator[bytes]
    _resampler: Resampler
    finished: bool = attrs.field(default=False, init=False)
    _first: bytes | None = attrs.field(default=None, init=False)
    # The ends of words that nobody was told.
    _words: list[tuple[int, float]] = attrs.field(factory=list, init=False)
    _told: Callable[[int, float], None] | None = attrs.field(default=None, init=False)

    async def begin(self) -> None:
        """Wait for the first piece."""
        if isinstance(self._pieces, TellsWords):
            self._pieces.tell_words(self._tell)
        self._first = await anext(self._pieces, None)

    def tell_words(self, told: Callable[[int, float], None]) -> None:
        """Tell the ends of words, if the synthesizer does; see `TellsWords`."""
        self._told = told
        for words, end in self._words:
            told(words, end)
        self._words.clear()

    def _tell(self, words: int, end: float) -> None:
        if self._told is None:
            self._words.append((words, end))
        else:
            self._told(words, end)

    def __aiter__(self) -> _BegunSpeech:
        return self

    async def __anext__(self) -> bytes:
        while not self.finished:
            piece, self._first = self._first, None
            if piece is None:
                piece = await anext(self._pieces, None)
            if piece is None:
                self.finished = True
                audio = self._resampler.end()
            else:
                audio = self._resampler.feed(piece)
            if audio:
                return audio
        raise StopAsyncIteration
