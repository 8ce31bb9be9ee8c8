"""Where somebody begins and ends to speak. Pure.

    frames   . . . s s s s s s . s s s . . . . . . . . . . .
             └─────┘ begins: most of 0.2 s is speech; what was just before counts, too
                                       └───────────────────┘ ends: 0.6 s of hardly any

Whether a frame of 30 ms holds speech says a voice activity detector (`detector`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import attrs

from .speech import SpeechError

RATE: Final = 16_000
FRAME: Final = 0.03  # seconds
LONGEST: Final = 30.0  # of one utterance; then it ends, and another one may begin
SILENCE: Final = 0.6  # of hardly any speech, that ends one

_BEFORE: Final = 10  # frames that belong to an utterance before it is noticed
_BEGIN: Final = (5, 6)  # so many of so many frames are speech
_END: Final = (2, round(SILENCE / FRAME))  # at most so many of so many are

IsSpeech = Callable[[bytes], bool]


def detector() -> IsSpeech:
    """Whether a frame holds speech, by the detector that comes with `pocketsphinx`: it
    tells voices from a steady noise, which loudness does not.

    Raises:
      SpeechError: if it is not installed.
    """
    vad = _pocketsphinx().Vad(2, RATE, FRAME)
    is_speech: IsSpeech = vad.is_speech
    return is_speech


def _pocketsphinx() -> Any:
    try:
        import pocketsphinx
    except ImportError:
        raise SpeechError(
            "speech recognition needs the extra `voice`: "
            "pip install 'glyphoxa-trio[voice]'"
        ) from None
    return pocketsphinx


@attrs.define(eq=False)
class Endpointer:
    """Cuts frames into utterances. ``speaking``: one of them goes on."""

    _recent: deque[tuple[bytes, bool]] = attrs.field(
        factory=lambda: deque(maxlen=max(_BEFORE, _END[1])), init=False
    )
    _frames: int = attrs.field(default=0, init=False)  # of this utterance
    speaking: bool = attrs.field(default=False, init=False)

    def feed(self, frame: bytes, speech: bool) -> bytes:
        """What of the audio is known to belong to an utterance now, and was not before:
        nothing while nobody speaks."""
        self._recent.append((frame, speech))
        if self.speaking:
            self._frames += 1
            if self._over():
                self.end()
            return frame
        if self._share(_BEGIN[1]) < _BEGIN[0]:
            return b""
        before = [frame for frame, _ in self._recent][-_BEFORE:]
        self.speaking, self._frames = True, len(before)
        return b"".join(before)

    def end(self) -> None:
        """The utterance is over, if there is one; what comes is none of it."""
        self.speaking = False
        self._recent.clear()

    def _over(self) -> bool:
        silent = len(self._recent) >= _END[1] and self._share(_END[1]) <= _END[0]
        return silent or self._frames * FRAME >= LONGEST

    def _share(self, frames: int) -> int:
        return sum(speech for _, speech in list(self._recent)[-frames:])


"""+"""
