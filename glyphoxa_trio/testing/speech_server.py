"""A scripted speech server: real HTTP on loopback, strict as the vendor's.

    async with open_speech_server([pcm], key="k") as server:
        voice = OpenAISpeech(
            model=server.model, server=SpeechServer(base_url=server.base_url)
        )
        ...
    assert server.sentences[0].text == "Mind the books."

A script is a list of replies, one per sentence, of which the last one repeats for ever;
or a function of the `SpokenSentence`, which may be a coroutine. A reply is audio in
bytes, sent as ``audio/pcm``, or anything that `http_server` can answer. A request that
breaks the protocol gets the vendor's answer, and takes no reply from the script.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs

from .http_server import HttpServer, ReceivedRequest, StatusReply, open_http_server
from .http_server import Reply as HttpReply
from .scripted_requests import (
    ReplyScript,
    ScriptedRequests,
    VendorRefused,
    check_endpoint,
)

_FORMATS = ("mp3", "opus", "aac", "flac", "wav", "pcm")
_FIELDS = frozenset(
    {
        *("model", "input", "voice", "response_format", "speed"),
        *("instructions", "stream_format"),
    }
)
_LONGEST = 4096  # characters of a sentence


@attrs.frozen(kw_only=True)
class SpokenSentence:
    """A sentence to be spoken."""

    text: str
    voice: str
    speed: float = 1.0


Reply = bytes | HttpReply
Script = ReplyScript[Reply, SpokenSentence]


@attrs.define(eq=False)
class FakeSpeechServer:
    """A running server, its sentences so far, and the reasons of those ``refused``."""

    base_url: str
    model: str
    http: HttpServer
    sentences: list[SpokenSentence] = attrs.field(factory=list)
    refused: list[str] = attrs.field(factory=list)


@asynccontextmanager
async def open_speech_server(
    script: Script, *, model: str = "scripted-voice", key: str | None = None
) -> AsyncIterator[FakeSpeechServer]:
    """Serve ``script`` on a free port of 127.0.0.1 until the block is left."""
    requests = ScriptedRequests(
        script, lambda request: _sentence(request, model, key), _answer
    )
    async with open_http_server(requests.answer) as http:
        yield FakeSpeechServer(
            f"{http.origin}/v1", model, http, requests.accepted, requests.refused
        )


def _answer(reply: Reply) -> HttpReply:
    if isinstance(reply, bytes):
        return StatusReply(headers={"Content-Type": "audio/pcm"}, body=reply)
    return reply


def _sentence(request: ReceivedRequest, model: str, key: str | None) -> SpokenSentence:
    """Return the sentence of a request.

    Raises:
      VendorRefused: where the vendor's server would refuse it.
    """
    check_endpoint(request, "/v1/audio/speech", key)
    body: dict[str, Any] = dict(request.message)
    if unknown := body.keys() - _FIELDS:
        raise VendorRefused(400, f"unknown fields: {', '.join(sorted(unknown))}")
    if body.get("model") != model:
        raise VendorRefused(404, f"The model {body.get('model')!r} does not exist")
    for name in ("input", "voice"):
        if not isinstance(body.get(name), str) or not body[name]:
            raise VendorRefused(400, f"{name}: a text is expected")
    if len(body["input"]) > _LONGEST:
        raise VendorRefused(400, f"input: at most {_LONGEST} characters")
    if body.get("response_format", "mp3") not in _FORMATS:
        raise VendorRefused(400, "invalid response_format")
    speed = body.get("speed", 1.0)
    if not isinstance(speed, int | float) or not 0.25 <= speed <= 4:
        raise VendorRefused(400, "speed: 0.25 to 4.0")
    return SpokenSentence(text=body["input"], voice=body["voice"], speed=speed)
