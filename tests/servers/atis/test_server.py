"""``glyphoxa serve atis`` as it is: the command in a process, a feed on loopback.

Nothing waits for a time to pass; the limits keep a failure from taking for ever.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

import trio

from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.host import Caller
from glyphoxa_trio.servers.builtin import atis
from glyphoxa_trio.tools.gate import EVERYTHING
from glyphoxa_trio.tools.outcome import Status, ToolCall
from glyphoxa_trio.tools.tier import Tier

from ..processes import client_of, over_http
from ..support import LineClient
from .feeds import FeedServer, bulletin, observed, open_feed

pytestmark = pytest.mark.border

COMMAND = Path(sys.executable).with_name("glyphoxa")
LIMIT = 60.0  # seconds; nothing that passes comes near it


def environment(**more: str) -> dict[str, str]:
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("METNO_", "ATIS_"))
    }
    return ours | more


@attrs.define(eq=False)
class Server:
    client: LineClient
    process: trio.Process

    async def call(self, icao: str) -> dict[str, Any]:
        answer = await self.client.ask(
            "tools/call", name="get_atis", arguments={"icao": icao}
        )
        result: dict[str, Any] = answer["result"]["structuredContent"]
        return result

    async def ends(self) -> tuple[int, str]:
        """The status and what it said on stderr, after the client has left."""
        await self.client.hang_up()
        status = await self.process.wait()
        assert self.process.stderr is not None
        said = b"".join([chunk async for chunk in self.process.stderr])
        return status, said.decode()


@asynccontextmanager
async def running(feed: FeedServer, *words: str) -> AsyncGenerator[Server]:
    with trio.fail_after(LIMIT):
        process = await trio.lowlevel.open_process(
            [str(COMMAND), "serve", "atis", "--feed-url", feed.url, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(METNO_USER_AGENT="tower/1.0 tower@example.org"),
        )
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            client = LineClient(trio.StapledStream(process.stdin, process.stdout))
            await client.shake_hands()
            yield Server(client, process)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def test_the_command_answers_from_the_feed(tmp_path: Path) -> None:  # A53
    config = tmp_path / "atis.yaml"
    config.write_text("aerodromes: {ENGM: {name: Oslo, runways: [01L]}}")
    weather = observed(10)  # has the minute in it
    async with open_feed(bulletin(observed(40), weather)) as feed:
        async with running(feed, "--config", str(config)) as server:
            told = await server.call("engm")
            assert told["raw"] == weather
            assert told["atis_text"].startswith("Oslo information ")
            assert "Wind three two zero degrees niner knots." in told["atis_text"]
            assert (told["stale"], told["warnings"]) == (False, [])

            # A new version of the file, without a restart; and a broken one.
            config.write_text("aerodromes: {ENGM: {name: Gardermoen}}")
            told = await server.call("ENGM")
            assert told["atis_text"].startswith("Gardermoen information ")
            config.write_text("aerodromes: {ENGM: {nmae: Oslo}}")
            told = await server.call("ENGM")
            assert told["atis_text"].startswith("Gardermoen information ")
            (warning,) = told["warnings"]
            assert "unknown key 'nmae'" in warning

            assert len(feed.asked) == 1  # the rest came from what was kept
            _, headers = feed.asked[0]
            assert headers["user-agent"] == "tower/1.0 tower@example.org"
            status, said = await server.ends()
    assert status == 0
    assert said.count("\n") == 1
    assert said.startswith("glyphoxa serve atis: unknown key 'nmae'")
    assert said.endswith("; the previous version stays in use\n")


async def test_an_answer_of_the_feed_is_awaited_once_and_its_failure_is_words() -> None:
    async with open_feed() as feed:
        feed.status = 503
        async with running(feed) as server:
            told = await server.call("ENGM")
            assert told == {
                "error": {
                    "code": "Unavailable",
                    "message": "There is no weather for ENGM: the weather service"
                    " answers with error 503.",
                }
            }
            assert await server.call("ENGM") == told
            assert len(feed.asked) == 1
            assert await server.ends() == (0, "")


async def test_it_ends_while_the_feed_keeps_it_waiting() -> None:
    async with open_feed() as feed:
        feed.delay = LIMIT * 2
        async with running(feed) as server:
            await server.client.send(
                "tools/call", 1, name="get_atis", arguments={"icao": "ENGM"}
            )
            await feed.came.wait()
            assert await server.ends() == (0, "")


async def test_it_is_the_same_over_http() -> None:  # A53
    weather = observed(10)  # has the minute in it
    async with open_feed(bulletin(weather)) as feed:
        agent = "tower/1.0 tower@example.org"
        words = ("atis", "--feed-url", feed.url)
        async with over_http(*words, METNO_USER_AGENT=agent) as url:
            async with client_of([ServerSpec(name="weather", url=url)]) as runtime:
                caller = Caller(grant=EVERYTHING, tier=Tier.DEEP)
                listing = runtime.host.snapshot.find("weather.get_atis")
                assert listing.definition.estimated_duration == 0.02
                (outcome,) = await runtime.host.fan_out(
                    [ToolCall("1", listing.exposed, '{"icao": "ENGM"}')],
                    caller,
                    deadline=trio.current_time() + LIMIT,
                )
    assert outcome.status is Status.OK
    assert outcome.data["raw"] == weather


@pytest.mark.parametrize(
    ("words", "variables", "said"),
    [
        ([], {}, "METNO_USER_AGENT is not set: met.no wants to know who asks."),
        ([], {"METNO_USER_AGENT": "  "}, "METNO_USER_AGENT is not set"),
        ([], {"METNO_USER_AGENT": "a\tb"}, "must be printable ASCII"),
        (["--feed-url", "x"], {}, "the feed's address must be http"),
        ([], {"ATIS_FEED_URL": "http://localhost/"}, "address needs {icao} where"),
        (
            ["--feed-url", "http://localhost/{icao}"],
            {"METNO_CACHE_TTL_SECONDS": "soon"},
            (
                "METNO_CACHE_TTL_SECONDS: expected a number of seconds from 1 to 3600,"
                " got 'soon'"
            ),
        ),
        (
            ["--feed-url", "http://localhost/{icao}", "--config", "none.yaml"],
            {},
            "--config: cannot be read: No such file or directory @ none.yaml",
        ),
    ],
)
async def test_what_is_wrong_is_said_at_the_start(
    words: list[str],
    variables: dict[str, str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("METNO_USER_AGENT", "METNO_CACHE_TTL_SECONDS", "ATIS_FEED_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    parser = argparse.ArgumentParser()
    atis.add_options(parser)
    with pytest.raises(ValueError, match=re.escape(said)):
        async with atis.open_offer(parser.parse_args(words)):
            raise AssertionError("it opened")


async def test_without_the_library_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "metar", None)
    parser = argparse.ArgumentParser()
    atis.add_options(parser)
    with pytest.raises(ValueError, match=r"pip install 'glyphoxa-trio\[tools\]'"):
        async with atis.open_offer(parser.parse_args([])):
            raise AssertionError("it opened")


def test_the_command_says_it_and_ends_with_2() -> None:
    ran = subprocess.run(
        [COMMAND, "serve", "atis"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        env=environment(),
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("glyphoxa serve atis: METNO_USER_AGENT is not set")
