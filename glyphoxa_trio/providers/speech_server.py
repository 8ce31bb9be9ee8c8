"""An HTTP server that speaks or hears: one request, its errors, and its connections."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final

import attrs

import trio

from glyphoxa_trio.certificates import trusted_for
from glyphoxa_trio.quiet import quiet
from glyphoxa_trio.secret import Mask, Secret

from .address import check_address
from .at_endpoint import bare
from .client_errors import kinds_of_client_errors
from .failures import excerpt, status_error
from .speech import SpeechError

if TYPE_CHECKING:
    import httpx2

CONNECT_TIMEOUT: Final = 5.0  # seconds
MAX_ERROR_BODY: Final = 64 * 1024  # bytes read of a refusal


@attrs.define(eq=False, kw_only=True)
class SpeechServer:
    """A server at an OpenAI-compatible address.

    Connections are kept for the next request; close them with `aclose`.

    Args:
      base_url: up to and including ``/v1``.
      api_key: the key, if the server wants one.
      client: a client to share, which its owner closes.

    Raises:
      ValueError: for an address or a key that no request can carry.
    """

    base_url: str = attrs.field(converter=bare)
    api_key: Secret | None = None
    client: httpx2.AsyncClient | None = attrs.field(default=None, repr=False)
    _own: httpx2.AsyncClient | None = attrs.field(default=None, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        check_address(self.base_url, self.api_key)
        # This loads the HTTP client, which would otherwise delay the first sentence.
        kinds_of_client_errors()

    async def aclose(self) -> None:
        """Close the connections that are kept."""
        own, self._own = self._own, None
        if own is not None:
            await own.aclose()

    @asynccontextmanager
    async def post(
        self, path: str, *, accept: str, **body: Any
    ) -> AsyncIterator[httpx2.Response]:
        """Send a request; return the response with its body unread.

        Leaving hangs up at once, unless the body was read to its end.

        Raises:
          SpeechError: if there is no response.
        """
        import httpx2

        headers = {"accept": accept, "accept-encoding": "identity"}
        if self.api_key is not None:
            headers["authorization"] = f"Bearer {self.api_key.reveal()}"
        with self.translating():
            client = self.client or await self._own_client()
            request = client.build_request(
                "POST",
                f"{self.base_url}{path}",
                headers=headers,
                timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT),
                **body,
            )
            response = await client.send(request, stream=True, follow_redirects=False)
        try:
            yield response
        finally:
            with trio.CancelScope(shield=True), trio.move_on_after(1):
                await response.aclose()

    async def read(self, response: httpx2.Response, most: int = MAX_ERROR_BODY) -> str:
        """Return the body of a response, as text, and no more of it than that.

        Raises:
          SpeechError: if it breaks off.
        """
        return (await self.read_bytes(response, most)).decode("utf-8", "replace")

    async def read_bytes(self, response: httpx2.Response, most: int) -> bytes:
        """Return the body of a response, and no more than ``most`` bytes of it.

        Raises:
          SpeechError: if it breaks off.
        """
        body = bytearray()
        with self.translating():
            async for chunk in response.aiter_bytes():
                body += chunk[: most - len(body)]  # the rest is too much
        return bytes(body)

    async def refusal(self, response: httpx2.Response) -> SpeechError:
        """Return the error of a response that is none of success."""
        text = await self.read(response)
        error = status_error(response.status_code, response.headers, text, self.api_key)
        return SpeechError(error.detail, error.kind)

    @contextmanager
    def translating(self) -> Iterator[None]:
        """Convert the HTTP client's errors to `SpeechError`, and hide the key from its
        log."""
        try:
            with quiet(Mask.around(self.api_key).text):
                yield
        # Border to foreign code: the HTTP client's errors, by one table.
        except Exception as error:
            for types, kind in kinds_of_client_errors():
                if isinstance(error, types):
                    words = f"{self.base_url}: {error or type(error).__name__}"
                    raise SpeechError(excerpt(words, self.api_key), kind) from None
            raise

    async def _own_client(self) -> httpx2.AsyncClient:
        from .reading import client_for

        if self._own is None:
            tls = await trusted_for(self.base_url)
            # Another task may have made it meanwhile.
            self._own = self._own or client_for(self.base_url, tls)
        return self._own
