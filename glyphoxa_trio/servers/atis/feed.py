"""Asking a feed for the reports of an aerodrome, over HTTP.

The feed is met.no's unless another one is named. It wants to know who asks, in the
User-Agent, and to be asked no more often than it says: what comes with an answer
(``Expires``, ``Last-Modified``, ``Retry-After``) goes to the `cache`, which decides.
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

from .cache import Answer, FeedFailure, Fetched, Unchanged
from .report import latest

if TYPE_CHECKING:
    import httpx2

_log = logging.getLogger(__name__)

METNO: Final = "https://api.met.no/weatherapi/tafmetar/1.0/metar.txt?icao={icao}"
PLACE: Final = "{icao}"
LIMIT: Final = 8.0  # seconds for one answer, to its last byte
MOST_BYTES: Final = 256 * 1024  # a day of reports has ten kilobytes
_LONGEST_AGENT: Final = 256

_REFUSALS: Final = (401, 403, 429)  # whatever is asked for
_UNKNOWN: Final = (400, 404, 410, 422)  # this aerodrome


class Feed(Protocol):
    """Where reports come from."""

    async def fetch(self, icao: str, version: str) -> Answer:
        """The latest report; ``version`` is that of the one that is there, or empty.

        Raises nothing but `trio.Cancelled`.
        """
        ...


def check_url(template: str) -> str:
    """A feed's address, ``{icao}`` where the aerodrome goes.

    Raises:
      ValueError: for one that is none, or holds credentials.
    """
    try:
        address = urlsplit(template)
        host, _ = address.hostname, address.port
    except ValueError:
        raise ValueError("the feed's address is none") from None
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
    """Who asks, as a header can hold it.

    Raises:
      ValueError: if it cannot, or says nothing.
    """
    agent = agent.strip()
    if not agent or not (agent.isascii() and agent.isprintable()):
        raise ValueError("METNO_USER_AGENT: empty, or not what a header can hold")
    if len(agent) > _LONGEST_AGENT:
        raise ValueError(f"METNO_USER_AGENT: longer than {_LONGEST_AGENT} characters")
    return agent


@attrs.define(eq=False, kw_only=True)
class HttpFeed:
    """A feed at an address. Whoever makes one closes it with `aclose`.

    Args:
      now: the time of day, UTC.
      limit: seconds for one answer.
    """

    url: str
    agent: str
    now: Callable[[], datetime]
    limit: float = LIMIT
    _own: httpx2.AsyncClient | None = attrs.field(default=None, init=False, repr=False)
    _warned: bool = attrs.field(default=False, init=False)

    async def fetch(self, icao: str, version: str) -> Answer:
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
            # Its words may be an address with a key in it, so they are not passed on.
            return FeedFailure(problem="the weather service cannot be reached")

    async def aclose(self) -> None:
        own, self._own = self._own, None
        if own is not None:
            await own.aclose()

    async def _fetch(self, icao: str, headers: Mapping[str, str]) -> Answer:
        client = self._client()
        async with client.stream(
            "GET", self.url.replace(PLACE, icao), headers=headers
        ) as response:
            match response.status_code:
                case 200 | 203 as status:
                    if status == 203 and not self._warned:
                        self._warned = True
                        _log.warning("the feed says that its address will go (203)")
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
            return FeedFailure(problem="the weather service sends far too much")
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
        """How long the answer is good, by the feed's own clock if it says that."""
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

    def _client(self) -> httpx2.AsyncClient:
        import httpx2

        if self._own is None:
            host = urlsplit(self.url).hostname or ""
            self._own = httpx2.AsyncClient(
                headers={
                    "User-Agent": self.agent,
                    "Accept": "text/plain, */*;q=0.5",
                    "Accept-Encoding": "identity",  # it is short, and stays as short
                },
                timeout=None,  # the limit is on the whole
                follow_redirects=False,
                # No proxy reaches a feed on this machine.
                trust_env=not (host in ("localhost", "::1") or host.startswith("127.")),
            )
        return self._own


async def _whole(response: httpx2.Response) -> bytes | None:
    """The body of an answer, or None if it is longer than `MOST_BYTES`."""
    # As in `mcp.answers`, of which the import would cost the first question more than
    # the feed does.
    body = bytearray()
    # Cancelled in the middle of a read, what is below closes in good order; a loop that
    # is left closes nothing.
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
