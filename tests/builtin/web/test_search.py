"""Search engines that are well, down, slow or strange: answers that can be spoken.

The engines are stand-ins as strict as the real ones, over real HTTP.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import repeat
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio

from glyphoxa_trio.builtin.web import Brave, Search, SearXNG, search_tool
from glyphoxa_trio.builtin.web.found import MAX_HITS, MAX_SNIPPET, MAX_TITLE, plain
from glyphoxa_trio.builtin.web.refusals import BadAddress, SiteFails, TooOften
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.testing.http_server import (
    CloseConnection,
    NoAnswer,
    Pieces,
    RawBytes,
    ReceivedRequest,
    StatusReply,
    open_http_server,
)
from glyphoxa_trio.testing.search_server import (
    Reply,
    SearchEntry,
    SearchRequest,
    SearchServer,
    open_brave,
    open_searxng,
)
from glyphoxa_trio.tools.definition import Tool, ToolError, ToolUnavailable

from .support import left_when_asked

# G14

KEY = "brave-key"
TOWN = SearchEntry("Saltmere", "https://saltmere.example/", "A town by the sea.")
INN = SearchEntry(
    "The Drowned Lantern", "http://inn.example/eel?x=1", "Serves eel.", "bing"
)


def says(reply: Reply) -> Callable[[SearchRequest], Reply]:
    return lambda asked: reply


@asynccontextmanager
async def searxng(
    reply: Reply, **options: Any
) -> AsyncGenerator[tuple[Tool, SearchServer]]:
    async with open_searxng(says(reply), **options) as server:
        yield search_tool(_search(SearXNG(), server)), server


@asynccontextmanager
async def brave(
    reply: Reply, *, key: str | None = KEY
) -> AsyncGenerator[tuple[Tool, SearchServer]]:
    async with open_brave(says(reply), key=KEY) as server:
        secret = None if key is None else Secret(key)
        yield search_tool(_search(Brave(), server, secret)), server


def _search(engine: Any, server: SearchServer, key: Secret | None = None) -> Search:
    return Search(engine=engine, base_url=server.base_url + "/", key=key)


BOTH = pytest.mark.parametrize("opened", [searxng, brave])


async def test_searxng_tells_which_engine_knew_it() -> None:
    with trio.fail_after(30):
        async with searxng([TOWN, INN]) as (search, server):
            found = await search(query="  inns of\nSaltmere ")
    assert found == {
        "query": "inns of Saltmere",
        "spoken": "Saltmere: A town by the sea.",
        "results": [
            {
                "title": "Saltmere",
                "url": "https://saltmere.example/",
                "snippet": "A town by the sea.",
                "engine": "wikipedia",
            },
            {
                "title": "The Drowned Lantern",
                "url": "http://inn.example/eel?x=1",
                "snippet": "Serves eel.",
                "engine": "bing",
            },
        ],
    }
    assert server.asked[0].query == "inns of Saltmere"
    assert not server.refused


async def test_brave_is_asked_with_its_key_and_for_as_many_as_wanted() -> None:
    with trio.fail_after(30):
        async with brave([TOWN, INN, TOWN]) as (search, server):
            found = await search(query="Saltmere", limit=2)
    assert [hit["engine"] for hit in found["results"]] == ["Brave", "Brave"]
    assert server.asked[0].count == 2
    assert server.asked[0].headers["x-subscription-token"] == KEY


@BOTH
async def test_nothing_found_is_an_answer(opened: Any) -> None:
    with trio.fail_after(30):
        async with opened([]) as (search, _):
            found = await search(query="xyzzy")
    assert (found["results"], found["spoken"]) == ([], "I found nothing about xyzzy.")


async def test_an_answer_of_the_engines_own_is_said_first() -> None:
    answers = [{"answer": "It is <b>42</b>."}, "older"]
    with trio.fail_after(30):
        async with searxng([TOWN], answers=answers) as (search, _):
            found = await search(query="6 * 7")
        async with searxng([], answers=answers[1:]) as (search, _):
            older = await search(query="6 * 7")
    assert (found["answer"], found["spoken"]) == ("It is 42.", "It is 42.")
    assert older["spoken"] == "older"


ODD = "1 < 2 &lt;i&gt;\n\u202e\x07<script>x" + "y " * 999


@BOTH
async def test_results_are_plain_short_and_pages(opened: Any) -> None:
    entries = [
        SearchEntry("no page", "javascript:alert(1)"),
        SearchEntry("no page", "ftp://x.example/"),
        SearchEntry("no page", "https://x.example/ and more"),
        SearchEntry("too long", "https://x.example/" + "a" * 500),
        SearchEntry(
            "<b>Eel</b> &amp; ale &#x1F41F;" + " long" * 99, "https://a.example/", ""
        ),
        SearchEntry("twice", "https://a.example/"),
        SearchEntry(
            "",
            "https://b.example/",
            "1 < 2 &lt;i&gt;\n\u202e\x07<script>x" + "y " * 999,
        ),
        *(SearchEntry(f"{n}", f"https://c.example/{n}", "c") for n in range(20)),
    ]
    with trio.fail_after(30):
        async with opened(entries) as (search, _):
            found = await search(query="eel", limit=99)
    hits = found["results"]
    assert len(hits) <= MAX_HITS
    assert hits[0]["title"].startswith("Eel & ale \N{FISH} long")
    assert len(hits[0]["title"]) <= MAX_TITLE
    assert hits[1]["title"] == hits[1]["url"] == "https://b.example/"
    assert hits[1]["snippet"].startswith("1 < 2 <i>")
    assert len(hits[1]["snippet"]) <= MAX_SNIPPET
    assert found["spoken"] == f"I found a page called {hits[0]['title']}."


@pytest.mark.parametrize("query", ["", " \n", "x" * 401])
async def test_what_is_no_question_is_not_asked(query: str) -> None:
    with trio.fail_after(30):
        async with searxng([TOWN]) as (search, server):
            with pytest.raises(BadAddress):
                await search(query=query)
            assert not server.http.requests


async def test_a_long_question_fits_braves_limits() -> None:
    with trio.fail_after(30):
        async with brave([TOWN]) as (search, server):
            await search(query="a b " * 99, limit=-5)
    assert len(server.asked[0].query.split()) == 50
    assert (server.asked[0].count, server.refused) == (1, [])


# What is wrong with an engine.

CAPTCHA = StatusReply(200, {"Content-Type": "text/html"}, b"<h1>Are you a robot?</h1>")


@BOTH
@pytest.mark.parametrize(
    ("reply", "kind", "said"),
    [
        (CAPTCHA, SiteFails, "a captcha"),
        (StatusReply(200, {}, b"[" * 200_000), SiteFails, "a captcha"),
        (StatusReply(200, {}, b"[]"), SiteFails, "a captcha"),
        (StatusReply(200, {}, b"{}"), SiteFails, "does not answer as"),
        (StatusReply(429, {"Retry-After": "20"}), TooOften, "in 20 seconds"),
        (
            StatusReply(429, {"X-RateLimit-Reset": "3, 1419704"}),
            TooOften,
            "in 3 seconds",
        ),
        (StatusReply(429), TooOften, "later"),
        (StatusReply(500), ToolUnavailable, "fails (500)"),
        (StatusReply(503, {"Retry-After": "9"}), ToolUnavailable, "back in 9 seconds"),
        (
            StatusReply(302, {"Location": "/login"}),
            SiteFails,
            "refuses the question (302)",
        ),
        (StatusReply(418), SiteFails, "refuses the question (418)"),
        (
            CloseConnection(),
            ToolUnavailable,
            "The connection to the search engine failed",
        ),
        (
            RawBytes(b"nonsense\r\n\r\n"),
            ToolUnavailable,
            "The connection to the search engine failed",
        ),
        (
            RawBytes(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"),
            ToolUnavailable,
            "connection to the search engine failed",
        ),
        (
            StatusReply(
                200,
                {"Content-Encoding": "gzip"},
                gzip.compress(b" " * 50_000_000),
            ),
            ToolError,
            "bomb",
        ),
        (
            Pieces(lambda: repeat(b"[" * 50_000), {}),
            SiteFails,
            "too long",
        ),
    ],
)
async def test_an_engine_that_does_not_answer_is_a_sentence(
    opened: Any, reply: Reply, kind: type[Exception], said: str
) -> None:
    with trio.fail_after(30):
        async with opened(reply) as (search, _):
            with pytest.raises(kind) as caught:
                await search(query="Saltmere")
    assert said in str(caught.value)
    assert str(caught.value).endswith(".")


async def test_an_engine_that_is_not_there_is_unavailable() -> None:
    with trio.fail_after(30):
        async with searxng([]) as (search, _):
            pass
        with pytest.raises(ToolUnavailable, match="cannot be reached"):
            await search(query="Saltmere")


async def test_an_instance_without_json_says_what_to_mend() -> None:
    with trio.fail_after(30):
        async with searxng([TOWN], formats=["html"]) as (search, server):
            with pytest.raises(SiteFails, match="JSON"):
                await search(query="Saltmere")
            assert len(server.refused) == 1


async def test_when_no_engine_has_answered_that_is_no_empty_result() -> None:
    silent = [["google", "CAPTCHA"], ["brave", "<b>timeout</b>"]]
    with trio.fail_after(30):
        async with searxng([], unresponsive=silent) as (search, _):
            with pytest.raises(SiteFails) as caught:
                await search(query="Saltmere")
        assert str(caught.value) == (
            "No search engine has answered: google: CAPTCHA, brave: timeout."
        )
        # Some are silent nearly always.
        async with searxng([TOWN], unresponsive=silent) as (search, _):
            assert (await search(query="Saltmere"))["results"]


async def test_a_wrong_key_is_said_and_not_told() -> None:
    with trio.fail_after(30):
        async with brave([TOWN], key="stolen") as (search, server):
            with pytest.raises(
                SiteFails, match="the key is missing or wrong"
            ) as caught:
                await search(query="Saltmere")
    assert len(server.refused) == 1
    assert "stolen" not in str(caught.value)


async def test_a_slow_engine_is_left_when_nobody_waits_any_more() -> None:
    with trio.fail_after(30):
        async with searxng(NoAnswer()) as (search, server):
            await left_when_asked(server.http, partial(search, query="Saltmere"))


async def test_a_key_for_a_proxy_before_searxng_is_sent_and_never_shown() -> None:
    heard: list[str] = []

    def answer(request: ReceivedRequest) -> StatusReply:
        heard.append(request.headers["authorization"])
        return StatusReply(401)

    with trio.fail_after(30):
        async with open_http_server(answer) as server:
            search = Search(
                engine=SearXNG(), base_url=server.origin, key=Secret("the-key")
            )
            with pytest.raises(SiteFails) as caught:
                await search.find("x", 1)
    assert heard == ["Bearer the-key"]
    assert "the-key" not in repr(search) + str(caught.value)


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("ftp://x.example", None),
        ("http://", None),
        ("http://u:p@x.example", None),
        ("http://x.example/?key=1", None),
        ("http://x.example", ""),
        ("http://x.example", "two words"),
        ("http://x.example", "k\r\nX: y"),
    ],
)
def test_an_address_or_a_key_that_cannot_be_one_is_refused(
    url: str, key: str | None
) -> None:
    with pytest.raises(ValueError, match=r"base_url|api_key") as caught:
        Search(engine=SearXNG(), base_url=url, key=None if key is None else Secret(key))
    assert not key or key not in str(caught.value)


FIELDS = st.sampled_from(
    [
        *("type", "results", "web", "answers", "answer", "unresponsive_engines"),
        *("url", "title", "content", "description", "engine"),
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            FIELDS,
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(
    st.dictionaries(
        st.sampled_from(["type", "results", "web", "answers", "unresponsive_engines"]),
        JSON | st.just("search"),
    )
)
def test_whatever_an_engine_answers_is_a_result_or_a_sentence(
    payload: dict[str, Any],
) -> None:
    for engine in (SearXNG(), Brave()):
        with suppress(ToolError):
            found = engine.found("q", payload, 5)
            json.dumps(found.data()).encode()
            assert found.spoken


@given(st.text())
def test_text_of_an_engine_is_one_line_without_what_is_no_writing(text: str) -> None:
    said = plain(text, 50)
    assert len(said) <= 50
    assert said.isprintable()
    said.encode()
    assert plain([text], 50) == ""
