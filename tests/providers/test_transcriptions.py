"""Speech recognition over HTTP: a strict server on loopback, and the vendor's client.

Sockets are real, so nothing is timed; each test has an absolute end.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio.providers.speech import (
    Began,
    Final,
    NotUnderstood,
    SpeechError,
)
from glyphoxa_trio.providers.transcriptions import Transcriptions, link
from glyphoxa_trio.providers.transcriptions.wire import MAX_ANSWER
from glyphoxa_trio.providers.wav import wav
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.testing.http_server import (
    CloseConnection,
    LateReply,
    NoAnswer,
    RawBytes,
    StatusReply,
)
from glyphoxa_trio.testing.transcription_server import (
    Reply,
    Script,
    TranscriptionServer,
    open_transcription_server,
)

from .spoken import final, spoken, understood

KEY = "sk-very-secret"
PCM = random.Random(1).randbytes(16_000 * 2)  # a second of it


@asynccontextmanager
async def asked(
    script: Script, **options: object
) -> AsyncIterator[tuple[TranscriptionServer, Transcriptions]]:
    with trio.fail_after(60):
        async with open_transcription_server(script, key=KEY) as server:
            given: dict[str, object] = {
                "model": server.model,
                "base_url": server.base_url,
                "api_key": Secret(KEY),
            }
            ears = Transcriptions(**(given | options))  # type: ignore[arg-type]
            try:
                yield server, ears
            finally:
                await ears.aclose()


async def test_an_utterance_is_uploaded_as_it_was_said() -> None:
    async with asked([" What is the price? "]) as (server, ears):
        text = await ears.transcribe(PCM, language="en-GB")
    assert text == "What is the price?"
    (upload,) = server.uploads
    assert (upload.pcm, upload.rate, upload.seconds) == (PCM, 16_000, 1.0)
    assert (upload.language, upload.prompt) == ("en", None)
    assert server.refused == []


async def test_a_prompt_is_a_hint_and_connections_are_kept() -> None:
    async with asked(["Yes.", "No."], prompt="Greymantle, Moira") as (server, ears):
        assert [await ears.transcribe(PCM) for _ in range(2)] == ["Yes.", "No."]
        assert server.http.connections == 1
    assert [upload.prompt for upload in server.uploads] == ["Greymantle, Moira"] * 2


@pytest.mark.border
@pytest.mark.usefixtures("espeak")
async def test_what_is_said_at_a_microphone_is_understood_and_nothing_else() -> None:
    async with asked(["What is the price of a horse?", "Yes."]) as (server, ears):
        found = await understood(ears, "What is the price of a horse?", "Yes.")
        assert [final(events) for events in found] == [
            "What is the price of a horse?",
            "Yes.",
        ]
        assert found[0][0] == Began(1)
    first, second = server.uploads
    # All of what was said, and not all of the silence.
    whole = await spoken("What is the price of a horse?", 16_000)
    assert first.pcm in whole
    said = whole.strip(b"\0")
    assert len(said) <= len(first.pcm) < len(whole)
    assert 0.6 < second.seconds < first.seconds


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (
            StatusReply(429, {"Retry-After": "2"}, {"error": {"message": "slow down"}}),
            "429",
        ),
        (StatusReply(503, body=b"<h1>busy</h1>"), "503: <h1>busy</h1>"),
        (StatusReply(400, body={"error": {"message": "too short"}}), "400: too short"),
        (StatusReply(200, body={"words": []}), "not a transcript"),
        (StatusReply(200, body=["text"]), "not a transcript"),
        (StatusReply(200, body={"text": 7}), "not a transcript"),
        (StatusReply(200, body=b"[" * 100_000), "not a transcript"),
        (
            StatusReply(200, body=b'{"text": "' + b"x" * 200_000 + b'"}'),
            "not a transcript",
        ),
        (RawBytes(b"hello\r\n\r\n"), "127.0.0.1"),
        (CloseConnection(), "127.0.0.1"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value,
)
async def test_what_goes_wrong_once_loses_one_utterance(reply: Reply, why: str) -> None:
    async with asked([reply, "Yes."]) as (server, ears):
        with pytest.raises(SpeechError, match=why) as caught:
            await ears.transcribe(PCM)
        assert KEY not in str(caught.value)
        assert await ears.transcribe(PCM) == "Yes."
    assert len(server.uploads) == 2


@pytest.mark.parametrize("reply", [NoAnswer(), LateReply(30.0, StatusReply())], ids=str)
async def test_who_takes_too_long_is_hung_up_on(
    mock_clock: MockClock, reply: Reply
) -> None:
    async with asked([reply, "Yes."], timeout=20) as (server, ears):

        async def wait() -> None:
            with pytest.raises(SpeechError, match="no transcript after 20 s"):
                await ears.transcribe(PCM)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await server.http.wait(lambda: len(server.uploads) == 1)
            mock_clock.jump(20)
        await server.http.wait(lambda: server.http.hangups == 1)


@pytest.mark.border
@pytest.mark.usefixtures("espeak")
async def test_one_utterance_that_is_lost_is_told_and_the_next_understood() -> None:
    async with asked([StatusReply(503, body=b"busy"), "Yes."]) as (_, ears):
        lost, found = await understood(ears, "No.", "Yes.")
    assert lost == [Began(1), NotUnderstood("HTTP 503: busy")]
    assert found == [Began(2), Final("Yes.")]


@pytest.mark.border
@pytest.mark.usefixtures("espeak")
@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"api_key": Secret("sk-other-secret")}, "401: Incorrect API key"),
        ({"api_key": None}, "401: Incorrect API key"),
        ({"model": "whisper-0"}, "404: The model 'whisper-0' does not exist"),
    ],
)
async def test_what_will_never_go_right_is_the_end(
    given: dict[str, object], why: str
) -> None:
    async with asked(["Yes."], **given) as (server, ears):
        with pytest.raises(SpeechError, match=why) as caught:
            await understood(ears, "Yes.")
        assert "secret" not in str(caught.value)
    assert server.uploads == []


async def test_nobody_is_followed_elsewhere() -> None:
    async with asked(["Yes."]) as (elsewhere, _):
        there = f"{elsewhere.base_url}/audio/transcriptions"
        async with asked([StatusReply(307, {"Location": there})]) as (server, ears):
            with pytest.raises(SpeechError, match="redirects"):
                await ears.transcribe(PCM)
        assert len(server.uploads) == 1
        assert elsewhere.http.requests == []


async def test_of_an_answer_without_end_only_the_beginning_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: list[int] = []

    def text_of(status: int, headers: object, body: bytes, secret: object) -> str:
        kept.append(len(body))
        return ""

    monkeypatch.setattr(link, "text_of", text_of)
    async with asked([StatusReply(200, body=b"x" * 1_000_000)]) as (_, ears):
        await ears.transcribe(PCM)
    assert kept == [MAX_ANSWER + 1]


async def test_leaving_hangs_up() -> None:
    async with asked([NoAnswer()]) as (server, ears):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(ears.transcribe, PCM))
                await server.http.wait(lambda: bool(server.http.requests))
                scope.cancel()
        await server.http.wait(lambda: server.http.hangups == 1)


async def test_nobody_at_the_address_is_an_error() -> None:
    async with asked(["Yes."]) as (server, _):
        gone = server.base_url
    ears = Transcriptions(model="m", base_url=gone)
    with trio.fail_after(60):
        with pytest.raises(SpeechError, match=r"127\.0\.0\.1"):
            await ears.transcribe(PCM)
        await ears.aclose()


@pytest.mark.parametrize(
    ("base_url", "key"),
    [
        ("ftp://x", None),
        ("http://user:pw@x/v1", None),
        ("http://x/v1?key=7", None),
        ("http://x/v1", Secret("two words")),
    ],
)
def test_what_no_request_can_carry_is_refused(
    base_url: str, key: Secret | None
) -> None:
    with pytest.raises(ValueError, match=r"base_url|api_key"):
        Transcriptions(model="m", base_url=base_url, api_key=key)


def test_the_key_is_never_shown() -> None:
    ears = Transcriptions(model="m", base_url="http://x/v1/", api_key=Secret(KEY))
    assert KEY not in repr(ears)
    assert ears.label == "m at http://x/v1"


# The server: by the vendor's own client, and by those who get it wrong.

CLIENT = """
import json, sys
from openai import OpenAI
client = OpenAI(api_key=sys.argv[2], base_url=sys.argv[1], max_retries=0)
with open(sys.argv[3], "rb") as file:
    heard = client.audio.transcriptions.create(
        model="scripted-ears", file=file, language="en", prompt="Moira"
    )
print(json.dumps(heard.text))
"""


@pytest.mark.border
async def test_the_vendors_client_is_understood_by_the_server(tmp_path: Path) -> None:
    path = tmp_path / "question.wav"
    path.write_bytes(wav(PCM, 16_000))
    async with asked(["What is the price?"]) as (server, _):
        ran = await trio.run_process(
            [sys.executable, "-c", CLIENT, server.base_url, KEY, str(path)],
            capture_stdout=True,
            env={**os.environ, "NO_PROXY": "127.0.0.1"},
        )
    assert json.loads(ran.stdout) == "What is the price?"
    (upload,) = server.uploads
    assert (upload.pcm, upload.rate, upload.language) == (PCM, 16_000, "en")


WHOLE = {"model": "scripted-ears"}


@pytest.mark.parametrize(
    ("fields", "name", "content", "status", "why"),
    [
        ({"model": "x"}, "a.wav", wav(PCM, 8_000), 404, "does not exist"),
        ({}, "a.wav", wav(PCM, 8_000), 404, "does not exist"),
        ({**WHOLE, "x": "y"}, "a.wav", wav(PCM, 8_000), 400, "unknown fields: x"),
        ({**WHOLE, "language": "en-GB"}, "a.wav", wav(PCM, 8_000), 400, "ISO-639"),
        ({**WHOLE, "response_format": "x"}, "a.wav", wav(PCM, 8_000), 400, "format"),
        (WHOLE, "a.txt", wav(PCM, 8_000), 400, "Unrecognized"),
        (WHOLE, "a.wav", PCM, 400, "Invalid file format"),
        (WHOLE, "a.wav", wav(PCM, 8_000)[:-7], 400, "cut"),
        (WHOLE, "a.wav", wav(PCM[:100], 8_000), 400, "too short"),
        (WHOLE, "", b"", 400, "provide a file"),
    ],
)
async def test_the_server_takes_nothing_that_the_vendor_would_not(
    fields: dict[str, str], name: str, content: bytes, status: int, why: str
) -> None:
    import httpx2

    files = (
        {"file": (name, content, "audio/wav")} if name else {"prompt": (None, b"Moira")}
    )
    headers = {"authorization": f"Bearer {KEY}"}
    async with asked(["Yes."]) as (server, _):
        async with httpx2.AsyncClient(
            timeout=60, trust_env=False, headers=headers
        ) as client:
            url = f"{server.base_url}/audio/transcriptions"
            answer = await client.post(url, data=fields, files=files)
            assert answer.status_code == status
            assert why in answer.json()["error"]["message"]
            # Not even that is a form.
            answer = await client.post(url, content=b"{}")
            assert answer.status_code == 400
            answer = await client.get(url)
            assert answer.status_code == 405
            answer = await client.post(f"{server.base_url}/audio", content=b"")
            assert answer.status_code == 404
    assert server.uploads == []
    assert len(server.refused) == 4
