"""The request to a speech server, and the audio of its response. No I/O."""

from __future__ import annotations

import re
from typing import Any, Final

import attrs

from glyphoxa_trio.providers.audio import WIDTH, AudioError, Resampler
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.speech import SpeechError, VoiceStyle
from glyphoxa_trio.providers.wav import WavReader
from glyphoxa_trio.providers.wording import replaced

_SLOWEST, _FASTEST = 0.25, 4.0  # the limits of the vendor
# Audio that is packed, by its first bytes; a type in the headers is not always true.
_PACKED: Final = {b"ID3": "MP3", b"Ogg": "Ogg", b"fLa": "FLAC"}
_RIFF: Final = b"RIFF"


def request(model: str, text: str, voice: VoiceStyle) -> dict[str, Any]:
    """Return the body of a request.

    A speed outside the vendor's limits becomes the nearest one inside.
    """
    body: dict[str, Any] = {
        "model": model,
        "input": replaced(text, voice.pronunciation),
        "response_format": "pcm",
    }
    if voice.name:
        body["voice"] = voice.name
    if voice.speed != 1.0:
        body["speed"] = max(_SLOWEST, min(_FASTEST, voice.speed))
    return body


def is_audio(content_type: str) -> bool:
    """Return whether the type of a response is, or may be, raw audio or a WAV."""
    kind = content_type.partition(";")[0].strip().lower()
    return kind in ("", "application/octet-stream", "binary/octet-stream") or (
        kind.startswith("audio/")
    )


def stated_rate(content_type: str) -> int | None:
    """Return the rate that a type such as ``audio/pcm;rate=24000`` states."""
    found = re.search(r";\s*rate=\"?(\d{4,6})\b", content_type, re.IGNORECASE)
    return int(found[1]) if found and 8_000 <= int(found[1]) <= 192_000 else None


@attrs.define(eq=False)
class AudioReader:
    """The reader of a response: raw PCM16 mono, or a WAV of it.

    Args:
      raw_rate: the rate of raw audio, in Hz.
      rate: the rate of the audio that is returned.
    """

    raw_rate: int
    rate: int
    _head: bytes = attrs.field(default=b"", init=False)  # too short to tell
    _wav: WavReader | None = attrs.field(default=None, init=False)
    _resampler: Resampler | None = attrs.field(default=None, init=False)
    _rest: bytes = attrs.field(default=b"", init=False)  # half a sample
    _raw: bool = attrs.field(default=False, init=False)

    def feed(self, data: bytes) -> bytes:
        """Return the audio in what has arrived, in whole samples.

        Raises:
          SpeechError: if it is no such audio.
        """
        if not self._raw and self._wav is None:
            self._head += data
            if len(self._head) < len(_RIFF):
                return b""
            data, self._head = self._head, b""
            if packed := _PACKED.get(data[:3]):
                raise SpeechError(
                    f"it sends {packed}, and not PCM or WAV", ErrorKind.MALFORMED
                )
            if data.startswith(_RIFF):
                self._wav = WavReader(streamed=True)
            else:
                self._raw = True
        try:
            return self._converted(data)
        except AudioError as error:
            raise SpeechError(str(error), ErrorKind.MALFORMED) from None

    def end(self) -> bytes:
        """Return the rest of the audio."""
        return b"" if self._resampler is None else self._resampler.end()

    def _converted(self, data: bytes) -> bytes:
        rate: int | None = self.raw_rate
        if self._wav is not None:
            data = self._wav.feed(data)
            rate = self._wav.rate
        audio = self._rest + data
        whole = len(audio) // WIDTH * WIDTH
        audio, self._rest = audio[:whole], audio[whole:]
        if rate is None or not audio:
            return b""
        if self._resampler is None:
            self._resampler = Resampler(rate, self.rate)
        return self._resampler.feed(audio)
