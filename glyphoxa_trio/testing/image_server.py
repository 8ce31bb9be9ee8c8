"""A scripted image server: real HTTP on loopback, strict as the vendor's.

    async with open_image_server([PNG], key="k") as server:
        painter = ImageServer(base_url=server.base_url, key=Secret("k"))
        ...
    assert server.asked[0].prompt == "a tavern"

A script is a list of replies, one per image; the last one repeats for ever. A reply is
the bytes of an image, sent as ``b64_json``; `AsUrl`, sent as an address at which this
server has it; or anything that `http_server` can answer. A request that breaks the
protocol gets the vendor's answer, and takes no reply from the script.
"""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import attrs

from glyphoxa_trio.renamed import renamed

from .http_server import HttpServer, ReceivedRequest, StatusReply, open_http_server
from .http_server import Reply as HttpReply

_FIELDS = {"prompt", "model", "n", "size", "response_format"}


@attrs.frozen
class AsUrl:
    """An image at an address of this server, or another reply in its place."""

    at: bytes | HttpReply


Reply = bytes | AsUrl | HttpReply


@attrs.frozen(kw_only=True)
class ImageRequest:
    """A request for an image."""

    prompt: str
    size: str | None
    model: str | None


class _ImageRefused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@attrs.define(eq=False)
class FakeImageServer:
    """A running server, its requests so far, and the reasons of those ``refused``."""

    http: HttpServer
    asked: list[ImageRequest] = attrs.field(factory=list)
    refused: list[str] = attrs.field(factory=list)

    @property
    def base_url(self) -> str:
        return f"{self.http.origin}/v1"


@asynccontextmanager
async def open_image_server(
    script: Sequence[Reply],
    *,
    model: str | None = None,
    key: str | None = None,
    takes_format: bool = True,
) -> AsyncIterator[FakeImageServer]:
    """Serve ``script`` on a free port of 127.0.0.1 until the block is left.

    Args:
      takes_format: False refuses ``response_format``, as newer models do.
    """
    if not script:
        raise ValueError("a script needs at least one reply")
    kept: list[bytes | HttpReply] = []

    def answer(request: ReceivedRequest) -> HttpReply:
        if request.method == "GET" and request.path.startswith("/images/"):
            if "authorization" in request.headers:
                return StatusReply(400, body=b"a key belongs to the API alone")
            there = kept[int(request.path.removeprefix("/images/"))]
            return StatusReply(body=there) if isinstance(there, bytes) else there
        try:
            asked = _asked(request, model, key, takes_format)
        except _ImageRefused as no:
            server.refused.append(str(no))
            return StatusReply(no.status, body={"error": {"message": str(no)}})
        server.asked.append(asked)
        reply = script[min(len(server.asked), len(script)) - 1]
        if isinstance(reply, bytes):
            image = {"b64_json": base64.b64encode(reply).decode()}
            return StatusReply(body={"created": 1, "data": [image]})
        if isinstance(reply, AsUrl):
            kept.append(reply.at)
            url = f"{server.http.origin}/images/{len(kept) - 1}"
            return StatusReply(body={"created": 1, "data": [{"url": url}]})
        return reply

    async with open_http_server(answer) as http:
        server = FakeImageServer(http)
        yield server


def _asked(
    request: ReceivedRequest, model: str | None, key: str | None, takes_format: bool
) -> ImageRequest:
    """Parse a request, or raise `_ImageRefused` as the vendor's server does."""
    if request.path != "/v1/images/generations":
        raise _ImageRefused(404, f"no such path: {request.path}")
    if request.method != "POST":
        raise _ImageRefused(405, f"not allowed: {request.method}")
    if key is not None and request.headers.get("authorization") != f"Bearer {key}":
        raise _ImageRefused(401, "Incorrect API key provided")
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise _ImageRefused(400, "the body must be application/json")
    body = request.message
    if unknown := body.keys() - _FIELDS:
        raise _ImageRefused(400, f"Unknown parameter: {sorted(unknown)}")
    prompt, size = body.get("prompt"), body.get("size")
    if not isinstance(prompt, str) or not prompt:
        raise _ImageRefused(400, "Missing required parameter: 'prompt'")
    if len(prompt) > 4000:
        raise _ImageRefused(400, "prompt: string too long")
    if body.get("n", 1) != 1:
        raise _ImageRefused(400, "n must be 1")
    if size not in (None, "auto") and not re.fullmatch(r"\d{2,4}x\d{2,4}", str(size)):
        raise _ImageRefused(400, f"Invalid size {size!r}")
    if model is not None and body.get("model") != model:
        raise _ImageRefused(404, f"The model {body.get('model')!r} does not exist")
    form = body.get("response_format")
    if form is not None and not takes_format:
        raise _ImageRefused(400, "Unknown parameter: 'response_format'.")
    if form not in (None, "b64_json", "url"):
        raise _ImageRefused(400, "Invalid response_format")
    return ImageRequest(prompt=prompt, size=size, model=body.get("model"))


if not TYPE_CHECKING:
    __getattr__ = renamed(__name__, Asked="ImageRequest", ImageServer="FakeImageServer")
