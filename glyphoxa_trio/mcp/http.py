"""The HTTP client of a streamable HTTP session: every failure gets a meaning.

In the SDK, an exception of one request ends every call of its session, and only the
words of the message tell a server that was never reached from one that broke off. So
this client answers in place of a server that does not: with a JSON-RPC error whose code
says what the failure means for the call.

Import this lazily: it loads HTTPX.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import httpx2

from glyphoxa_trio.certificates import trusted
from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.config.servers import without_secrets
from glyphoxa_trio.quiet import quiet

from . import bounds
from .answers import BROKEN as BROKEN
from .answers import BUSY as BUSY
from .answers import FORGOTTEN as FORGOTTEN
from .answers import NEVER_SENT as NEVER_SENT
from .answers import REFUSED as REFUSED
from .answers import events, failure, judged
from .answers import wait_of as wait_of
from .auth import Token, Tokens, open_tokens
from .condensing import Condenser
from .discovery import NoToken
from .log_redaction import hush
from .masking import Masking
from .statuses import count_statuses
from .streams import Open
from .tracing import into_headers

_CONNECT: Final = 5.0  # seconds to connect at most
_WRITE: Final = 10.0  # seconds to send a request at most
_READ_SLACK: Final = 5.0  # seconds beyond a server's timeout

_UNAUTHORIZED: Final = 401


def endpoint(spec: ServerSpec) -> str:
    """Return the address of ``spec``'s server as the SDK may see and log it.

    A password or a key in the query is left out; the client adds it.
    """
    return without_secrets(spec.url)


@asynccontextmanager
async def open_client(
    spec: ServerSpec,
    masking: Masking | None = None,
    condenser: Condenser | None = None,
) -> AsyncGenerator[httpx2.AsyncClient]:
    """Yield a client that sends the token and headers of ``spec`` with every request.

    The SDK follows redirects only within the endpoint's origin, so headers go nowhere
    else. A read may take as long as a call of this server and 5 s; the streams on which
    a server sends by itself may be silent without end. Responses too large for the loop
    go through the ``condenser``.

    Args:
      masking: each token that is fetched is added to it.
      condenser: condenses large answers.
    """
    headers = {name: value.reveal() for name, value in spec.headers.items()}
    masking = Masking.of(spec) if masking is None else masking
    async with AsyncExitStack() as stack:
        tokens: Tokens | None = None
        if spec.oauth is not None:  # it takes precedence over a fixed token
            tokens = await stack.enter_async_context(
                open_tokens(spec, spec.oauth, masking)
            )
        elif spec.token is not None:
            headers["Authorization"] = f"Bearer {spec.token.reveal()}"
        client = _RedactingClient(
            headers=headers,
            timeout=httpx2.Timeout(
                connect=min(_CONNECT, spec.start_timeout),
                read=spec.timeout + _READ_SLACK,
                write=_WRITE,
                pool=None,
            ),
            limits=httpx2.Limits(max_connections=None),
            max_redirects=bounds.MOST_REDIRECTS,
            event_hooks={"request": [hush]},
            verify=await trusted(),
        )
        client.address = httpx2.URL(spec.url or "")
        client.tokens = tokens
        client.masking = masking
        client.condenser = condenser or Condenser(lambda: masking.mask.pattern)
        client.opened = Open()
        yield await stack.enter_async_context(client)


class _RedactingClient(httpx2.AsyncClient):
    address: httpx2.URL
    tokens: Tokens | None = None
    masking: Masking
    condenser: Condenser
    opened: Open

    async def send(
        self, request: httpx2.Request, *args: Any, **options: Any
    ) -> httpx2.Response:
        with quiet(self.masking.text):
            return await self._send(request, *args, **options)

    async def _send(
        self, request: httpx2.Request, *args: Any, **options: Any
    ) -> httpx2.Response:
        if request.url == without_secrets(str(self.address)):
            request.url = self.address
        request.extensions = {**request.extensions, "trace": count_statuses}
        if (
            request.method == "GET"
            or request.headers.get("mcp-method") == "subscriptions/listen"
        ):
            patience: Mapping[str, Any] = request.extensions.get("timeout", {})
            request.extensions = {
                **request.extensions,
                "timeout": {**patience, "read": None},
            }
        if request.method != "POST":
            response = await self._let_in(request, *args, **options)
            kind = response.headers.get("content-type", "")
            if response.is_success and kind.startswith("text/event-stream"):
                return events(request, response, self.condenser, self.opened)
            return response
        into_headers(request.headers, host=request.url.host, port=request.url.port)
        asked = self.opened.note(request)
        try:
            response = await self._let_in(request, *args, **options)
            return await judged(
                request, response, self.masking.text, self.condenser, self.opened, asked
            )
        except NoToken as error:
            return failure(request, NEVER_SENT, str(error))
        except (
            httpx2.ConnectError,
            httpx2.ConnectTimeout,
            httpx2.LocalProtocolError,
            httpx2.ProxyError,
        ) as error:
            return failure(request, NEVER_SENT, f"cannot connect: {_text(error)}")
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            return failure(
                request,
                BROKEN,
                f"no complete answer: {self.masking.text(_text(error))}",
            )

    async def _let_in(
        self, request: httpx2.Request, *args: Any, **options: Any
    ) -> httpx2.Response:
        """Send with the token in force, and once more if another token is needed.

        A request that got a 401 was not run, so any request may be sent twice.
        """
        if self.tokens is None:
            return await super().send(request, *args, **options)
        token = await self.tokens.current()
        _show(request, token)
        response = await super().send(request, *args, **options)
        if response.status_code != _UNAUTHORIZED:
            if token is not None:
                token.accept()
            return response
        try:
            better = await self.tokens.instead_of(
                token, response.headers.get("www-authenticate")
            )
        except BaseException:
            await response.aclose()
            raise
        if better is None:
            return response
        await response.aclose()
        _show(request, better)
        response = await super().send(request, *args, **options)
        if response.status_code != _UNAUTHORIZED:
            better.accept()
        return response


def _show(request: httpx2.Request, token: Token | None) -> None:
    """Put the token into the request's headers."""
    if token is not None:
        request.headers["Authorization"] = f"Bearer {token.value.reveal()}"


def _text(error: Exception) -> str:
    """Describe an HTTPX error in words that hold no secret."""
    if isinstance(error, httpx2.ReadTimeout):
        return "timed out"
    if isinstance(error, httpx2.LocalProtocolError):
        return "a header is not valid"  # the error's own text would show the header
    return str(error) or type(error).__name__
