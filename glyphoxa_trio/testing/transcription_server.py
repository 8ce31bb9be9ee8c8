"""A scripted transcription server: real HTTP on loopback, strict as the vendor's.

    async with open_transcription_server(["How much is it?"], key="k") as server:
        ears = Transcriptions(
            model=server.model, base_url=server.base_url, api_key=Secret("k")
        )
        ...
    assert server.uploads[0].seconds > 1

A script is a list of replies, one per upload, of which the last one repeats for ever;
or a function of the `Upload`. A reply is a transcript, or anything that `http_server`
can answer. An upload that breaks the protocol gets the vendor's answer, and takes no
reply from the script: another path, a wrong key or model, a form without a file, a file
that is no WAV of PCM16 mono, or an incomplete one.
"""

from __future__ import annotations

import io
import wave
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from email.message import Message
from email.parser import BytesParser
from email.policy import HTTP

import attrs

from .http_server import HttpServer, ReceivedRequest, StatusReply, open_http_server
from .http_server import Reply as HttpReply
from .scripted_requests import (
    ReplyScript,
    ScriptedRequests,
    VendorRefused,
    check_endpoint,
)

_MOST_BYTES = 25 * 1024 * 1024
_FORMATS = ("json", "text", "verbose_json", "srt", "vtt")


@attrs.frozen(kw_only=True)
class Upload:
    """An utterance to be transcribed."""

    pcm: bytes
    rate: int
    language: str | None = None
    prompt: str | None = None

    @property
    def seconds(self) -> float:
        return len(self.pcm) / 2 / self.rate


Reply = str | HttpReply
Script = ReplyScript[Reply, Upload]


@attrs.define(eq=False)
class TranscriptionServer:
    """A running server, its uploads so far, and the reasons of those ``refused``."""

    base_url: str
    model: str
    http: HttpServer
    uploads: list[Upload] = attrs.field(factory=list)
    refused: list[str] = attrs.field(factory=list)


@asynccontextmanager
async def open_transcription_server(
    script: Script, *, model: str = "scripted-ears", key: str | None = None
) -> AsyncIterator[TranscriptionServer]:
    """Serve ``script`` on a free port of 127.0.0.1 until the block is left."""
    requests = ScriptedRequests(
        script, lambda request: _upload(request, model, key), _answer
    )
    async with open_http_server(requests.answer) as http:
        yield TranscriptionServer(
            f"{http.origin}/v1", model, http, requests.accepted, requests.refused
        )


def _answer(reply: Reply) -> HttpReply:
    return StatusReply(body={"text": reply}) if isinstance(reply, str) else reply


def _upload(request: ReceivedRequest, model: str, key: str | None) -> Upload:
    """Return the utterance of a request.

    Raises:
      VendorRefused: where the vendor's server would refuse it.
    """
    check_endpoint(request, "/v1/audio/transcriptions", key)
    if len(request.body) > _MOST_BYTES:
        raise VendorRefused(413, "the file is larger than 25 MB")
    form = _form(request.headers.get("content-type", ""), request.body)
    fields = {name: _text(part) for name, part in form.items() if name != "file"}
    if unknown := fields.keys() - {"model", "language", "prompt", "response_format"}:
        raise VendorRefused(400, f"unknown fields: {', '.join(sorted(unknown))}")
    if fields.get("model") != model:
        raise VendorRefused(404, f"The model {fields.get('model')!r} does not exist")
    if fields.get("response_format", "json") not in _FORMATS:
        raise VendorRefused(400, "invalid response_format")
    language = fields.get("language")
    if language is not None and not (len(language) == 2 and language.isalpha()):
        raise VendorRefused(
            400, f"Invalid language {language!r}: ISO-639-1 is expected"
        )
    if "file" not in form:
        raise VendorRefused(400, "you must provide a file")
    pcm, rate = _audio(form["file"])
    return Upload(pcm=pcm, rate=rate, language=language, prompt=fields.get("prompt"))


def _form(kind: str, body: bytes) -> Mapping[str, Message]:
    """Return the parts of a multipart body, by name."""
    if not kind.startswith("multipart/form-data;") or "boundary=" not in kind:
        raise VendorRefused(400, "the body must be multipart/form-data with a boundary")
    head = f"Content-Type: {kind}\r\n\r\n".encode()
    message = BytesParser(policy=HTTP).parsebytes(head + body)
    if not message.is_multipart() or message.defects:
        raise VendorRefused(400, f"not a multipart body: {message.defects}")
    found: dict[str, Message] = {}
    for part in message.iter_parts():
        name = part.get_param("name", header="content-disposition")
        if part.get_content_disposition() != "form-data" or not isinstance(name, str):
            raise VendorRefused(400, "a part without a name")
        if name in found:
            raise VendorRefused(400, f"two parts named {name!r}")
        found[name] = part
    return found


def _text(part: Message) -> str:
    content = part.get_payload(decode=True)
    assert isinstance(content, bytes)
    return content.decode()


def _audio(part: Message) -> tuple[bytes, int]:
    """Return the audio of an uploaded WAV, which must be complete."""
    name = part.get_filename()
    if not name or not name.endswith(".wav"):
        raise VendorRefused(400, f"Unrecognized file format: {name}")
    content = part.get_payload(decode=True)
    assert isinstance(content, bytes)
    try:
        with wave.open(io.BytesIO(content)) as reader:
            layout = reader.getnchannels(), reader.getsampwidth()
            rate, frames = reader.getframerate(), reader.getnframes()
            pcm = reader.readframes(frames)
    except (wave.Error, EOFError) as error:
        raise VendorRefused(400, f"Invalid file format: {error}") from None
    if layout != (1, 2):
        raise VendorRefused(400, f"not PCM16 mono: {layout}")
    if len(pcm) != 2 * frames or len(content) != 44 + len(pcm):
        raise VendorRefused(400, "the file is cut, or longer than it says")
    if frames < rate // 10:
        raise VendorRefused(400, "Audio file is too short. Minimum is 0.1 seconds.")
    return pcm, rate
