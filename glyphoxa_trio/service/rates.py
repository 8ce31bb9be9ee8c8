"""The rate of each client's requests, over both doors of the service."""

from __future__ import annotations

import attrs

import trio

from glyphoxa_trio.servers.http.bucket import Buckets


@attrs.define(eq=False)
class ClientRates:
    """A token bucket for each client; without a rate nothing is limited."""

    rate: float | None
    _buckets: Buckets = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._buckets = Buckets(self.rate)

    def take(self, whose: str) -> float:
        """Count a request; return 0, or the seconds to wait until it is allowed."""
        bucket = self._buckets.find(whose)
        return 0.0 if bucket is None else bucket.take(trio.current_time())
