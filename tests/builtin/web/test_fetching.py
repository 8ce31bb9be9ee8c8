"""Pages from real servers, good and hostile, over real sockets."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator

import pytest

import trio
from trio.testing import wait_all_tasks_blocked

from glyphoxa_trio.builtin.web.extraction import Extractor
from glyphoxa_trio.builtin.web.fetching import MAX_BODY, MAX_REDIRECTS
from glyphoxa_trio.builtin.web.refusals import (
    BadAddress,
    PageNotFound,
    PageRefused,
    SiteFails,
    TooOften,
    Unreadable,
)
from glyphoxa_trio.testing.http_server import (
    CloseConnection,
    NoAnswer,
    Pieces,
    RawBytes,
    ReceivedRequest,
    StatusReply,
)
from glyphoxa_trio.tools.definition import ToolError

from .support import HTML, INN, TEXT, WORDS, Asked, html, left_when_asked, open_site

# G14


@pytest.mark.border
async def test_a_page_is_read_as_text() -> None:
    with trio.fail_after(30):
        async with open_site(INN) as site:
            page = await site.page()
    assert page.url == site.url()
    assert (page.title, page.language) == ("Saltmere", "en")
    assert WORDS in page.text
    assert "Home" not in page.text
    assert not page.truncated


@pytest.mark.border
async def test_we_say_who_we_are_and_what_we_can_read() -> None:
    with trio.fail_after(30):
        async with open_site(INN, user_agent="TavernBot/2.0 (inn@example.org)") as site:
            await site.page()
    assert [request.path for request in site.http.requests] == ["/robots.txt", "/"]
    for request in site.http.requests:
        assert request.method == "GET"
        assert request.headers["user-agent"] == "TavernBot/2.0 (inn@example.org)"
        assert request.headers["accept-encoding"] == "gzip, deflate"
        assert request.headers["host"] == f"127.0.0.1:{site.port}"
        assert not {"cookie", "authorization", "referer"} & request.headers.keys()


@pytest.mark.border
@pytest.mark.parametrize(
    ("headers", "body", "text"),
    [
        (TEXT, "Zwölf Gläser.\r\n\r\n\r\nMet".encode(), "Zwölf Gläser.\n\nMet"),
        ({"Content-Type": "application/json"}, b'{"ale": 3}', '{"ale": 3}'),
        ({"Content-Type": "application/ld+json"}, b"[1]", "[1]"),
        ({}, b"plain", "plain"),
        ({}, b" <p>not so plain", "not so plain"),
        ({"Content-Type": "text/html"}, b"<p>Gl\xe4ser", "Gläser"),
    ],
)
async def test_texts_of_many_kinds_are_read(
    headers: dict[str, str], body: bytes, text: str
) -> None:
    with trio.fail_after(30):
        async with open_site(StatusReply(200, headers, body)) as site:
            assert (await site.page()).text == text


def packed_at_no_time(data: bytes) -> bytes:
    """With gzip, whose header would say when: tests have the same names at any time."""
    return gzip.compress(data, mtime=0)


@pytest.mark.parametrize(
    ("coding", "packed"),
    [
        ("gzip", packed_at_no_time(b"ale " * 300)),
        ("GZIP", packed_at_no_time(b"ale " * 150) * 2 + bytes(100)),
        ("deflate", zlib.compress(b"ale " * 300)),
        ("deflate", zlib.compress(b"ale " * 300)[2:-4]),
        ("identity", b"ale " * 300),
    ],
)
async def test_what_is_packed_is_unpacked(coding: str, packed: bytes) -> None:
    headers = TEXT | {"Content-Encoding": coding}
    with trio.fail_after(30):
        async with open_site(StatusReply(200, headers, packed)) as site:
            assert (await site.page()).text == ("ale " * 300).strip()


ZEROS = bytes(20_000_000)
BOMB = packed_at_no_time(ZEROS)


@pytest.mark.parametrize(
    ("coding", "packed", "said"),
    [
        ("gzip", BOMB, "bomb"),
        ("deflate", zlib.compress(ZEROS), "bomb"),
        ("gzip, gzip", packed_at_no_time(BOMB), "in an unknown way"),
        ("br", b"xxxx", "in an unknown way"),
        ("gzip", packed_at_no_time(BOMB), "archive"),
        ("gzip", b"<p>no gzip at all", "damaged"),
        ("gzip", packed_at_no_time(b"<p>x" * 100)[:20] + b"\xff" * 60, "damaged"),
    ],
)
async def test_bombs_and_damage_end_in_an_answer(
    coding: str, packed: bytes, said: str
) -> None:
    headers = TEXT | {"Content-Encoding": coding}
    with trio.fail_after(30):
        async with open_site(StatusReply(200, headers, packed)) as site:
            assert said in await site.refusal(kind=Unreadable)


async def test_what_is_packed_twice_by_two_headers_is_not_unpacked() -> None:
    head = b"HTTP/1.1 200 OK\r\n" + b"Content-Encoding: gzip\r\n" * 2 + b"\r\n"
    twice = packed_at_no_time(BOMB)
    with trio.fail_after(30):
        async with open_site(RawBytes(head + twice)) as site:
            assert "in an unknown way" in await site.refusal(kind=Unreadable)


@pytest.mark.border
@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        ("application/pdf", b"%PDF-1.7", "a PDF"),
        ("text/html", b"%PDF-1.7 ...", "a PDF"),
        ("", b"\x89PNG\r\n", "an image"),
        ("image/svg+xml", b"<svg>", "an image"),
        ("video/mp4", b"", "a film"),
        ("application/octet-stream", b"x", "a file"),
        ("text/plain", b"x\0\0\0y", "a file"),
        ("application/zip", b"PK\x03\x04", "a file"),
        ("text/plain", b"PK\x03\x04", "an archive"),
        ("text/plain", b" \n", "empty"),
        ("text/html", b"", "no text"),
        ("text/html", b"<html><body></body></html>", "no text"),
        ("text/html", b"<div id=root></div><script src=a.js></script>", "JavaScript"),
        (
            "text/html",
            b"<noscript>Switch it on!</noscript><script>x()</script>",
            "JavaScript",
        ),
    ],
)
async def test_what_is_no_text_is_said(kind: str, body: bytes, said: str) -> None:
    headers = {"Content-Type": kind} if kind else {}
    with trio.fail_after(30):
        async with open_site(StatusReply(200, headers, body)) as site:
            assert said in await site.refusal(kind=Unreadable)


@pytest.mark.border
async def test_frames_are_named_with_their_addresses() -> None:
    page = b"<frameset><frame src=a.html><frame src='//x.example/b'></frameset>"
    with trio.fail_after(30):
        async with open_site(StatusReply(200, HTML, page)) as site:
            said = await site.refusal(kind=Unreadable)
    assert said.endswith(f"frames: {site.url('/a.html')}, http://x.example/b")


def endless(piece: bytes) -> Pieces:
    def pieces() -> Iterator[bytes]:
        while True:
            yield piece

    return Pieces(pieces, HTML)


@pytest.mark.border
@pytest.mark.parametrize(
    "piece",
    [
        f"<p>{WORDS}</p>".encode() * 100,
        b"<p>" + b"x" * 5000 + b"</p>\n",
    ],
)
async def test_of_a_page_without_end_the_beginning_is_read(piece: bytes) -> None:
    with trio.fail_after(60):
        async with open_site(endless(piece), most_text=500) as site:
            page = await site.page()
            await site.http.wait(lambda: site.http.hangups == 1)
    assert page.truncated
    assert 250 <= len(page.text) <= 500


async def test_a_packed_stream_that_holds_nothing_is_left() -> None:
    def pieces() -> Iterator[bytes]:
        packer = zlib.compressobj(wbits=31)
        while True:
            yield packer.compress(b"") + packer.flush(zlib.Z_FULL_FLUSH) * 50

    headers = TEXT | {"Content-Encoding": "gzip"}
    with trio.fail_after(60):
        async with open_site(Pieces(pieces, headers)) as site:
            assert "empty" in await site.refusal(kind=Unreadable)


async def test_a_page_is_cut_at_a_quarter_of_a_megabyte() -> None:
    body = b"word " * (MAX_BODY // 5 + 1)
    with trio.fail_after(30):
        async with open_site(
            {
                "/a": StatusReply(200, TEXT, body),
                "/b": StatusReply(200, TEXT, body[:MAX_BODY]),
            },
            most_text=10 * MAX_BODY,
        ) as site:
            first, second = await site.page("/a"), await site.page("/b")
    assert (len(first.text), first.truncated) == (MAX_BODY, True)
    assert (len(second.text), second.truncated) == (MAX_BODY, False)


# Answers that are none.


@pytest.mark.parametrize(
    ("reply", "kind", "said"),
    [
        (StatusReply(404), PageNotFound, "no such page"),
        (StatusReply(410), PageNotFound, "no such page"),
        (StatusReply(401), PageRefused, "does not let us"),
        (StatusReply(403), PageRefused, "does not let us"),
        (StatusReply(429, {"Retry-After": "7"}), TooOften, "in 7 seconds"),
        (StatusReply(429, {"Retry-After": "600"}), TooOften, "in 10 minutes"),
        (StatusReply(429, {"Retry-After": "-1"}), TooOften, "later"),
        (StatusReply(429, {"Retry-After": "nan"}), TooOften, "later"),
        (StatusReply(503, {"Retry-After": "30"}), TooOften, "in 30 seconds"),
        (
            StatusReply(
                429,
                {
                    "Date": "Sat, 01 Aug 2026 10:00:00 GMT",
                    "Retry-After": "Sat, 01 Aug 2026 10:00:42 GMT",
                },
            ),
            TooOften,
            "in 42 seconds",
        ),
        (StatusReply(503), SiteFails, "does not work"),
        (StatusReply(500), SiteFails, "does not work"),
        (StatusReply(418), SiteFails, "does not give"),
        (StatusReply(204), Unreadable, "empty"),
        (StatusReply(304), SiteFails, "does not give"),
        (StatusReply(302), SiteFails, "does not give"),
        (CloseConnection(), SiteFails, "an invalid answer"),
        (RawBytes(b"SSH-2.0-OpenSSH\r\n"), SiteFails, "an invalid answer"),
        (
            RawBytes(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"),
            SiteFails,
            "an invalid answer",
        ),
        (
            RawBytes(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 1_000_000 + b"\r\n\r\n"),
            SiteFails,
            "an invalid answer",
        ),
        (
            RawBytes(b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 150_000 + b"\r\n"),
            SiteFails,
            "an invalid answer",
        ),
    ],
)
async def test_answers_that_are_no_page_are_sentences(
    reply: StatusReply | CloseConnection | RawBytes, kind: type[ToolError], said: str
) -> None:
    with trio.fail_after(30):
        async with open_site(reply) as site:
            sentence = await site.refusal(kind=kind)
    assert said in sentence
    assert sentence.endswith(".")


async def test_a_site_that_is_not_there_is_said() -> None:
    with trio.fail_after(30):
        async with open_site() as site:
            pass
        assert await site.refusal() == "The site 127.0.0.1 cannot be reached."


# Where pages lead.


def to(place: str, status: int = 302) -> StatusReply:
    return StatusReply(status, {"Location": place})


@pytest.mark.border
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_followed_and_the_last_address_is_told(status: int) -> None:
    pages = {"/a": to("b?c#d", status), "/b": INN}
    with trio.fail_after(30):
        async with open_site(pages) as site:
            page = await site.page("/a")
    assert page.url == site.url("/b?c")


@pytest.mark.border
async def test_five_redirects_are_followed_and_no_sixth() -> None:
    pages = {f"/{n}": to(f"/{n + 1}") for n in range(9)} | {"/5": INN}
    with trio.fail_after(30):
        async with open_site(pages) as site:
            assert (await site.page("/0")).url == site.url("/5")
            site.pages["/5"] = to("/6")
            said = await site.refusal("/0", SiteFails)
    assert "too often" in said
    assert site.asked[6:] == [f"/{n}" for n in range(MAX_REDIRECTS + 1)]


@pytest.mark.parametrize("loop", [{"/": to("/")}, {"/": to("/b"), "/b": to("/")}])
async def test_redirects_in_a_circle_are_noticed(loop: dict[str, StatusReply]) -> None:
    with trio.fail_after(30):
        async with open_site(loop) as site:
            assert "circle" in await site.refusal(kind=SiteFails)
            assert len(site.asked) == len(loop)


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("http://169.254.169.254/latest/meta-data/", PageRefused),
        ("http://localhost.:1/", PageRefused),
        ("http://[::1]:{port}/", PageRefused),
        ("http://10.0.0.1:{port}/", PageRefused),
        ("http://2130706433:{port}/", BadAddress),
        ("http://user@127.0.0.1:{port}/", BadAddress),
        ("file:///etc/passwd", BadAddress),
        ("ftp://example.org/", BadAddress),
        ("http://127.0.0.1:22/", PageRefused),
        ("http://a b/", BadAddress),
        ("\\\\127.0.0.1", BadAddress),
    ],
)
async def test_nothing_leads_where_an_address_would_not(
    place: str, kind: type[ToolError]
) -> None:
    with trio.fail_after(30):
        async with open_site({}) as site:
            site.pages["/"] = to(place.replace("{port}", str(site.port)))
            await site.refusal(kind=kind)
            assert site.asked == ["/"]


@pytest.mark.border
async def test_a_page_that_forwards_leads_no_further_than_a_redirect() -> None:
    with trio.fail_after(30):
        async with open_site({"/file": forward("file:///etc/passwd")}) as site:
            site.pages["/inside"] = forward(f"http://10.0.0.1:{site.port}/")
            await site.refusal("/file", BadAddress)
            await site.refusal("/inside", PageRefused)


def forward(to: str, body: str = "", after: str = "0") -> StatusReply:
    return html(
        body, head=f'<META HTTP-EQUIV="Refresh" CONTENT="{after};URL=\'{to}\'">'
    )


@pytest.mark.border
async def test_a_page_that_forwards_is_followed_once() -> None:
    pages = {"/a": forward("b"), "/b": INN, "/c": forward("a")}
    with trio.fail_after(30):
        async with open_site(pages) as site:
            assert (await site.page("/a")).url == site.url("/b")
            assert "more than once" in await site.refusal("/c", Unreadable)


@pytest.mark.border
async def test_pages_that_forward_in_a_circle_are_no_trap() -> None:
    pages = {"/a": forward("b"), "/b": forward("a"), "/self": forward("self", WORDS)}
    with trio.fail_after(30):
        async with open_site(pages) as site:
            assert "forwards" in await site.refusal("/a", Unreadable)
            assert site.asked == ["/a", "/b"]
            # One that loads itself anew has a text all the same.
            assert WORDS in (await site.page("/self")).text


@pytest.mark.border
async def test_a_page_that_forwards_much_later_is_read() -> None:
    with trio.fail_after(30):
        async with open_site(forward("/b", WORDS, after="300")) as site:
            assert WORDS in (await site.page()).text


# Time.


async def test_a_slow_drip_is_left_when_nobody_waits_any_more() -> None:
    def drops() -> Iterator[bytes]:
        while True:
            yield b"<p>x"

    # No process of a reader is left either: see test_extraction.
    with trio.fail_after(30):
        async with open_site(Pieces(drops, HTML, pause=0.05)) as site:
            await left_when_asked(site.http, site.page)


async def test_silence_ends_when_nobody_waits_any_more() -> None:
    with trio.fail_after(30):
        async with open_site(NoAnswer()) as site:
            await left_when_asked(site.http, site.page)


async def test_two_pages_of_a_host_are_fetched_at_once_and_others_wait() -> None:
    gate = trio.Event()
    most = now = 0

    async def slow(request: ReceivedRequest) -> StatusReply:
        nonlocal most, now
        now += 1
        most = max(most, now)
        await gate.wait()
        now -= 1
        return StatusReply(200, TEXT, b"x")

    with trio.fail_after(30):
        async with open_site() as site:
            site.pages["/slow"] = Asked(slow)
            async with trio.open_nursery() as nursery:
                for n in range(5):
                    nursery.start_soon(site.page, f"/slow?{n}")
                await site.http.wait(lambda: len(site.asked) == 2)
                # The third would have asked by now: all are blocked, on us.
                await wait_all_tasks_blocked(0.05)
                assert len(site.asked) == 2
                gate.set()
    assert (most, len(site.asked)) == (2, 5)


async def test_no_extractor_is_needed_for_plain_text() -> None:
    with trio.fail_after(30):
        extractor = Extractor(memory=1)  # none can start
        async with open_site(
            StatusReply(200, TEXT, b"ale"), extractor=extractor
        ) as site:
            assert (await site.page()).text == "ale"
            assert extractor._limit.statistics().borrowed_tokens == 0
