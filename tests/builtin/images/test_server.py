"""An image model behind real HTTP on loopback, good, bad, late and hostile. G13."""

# ruff: noqa: ASYNC240  (nothing else runs while a test looks at its own folder)

from __future__ import annotations

import base64
import io
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import trio

from glyphoxa_trio.builtin.images.album import Album
from glyphoxa_trio.builtin.images.answers import MAX_ANSWER
from glyphoxa_trio.builtin.images.handlers import tools
from glyphoxa_trio.builtin.images.picture import MAX_BYTES, NoPicture, picture_of
from glyphoxa_trio.builtin.images.server import ImageServer
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.testing.http_server import (
    CloseConnection,
    NoAnswer,
    RawBytes,
    StatusReply,
)
from glyphoxa_trio.testing.image_server import AsUrl, open_image_server
from glyphoxa_trio.tools.definition import (
    AnswerUnusable,
    CallContext,
    ToolError,
    ToolUnavailable,
)
from glyphoxa_trio.tools.outcome import ToolResult

LIMIT = 30.0
KEY = "sk-the-key-itself"


def image(kind: str = "PNG", size: tuple[int, int] = (40, 30)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, (120, 80, 40)).save(file, kind)
    return file.getvalue()


def png_that_claims(width: int, height: int) -> bytes:
    """A head that says so, and next to nothing behind it."""
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head))
    data = b"IDAT" + zlib.compress(bytes(1000))
    body = struct.pack(">I", len(data) - 4) + data + struct.pack(">I", zlib.crc32(data))
    return b"\x89PNG\r\n\x1a\n" + chunk + body


PNG = image()


def painter(base_url: str, **more: Any) -> ImageServer:
    return ImageServer(base_url=base_url, **more)


async def drawn(server: ImageServer, folder: Path, prompt: str = "a tavern") -> Any:
    """Through the handler, as the host calls it."""
    (tool,) = tools(server, Album(folder))
    result = tool.handler({"prompt": prompt}, CallContext())
    assert not isinstance(result, ToolResult)
    return await result


async def test_an_image_is_drawn_kept_and_handed_out(tmp_path: Path) -> None:  # G13
    with trio.fail_after(LIMIT):
        async with open_image_server([PNG], key=KEY, model="m") as server:
            link = painter(server.base_url, key=Secret(KEY), model="m", size="512x512")
            result = await drawn(link, tmp_path / "new", "A Tavern, at night!")
    assert server.refused == []
    (asked,) = server.asked
    assert (asked.prompt, asked.size) == ("A Tavern, at night!", "512x512")
    (media,) = result.media
    assert (media.mime, media.data) == ("image/png", PNG)
    path = Path(result.structured.pop("path"))
    assert path.read_bytes() == PNG
    assert path.name.startswith("a-tavern-at-night-")
    assert result.structured == {
        "about": "A Tavern, at night",
        "mime": "image/png",
        "width": 40,
        "height": 30,
        "drawn_by": f"m at {server.base_url}",
    }
    assert KEY not in repr(link)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF"])
async def test_an_image_at_an_address_of_its_server_is_fetched(
    kind: str, tmp_path: Path
) -> None:
    with trio.fail_after(LIMIT):
        async with open_image_server([AsUrl(image(kind))], key=KEY) as server:
            link = painter(server.base_url, key=Secret(KEY))
            result = await drawn(link, tmp_path)
    assert result.structured["mime"] == f"image/{kind.lower()}"


async def test_a_model_that_chooses_its_format_is_asked_again_without(
    tmp_path: Path,
) -> None:
    with trio.fail_after(LIMIT):
        async with open_image_server([PNG], takes_format=False) as server:
            link = painter(server.base_url)
            await drawn(link, tmp_path)
            await drawn(link, tmp_path, "another")
    assert len(server.refused) == 1  # and never again
    assert [x.prompt for x in server.asked] == ["a tavern", "another"]


async def test_a_style_is_part_of_what_is_asked_for() -> None:
    with trio.fail_after(LIMIT):
        async with open_image_server([PNG]) as server:
            await painter(server.base_url).paint("a tavern", "ink")
    assert server.asked[0].prompt == "a tavern\n\nStyle: ink"


def said(*data: Any, **more: Any) -> StatusReply:
    return StatusReply(body={"data": list(data), **more})


def encoded(data: bytes) -> dict[str, str]:
    return {"b64_json": base64.b64encode(data).decode()}


@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        (
            StatusReply(401, body={"error": {"message": f"bad key {KEY}"}}),
            ToolUnavailable,
            "refuses the key: bad key [secret]",
        ),
        (
            StatusReply(404, body={"error": {"message": "no model"}}),
            ToolUnavailable,
            "has no such model or address: no model",
        ),
        (
            StatusReply(429, {"Retry-After": "20"}),
            ToolUnavailable,
            "come back in 20 seconds",
        ),
        (StatusReply(402), ToolUnavailable, "come back later"),
        (
            StatusReply(302, {"Location": "http://elsewhere/"}),
            ToolUnavailable,
            "redirects",
        ),
        (StatusReply(503, body=b"<h1>down\0</h1>"), ToolUnavailable, "fails (503)"),
        (
            StatusReply(400, body={"error": {"message": "it is not allowed"}}),
            ToolError,
            "refuses to draw this: it is not allowed",
        ),
        (StatusReply(400, body=b"x" * 100_000), ToolError, "refuses to draw this: xxx"),
        (
            CloseConnection(),
            ToolUnavailable,
            "the connection to the image server failed",
        ),
        (
            RawBytes(b"SSH-2.0-x\r\n"),
            ToolUnavailable,
            "the connection to the image server failed",
        ),
        (
            StatusReply(body=b"<html>"),
            AnswerUnusable,
            "the answer has no image, but: <html>",
        ),
        (StatusReply(body=b"[" * 200_000), AnswerUnusable, "the answer has no image"),
        (
            StatusReply(body={"error": {"message": f"odd {KEY}"}}),
            AnswerUnusable,
            "odd [secret]",
        ),
        (said(), AnswerUnusable, "the answer has no image"),
        (said("x"), AnswerUnusable, "the answer has no image"),
        (said({"b64_json": 7}), AnswerUnusable, "the answer has no image"),
        (said({"b64_json": "%%%"}), AnswerUnusable, "cannot be decoded"),
        (said(encoded(b"hello")), AnswerUnusable, "it is not a PNG, JPEG, WebP or GIF"),
        (said(encoded(PNG[:20])), AnswerUnusable, "it is not a PNG"),
        (
            said(encoded(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")),
            AnswerUnusable,
            "it is not a PNG",
        ),
        (said(encoded(png_that_claims(50_000, 50_000))), AnswerUnusable, "too large"),
        (said(encoded(png_that_claims(12_000, 8_000))), AnswerUnusable, "too large"),
        (said(encoded(png_that_claims(5_000, 10))), AnswerUnusable, "5000 times 10"),
        (said(encoded(PNG + bytes(MAX_BYTES))), AnswerUnusable, "more than 8 MiB"),
        (StatusReply(body=bytes(MAX_ANSWER + 10)), AnswerUnusable, "too long"),
        (
            StatusReply(200, {"Content-Encoding": "gzip"}, body=b"x"),
            AnswerUnusable,
            "compressed in a way that was not asked for",
        ),
        (
            said({"url": "file:///etc/passwd"}),
            AnswerUnusable,
            "the image's address is wrong",
        ),
        (
            said({"url": "http://u:p@x/"}),
            AnswerUnusable,
            "the image's address is wrong",
        ),
        (
            said({"url": "http://169.254.169.254/latest"}),
            AnswerUnusable,
            "cannot be reached",
        ),
        (said({"url": "http://127.0.0.1:1/x"}), AnswerUnusable, "cannot be reached"),
        (said({"url": "http://[::1]/x"}), AnswerUnusable, "cannot be reached"),
        (AsUrl(StatusReply(404)), AnswerUnusable, "address answers with status 404"),
        (
            AsUrl(StatusReply(302, {"Location": "/"})),
            AnswerUnusable,
            "address answers with status 302",
        ),
        (AsUrl(bytes(MAX_BYTES + 10)), AnswerUnusable, "more than 8 MiB"),
        (
            AsUrl(CloseConnection()),
            ToolUnavailable,
            "the connection to the image server failed",
        ),
    ],
)
async def test_what_goes_wrong_is_said_and_nothing_is_kept(
    reply: Any, kind: type[GlyphoxaError], words: str, tmp_path: Path
) -> None:
    with trio.fail_after(LIMIT):
        async with open_image_server([reply]) as server:
            link = painter(server.base_url, key=Secret(KEY))
            with pytest.raises((ToolError, ToolUnavailable)) as error:
                await drawn(link, tmp_path)
    assert type(error.value) is kind
    assert words in str(error.value)
    assert KEY not in str(error.value)
    assert len(str(error.value)) < 500
    assert list(tmp_path.iterdir()) == []


async def test_whoever_leaves_hangs_up(tmp_path: Path) -> None:
    with trio.fail_after(LIMIT):
        async with open_image_server([NoAnswer()]) as server:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(drawn, painter(server.base_url), tmp_path)
                await server.http.wait(lambda: len(server.http.requests) == 1)
                nursery.cancel_scope.cancel()
            await server.http.wait(lambda: server.http.hangups == 1)


async def test_nobody_at_the_address_is_said(tmp_path: Path) -> None:
    with trio.fail_after(LIMIT):
        with pytest.raises(ToolUnavailable, match="cannot be reached"):
            await drawn(painter("http://127.0.0.1:1/v1"), tmp_path)


@pytest.mark.parametrize(
    ("url", "key", "words"),
    [
        ("ftp://x", None, "must be http"),
        ("http://u:p@x/v1", None, "no credentials"),
        ("http://x/v1?key=1", None, "query"),
        ("http://x/v1", "a b", "api_key"),
        ("http://x/v1", "", "api_key"),
    ],
)
def test_addresses_and_keys_that_cannot_be(
    url: str, key: str | None, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        painter(url, key=None if key is None else Secret(key))


def test_only_the_head_of_an_image_is_read() -> None:
    # Cut in the middle: whoever unpacked it would notice.
    whole = image("PNG", (2000, 2000))
    assert picture_of(whole[: len(whole) // 2]).width == 2000
    with pytest.raises(NoPicture):
        picture_of(b"")
