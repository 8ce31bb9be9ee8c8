"""URLs that show no secret when they are printed or logged."""

from __future__ import annotations

import httpx2

from glyphoxa_trio.config.servers import without_secrets


class RedactedURL(httpx2.URL):
    """An `httpx2.URL` whose text has no password, no query and no fragment."""

    def __str__(self) -> str:
        return without_secrets(super().__str__())

    def __repr__(self) -> str:
        return f"URL({str(self)!r})"


async def hush(request: httpx2.Request) -> None:
    """Hide the secrets in a request's URL; a request hook of HTTPX clients."""
    request.url = RedactedURL(request.url)
