"""One sentence over ``…/stream-input``: its messages, and the meaning of answers.

No I/O.

    client   {"text": " ", …}  {"text": "It sleeps. "}  {"text": ""}
    server        {"audio": …, "alignment": …}  …  {"isFinal": true}  close

The sentence is sent as a whole, with its end, so the server never waits for us, and the
socket is closed after it.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections import Counter
from typing import Any, Final, Never
from urllib.parse import quote, urlencode

import attrs

from glyphoxa_trio.providers.audio import WIDTH, seconds_of
from glyphoxa_trio.providers.failures import excerpt
from glyphoxa_trio.providers.live_socket.failures import on_close
from glyphoxa_trio.providers.live_wire import Frame
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.s2s import LinkClosed
from glyphoxa_trio.providers.speech import VoiceStyle
from glyphoxa_trio.providers.timed_audio import SILENCE
from glyphoxa_trio.secret import Secret

from .alignment import WordedSentence, WordTimes

RATES: Final = (16_000, 22_050, 24_000, 44_100, 48_000)
SLOWEST, FASTEST = 0.7, 1.2  # of the voice's own speed
# Seconds of audio for one sentence; a server that sends more does not stop by itself.
LONGEST: Final = 120.0
_NAMES: Final = 16  # of unknown messages that are counted
_POLICY: Final = 1008  # the code with which it closes after an error


@attrs.frozen
class SpeechPiece:
    """Audio of the sentence; so many ``words`` of it have ended at these seconds."""

    pcm: bytes
    words: tuple[tuple[int, float], ...] = ()


@attrs.frozen
class SpeechOver:
    """The end of the sentence."""


SpeechEvent = SpeechPiece | SpeechOver


def address(base_url: str, voice: str, model: str, rate: int, language: str) -> str:
    """Return the path and query of the socket, after ``base_url``.

    ``language`` is empty for a model that finds it out; others refuse the field.
    """
    query = {
        "model_id": model,
        "output_format": f"pcm_{rate}",
        # Times with every piece of audio, and no waiting for more text.
        "sync_alignment": "true",
        "auto_mode": "true",
    }
    if language:
        query["language_code"] = language
    path = f"/v1/text-to-speech/{quote(voice, safe='')}/stream-input"
    scheme, _, rest = base_url.partition("://")
    return f"{'wss' if scheme == 'https' else 'ws'}://{rest}{path}?{urlencode(query)}"


def language_of(model: str, voice: VoiceStyle) -> str:
    """Return the language to ask for: only newer models may be told one."""
    told = "v2_5" in model or "v3" in model
    return (voice.language or "").partition("-")[0].lower() if told else ""


@attrs.define(eq=False)
class SentenceWire:
    """A `VendorWire` for one sentence; there are no commands.

    Args:
      sentence: what is said.
      voice: how; its name is in the address.
      rate: of the audio, in Hz.
      until: when the first audio must have come, on the clock of ``now``.
      secret: removed from the server's words.
    """

    sentence: WordedSentence
    voice: VoiceStyle
    rate: int
    until: float
    secret: Secret | None = None
    ready: bool = attrs.field(default=False, init=False)
    alarm: float | None = attrs.field(default=None, init=False)
    unknown: Counter[str] = attrs.field(factory=Counter, init=False)
    _times: WordTimes = attrs.field(init=False)
    _frames: list[Frame] = attrs.field(factory=list, init=False)
    _rest: bytes = attrs.field(default=b"", init=False)  # half a sample
    _seconds: float = attrs.field(default=0.0, init=False)

    def __attrs_post_init__(self) -> None:
        self._times = WordTimes(self.sentence)

    def opening(self, now: float) -> None:
        first: dict[str, Any] = {"text": " "}
        if self.voice.speed != 1.0:
            speed = max(SLOWEST, min(FASTEST, self.voice.speed))
            first["voice_settings"] = {"speed": speed}
        # Text ends with a space, or the last word might go on.
        for message in (first, {"text": f"{self.sentence.text} "}, {"text": ""}):
            self._frames.append(Frame(json.dumps(message)))
        self.ready = True
        self.alarm = self.until

    def send(self, command: Never, now: float) -> None:
        raise ValueError("everything is sent when the socket opens")

    def receive(self, message: str | bytes, now: float) -> list[SpeechEvent]:
        try:
            found = json.loads(message)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise self._malformed(message)
        events: list[SpeechEvent] = []
        if found.get("audio"):
            events.append(self._piece(found))
            self.alarm = now + SILENCE
        if found.get("isFinal"):
            self.alarm = None
            if not self._seconds and any(map(str.isalnum, self.sentence.text)):
                detail = "it ended without audio"
                raise LinkClosed(ErrorKind.MALFORMED, detail, retryable=False)
            return [*events, SpeechOver()]
        if events:
            return events
        if found.get("error") or found.get("message"):
            raise self._refusal(found)
        for name in list(found)[:1]:
            if name in self.unknown or len(self.unknown) < _NAMES:
                self.unknown[name[:32]] += 1
        return []

    def _piece(self, found: dict[str, Any]) -> SpeechPiece:
        try:
            audio = self._rest + b64decode(found["audio"], validate=True)
        except (ValueError, TypeError):
            raise self._malformed(str(found["audio"])) from None
        whole = len(audio) // WIDTH * WIDTH
        audio, self._rest = audio[:whole], audio[whole:]
        words = self._times.hear(found.get("alignment"), self._seconds)
        self._seconds += seconds_of(audio, self.rate)
        if self._seconds > LONGEST:
            detail = f"more than {LONGEST:g} s of audio for one sentence"
            raise LinkClosed(ErrorKind.TOO_LONG, detail, retryable=False)
        return SpeechPiece(audio, tuple(words))

    def wake(self, now: float) -> list[SpeechEvent]:
        if self._seconds:
            detail = f"silent for {SILENCE:g} s"
            raise LinkClosed(ErrorKind.SILENCE, detail, retryable=True)
        detail = "no audio in time"
        raise LinkClosed(ErrorKind.FIRST_TOKEN, detail, retryable=True)

    def outgoing(self) -> list[Frame]:
        frames, self._frames = self._frames, []
        return frames

    def _malformed(self, message: str | bytes) -> LinkClosed:
        text = (
            message.decode(errors="replace") if isinstance(message, bytes) else message
        )
        detail = f"no message of this protocol: {excerpt(text[:1000], self.secret)}"
        return LinkClosed(ErrorKind.MALFORMED, detail, retryable=False)

    def _refusal(self, found: dict[str, Any]) -> LinkClosed:
        """Return the error of a message that says why the socket will be closed."""
        told = (found.get("error"), found.get("message"))
        words = ": ".join(str(each)[:1000] for each in told if each)
        return on_close(_POLICY, words, self.secret)
