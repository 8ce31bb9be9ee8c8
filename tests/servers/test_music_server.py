"""``glyphoxa serve music``: a real server, and real mpv that nobody hears. G12, G15."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import trio

from tests.builtin.music.tones import tone

from .support import LineClient

pytestmark = pytest.mark.border

COMMAND = [str(Path(sys.executable).with_name("glyphoxa")), "serve", "music"]
LIMIT = 60.0


def mpvs() -> set[int]:
    """Every mpv that runs for the server of this test: by its own configuration."""
    home = os.environ["MPV_HOME"]
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "comm").read_text() == "mpv\n":
                env = (process / "environ").read_bytes()
                if f"MPV_HOME={home}".encode() in env:
                    found.add(int(process.name))
        except OSError:
            continue
    return found


@asynccontextmanager
async def served(folder: Path, *more: str) -> AsyncIterator[tuple[LineClient, Any]]:
    with trio.fail_after(LIMIT):
        process = await trio.lowlevel.open_process(
            [*COMMAND, "--library", str(folder), *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
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
            yield client, process
        finally:
            with trio.CancelScope(shield=True):
                await process.stdin.aclose()
                await process.wait()
                await process.stdout.aclose()


async def call(client: LineClient, name: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.ask("tools/call", 2, name=name, arguments=arguments)
    result: dict[str, Any] = answer["result"]
    return result


async def played(client: LineClient, mood: str) -> dict[str, Any]:
    """Asked again, as the answer says, where this machine is too slow for FAST."""
    while True:
        result = await call(client, "play_track", mood=mood)
        if not result.get("isError"):
            return result
        code = result["structuredContent"]["error"]["code"]
        assert code in ("Unavailable", "DeadlineExceeded"), result
        await trio.sleep(0.2)


async def test_it_plays_hangs_plays_on_and_leaves_nothing_behind(
    mpv: None, tmp_path: Path
) -> None:  # G12, G15
    folder = tmp_path / "music"
    tone(folder / "battle" / "drums.wav")
    tone(folder / "calm" / "lute.wav")
    async with served(folder, "--crossfade-ms", "200") as (client, process):
        listed = (await client.ask("tools/list", 3))["result"]["tools"]
        assert [x["name"] for x in listed] == ["play_track", "stop_music"]
        assert listed[0]["_meta"]["glyphoxa/estimated_duration_ms"] <= 500  # FAST
        assert listed[0]["annotations"]["readOnlyHint"] is False
        first = await played(client, "fight")
        assert first["structuredContent"]["track"] == "drums"
        assert first["structuredContent"]["moods"] == ["battle", "calm"]
        hung = min(mpvs())  # another one waits for the next track
        os.kill(hung, signal.SIGSTOP)
        second = await played(client, "calm")
        assert second["structuredContent"]["track"] == "lute"
        while hung in mpvs():  # noqa: ASYNC110 - nothing tells us
            await trio.sleep(0.02)
        no = await call(client, "play_track", mood="disco")
        assert no["isError"]
        assert "there is battle, calm" in json.dumps(no)
        for number in mpvs():
            os.kill(number, signal.SIGKILL)
        again = await played(client, "calm")
        assert again["structuredContent"]["track"] == "lute"
    assert process.returncode == 0
    assert not mpvs()


async def test_killed_as_it_may_be_no_music_goes_on(mpv: None, tmp_path: Path) -> None:
    folder = tmp_path / "music"
    tone(folder / "battle" / "drums.wav")
    async with served(folder) as (client, process):
        await played(client, "battle")
        assert mpvs()
        process.kill()
        await process.wait()
        while mpvs():  # noqa: ASYNC110
            await trio.sleep(0.02)


async def test_by_events_the_answer_says_what_is_to_be_played(tmp_path: Path) -> None:
    folder = tmp_path / "music"
    drums = tone(folder / "battle" / "drums.wav")
    options = ("--player", "events", "--volume", "30", "--crossfade-ms", "0")
    async with served(folder, *options) as (client, _):
        answer = await played(client, "battle")
    said = answer["structuredContent"]
    assert (said["path"], said["volume"], said["fade_ms"]) == (str(drums), 30, 0)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--library", "/no/such"], "--library /no/such: there is no such folder"),
        (["--library", "/tmp", "--volume", "101"], "from 0 to 100"),
        (["--library", "/tmp", "--crossfade-ms", "-1"], "from 0 to 60000"),
        ([], "--library"),
    ],
)
def test_options_that_cannot_be_are_said_so(options: list[str], why: str) -> None:
    done = subprocess.run(
        [*COMMAND, *options], capture_output=True, text=True, check=False, timeout=LIMIT
    )
    assert done.returncode == 2
    assert why in done.stderr
