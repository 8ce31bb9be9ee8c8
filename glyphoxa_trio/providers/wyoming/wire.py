"""The Wyoming protocol: events in bytes, both ways. No I/O.

An event is a line of JSON, which may announce more JSON and a payload after it::

    {"type": "audio-chunk", "data_length": 43, "payload_length": 2048}⏎
    {"rate": 22050, "width": 2, "channels": 1}<2048 bytes>

The lengths count bytes. ``data`` may stand in the line as well; the JSON after it is
added to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import attrs

from glyphoxa_trio.providers.audio import WIDTH
from glyphoxa_trio.providers.failures import excerpt, stream_error
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.speech import SpeechError, VoiceStyle
from glyphoxa_trio.providers.wording import replaced

MAX_LINE: Final = 64 * 1024  # bytes
MAX_DATA: Final = 4 * 1024 * 1024  # a server may list some hundred voices
MAX_PAYLOAD: Final = 4 * 1024 * 1024
_RATES: Final = range(1_000, 192_001)


@attrs.frozen
class WyomingEvent:
    """One event of the protocol."""

    type: str
    data: Mapping[str, Any] = attrs.field(factory=dict)
    payload: bytes = b""


def encoded(event: WyomingEvent) -> bytes:
    """Return the bytes of an event."""
    head: dict[str, Any] = {"type": event.type}
    data = b""
    if event.data:
        data = json.dumps(dict(event.data), ensure_ascii=False).encode(errors="replace")
        head["data_length"] = len(data)
    if event.payload:
        head["payload_length"] = len(event.payload)
    return json.dumps(head).encode() + b"\n" + data + event.payload


def malformed(detail: str) -> SpeechError:
    """Return the error of an answer that breaks the protocol."""
    return SpeechError(f"not the Wyoming protocol: {detail}", ErrorKind.MALFORMED)


@attrs.define(eq=False)
class EventReader:
    """The reader of a stream of bytes, however it is cut. It keeps at most one event
    that is not complete."""

    _buffer: bytearray = attrs.field(factory=bytearray, init=False)
    # The line of the event that is being read, and the sizes of its two parts.
    _head: tuple[str, dict[str, Any], int, int] | None = attrs.field(
        default=None, init=False
    )

    def feed(self, data: bytes) -> Iterator[WyomingEvent]:
        """Yield the events that are complete now.

        Raises:
          SpeechError: for bytes that are no event; nothing can be read after that.
        """
        self._buffer += data
        while (event := self._next()) is not None:
            yield event

    def _next(self) -> WyomingEvent | None:
        if self._head is None:
            end = self._buffer.find(b"\n", 0, MAX_LINE)
            if end < 0:
                if len(self._buffer) >= MAX_LINE:
                    raise malformed("a line without end")
                return None
            self._head = _head(bytes(self._buffer[:end]))
            del self._buffer[: end + 1]
        kind, data, size, more = self._head
        if len(self._buffer) < size + more:
            return None
        if size:
            data = {**data, **_mapping(bytes(self._buffer[:size]))}
        payload = bytes(self._buffer[size : size + more])
        del self._buffer[: size + more]
        self._head = None
        return WyomingEvent(kind, data, payload)


def _head(line: bytes) -> tuple[str, dict[str, Any], int, int]:
    """Return the type, the data and the two sizes that the line of an event states."""
    head = _mapping(line)
    kind, data = head.get("type"), head.get("data")
    if not isinstance(kind, str):
        raise malformed("an event without a type")
    if data is not None and not isinstance(data, dict):
        raise malformed(f"data that is no object in {excerpt(kind)}")
    sizes = []
    for key, most in (("data_length", MAX_DATA), ("payload_length", MAX_PAYLOAD)):
        size = head.get(key)
        size = 0 if size is None else size
        if type(size) is not int or not 0 <= size <= most:
            raise malformed(f"{key} is {excerpt(str(size))}")
        sizes.append(size)
    return kind, data or {}, sizes[0], sizes[1]


def _mapping(text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise malformed(excerpt(text[:1000].decode("utf-8", "replace")) or "no words")
    return value


# What we say.

DESCRIBE: Final = WyomingEvent("describe")


def select_program(name: str) -> WyomingEvent:
    return WyomingEvent("select-program", {"name": name})


def audio_start(rate: int) -> WyomingEvent:
    return WyomingEvent("audio-start", _layout(rate) | {"timestamp": 0})


def audio_chunk(pcm: bytes, rate: int) -> WyomingEvent:
    return WyomingEvent("audio-chunk", _layout(rate), pcm)


AUDIO_STOP: Final = WyomingEvent("audio-stop")


def _layout(rate: int) -> dict[str, Any]:
    return {"rate": rate, "width": WIDTH, "channels": 1}


def transcribe(
    model: str | None, language: str | None, names: Iterable[str]
) -> WyomingEvent:
    """Return the request for the words of the audio that follows.

    Servers know only the first part of a language tag, such as ``en``.
    """
    data: dict[str, Any] = {}
    if model:
        data["name"] = model
    if language:
        data["language"] = language.partition("-")[0].lower()
    if names := list(names):
        data["transcript_names"] = names
    return WyomingEvent("transcribe", data)


def synthesize(text: str, voice: VoiceStyle, *, streaming: bool) -> list[WyomingEvent]:
    """Return the request for the audio of a sentence.

    ``streaming``: the server gives the audio of the first part of a long one early.
    """
    how: dict[str, Any] = {}
    if voice.name:
        how["voice"] = {"name": voice.name}
    elif voice.language:
        how["voice"] = {"language": voice.language}
    text = replaced(text, voice.pronunciation)
    if not streaming:
        return [WyomingEvent("synthesize", {"text": text} | how)]
    return [
        WyomingEvent("synthesize-start", how),
        WyomingEvent("synthesize-chunk", {"text": text}),
        WyomingEvent("synthesize-stop"),
    ]


# What a server says.


def rate_of(event: WyomingEvent) -> int:
    """Return the rate of audio.

    Raises:
      SpeechError: if it is not PCM16 mono, or ends in the middle of a sample.
    """
    if len(event.payload) % WIDTH:
        raise malformed("half a sample")
    rate, width, channels = (
        event.data.get(key) for key in ("rate", "width", "channels")
    )
    if (width, channels) != (WIDTH, 1) or type(rate) is not int or rate not in _RATES:
        raise malformed(
            f"audio of {excerpt(str(rate))} Hz, {excerpt(str(width))} bytes,"
            f" {excerpt(str(channels))} channels, and not PCM16 mono"
        )
    return rate


def words_of(event: WyomingEvent) -> str:
    """Return the words of a transcript, or of a part of it."""
    text = event.data.get("text")
    if not isinstance(text, str):
        raise malformed(f"{event.type} without a text")
    return text


def error_of(event: WyomingEvent) -> SpeechError:
    """Return the error that a server reports."""
    error = stream_error(
        {"message": event.data.get("text"), "code": event.data.get("code") or ""}
    )
    return SpeechError(error.detail, error.kind)


@attrs.frozen
class Offer:
    """The abilities of a server: names of its services, and whether it streams."""

    speaks: bool = False
    hears: bool = False
    streams_speech: bool = False

    @classmethod
    def of(cls, event: WyomingEvent) -> Offer:
        """Return what an ``info`` says."""
        tts, asr = (_programs(event.data.get(key)) for key in ("tts", "asr"))
        streams = bool(tts) and tts[0].get("supports_synthesize_streaming") is True
        return cls(bool(tts), bool(asr), streams)


def _programs(value: object) -> list[dict[str, Any]]:
    found = value if isinstance(value, list) else []
    return [x for x in found if isinstance(x, dict) and x.get("installed") is not False]
