"""Audio of a synthesizer, with limits of time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Final

import attrs

import trio

from .llm import ErrorKind
from .speech import SpeechError

SILENCE: Final = 5.0  # seconds between two pieces of one sentence


@attrs.define(eq=False, kw_only=True)
class TimedAudio:
    """The audio of one sentence, whose time began when this was made.

    Args:
      label: the synthesizer, for errors.
      text: the sentence; one without a word may have no audio.
      timeout: seconds until the first audio.
    """

    label: str
    text: str
    timeout: float
    _until: float = attrs.field(init=False)
    _begun: bool = attrs.field(default=False, init=False)

    @_until.default
    def _first_audio(self) -> float:
        return trio.current_time() + self.timeout

    @contextmanager
    def limit(self) -> Iterator[None]:
        """Limit the time of what is done inside.

        Raises:
          SpeechError: when it is over.
        """
        limit = trio.current_time() + SILENCE if self._begun else self._until
        try:
            with trio.fail_at(limit):
                yield
        except trio.TooSlowError:
            if self._begun:
                words, kind = f"silent for {SILENCE:g} s", ErrorKind.SILENCE
            else:
                words = f"no audio within {self.timeout:g} s"
                kind = ErrorKind.FIRST_TOKEN
            raise SpeechError(f"{self.label}: {words}", kind) from None

    async def pieces(self, source: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
        """Yield the pieces of ``source`` that are not empty.

        Raises:
          SpeechError: if a piece takes too long, or none comes.
        """
        while True:
            with self.limit():
                piece = await anext(source, None)
                while piece == b"":
                    piece = await anext(source, None)
            if piece is None:
                break
            self._begun = True
            yield piece
        if not self._begun and any(mark.isalnum() for mark in self.text):
            raise SpeechError(
                f"{self.label}: it ended without audio", ErrorKind.MALFORMED
            )
