"""Asking a feed: real sockets, a server on loopback that behaves and misbehaves."""

from __future__ import annotations

import gzip
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

import trio

from glyphoxa_trio.servers.atis.cache import Answer, FeedFailure, Fetched, Unchanged
from glyphoxa_trio.servers.atis.feed import (
    METNO,
    MOST_BYTES,
    HttpFeed,
    check_agent,
    check_url,
)

from .feeds import FeedServer, bulletin, observed, open_feed

LIMIT = 20.0  # seconds; nothing here comes near it
AGENT = "tower/1.0 tower@example.org"
GZIP = {"Content-Encoding": "gzip"}


def now() -> datetime:
    return datetime.now(UTC)


@asynccontextmanager
async def opened(server: FeedServer, limit: float = LIMIT) -> AsyncGenerator[HttpFeed]:
    feed = HttpFeed(url=server.url, agent=AGENT, now=now, limit=limit)
    with trio.fail_after(LIMIT):
        try:
            yield feed
        finally:
            await feed.aclose()


async def answer(server: FeedServer, version: str = "") -> Answer:
    async with opened(server) as feed:
        return await feed.fetch("ENGM", version)


def on_the_wire(seconds: float) -> str:
    return format_datetime(now() + timedelta(seconds=seconds), usegmt=True)


async def test_the_feed_is_told_who_asks_and_gives_the_latest_report() -> None:  # A53
    last = observed(5)  # has the minute in it
    async with open_feed(bulletin(observed(60), observed(30), last)) as server:
        server.headers = {
            "Last-Modified": "Sun, 22 Nov 2026 12:50:00 GMT",
            "Expires": on_the_wire(120),
        }
        found = await answer(server)
    assert isinstance(found, Fetched)
    assert found.report is not None
    assert found.report.raw == last
    assert found.version == "Sun, 22 Nov 2026 12:50:00 GMT"
    assert 110 < found.expires <= 121
    ((path, headers),) = server.asked
    assert path == "/metar.txt?icao=ENGM"
    assert headers["user-agent"] == AGENT
    assert "text/plain" in headers["accept"]
    assert "if-modified-since" not in headers


async def test_it_is_asked_whether_there_is_a_newer_one() -> None:
    async with open_feed() as server:
        server.status = 304
        server.headers = {"Expires": on_the_wire(60)}
        found = await answer(server, "Sun, 22 Nov 2026 12:50:00 GMT")
    assert isinstance(found, Unchanged)
    assert 50 < found.expires <= 61
    ((_, headers),) = server.asked
    assert headers["if-modified-since"] == "Sun, 22 Nov 2026 12:50:00 GMT"


async def test_an_address_that_will_go_is_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with open_feed(bulletin(observed())) as server, opened(server) as feed:
        server.status = 203
        for _ in range(2):
            assert isinstance(await feed.fetch("ENGM", ""), Fetched)
    assert caplog.messages == ["the feed announces that its address will change (203)"]


async def test_connections_are_kept() -> None:
    async with open_feed(bulletin(observed())) as server, opened(server) as feed:
        for icao in ("ENGM", "ENBR"):
            await feed.fetch(icao, "")
        assert [path for path, _ in server.asked] == [
            "/metar.txt?icao=ENGM",
            "/metar.txt?icao=ENBR",
        ]


@pytest.mark.parametrize("status", [200, 204, 400, 404, 422])
async def test_an_aerodrome_that_it_does_not_know(status: int) -> None:
    async with open_feed("" if status < 300 else "unknown") as server:
        server.status = status
        assert await answer(server) == Fetched(report=None)


@pytest.mark.parametrize(
    ("status", "headers", "pause", "everything"),
    [
        (429, {"Retry-After": "37"}, 37.0, True),
        (429, {"Retry-After": "x"}, 0.0, True),
        (429, {}, 0.0, True),
        (403, {}, 0.0, True),
        (401, {}, 0.0, True),
        (500, {}, 0.0, False),
        (503, {"Retry-After": "5"}, 5.0, False),
        (301, {"Location": "https://example.org/"}, 0.0, False),
        (418, {}, 0.0, False),
    ],
)
async def test_a_refusal_says_for_how_long(
    status: int, headers: dict[str, str], pause: float, everything: bool
) -> None:
    async with open_feed("secret words of the server") as server:
        server.status, server.headers = status, headers
        found = await answer(server)
    assert found == FeedFailure(
        problem=f"the weather service answers with error {status}",
        pause=pause,
        everything=everything,
    )
    assert len(server.asked) == 1  # nothing is followed, and nothing tried again


async def test_a_pause_may_be_a_date() -> None:
    async with open_feed() as server:
        server.status, server.headers = 429, {"Retry-After": on_the_wire(90)}
        found = await answer(server)
    assert isinstance(found, FeedFailure)
    assert 80 < found.pause <= 91


@pytest.mark.parametrize(
    "expires", ["0", "", "never", "Sun, 99 Nov 2026 12:50:00 GMT", -900.0]
)
async def test_an_expiry_that_is_none_is_none(expires: str | float) -> None:
    said = expires if isinstance(expires, str) else on_the_wire(expires)
    async with open_feed(bulletin(observed())) as server:
        server.headers = {"Expires": said}
        found = await answer(server)
    assert isinstance(found, Fetched)
    assert found.expires == 0.0


async def test_its_clock_need_not_be_ours() -> None:
    async with open_feed(bulletin(observed())) as server:
        server.headers = {"Date": on_the_wire(-7200), "Expires": on_the_wire(-7100)}
        found = await answer(server)
    assert isinstance(found, Fetched)
    assert 98 <= found.expires <= 102


@pytest.mark.parametrize(
    "body",
    [
        "<html><body>We are down for maintenance.</body></html>",
        '<?xml version="1.0"?><metno:aviationProducts/>',
        "\x00\x01\x02" * 100,
        b"\xff\xfe\x00" * 1000,
        bulletin(observed(icao="ENBR")),
        bulletin("TAF ENGM 221100Z 2212/2312 18010KT 9999"),
        "=" * 10_000,
    ],
)
async def test_what_holds_no_report_is_a_failure(body: str | bytes) -> None:
    async with open_feed() as server:
        server.body = body
        found = await answer(server)
    assert found == FeedFailure(problem="the weather service sends no report")


async def test_too_much_is_not_read() -> None:
    async with open_feed() as server:
        server.body = bulletin(observed()) * (MOST_BYTES // 40)
        found = await answer(server)
    assert found == FeedFailure(problem="the weather service sends too long an answer")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nENGM 22",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 two hundred\r\n\r\n",
    ],
)
async def test_what_is_no_answer_is_a_failure(raw: bytes) -> None:
    async with open_feed() as server:
        server.raw = raw
        found = await answer(server)
    assert found == FeedFailure(problem="the weather service cannot be reached")


async def test_what_is_compressed_is_not_opened() -> None:
    async with open_feed() as server:
        server.body, server.headers = gzip.compress(b"0" * 10**7), GZIP
        found = await answer(server)
    assert found == FeedFailure(problem="the weather service sends no plain text")
    ((_, headers),) = server.asked
    assert headers["accept-encoding"] == "identity"


async def test_an_answer_that_breaks_off_is_a_failure() -> None:
    async with open_feed(bulletin(observed(), observed())) as server:
        server.cut = 30
        found = await answer(server)
    assert found == FeedFailure(problem="the weather service cannot be reached")


async def test_nobody_there_is_a_failure() -> None:
    async with open_feed() as server:
        pass  # closed again
    assert await answer(server) == FeedFailure(
        problem="the weather service cannot be reached"
    )


async def test_a_slow_feed_is_given_up() -> None:
    async with open_feed(bulletin(observed())) as server:
        server.delay = LIMIT * 2
        async with opened(server, limit=0.05) as feed:
            found = await feed.fetch("ENGM", "")
    assert found == FeedFailure(problem="the weather service does not answer in time")


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("ftp://example.org/{icao}", "must be http"),
        ("example.org/{icao}", "must be http"),
        ("http:///{icao}", "must be http"),
        ("http://[::1/{icao}", "is not a URL"),
        ("http://example.org:x/{icao}", "is not a URL"),
        ("http://me:secret@example.org/{icao}", "no credentials"),
        ("http://{icao}.example.org/", "in its host"),
        ("http://example.org/metar", "needs {icao}"),
        ("http://example.org/#{icao}", "needs {icao}"),
    ],
)
def test_an_address_that_is_none(url: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as refused:
        check_url(url)
    assert "secret" not in str(refused.value)


def test_an_address_that_is_one() -> None:
    assert check_url(METNO) == METNO
    assert check_url("http://localhost:8/{icao}.txt") == "http://localhost:8/{icao}.txt"


@pytest.mark.parametrize("agent", ["", "  ", "caf\u00e9", "a\r\nb: c", "x" * 257])
def test_a_name_that_no_header_can_hold(agent: str) -> None:
    with pytest.raises(ValueError, match="METNO_USER_AGENT"):
        check_agent(agent)
    assert check_agent(f" {AGENT} ") == AGENT
