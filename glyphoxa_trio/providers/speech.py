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
from glyphoxa_trio.renamed import renamed


class SpeechError(GlyphoxaError):
    """Speech could not be synthesized or recognized.

    The message is for people and holds no secret.
    """


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
