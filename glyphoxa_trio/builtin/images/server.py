"""``POST …/images/generations``: an image model at any compatible server.

The server is chosen by the operator, so its address may be private. If its answer names
an address for the image, the image is fetched from that same server, or from the public
internet only.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit

import attrs

import trio

from glyphoxa_trio.certificates import CertificatesUnreadable, trusted, trusted_for
from glyphoxa_trio.loading import load
from glyphoxa_trio.quiet import quiet
from glyphoxa_trio.secret import Mask, Secret
from glyphoxa_trio.tools.definition import AnswerUnusable, ToolUnavailable

from .answers import MAX_ANSWER, At, image_in, question, refuses_format
from .picture import MAX_BYTES

if TYPE_CHECKING:
    import ssl

    import httpx2

    from glyphoxa_trio.builtin.web.urls import PageUrl

_CONNECT: Final = 5.0  # seconds
_SILENCE: Final = 10.0  # seconds without a byte of an image
_IDENTITY: Final = ("", "identity")


def _bare(url: str) -> str:
    """Return an address to which a path can be appended."""
    return url.rstrip("/")


@attrs.define(eq=False, kw_only=True)
class ImageServer:
    """One model at one server. Each image uses new connections.

    Args:
      base_url: up to and including ``/v1``.
      model: None leaves the choice to the server.
      size: width and height, such as ``1024x1024``, or ``auto``.

    Raises:
      ValueError: for an address that is not plain http(s) or contains credentials or a
        query, and for a key that a header cannot hold.
    """

    base_url: str = attrs.field(converter=_bare)
    key: Secret | None = None
    model: str | None = None
    size: str = "1024x1024"
    _ask_data: bool = attrs.field(default=True, init=False)

    def __attrs_post_init__(self) -> None:
        address = urlsplit(self.base_url)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise ValueError("base_url: must be http://… or https://…")
        if "@" in address.netloc or address.query or address.fragment:
            raise ValueError("base_url: must have no credentials, query or fragment")
        key = "k" if self.key is None else self.key.reveal()
        if not (key.isascii() and key.isprintable() and key) or " " in key:
            raise ValueError("api_key: must be printable ASCII, not empty, no spaces")

    @property
    def label(self) -> str:
        return f"{self.model or 'a model'} at {self.base_url}"

    async def paint(self, prompt: str, style: str) -> bytes:
        """Return an image for the prompt, unchecked.

        If cancelled, closes the connection.

        Raises:
          ToolUnavailable, ToolError: see `image_in`.
        """
        await load("httpx2")
        import httpx2

        wanted = f"{prompt}\n\nStyle: {style}" if style else prompt
        try:
            tls = await trusted_for(self.base_url)
            async with self._client(tls) as client:
                status, headers, body = await self._ask(client, wanted)
                if self._ask_data and refuses_format(status, body):
                    self._ask_data = False
                    status, headers, body = await self._ask(client, wanted)
                found = image_in(status, headers, body, self.key)
                if isinstance(found, At):
                    return await self._fetch(client, found.url)
                return found
        except CertificatesUnreadable as error:
            raise ToolUnavailable(
                "the image server cannot be reached: this program finds no certificates"
            ) from error
        except (
            httpx2.ConnectError,
            httpx2.ConnectTimeout,
            httpx2.ProxyError,
        ) as error:
            raise ToolUnavailable("the image server cannot be reached") from error
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            raise ToolUnavailable(
                "the connection to the image server failed"
            ) from error

    async def _ask(
        self, client: httpx2.AsyncClient, prompt: str
    ) -> tuple[int, dict[str, str], bytes]:
        headers = {
            "accept": "application/json",
            # no compression, and so no decompression bomb
            "accept-encoding": "identity",
            "content-type": "application/json",
        }
        if self.key is not None:
            headers["authorization"] = f"Bearer {self.key.reveal()}"
        with quiet(Mask.around(self.key).text):
            async with client.stream(
                "POST",
                f"{self.base_url}/images/generations",
                content=question(
                    prompt, model=self.model, size=self.size, ask_data=self._ask_data
                ),
                headers=headers,
            ) as response:
                known = {
                    name.lower(): value for name, value in response.headers.items()
                }
                body = await _body(response, response.aiter_raw(), known, MAX_ANSWER)
                return response.status_code, known, body

    async def _fetch(self, client: httpx2.AsyncClient, text: str) -> bytes:
        """Fetch the image at an address in the server's answer."""
        from glyphoxa_trio.builtin.web.refusals import BadAddress
        from glyphoxa_trio.builtin.web.urls import parse

        try:
            url = parse(text)
            same = url.origin == parse(self.base_url).origin
        except BadAddress as error:
            raise AnswerUnusable(f"the image's address is wrong: {error}") from None
        if not same:
            return await _from_elsewhere(url)
        headers = {"accept-encoding": "identity"}
        async with client.stream("GET", str(url), headers=headers) as response:
            known = {name.lower(): value for name, value in response.headers.items()}
            body = await _body(response, response.aiter_raw(), known, MAX_BYTES)
        return _image(response.status_code, body)

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


async def _from_elsewhere(url: PageUrl) -> bytes:
    """Fetch an image from the public internet only: the address may be an attack."""
    await load("httpcore2", "glyphoxa_trio.builtin.web.connecting")
    import httpcore2

    from glyphoxa_trio.builtin.web.addresses import Allowed
    from glyphoxa_trio.builtin.web.connecting import CheckedBackend, open_pool
    from glyphoxa_trio.builtin.web.refusals import PageRefused, SiteFails

    where = httpcore2.URL(
        scheme=url.scheme.encode(),
        host=url.host.name.encode(),
        port=url.port,
        target=url.target.encode(),
    )
    headers = {"Host": url.authority, "Accept-Encoding": "identity"}
    timeout = {"connect": _CONNECT, "read": _SILENCE, "write": _SILENCE}
    try:
        async with AsyncExitStack() as stack:
            backend = CheckedBackend(Allowed())
            pool = await stack.enter_async_context(open_pool(backend, await trusted()))
            response = await stack.enter_async_context(
                pool.stream(
                    "GET",
                    where,
                    headers=list(headers.items()),
                    extensions={"timeout": timeout},
                )
            )
            known = {
                name.decode("latin-1").lower(): value.decode("latin-1")
                for name, value in response.headers
            }
            body = await _body(response, response.aiter_stream(), known, MAX_BYTES)
            return _image(response.status, body)
    except (PageRefused, SiteFails):
        raise AnswerUnusable(
            f"the image is at {url.host}, which cannot be reached"
        ) from None
    except (
        httpcore2.NetworkError,
        httpcore2.TimeoutException,
        httpcore2.ProtocolError,
    ) as error:
        raise AnswerUnusable(f"the image at {url.host} could not be fetched") from error


class _Closing(Protocol):
    async def aclose(self) -> None: ...


async def _body(
    response: _Closing,
    pieces: AsyncIterator[bytes],
    headers: Mapping[str, str],
    cap: int,
) -> bytes:
    """Read a body, at most one byte beyond the limit.

    So the caller sees that it is too long.
    """
    if headers.get("content-encoding", "").strip().lower() not in _IDENTITY:
        raise AnswerUnusable("the answer is compressed in a way that was not asked for")
    body, whole = bytearray(), False
    try:
        async for piece in pieces:
            body += piece[: cap + 1 - len(body)]
            if len(body) > cap:
                break
        else:
            whole = True
    finally:
        if not whole:
            with trio.CancelScope(shield=True), trio.move_on_after(1):
                await _leave(response, pieces)
    return bytes(body)


async def _leave(response: _Closing, pieces: AsyncIterator[bytes]) -> None:
    """Close the connection.

    The client's generators do not close one another. Iterated once more over a closed
    connection, each of them fails and ends.
    """
    import httpcore2
    import httpx2

    await response.aclose()
    gone = (httpx2.HTTPError, httpx2.StreamError, httpcore2.NetworkError)
    with suppress(*gone, httpcore2.ProtocolError, RuntimeError):
        async for _ in pieces:
            pass


def _image(status: int, body: bytes) -> bytes:
    if status != 200:
        raise AnswerUnusable(f"the image's address answers with status {status}")
    return body
