"""``glyphoxa serve images``: real servers, with and without a model. G13, G15."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import trio

from glyphoxa_trio.builtin.images.card import drawn
from glyphoxa_trio.builtin.images.picture import picture_of
from glyphoxa_trio.testing.http_server import StatusReply
from glyphoxa_trio.testing.image_server import open_image_server

from .support import LineClient

pytestmark = pytest.mark.border

COMMAND = [str(Path(sys.executable).with_name("glyphoxa")), "serve", "images"]
LIMIT = 60.0


@asynccontextmanager
async def served(*options: str, **env: str) -> AsyncIterator[LineClient]:
    with trio.fail_after(LIMIT):
        process = await trio.lowlevel.open_process(
            [*COMMAND, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(os.environ) | env,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        client = LineClient(trio.StapledStream(process.stdin, process.stdout))
        try:
            await client.ask(
                "initialize",
                protocolVersion="2025-11-25",
                capabilities={},
                clientInfo={"name": "t", "version": "1"},
            )
            await client.send("notifications/initialized")
            yield client
        finally:
            with trio.CancelScope(shield=True):
                await process.stdin.aclose()
                await process.wait()
                await process.stdout.aclose()


async def draw(client: LineClient, prompt: str) -> dict[str, Any]:
    arguments = {"prompt": prompt, "style": "dark"}
    answer = await client.ask(
        "tools/call", 2, name="generate_image", arguments=arguments
    )
    result: dict[str, Any] = answer["result"]
    return result


async def test_a_card_is_an_image_block_and_a_file(tmp_path: Path) -> None:  # G13, G15
    async with served(XDG_DATA_HOME=str(tmp_path)) as client:
        (tool,) = (await client.ask("tools/list", 3))["result"]["tools"]
        assert tool["annotations"]["readOnlyHint"] is False
        assert tool["_meta"]["glyphoxa/estimated_duration_ms"] > 1500  # DEEP
        result = await draw(client, "The tavern at the end of the road")
    block = next(x for x in result["content"] if x["type"] == "image")
    assert block["mimeType"] == "image/png"
    data = base64.b64decode(block["data"])
    assert picture_of(data).width == 1024
    path = Path(result["structuredContent"]["path"])
    assert path.parent == tmp_path / "glyphoxa" / "images"
    assert path.read_bytes() == data  # noqa: ASYNC240


async def test_an_image_model_is_asked_with_the_key_of_the_environment(
    tmp_path: Path,
) -> None:
    image = drawn("x", "", (256, 256))
    sad = StatusReply(401, body={"error": {"message": "the key sk-777 is not good"}})
    async with open_image_server([image, sad], key="sk-777", model="m") as server:
        options = ("--base-url", server.base_url, "--model", "m", "--size", "256x256")
        async with served(
            *options, "--folder", str(tmp_path), GLYPHOXA_IMAGE_KEY="sk-777"
        ) as client:
            good = await draw(client, "A dragon")
            bad = await draw(client, "A dragon")
    assert good["structuredContent"]["width"] == 256
    assert server.asked[0].prompt == "A dragon\n\nStyle: dark"
    assert bad["isError"]
    assert "the key [secret] is not good" in json.dumps(bad)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--size", "huge"], "size: must be width and height"),
        (["--base-url", "ftp://x"], "base_url: must be http"),
    ],
)
def test_options_that_cannot_be_are_said_so(options: list[str], why: str) -> None:
    done = subprocess.run(
        [*COMMAND, *options], capture_output=True, text=True, check=False, timeout=LIMIT
    )
    assert done.returncode == 2
    assert why in done.stderr
