"""The memory of sites: their rules for robots, and the number of visits at once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import attrs

import trio

from .charset import decoded
from .refusals import SiteFails
from .robots import EVERYTHING, Robots, product
from .urls import PageUrl

MOST_SITES: Final = 256  # sites whose rules are kept
MOST_VISITS: Final = 2  # of one host at once
GOOD_FOR: Final = 3600.0  # seconds; the RFC allows a day
BAD_FOR: Final = 30.0  # seconds until a robots.txt that failed is requested again
PATIENCE: Final = 2.0  # seconds for a robots.txt

# Returns the bytes of a robots.txt; empty if there is none, None if it fails.
GetRobots = Callable[[PageUrl], Awaitable[bytes | None]]


@attrs.define(eq=False)
class _Host:
    limiter: trio.CapacityLimiter = attrs.field(
        factory=lambda: trio.CapacityLimiter(MOST_VISITS)
    )
    users: int = 0


@attrs.define(eq=False)
class Sites:
    """Rules by origin, of which the oldest is dropped first; visits by host."""

    # None: the site did not send its rules.
    _rules: OrderedDict[str, tuple[float, Robots | None]] = attrs.field(
        factory=OrderedDict, init=False
    )
    _hosts: dict[str, _Host] = attrs.field(factory=dict, init=False)

    @asynccontextmanager
    async def visiting(self, url: PageUrl) -> AsyncGenerator[None]:
        """Wait until fewer than two visits to the host run, and count this one."""
        name = url.host.name
        host = self._hosts.setdefault(name, _Host())
        host.users += 1
        try:
            async with host.limiter:
                yield
        finally:
            host.users -= 1
            if not host.users:
                del self._hosts[name]

    async def allows(self, url: PageUrl, agent: str, get: GetRobots) -> bool:
        """Return whether the site lets robots read this page.

        Raises:
          SiteFails: if it does not send its rules: then nothing may be read (RFC 9309).
        """
        now = trio.current_time()
        until, rules = self._rules.get(url.origin, (0.0, None))
        if until <= now:
            rules = await self._asked(url, agent, get)
            self._rules[url.origin] = (
                trio.current_time() + (BAD_FOR if rules is None else GOOD_FOR),
                rules,
            )
            self._rules.move_to_end(url.origin)
            while len(self._rules) > MOST_SITES:
                self._rules.popitem(last=False)
        if rules is None:
            raise SiteFails(
                f"The site {url.host} does not say whether robots may read it."
            )
        return rules.allow(url.target)

    async def _asked(self, url: PageUrl, agent: str, get: GetRobots) -> Robots | None:
        data: bytes | None = None
        with trio.move_on_after(PATIENCE):
            data = await get(url.at("/robots.txt"))
        if data is None:
            return None
        if not data:
            return EVERYTHING
        return Robots.parse(decoded(data, "utf-8", html=False), product(agent))
