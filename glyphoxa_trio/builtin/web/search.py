"""Asking a search engine over HTTP.

The engine is chosen by the operator, so its address may be private. The proxies of the
environment are used, except for a server on this machine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit

import attrs

from glyphoxa_trio.certificates import CertificatesUnreadable, trusted_for
from glyphoxa_trio.loading import load
from glyphoxa_trio.quiet import quiet
from glyphoxa_trio.secret import Mask, Secret
from glyphoxa_trio.tools.definition import ToolError, ToolUnavailable

from .found import SearchResults
from .refusals import SiteFails, TooOften
from .retrying import patience, waiting
from .unpacking import ACCEPTED, Body

if TYPE_CHECKING:
    import ssl

    import httpx2

MAX_ANSWER: Final = 2 * 1024 * 1024  # bytes of an engine's answer
_CONNECT: Final = 2.0  # seconds


class SearchBackend(Protocol):
    """The protocol of one kind of engine. No I/O."""

    @property
    def name(self) -> str:
        """The name of the engine, as people know it."""
        ...

    @property
    def path(self) -> str:
        """The path after the server's address."""
        ...

    def parameters(self, query: str, limit: int) -> Mapping[str, str]: ...

    def headers(self, key: Secret | None) -> Mapping[str, str]: ...

    def found(
        self, query: str, payload: Mapping[str, Any], limit: int
    ) -> SearchResults:
        """Return the results in an answer.

        Raises:
          ToolError: if the answer says that no search was made.
        """
        ...

    def refusal(self, status: int, payload: object) -> str | None:
        """Return what the operator has to correct; None if that is not the cause."""
        ...


def _bare(url: str) -> str:
    """Return an address to which a path can be appended."""
    return url.rstrip("/")


@attrs.frozen(eq=False, kw_only=True)
class Search:
    """One engine at one address. Each question uses new connections.

    Raises:
      ValueError: for an address that is not plain http(s) or contains credentials or a
        query, and for a key that a header cannot hold.
    """

    engine: SearchBackend
    base_url: str = attrs.field(converter=_bare)
    key: Secret | None = None

    def __attrs_post_init__(self) -> None:
        address = urlsplit(self.base_url)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise ValueError("base_url: must be http://… or https://…")
        if "@" in address.netloc or address.query or address.fragment:
            raise ValueError("base_url: must have no credentials, query or fragment")
        key = "k" if self.key is None else self.key.reveal()
        if not (key.isascii() and key.isprintable() and key) or " " in key:
            raise ValueError("api_key: must be printable ASCII, not empty, no spaces")

    async def find(self, query: str, limit: int) -> SearchResults:
        """Return the engine's results. If cancelled, closes the connection.

        Raises:
          ToolUnavailable: if the engine cannot be reached.
          ToolError: if it does not answer the question.
        """
        await load("httpx2")
        import httpx2

        try:
            with quiet(Mask.around(self.key).text):
                async with (
                    self._client(await trusted_for(self.base_url)) as client,
                    client.stream(
                        "GET",
                        f"{self.base_url}{self.engine.path}",
                        params=dict(self.engine.parameters(query, limit)),
                        headers={"Accept-Encoding": ACCEPTED}
                        | dict(self.engine.headers(self.key)),
                    ) as response,
                ):
                    body = await _body(response)
        except CertificatesUnreadable as error:
            raise ToolUnavailable(
                "The search engine cannot be reached: this program finds no"
                " certificates."
            ) from error
        except (
            httpx2.ConnectError,
            httpx2.ConnectTimeout,
            httpx2.ProxyError,
        ) as error:
            raise ToolUnavailable("The search engine cannot be reached.") from error
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            raise ToolUnavailable(
                "The connection to the search engine failed."
            ) from error
        return self._read(query, limit, response, body)

    def _read(
        self, query: str, limit: int, response: httpx2.Response, body: bytes
    ) -> SearchResults:
        try:
            payload = Mask.around(self.key).data(json.loads(body))
        except (ValueError, RecursionError):
            payload = None
        if response.status_code != 200:
            raise self._refused(response, payload)
        if not isinstance(payload, dict):
            # A page for people: a captcha, a login, an error page of a proxy.
            raise SiteFails(
                "The search engine sends a web page instead of results, perhaps a"
                " captcha."
            )
        return self.engine.found(query, payload, limit)

    def _refused(
        self, response: httpx2.Response, payload: object
    ) -> ToolError | ToolUnavailable:
        status = response.status_code
        if status == 429:
            wait = waiting(patience(response.headers)) or "later"
            return TooOften(f"The search engine asks us to come back {wait}.")
        if (why := self.engine.refusal(status, payload)) is not None:
            return SiteFails(f"The search engine does not let us ask: {why}.")
        if status >= 500:
            wait = waiting(patience(response.headers))
            then = f" and asks us to come back {wait}" if wait else ""
            return ToolUnavailable(f"The search engine fails ({status}){then}.")
        return SiteFails(f"The search engine refuses the question ({status}).")

    def _client(self, tls: ssl.SSLContext) -> httpx2.AsyncClient:
        import httpx2

        host = urlsplit(self.base_url).hostname or ""
        local = host in ("localhost", "::1") or host.startswith("127.")
        return httpx2.AsyncClient(
            verify=tls,
            trust_env=not local,  # a proxy cannot reach a server on this machine
            # the call has its own time limit
            timeout=httpx2.Timeout(None, connect=_CONNECT),
            follow_redirects=False,
        )


async def _body(response: httpx2.Response) -> bytes:
    import httpx2

    body = Body(response.headers.get("content-encoding", ""), MAX_ANSWER)
    pieces = response.aiter_raw()
    try:
        async for piece in pieces:
            if not body.feed(piece):
                raise SiteFails("The search engine's answer is too long.")
    finally:
        # The client's generators do not close one another. Iterated once more over a
        # closed connection, each of them ends.
        with suppress(httpx2.HTTPError, httpx2.StreamError):
            await response.aclose()
        with suppress(httpx2.HTTPError, httpx2.StreamError):
            async for _ in pieces:
                pass
    return body.end()
