"""The interfaces of speech recognition and speech synthesis.

Audio is PCM16, little endian, mono; every interface has its rate in Hz. Both are
context managers: leaving the block ends the work at once, which is how a sentence is
cut off.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import attrs

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.renamed import renamed

# After one of these errors the next sentence or utterance would fail as well.
_LASTING = frozenset({ErrorKind.AUTHENTICATION, ErrorKind.NOT_FOUND})


class SpeechError(GlyphoxaError):
    """Speech could not be synthesized or recognized.

    The message is for people and holds no secret; ``kind`` is what failed.
    """

    def __init__(
        self, detail: str = "", kind: ErrorKind = ErrorKind.INTERRUPTED
    ) -> None:
        super().__init__(detail)
        self.kind = kind

    @property
    def lasting(self) -> bool:
        """True if every later attempt would fail as well: a wrong key, model or
        address."""
        return self.kind in _LASTING


@attrs.frozen(kw_only=True)
class VoiceStyle:
    """The voice of an NPC.

    ``name`` is the vendor's name of it. ``speed`` 1.0 is the usual one.
    ``pronunciation`` maps written words to words or phonemes that are spoken instead.
    """

    name: str | None = None
    language: str | None = None
    speed: float = 1.0
    pronunciation: Mapping[str, str] = attrs.field(factory=dict)


class Synthesizer(Protocol):
    """A speech synthesizer: sentences in, PCM out. ``label`` names it, for people."""

    @property
    def label(self) -> str: ...

    @property
    def rate(self) -> int: ...

    def speak(
        self, text: str, voice: VoiceStyle
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Speak one sentence; yield pieces of audio as they are made.

        Raises:
          SpeechError: on entering or while iterating.
        """
        ...


@runtime_checkable
class TellsWords(Protocol):
    """The audio of a sentence, as `Synthesizer.speak` yields it, with word times.

    Without it a sentence that is cut counts as heard in proportion to its audio. A
    synthesizer of which only some audio tells them may have it as well.
    """

    def tell_words(self, told: Callable[[int, float], None]) -> None:
        """Call ``told(words, end)`` from now on; it must not wait.

        It means that the first ``words`` words of the sentence, as it was given, end at
        ``end`` seconds of its audio. Told in order, each before the iteration returns
        the audio in which it ends, and never without audio.
        """
        ...


@attrs.frozen
class Began:
    """The user starts speaking.

    ``utterance`` is the number of the utterance, if `TellsSpeech` has reported it.
    """

    utterance: int | None = None


@attrs.frozen
class Partial:
    """All words so far of an utterance that is not over."""

    text: str


@attrs.frozen
class Final:
    """The words of an utterance that is over. Empty if it was no speech after all."""

    text: str


@attrs.frozen
class NotUnderstood:
    """The utterance could not be recognized. Replaces `Final`; the next may succeed."""

    detail: str


Recognized = Began | Partial | Final | NotUnderstood


class Recognition(Protocol):
    """The recognition of one microphone, over many utterances."""

    def hear(self, pcm: bytes) -> None:
        """Take a piece of audio, without waiting.

        Audio that is too much is dropped, oldest first, and counted.
        """
        ...

    def events(self) -> AsyncIterator[Recognized]:
        """Return the events; there may be one reader. Ends when the block is left.

        One utterance after another: `Began`, `Partial`s if there are any, and a `Final`
        or a `NotUnderstood`.

        Raises:
          SpeechError: if nothing can be recognized any more.
        """
        ...

    @property
    def dropped(self) -> float:
        """Seconds of audio that were dropped because they arrived too fast."""
        ...


@attrs.frozen
class Sounding:
    """The duration of the speech in an utterance so far, in seconds.

    ``over`` is True once the utterance has ended.
    """

    utterance: int
    seconds: float
    over: bool = False


@runtime_checkable
class TellsSpeech(Protocol):
    """A `Recognition` that reports speech in the moment in which it detects it.

    Its events come later, in order: earlier utterances are recognized first.
    """

    def tell_speech(self, told: Callable[[Sounding], None]) -> None:
        """Call ``told`` from now on; it must not wait."""
        ...


class Recognizer(Protocol):
    """A model that recognizes speech. ``label`` names it, for people."""

    @property
    def label(self) -> str: ...

    @property
    def rate(self) -> int: ...

    def listen(
        self, *, language: str | None = None
    ) -> AbstractAsyncContextManager[Recognition]:
        """Listen to one speaker.

        Raises:
          SpeechError: on entering, if that is not possible.
        """
        ...


if not TYPE_CHECKING:
    __getattr__ = renamed(__name__, Voice="VoiceStyle")
