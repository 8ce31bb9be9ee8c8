"""Fetching pages by their addresses: redirects, limits, and errors.

httpcore2 is used directly, since it does nothing by itself: it follows no redirects,
keeps no cookies, decompresses nothing and reads nothing from the environment.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import attrs
import httpcore2

import trio

from glyphoxa_trio.certificates import CertificatesUnreadable, trusted

from . import unpacking
from .answers import HttpAnswer, problem
from .connecting import CheckedBackend, Resolver, open_pool, resolve
from .content import ContentKind, check, guess, kind_of
from .extraction import Extractor, PageReader
from .page import WebPage, plain_page
from .refusals import PageRefused, SiteFails
from .robots import MAX_BYTES as MAX_ROBOTS
from .settings import DEFAULTS, FetchSettings
from .sites import Sites
from .urls import PageUrl, parse

MAX_BODY: Final = 256 * 1024  # bytes of a page, decompressed
MAX_REDIRECTS: Final = 5
MAX_FETCHES: Final = 8  # at once; others wait

_ACCEPTED: Final = (
    "text/html, application/xhtml+xml, text/*;q=0.9, application/json;q=0.9, */*;q=0.1"
)
_SILENCE: Final = 5.0  # seconds without a byte; the whole call has its own limit
_SOON: Final = 10.0  # seconds: a page that forwards later than that is to be read
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


@attrs.define(eq=False)
class Fetcher:
    """A fetcher of pages, with new connections for each.

    Args:
      resolver: turns names into addresses.
      tls: for checking certificates; by default with the usual authorities.
    """

    settings: FetchSettings = DEFAULTS
    resolver: Resolver = resolve
    tls: ssl.SSLContext | None = None
    extractor: Extractor = attrs.field(factory=Extractor)
    _sites: Sites = attrs.field(factory=Sites, init=False)
    _limit: trio.CapacityLimiter = attrs.field(
        factory=lambda: trio.CapacityLimiter(MAX_FETCHES), init=False
    )

    async def page(self, address: str) -> WebPage:
        """Return the page at an address, as text. If cancelled, nothing of it is left.

        Raises:
          ToolError: if there is none; the message is a sentence that says why.
        """
        url = parse(address)
        backend = CheckedBackend(self.settings.allowed, self.resolver)
        try:
            tls = self.tls or await trusted()
        except CertificatesUnreadable as error:
            raise SiteFails(
                "Pages cannot be fetched: this program finds no certificates."
            ) from error
        async with self._limit, open_pool(backend, tls) as pool:
            return await _Visit(self.settings, self.extractor, self._sites, pool).at(
                url
            )


@attrs.define(eq=False)
class _Visit:
    """One call: the way from an address to a page."""

    _settings: FetchSettings
    _extractor: Extractor
    _sites: Sites
    _pool: httpcore2.AsyncConnectionPool
    _seen: set[PageUrl] = attrs.field(factory=set, init=False)
    _forwarded: bool = attrs.field(default=False, init=False)

    async def at(self, url: PageUrl) -> WebPage:
        while True:
            if url in self._seen:
                raise SiteFails("The page redirects in a circle.")
            if len(self._seen) > MAX_REDIRECTS:
                raise SiteFails("The page redirects too often.")
            self._seen.add(url)
            self._check_port(url)
            async with self._sites.visiting(url):
                found = await self._look(url)
            if isinstance(found, WebPage):
                return found
            url = found

    async def _look(self, url: PageUrl) -> WebPage | PageUrl:
        """Return the page at an address, or the address to which it leads."""
        if not await self._sites.allows(url, self._settings.user_agent, self._robots):
            raise PageRefused(
                f"The site {url.host} does not want robots to read that page."
            )
        async with self._asked(url) as answer:
            if answer.status in _REDIRECTS and "location" in answer.headers:
                return url.joined(answer.headers["location"])
            if (why := problem(answer, url)) is not None:
                raise why
            return await self._read(answer, url)

    async def _read(self, answer: HttpAnswer, url: PageUrl) -> WebPage | PageUrl:
        kind, charset = kind_of(answer.headers.get("content-type", ""))
        if kind is ContentKind.HTML:
            # The process gets ready while the page arrives.
            async with self._extractor.open() as reader:
                data, cut = await answer.body(MAX_BODY)
                return await self._extracted(reader, answer, url, data, cut, charset)
        data, cut = await answer.body(MAX_BODY)
        if kind is ContentKind.UNSAID and guess(data) is ContentKind.HTML:
            async with self._extractor.open() as reader:
                return await self._extracted(reader, answer, url, data, cut, charset)
        most = self._settings.most_text
        return plain_page(url, data, charset, cut=cut, most_text=most)

    async def _extracted(
        self,
        reader: PageReader,
        answer: HttpAnswer,
        url: PageUrl,
        data: bytes,
        cut: bool,
        charset: str | None,
    ) -> WebPage | PageUrl:
        """Return the page as extracted, or the address to which it forwards at once."""
        check(data)
        read = await reader.read(data, charset, most_text=self._settings.most_text)
        if (
            read.forward is not None
            and read.forward_after <= _SOON
            and not self._forwarded
        ):
            target = url.joined(read.forward)
            if target not in self._seen:  # else the page only reloads itself
                self._forwarded = True
                return target
        return read.page(url, cut=cut, language=answer.language)

    def _check_port(self, url: PageUrl) -> None:
        if url.port not in self._settings.ports:
            raise PageRefused(f"Pages on port {url.port} are not fetched.")

    async def _robots(self, url: PageUrl) -> bytes | None:
        """Return a robots.txt; empty if there is none, None after an error.

        Raises:
          ToolError: if its site cannot or must not be reached.
        """
        for _ in range(MAX_REDIRECTS + 1):
            self._check_port(url)
            async with self._asked(url) as answer:
                if answer.status in _REDIRECTS and "location" in answer.headers:
                    url = url.joined(answer.headers["location"])
                    continue
                if answer.status == 429 or answer.status >= 500:
                    return None
                if answer.status != 200:
                    await answer.leave()
                    return b""
                data, _ = await answer.body(MAX_ROBOTS)
                return data
        return b""  # RFC 9309: as if there were none

    @asynccontextmanager
    async def _asked(self, url: PageUrl) -> AsyncGenerator[HttpAnswer]:
        """Send a GET, and yield the answer; leaving closes the response."""
        headers = {
            "Host": url.authority,
            "User-Agent": self._settings.user_agent,
            "Accept": _ACCEPTED,
            "Accept-Encoding": unpacking.ACCEPTED,
        }
        where = httpcore2.URL(
            scheme=url.scheme.encode(),
            host=url.host.name.encode(),
            port=url.port,
            target=url.target.encode(),
        )
        timeout = {"connect": _SILENCE, "read": _SILENCE, "write": _SILENCE}
        with _translating(url):
            async with self._pool.stream(
                "GET",
                where,
                headers=list(headers.items()),
                extensions={"timeout": timeout},
            ) as response:
                yield HttpAnswer.of(response)


@contextmanager
def _translating(url: PageUrl) -> Iterator[None]:
    """Translate the HTTP client's errors into ours."""
    try:
        yield
    except httpcore2.ConnectError as error:
        raise SiteFails(f"The site {url.host} {_why_not(error)}.") from error
    except httpcore2.TimeoutException as error:
        raise SiteFails(f"The site {url.host} does not answer.") from error
    except httpcore2.ProtocolError as error:
        raise SiteFails(f"The site {url.host} sends an invalid answer.") from error
    except httpcore2.NetworkError as error:
        raise SiteFails(f"The connection to the site {url.host} failed.") from error


def _why_not(error: BaseException) -> str:
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLCertVerificationError):
            return "has no valid certificate"
        if isinstance(seen, ssl.SSLError):
            return "does not speak TLS"
        seen = seen.__cause__ or seen.__context__
    return "cannot be reached"
