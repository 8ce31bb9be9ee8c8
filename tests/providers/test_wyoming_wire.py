"""Events of the Wyoming protocol in bytes, judged by the package of its authors."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wyoming.asr import Transcribe
from wyoming.audio import AudioChunk, AudioStart
from wyoming.event import Event, async_read_event, read_event, write_event
from wyoming.info import Info
from wyoming.tts import Synthesize, SynthesizeChunk, SynthesizeStart, SynthesizeVoice

from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.speech import SpeechError, VoiceStyle
from glyphoxa_trio.providers.wyoming.wire import (
    MAX_LINE,
    MAX_PAYLOAD,
    EventReader,
    Offer,
    WyomingEvent,
    audio_chunk,
    audio_start,
    encoded,
    error_of,
    rate_of,
    synthesize,
    transcribe,
    words_of,
)

SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=9)
DATA = st.dictionaries(
    st.text(max_size=5),
    SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(st.text(), SCALARS),
    max_size=4,
)
EVENTS = st.lists(
    st.builds(WyomingEvent, st.text(min_size=1), DATA, st.binary(max_size=50)),
    max_size=5,
)


def theirs(event: WyomingEvent) -> Event:
    return Event(event.type, dict(event.data), event.payload or None)


def written(events: Sequence[WyomingEvent]) -> bytes:
    """What their package writes."""
    file = io.BytesIO()
    for event in events:
        write_event(theirs(event), file)
    return file.getvalue()


def read(data: bytes, cuts: Sequence[int]) -> list[WyomingEvent]:
    reader, at = EventReader(), 0
    found: list[WyomingEvent] = []
    for cut in [*sorted(x % (len(data) + 1) for x in cuts), len(data)]:
        found += reader.feed(data[at:cut])
        at = cut
    return found


@given(EVENTS, st.lists(st.integers(0, 10_000), max_size=20))
def test_what_they_write_is_read_however_it_is_cut(
    events: list[WyomingEvent], cuts: list[int]
) -> None:
    assert read(written(events), cuts) == events


@given(EVENTS)
def test_what_we_write_is_read_by_them(events: list[WyomingEvent]) -> None:
    file = io.BytesIO(b"".join(map(encoded, events)))
    for event in events:
        assert read_event(file) == theirs(event)
    assert read_event(file) is None


def test_data_in_the_line_and_after_it_is_put_together() -> None:
    line = {"type": "t", "data": {"a": 1, "b": 1}, "data_length": 8, "version": "1.5"}
    data = json.dumps(line).encode() + b'\n{"b": 2}'
    assert read(data, [3]) == [WyomingEvent("t", {"a": 1, "b": 2})]

    async def by_them() -> Event | None:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        return await async_read_event(reader)

    assert asyncio.run(by_them()) == Event("t", {"a": 1, "b": 2})


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_garbage_is_an_error_or_not_yet_an_event(data: bytes, cuts: list[int]) -> None:
    errors: list[SpeechError] = []
    try:
        read(data, cuts)
    except SpeechError as error:
        errors.append(error)
    for found in errors:
        assert found.kind is ErrorKind.MALFORMED
        assert str(found).isprintable()
        assert len(str(found)) < 400


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        b"[]\n",
        b"{}\n",
        b'{"type": 7}\n',
        b'{"type": "t", "data": []}\n',
        b'{"type": "t", "data_length": -1}\n',
        b'{"type": "t", "data_length": true}\n',
        b'{"type": "t", "payload_length": "9"}\n',
        b'{"type": "t", "payload_length": %d}\n' % (MAX_PAYLOAD + 1),
        b'{"type": "t", "payload_length": 1e3}\n',
        b'{"type": "t", "data_length": 2}\n[]',
        b"[" * (MAX_LINE - 1) + b"\n",
        b" " * MAX_LINE,
    ],
    ids=lambda data: data[:40],
)
def test_what_is_no_event_is_refused(data: bytes) -> None:
    with pytest.raises(SpeechError, match="not the Wyoming protocol"):
        read(data, [])


def test_no_more_is_kept_than_one_event_may_have() -> None:
    reader = EventReader()
    assert list(reader.feed(b'{"type": "t", "payload_length": 10}\n123')) == []
    (event,) = reader.feed(b"4567890")
    assert event.payload == b"1234567890"
    with pytest.raises(SpeechError):
        for _ in range(MAX_LINE // 1024):
            list(reader.feed(b"x" * 1024))


def test_our_requests_are_theirs() -> None:
    asked = theirs(transcribe("small", "en-GB", ["Moira"]))
    assert Transcribe.from_event(asked) == Transcribe(
        name="small", language="en", transcript_names=["Moira"]
    )
    assert Transcribe.from_event(theirs(transcribe(None, None, []))) == Transcribe()
    assert AudioStart.from_event(theirs(audio_start(16_000))) == AudioStart(
        16_000, 2, 1, timestamp=0
    )
    chunk = AudioChunk.from_event(theirs(audio_chunk(b"aabb", 16_000)))
    assert (chunk.audio, chunk.rate, chunk.seconds) == (b"aabb", 16_000, 2 / 16_000)
    style = VoiceStyle(name="alan", language="en-GB", pronunciation={"Bree": "Brie"})
    (whole,) = synthesize("Bree!", style, streaming=False)
    assert Synthesize.from_event(theirs(whole)) == Synthesize(
        "Brie!", voice=SynthesizeVoice(name="alan")
    )
    start, text, stop = synthesize("Bree!", VoiceStyle(language="de"), streaming=True)
    assert SynthesizeStart.from_event(theirs(start)) == SynthesizeStart(
        voice=SynthesizeVoice(language="de")
    )
    assert SynthesizeChunk.from_event(theirs(text)) == SynthesizeChunk("Bree!")
    assert stop.type == "synthesize-stop"


def info(**programs: Any) -> WyomingEvent:
    return WyomingEvent("info", programs)


def test_what_a_server_offers_is_understood() -> None:
    assert Offer.of(info()) == Offer()
    assert Offer.of(info(tts=7, asr=["x"])) == Offer()
    assert Offer.of(info(tts=[{"installed": False}])) == Offer()
    plain = {"name": "piper", "installed": True}
    assert Offer.of(info(tts=[plain], asr=[plain])) == Offer(True, True, False)
    streams = plain | {"supports_synthesize_streaming": True}
    assert Offer.of(info(tts=[streams])) == Offer(True, False, True)
    assert Offer.of(WyomingEvent("info", Info().event().data)) == Offer()


def test_audio_that_is_not_pcm16_mono_is_an_error() -> None:
    layout: dict[str, Any] = {"rate": 22_050, "width": 2, "channels": 1}
    wrongs: list[dict[str, Any]] = [
        *({"width": 4}, {"channels": 2}, {"rate": 0}, {"rate": "x"})
    ]
    assert rate_of(WyomingEvent("audio-chunk", layout, b"aa")) == 22_050
    for wrong in wrongs:
        with pytest.raises(SpeechError, match="not PCM16 mono"):
            rate_of(WyomingEvent("audio-chunk", layout | wrong))
    with pytest.raises(SpeechError, match="half a sample"):
        rate_of(WyomingEvent("audio-chunk", layout, b"a"))


def test_what_a_server_reports_is_quoted() -> None:
    error = error_of(WyomingEvent("error", {"text": "no such\nvoice", "code": "x"}))
    assert str(error) == "no such voice"
    assert str(error_of(WyomingEvent("error"))) == "no explanation"
    busy = error_of(WyomingEvent("error", {"text": "busy", "code": "overloaded"}))
    assert busy.kind is ErrorKind.OVERLOADED
    with pytest.raises(SpeechError, match="transcript without a text"):
        words_of(WyomingEvent("transcript", {"text": None}))
