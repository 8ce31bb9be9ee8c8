"""Asking a feed for the reports of an aerodrome, over HTTP.

The feed is met.no's unless another one is named. It wants to know who asks, in the
User-Agent, and to be asked no more often than it says: the headers of an answer
(``Expires``, ``Last-Modified``, ``Retry-After``) go to the `cache`, which decides.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit

import attrs

import trio

from glyphoxa_trio.certificates import trusted_for
from glyphoxa_trio.loading import load

from .cache import Answer, FeedFailure, Fetched, Unchanged
from .report import latest

if TYPE_CHECKING:
    import httpx2

_log = logging.getLogger(__name__)

METNO: Final = "https://api.met.no/weatherapi/tafmetar/1.0/metar.txt?icao={icao}"
PLACE: Final = "{icao}"
LIMIT: Final = 8.0  # seconds for one complete answer
MOST_BYTES: Final = 256 * 1024  # a day of reports has ten kilobytes
_LONGEST_AGENT: Final = 256

_REFUSALS: Final = (401, 403, 429)  # statuses that hold for every aerodrome
_UNKNOWN: Final = (400, 404, 410, 422)  # statuses that hold for this aerodrome


class Feed(Protocol):
    """A source of weather reports."""

    async def fetch(self, icao: str, version: str) -> Answer:
        """Return the latest report.

        ``version`` is the version of the report that the caller has, or empty. Raises
        nothing but `trio.Cancelled`.
        """
        ...


def check_url(template: str) -> str:
    """Check the address of a feed, which has ``{icao}`` for the aerodrome.

    Raises:
      ValueError: if it is no such address, or contains credentials.
    """
    try:
        address = urlsplit(template)
        host, _ = address.hostname, address.port
    except ValueError:
        raise ValueError("the feed's address is not a URL") from None
    if address.scheme not in ("http", "https") or not host:
        raise ValueError("the feed's address must be http://… or https://…")
    if "@" in address.netloc or PLACE in address.netloc:
        raise ValueError(
            "the feed's address must have no credentials, and no {icao} in its host"
        )
    if PLACE not in f"{address.path}?{address.query}":
        raise ValueError("the feed's address needs {icao} where the aerodrome goes")
    return template


def check_agent(agent: str) -> str:
    """Return the User-Agent for the feed, stripped.

    Raises:
      ValueError: if it is empty, too long, or cannot be written into a header.
    """
    agent = agent.strip()
    if not agent or not (agent.isascii() and agent.isprintable()):
        raise ValueError("METNO_USER_AGENT: must be printable ASCII, and not empty")
    if len(agent) > _LONGEST_AGENT:
        raise ValueError(f"METNO_USER_AGENT: longer than {_LONGEST_AGENT} characters")
    return agent


@attrs.define(eq=False, kw_only=True)
class HttpFeed:
    """A feed at an address. Its owner closes it with `aclose`.

    Args:
      now: returns the time of day, UTC.
      limit: seconds for one answer.
    """

    url: str
    agent: str
    now: Callable[[], datetime]
    limit: float = LIMIT
    _own: httpx2.AsyncClient | None = attrs.field(default=None, init=False, repr=False)
    _warned: bool = attrs.field(default=False, init=False)

    async def fetch(self, icao: str, version: str) -> Answer:
        await load("httpx2")
        import httpx2

        headers = {"If-Modified-Since": version} if version else {}
        try:
            with trio.fail_after(self.limit):
                return await self._fetch(icao, headers)
        except trio.TooSlowError:
            return FeedFailure(problem="the weather service does not answer in time")
        except (
            httpx2.HTTPError,
            httpx2.StreamError,
            httpx2.InvalidURL,
            OSError,
            ValueError,
        ):
            # The error's text may contain an address with a key in it, so it is not
            # passed on.
            return FeedFailure(problem="the weather service cannot be reached")

    async def aclose(self) -> None:
        own, self._own = self._own, None
        if own is not None:
            await own.aclose()

    async def _fetch(self, icao: str, headers: Mapping[str, str]) -> Answer:
        client = await self._client()
        async with client.stream(
            "GET", self.url.replace(PLACE, icao), headers=headers
        ) as response:
            match response.status_code:
                case 200 | 203 as status:
                    if status == 203 and not self._warned:
                        self._warned = True
                        _log.warning(
                            "the feed announces that its address will change (203)"
                        )
                    return await self._read(icao, response)
                case 204:
                    return Fetched(report=None, expires=self._expires(response))
                case 304:
                    return Unchanged(expires=self._expires(response))
                case status if status in _UNKNOWN:
                    return Fetched(report=None, expires=self._expires(response))
                case status:
                    return FeedFailure(
                        problem=f"the weather service answers with error {status}",
                        pause=self._retry_after(response),
                        everything=status in _REFUSALS,
                    )

    async def _read(self, icao: str, response: httpx2.Response) -> Answer:
        if response.headers.get("content-encoding", "identity") != "identity":
            return FeedFailure(problem="the weather service sends no plain text")
        body = await _whole(response)
        if body is None:
            return FeedFailure(problem="the weather service sends too long an answer")
        text = body.decode("utf-8", "replace")
        report = latest(text, icao, self.now())
        if report is None and text.strip():
            return FeedFailure(problem="the weather service sends no report")
        return Fetched(
            report=report,
            version=response.headers.get("last-modified", ""),
            expires=self._expires(response),
        )

    def _expires(self, response: httpx2.Response) -> float:
        """Return the seconds for which an answer is valid, by the feed's own clock."""
        expires = _date(response.headers.get("expires", ""))
        if expires is None:
            return 0.0
        said = _date(response.headers.get("date", "")) or self.now()
        return max(0.0, (expires - said).total_seconds())

    def _retry_after(self, response: httpx2.Response) -> float:
        written = response.headers.get("retry-after", "").strip()
        if re.fullmatch(r"\d{1,9}", written, re.ASCII):
            return float(written)
        until = _date(written)
        said = _date(response.headers.get("date", "")) or self.now()
        return max(0.0, (until - said).total_seconds()) if until else 0.0

    async def _client(self) -> httpx2.AsyncClient:
        import httpx2

        if self._own is None:
            tls = await trusted_for(self.url)
        if self._own is None:  # another task may have made it meanwhile
            host = urlsplit(self.url).hostname or ""
            self._own = httpx2.AsyncClient(
                verify=tls,
                headers={
                    "User-Agent": self.agent,
                    "Accept": "text/plain, */*;q=0.5",
                    # an answer is short, and this keeps a compressed one from growing
                    "Accept-Encoding": "identity",
                },
                timeout=None,  # `limit` covers the whole exchange
                follow_redirects=False,
                # A proxy cannot reach a feed on this machine.
                trust_env=not (host in ("localhost", "::1") or host.startswith("127.")),
            )
        return self._own


async def _whole(response: httpx2.Response) -> bytes | None:
    """Return the body of an answer, or None if it is longer than `MOST_BYTES`."""
    # As in `mcp.answers`; importing that would take longer at the first question than
    # the feed does.
    body = bytearray()
    # Cancelling in the middle of a read closes the iterators below in good order;
    # breaking out of the loop would close nothing.
    with trio.CancelScope() as enough:
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > MOST_BYTES:
                enough.cancel()
    return None if enough.cancel_called else bytes(body)


def _date(written: str) -> datetime | None:
    with suppress(ValueError, TypeError, OverflowError):
        found = parsedate_to_datetime(written)
        if found.tzinfo is None:
            found = found.replace(tzinfo=UTC)
        if math.isfinite(found.timestamp()):
            return found
    return None
