"""The contracts of speech recognition and speech synthesis.

Audio is PCM16, little endian, mono; every contract says its rate in Hz. Both are
context managers, so that leaving the block ends the work at once: that is how a
sentence is cut off.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import attrs

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.renamed import renamed


class SpeechError(GlyphoxaError):
    """Speech could not be made or understood. For people; holds no secret."""


@attrs.frozen(kw_only=True)
class VoiceStyle:
    """How an NPC sounds. ``name`` is the vendor's, ``speed`` 1.0 the usual one,
    ``pronunciation`` what is said in place of a written word."""

    name: str | None = None
    language: str | None = None
    speed: float = 1.0
    pronunciation: Mapping[str, str] = attrs.field(factory=dict)


class Synthesizer(Protocol):
    """Sentences in, PCM out. ``label`` says which, for people."""

    @property
    def label(self) -> str: ...

    @property
    def rate(self) -> int: ...

    def speak(
        self, text: str, voice: VoiceStyle
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Say one sentence, in pieces as they are made.

        Raises:
          SpeechError: on entering or while iterating.
        """
        ...


@attrs.frozen
class Began:
    """Somebody begins to speak. ``utterance``: the number of what they say, if
    `TellsSpeech` has told of it."""

    utterance: int | None = None


@attrs.frozen
class Partial:
    """All the words so far of somebody who still speaks."""

    text: str


@attrs.frozen
class Final:
    """What was said, when it is over. Empty if it was no speech after all."""

    text: str


@attrs.frozen
class NotUnderstood:
    """In place of a `Final`: what was said is lost, what comes next perhaps not."""

    detail: str


Recognized = Began | Partial | Final | NotUnderstood


class Recognition(Protocol):
    """One listener to one microphone, over many utterances."""

    def hear(self, pcm: bytes) -> None:
        """Take a piece of audio. Never waits; what is too much is dropped, oldest
        first, and counted."""
        ...

    def events(self) -> AsyncIterator[Recognized]:
        """What is understood; one reader. Ends when the block is left.

        One utterance after the other: `Began`, `Partial`s if there are any, and a
        `Final` or a `NotUnderstood`.

        Raises:
          SpeechError: if nothing can be understood any more.
        """
        ...

    @property
    def dropped(self) -> float:
        """Seconds of audio that came too fast to be understood."""
        ...


@attrs.frozen
class Sounding:
    """So many ``seconds`` of what is said are speech. ``over``: and that is all."""

    utterance: int
    seconds: float
    over: bool = False


@runtime_checkable
class TellsSpeech(Protocol):
    """A `Recognition` that says when somebody speaks in the moment in which it hears
    it, while its events have their order: what was said before is understood first."""

    def tell_speech(self, told: Callable[[Sounding], None]) -> None:
        """Tell ``told`` from now on; it does not wait."""
        ...


class Recognizer(Protocol):
    """Understands speech. ``label`` says which, for people."""

    @property
    def label(self) -> str: ...

    @property
    def rate(self) -> int: ...

    def listen(
        self, *, language: str | None = None
    ) -> AbstractAsyncContextManager[Recognition]:
        """Listen to one speaker.

        Raises:
          SpeechError: on entering, if it cannot.
        """
        ...


if not TYPE_CHECKING:
    __getattr__ = renamed(__name__, Voice="VoiceStyle")
