"""``glyphoxa serve web`` as a process, over both transports, with sites and a search
engine on loopback."""

from __future__ import annotations

import argparse
import json
import subprocess
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import attrs
import pytest

import trio

from glyphoxa_trio import Runtime
from glyphoxa_trio.builtin.web import Brave, Search, fetch_tool, search_tool
from glyphoxa_trio.config import ServerSpec, ToolOverride
from glyphoxa_trio.host import Caller
from glyphoxa_trio.servers.builtin import web as shelf
from glyphoxa_trio.testing.http_server import (
    NoAnswer,
    ReceivedRequest,
    StatusReply,
    open_http_server,
)
from glyphoxa_trio.testing.search_server import SearchEntry, open_brave, open_searxng
from glyphoxa_trio.tools.gate import EVERYTHING
from glyphoxa_trio.tools.outcome import Outcome, ToolCall
from glyphoxa_trio.tools.outcome import Status as Ended
from glyphoxa_trio.tools.tier import Tier

from .processes import COMMAND, LIMIT, client_of, over_http

pytestmark = pytest.mark.border

PAGE = b"<html lang=en><title>Inn</title><p>The Drowned Lantern serves eel.</html>"
TOWN = SearchEntry("Saltmere", "https://saltmere.example/", "A town by the sea.")


def site(request: ReceivedRequest) -> StatusReply | NoAnswer:
    if request.path == "/robots.txt":
        return StatusReply(
            200, {"Content-Type": "text/plain"}, b"User-agent: *\nDisallow: /no"
        )
    if request.path == "/slow":
        return NoAnswer()
    return StatusReply(200, {"Content-Type": "text/html"}, PAGE)


async def call(runtime: Runtime, name: str, **arguments: Any) -> Outcome:
    caller = Caller(grant=EVERYTHING, tier=Tier.DEEP)
    asked = ToolCall("1", runtime.host.snapshot.find(f"web.{name}").exposed)
    asked = attrs.evolve(asked, arguments=json.dumps(arguments))
    (outcome,) = await runtime.host.fan_out(
        [asked], caller, deadline=trio.current_time() + LIMIT
    )
    return outcome


async def test_a_page_and_a_search_through_a_process() -> None:  # G14, G15, G20
    with trio.fail_after(LIMIT):
        async with (
            open_http_server(site) as server,
            open_searxng(lambda asked: [TOWN]) as engine,
        ):
            port = str(urlsplit(server.origin).port)
            words = ["--searxng", engine.base_url, "--page-port", port]
            words += ["--allow-private", "127.0.0.1/32", "--user-agent", "Tavern/1"]
            words += ["--timeout", "50"]
            command = ("glyphoxa", "serve", "web", *words)
            spoken = {"search": ToolOverride(speech_field="spoken")}
            spec = ServerSpec(name="web", command=command, tools=spoken)
            async with client_of([spec]) as runtime:
                # What is known of them from afar is what they are like here.
                for tool in (
                    fetch_tool(),
                    search_tool(Search(engine=Brave(), base_url="http://localhost")),
                ):
                    listing = runtime.host.snapshot.find(tool.key)
                    theirs, ours = listing.definition, tool.definition
                    assert theirs.description == ours.description
                    assert theirs.cacheable == ours.cacheable
                    assert theirs.read_only
                    assert listing.estimate.tier is Tier.DEEP
                page = await call(runtime, "fetch_page", url=f"{server.origin}/inn")
                assert page.status is Ended.OK, page
                assert page.data == {
                    "url": f"{server.origin}/inn",
                    "title": "Inn",
                    "text": "The Drowned Lantern serves eel.",
                    "language": "en",
                }
                found = await call(runtime, "search", query="Saltmere", limit=3)
                assert found.data["results"][0]["engine"] == "wikipedia"
                assert found.message == "Saltmere: A town by the sea."
                for url, said in (
                    (f"{server.origin}/no", "robots"),
                    ("http://169.254.169.254/latest/meta-data/", "public internet"),
                    ("http://127.0.0.1:22/", "port 22"),
                    ("file:///etc/passwd", "http://"),
                ):
                    no = await call(runtime, "fetch_page", url=url)
                    assert no.status is Ended.TOOL_ERROR, no
                    assert said in no.message
            agents = {request.headers["user-agent"] for request in server.requests}
            assert agents == {"Tavern/1"}


async def test_the_same_over_http_with_brave() -> None:  # G14, G15
    with trio.fail_after(LIMIT):
        async with (
            open_http_server(site) as server,
            open_brave(lambda asked: [TOWN], key="k") as engine,
            over_http(
                *("web", "--brave", "--brave-url", engine.base_url),
                *("--page-port", str(urlsplit(server.origin).port)),
                GLYPHOXA_SEARCH_KEY="k",
            ) as url,
            client_of([ServerSpec(name="web", url=url)]) as runtime,
        ):
            found = await call(runtime, "search", query="Saltmere", limit=3)
            assert found.data["results"][0]["engine"] == "Brave"
            assert engine.asked[0].count == 3
            no = await call(runtime, "fetch_page", url=server.origin)
            assert "public internet" in no.message
            assert server.connections == 0


async def test_a_site_that_hangs_is_left_in_time() -> None:  # G14
    with trio.fail_after(LIMIT):
        async with open_http_server(site) as server:
            port = str(urlsplit(server.origin).port)
            words = ["--page-port", port, "--allow-private", "127.0.0.1"]
            words += ["--timeout", "50"]
            command = ("glyphoxa", "serve", "web", *words)
            async with client_of([ServerSpec(name="web", command=command)]) as runtime:
                with trio.move_on_after(LIMIT):
                    async with trio.open_nursery() as nursery:
                        slow = partial(call, runtime, "fetch_page")
                        nursery.start_soon(partial(slow, url=f"{server.origin}/slow"))
                        await server.wait(lambda: len(server.requests) == 2)
                        nursery.cancel_scope.cancel()  # nobody waits any more
                await server.wait(lambda: server.hangups == 1)
                page = await call(runtime, "fetch_page", url=server.origin)
                assert page.status is Ended.OK


def test_options_that_are_none_are_said() -> None:
    done = subprocess.run(
        [str(COMMAND), "serve", "web", "--searxng", "localhost:8888"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "base_url: must be http" in done.stderr


@pytest.mark.parametrize(
    ("words", "key", "said"),
    [
        (["--brave"], "", "GLYPHOXA_SEARCH_KEY"),
        (["--brave", "--searxng", "http://localhost"], "k", "not both"),
        (["--allow-private", "10.0.0.1/8"], "", "allow_private"),
        (["--user-agent", "(none)"], "", "user_agent"),
    ],
)
async def test_an_option_that_does_not_fit_is_named(
    words: list[str], key: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(shelf.KEY, key)
    parser = argparse.ArgumentParser()
    shelf.add_options(parser)
    with pytest.raises(ValueError, match=said):
        async with shelf.open_offer(parser.parse_args(words)):
            raise AssertionError


@pytest.mark.parametrize("text", ["0", "-1", "nan", "601", "soon"])
def test_a_time_that_is_none_is_refused(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    shelf.add_options(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(["--timeout", text])
    assert "--timeout" in capsys.readouterr().err
