"""``POST …/embeddings`` as an `Embedder`: any server with OpenAI's API."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

import trio

from glyphoxa_trio.certificates import CertificatesUnreadable, trusted_for
from glyphoxa_trio.loading import load
from glyphoxa_trio.quiet import quiet
from glyphoxa_trio.secret import Mask, Secret

from .address import check_address
from .at_endpoint import bare
from .body import hang_up
from .embeddings import EmbeddingError, TextsRefused, checked
from .failures import excerpt, status_error
from .llm import ErrorKind
from .payloads import encoded

if TYPE_CHECKING:
    import httpx2

CONNECT_TIMEOUT: Final = 5.0  # seconds
# Texts of one request: parsing the vectors of more would delay other tasks.
MOST_TEXTS: Final = 16
MAX_ANSWER: Final = (
    4 * 1024 * 1024
)  # bytes; 16 vectors of 4,096 numbers have half of it
# Other texts may not meet with these errors.
_OF_THE_TEXTS: Final = frozenset({ErrorKind.BAD_REQUEST, ErrorKind.CONTEXT_FULL})


@attrs.define(eq=False, kw_only=True)
class HttpEmbedder:
    """A model at a server. Connections are kept; close it with `aclose`.

    Args:
      name: the model's name at the server.
      base_url: up to and including ``/v1``.
      api_key: the key, if the server wants one.
      dimensions: the length of the vectors, for models that can shorten them.
      timeout: seconds for a request, of at most 16 texts.
      client: a client to share, which its owner closes.

    Raises:
      ValueError: for an address or a key that no request can carry.
    """

    name: str
    base_url: str = attrs.field(converter=bare)
    api_key: Secret | None = None
    dimensions: int | None = None
    timeout: float = 30.0
    client: httpx2.AsyncClient | None = attrs.field(default=None, repr=False)
    _own: httpx2.AsyncClient | None = attrs.field(default=None, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        check_address(self.base_url, self.api_key)

    @property
    def model(self) -> str:
        """The model's name, with the number of dimensions if that is chosen."""
        return (
            self.name if self.dimensions is None else f"{self.name}/{self.dimensions}"
        )

    async def embed(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        """Return a vector for each text; see `Embedder.embed`.

        Cancelling closes the connection.

        Raises:
          TextsRefused: the server does not take one of the texts.
          EmbeddingError: it fails, or takes longer than ``timeout``.
        """
        found: list[tuple[float, ...]] = []
        for at in range(0, len(texts), MOST_TEXTS):
            found += await self._request(texts[at : at + MOST_TEXTS])
        if len({len(x) for x in found}) > 1:
            raise EmbeddingError(f"{self.base_url}: the embeddings differ in length")
        return found

    async def aclose(self) -> None:
        """Close the connections that are kept."""
        own, self._own = self._own, None
        if own is not None:
            await own.aclose()

    async def _request(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        await load("httpx2")
        import httpx2

        try:
            with trio.fail_after(self.timeout), quiet(Mask.around(self.api_key).text):
                status, headers, body = await self._ask(texts)
        except trio.TooSlowError:
            raise EmbeddingError(
                f"{self.base_url}: no embeddings after {self.timeout:g} s"
            ) from None
        except (
            httpx2.HTTPError,
            httpx2.StreamError,
            httpx2.InvalidURL,
            CertificatesUnreadable,
        ) as error:
            words = f"{self.base_url}: {error or type(error).__name__}"
            raise EmbeddingError(excerpt(words, self.api_key)) from None
        answer = body.decode("utf-8", "replace")
        if status != 200:
            refusal = status_error(status, headers, answer, self.api_key)
            of_them = refusal.kind in _OF_THE_TEXTS
            failure = TextsRefused if of_them else EmbeddingError
            raise failure(f"{self.base_url}: {refusal.detail}")
        if len(body) > MAX_ANSWER:
            raise EmbeddingError(f"{self.base_url}: the answer is too large")
        try:
            return checked(_in_order(answer, len(texts)), len(texts))
        except EmbeddingError as error:
            raise EmbeddingError(
                f"{self.base_url}: {error}: {excerpt(answer, self.api_key)}"
            ) from None

    async def _ask(self, texts: Sequence[str]) -> tuple[int, Mapping[str, str], bytes]:
        import httpx2

        from .reading import client_for

        if self.client is None and self._own is None:
            tls = await trusted_for(self.base_url)
            # Another task may have made it meanwhile.
            self._own = self._own or client_for(self.base_url, tls)
        client = self.client or self._own
        assert client is not None
        asked: dict[str, Any] = {"model": self.name, "input": list(texts)}
        if self.dimensions is not None:
            asked["dimensions"] = self.dimensions
        headers = {"accept": "application/json", "content-type": "application/json"}
        if self.api_key is not None:
            headers["authorization"] = f"Bearer {self.api_key.reveal()}"
        request = client.build_request(
            "POST",
            f"{self.base_url}/embeddings",
            content=encoded(asked | {"encoding_format": "float"}),
            headers=headers,
            timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT),
        )
        response = await client.send(request, stream=True, follow_redirects=False)
        body = bytearray()
        chunks = response.aiter_bytes()
        try:
            async for chunk in chunks:
                body += chunk
                if len(body) > MAX_ANSWER:
                    break
        finally:
            await hang_up(response, chunks)
        return response.status_code, response.headers, bytes(body)


def _in_order(answer: str, number: int) -> list[Any]:
    """Return the vectors in the order of their texts.

    Raises:
      EmbeddingError: the answer has not one for each of them.
    """
    try:
        items = json.loads(answer)["data"]
        found = {
            item.get("index", at): item["embedding"] for at, item in enumerate(items)
        }
        return [*(found[at] for at in range(number)), *items[number:]]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise EmbeddingError(f"no embeddings of {number} texts") from None
