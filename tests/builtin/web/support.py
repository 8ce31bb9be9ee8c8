"""Sites on loopback that are read by the real fetcher.

Loopback only, port 0, an absolute end for each test: nothing is timed.
"""

from __future__ import annotations

import gc
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import attrs
import pytest

import trio

from glyphoxa_trio.builtin.web.connecting import Resolver, resolve
from glyphoxa_trio.builtin.web.extraction import Extractor
from glyphoxa_trio.builtin.web.fetching import Fetcher
from glyphoxa_trio.builtin.web.page import WebPage
from glyphoxa_trio.builtin.web.settings import FetchSettings
from glyphoxa_trio.testing.http_server import (
    HttpServer,
    ReceivedRequest,
    Reply,
    StatusReply,
    open_http_server,
)
from glyphoxa_trio.tools.definition import ToolError

HTML = {"Content-Type": "text/html; charset=utf-8"}
TEXT = {"Content-Type": "text/plain; charset=utf-8"}
WORDS = "The Drowned Lantern is an inn by the harbour of Saltmere, and serves eel."


def html(
    body: str, *, head: str = "<title>Saltmere</title>", lang: str = "en"
) -> StatusReply:
    page = f"<html lang={lang}><head>{head}</head><body>{body}</body></html>"
    return StatusReply(200, HTML, page.encode())


STORY = f"<p>{WORDS}</p>" * 10
INN = html(f"<nav><a href=/>Home</a></nav><article><h1>Inn</h1>{STORY}</article>")


def patient(**options: int) -> Extractor:
    """One that a busy machine does not hurry."""
    return Extractor(patience=30.0, **options)


@attrs.frozen
class Asked:
    """A page that a function makes, for each request."""

    reply: Callable[[ReceivedRequest], Reply | Awaitable[Reply]]


@attrs.define(eq=False)
class Site:
    """A server whose pages are a table; what is not in it is missing."""

    http: HttpServer
    pages: dict[str, Reply | Asked]
    fetcher: Fetcher

    @property
    def asked(self) -> list[str]:
        """The paths that were asked for, without ``/robots.txt``."""
        return [x.path for x in self.http.requests if x.path != "/robots.txt"]

    @property
    def port(self) -> int:
        return urlsplit(self.http.origin).port or 0

    def url(self, path: str = "/") -> str:
        return self.http.origin + path

    async def page(self, path: str = "/") -> WebPage:
        return await self.fetcher.page(self.url(path))

    async def refusal(self, path: str = "/", kind: type[ToolError] = ToolError) -> str:
        """What is said instead of a page."""
        with pytest.raises(kind) as caught:
            await self.page(path)
        return str(caught.value)


@asynccontextmanager
async def open_site(
    pages: Mapping[str, Reply | Asked] | Reply | None = None,
    *,
    allow: Sequence[str] = ("127.0.0.1",),
    resolver: Resolver = resolve,
    extractor: Extractor | None = None,
    **settings: Any,
) -> AsyncGenerator[Site]:
    """A site, and a fetcher that may go there.

    Args:
      pages: by path; one reply is that of ``/``.
    """
    table = dict(pages if isinstance(pages, Mapping) else {"/": pages or INN})

    def answer(request: ReceivedRequest) -> Reply | Awaitable[Reply]:
        page = table.get(request.path, StatusReply(404))
        return page.reply(request) if isinstance(page, Asked) else page

    async with open_http_server(answer) as http:
        port = urlsplit(http.origin).port or 0
        fetcher = Fetcher(
            FetchSettings.of(allow_private=allow, ports=[port], **settings),
            resolver,
            extractor=extractor or patient(),
        )
        yield Site(http, table, fetcher)
    gc.collect()  # what was left half-way is found here, and fails the test


async def left_when_asked(
    server: HttpServer, call: Callable[[], Awaitable[object]]
) -> None:
    """A call that is given up once a page was asked for: then the server is left."""
    async with trio.open_nursery() as nursery:

        async def give_up() -> None:
            await server.wait(
                lambda: any(x.path != "/robots.txt" for x in server.requests)
            )
            nursery.cancel_scope.cancel()

        nursery.start_soon(give_up)
        await call()
    assert nursery.cancel_scope.cancelled_caught
    await server.wait(lambda: server.hangups == 1)
