"""A model server over HTTP: one request, an event stream back (D26).

What every vendor's link shares: connections and their end, one table of errors, the
one second attempt, and the events of an answer, read as they are asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import urlsplit

import attrs

from glyphoxa_trio.quiet import quiet
from glyphoxa_trio.secret import Mask, Secret

from .address import check_address
from .answer import Assembler, Events, hang_up
from .failures import excerpt, status_error
from .llm import ErrorKind, LLMError, LLMEvent, LLMRequest
from .payloads import encoded, refused_fields

if TYPE_CHECKING:
    import httpx2

CONNECT_TIMEOUT: Final = 5.0  # seconds; what follows is bounded by the engine (D0)
MAX_CONNECTIONS: Final = 64
MAX_ERROR_BODY: Final = 64 * 1024  # bytes read of an answer that is no stream


@attrs.define(eq=False, kw_only=True)
class Endpoint:
    """Where a model is asked.

    Connections are kept for the next round; whoever makes an endpoint closes it
    with `aclose`.

    Args:
      base_url: as it is shown; ``path`` is what is asked below it.
      headers: sent with every request; they may hold the key.
      client: connections to share, closed by their owner. Without one, a client
        of our own is made on first use; it obeys the proxies of the environment,
        except for a server on this machine.

    Raises:
      ValueError: for an address that is not plain http(s), or that carries
        credentials or a query (an address is shown; a key belongs in
        ``api_key``), and for a key that no header can hold.
    """

    base_url: str
    path: str
    api_key: Secret | None = None
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    client: httpx2.AsyncClient | None = attrs.field(default=None, repr=False)
    _own: httpx2.AsyncClient | None = attrs.field(default=None, init=False, repr=False)
    _mask: Mask = attrs.field(init=False, repr=False)

    @_mask.default
    def _of_the_key(self) -> Mask:
        return Mask.around(self.api_key)

    def __attrs_post_init__(self) -> None:
        check_address(self.base_url, self.api_key)
        _kinds()  # loads the client: later it would be on a turn's clock

    @asynccontextmanager
    async def ask(
        self,
        body: Callable[[], dict[str, Any]],
        assembler: Assembler,
        *,
        dispensable: Collection[str] = (),
        leave_out: Callable[[frozenset[str]], None],
    ) -> AsyncIterator[AsyncIterator[LLMEvent]]:
        """One round: entering waits for the headers, leaving hangs up at once.

        Cancelled at any point, the connection is closed.

        Args:
          dispensable: fields of ``body`` that a server may refuse and a request can
            do without. Those that it names in a 400 or 422 are left out, by
            ``leave_out``, in one second attempt.

        Raises:
          LLMError: see `LLM.stream`.
        """
        import httpx2

        response = await self._open(body, dispensable, leave_out)
        payloads = aiter(httpx2.EventSource(response))
        events = Events(response, payloads, assembler, self._translating)
        try:
            yield events
        finally:
            await events.aclose()

    async def aclose(self) -> None:
        """Close the connections kept for later; rounds that still run fail."""
        own, self._own = self._own, None
        if own is not None:
            await own.aclose()

    async def _open(
        self,
        body: Callable[[], dict[str, Any]],
        dispensable: Collection[str],
        leave_out: Callable[[frozenset[str]], None],
    ) -> httpx2.Response:
        asked = body()
        response = await self._send(asked)
        if _streams(response):
            return response
        answer = await self._read(response)
        refused = refused_fields(asked, answer, dispensable)
        if refused and response.status_code in (400, 422):
            leave_out(refused)
            response = await self._send(body())
            if _streams(response):
                return response
            answer = await self._read(response)
        raise status_error(response.status_code, response.headers, answer, self.api_key)

    async def _send(self, body: dict[str, Any]) -> httpx2.Response:
        import httpx2

        headers = {
            "accept": "text/event-stream",
            "accept-encoding": "identity",  # compression would buffer the stream
            "content-type": "application/json",
        }
        with self._translating(), quiet(self._mask.text):
            client = self.client or self._own_client()
            request = client.build_request(
                "POST",
                f"{self.base_url}{self.path}",
                content=encoded(body),
                headers=headers | dict(self.headers),
                timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT),
            )
            return await client.send(request, stream=True, follow_redirects=False)

    def _own_client(self) -> httpx2.AsyncClient:
        import httpx2

        if self._own is None:
            host = urlsplit(self.base_url).hostname or ""
            self._own = httpx2.AsyncClient(
                limits=httpx2.Limits(
                    max_connections=MAX_CONNECTIONS,
                    max_keepalive_connections=MAX_CONNECTIONS // 4,
                ),
                # No proxy reaches a model server on this machine.
                trust_env=not (host in ("localhost", "::1") or host.startswith("127.")),
            )
        return self._own

    async def _read(self, response: httpx2.Response) -> str:
        """The beginning of an answer that is no stream, as far as it came."""
        body = bytearray()
        chunks = response.aiter_bytes()
        try:
            with suppress(LLMError), self._translating():
                async for chunk in chunks:
                    body += chunk
                    if len(body) >= MAX_ERROR_BODY:
                        break
        finally:
            await hang_up(response, chunks)
        return body.decode("utf-8", "replace")

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # border: the HTTP client's, by one table
            for types, kind in _kinds():
                if isinstance(error, types):
                    words = f"{self.base_url}: {error or type(error).__name__}"
                    raise LLMError(kind, excerpt(words, self.api_key)) from error
            raise


@attrs.define(eq=False, kw_only=True)
class AtEndpoint(ABC):
    """One model at one server; a vendor says what is sent, and how the answer is read.

    Connections are kept for the next round; whoever makes one closes it with
    `aclose`.

    Args:
      client: see `Endpoint`.

    Raises:
      ValueError: see `Endpoint`.
    """

    model: str
    base_url: str
    api_key: Secret | None = None
    client: httpx2.AsyncClient | None = attrs.field(default=None, repr=False)
    _endpoint: Endpoint = attrs.field(init=False, repr=False)
    dispensable: ClassVar[frozenset[str]] = frozenset()

    def __attrs_post_init__(self) -> None:
        path, headers = self._way()
        self._endpoint = Endpoint(
            base_url=self.base_url,
            path=path,
            api_key=self.api_key,
            headers=headers,
            client=self.client,
        )

    @property
    def label(self) -> str:
        return f"{self.model} at {self.base_url}"

    def stream(
        self, request: LLMRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[LLMEvent]]:
        """One round: entering waits for the headers, leaving hangs up at once.

        Cancelled at any point, the connection is closed. A field that the server
        refuses and that we can do without is left out in one second attempt, and
        from then on.

        Raises:
          LLMError: see `LLM.stream`.
        """
        return self._endpoint.ask(
            lambda: self._body(request),
            self._assembler(),
            dispensable=self.dispensable,
            leave_out=self._leave_out,
        )

    async def aclose(self) -> None:
        """Close the connections kept for later; rounds that still run fail."""
        await self._endpoint.aclose()

    @abstractmethod
    def _way(self) -> tuple[str, Mapping[str, str]]:
        """The path below the address, and the headers of every request."""

    @abstractmethod
    def _body(self, request: LLMRequest) -> dict[str, Any]: ...

    @abstractmethod
    def _assembler(self) -> Assembler: ...

    @abstractmethod
    def _leave_out(self, fields: frozenset[str]) -> None: ...


def bare(url: str) -> str:
    """An address to which a path can be added."""
    return url.rstrip("/")


@cache
def _kinds() -> tuple[tuple[tuple[type[Exception], ...], ErrorKind], ...]:
    """The one table of the client's errors; the first row that fits holds."""
    import httpx2

    return (
        (
            (
                httpx2.ConnectError,
                httpx2.ConnectTimeout,
                httpx2.PoolTimeout,
                httpx2.ProxyError,
                httpx2.UnsupportedProtocol,
            ),
            ErrorKind.UNREACHABLE,
        ),
        ((httpx2.SSEError, httpx2.DecodingError), ErrorKind.MALFORMED),
        ((httpx2.InvalidURL, httpx2.LocalProtocolError), ErrorKind.BAD_REQUEST),
        ((httpx2.HTTPError, httpx2.StreamError), ErrorKind.INTERRUPTED),
    )


def _streams(response: httpx2.Response) -> bool:
    kind = response.headers.get("content-type", "").partition(";")[0]
    return response.status_code == 200 and kind.strip().lower() == "text/event-stream"
