"""A limit on calls a second. No clock: the time is passed in."""

from __future__ import annotations

import math
from collections import OrderedDict
from ipaddress import IPv6Address, ip_address
from typing import Final

import attrs

MOST_BUCKETS: Final = 1024


def whose(address: str) -> str:
    """Return the network client that an address stands for.

    With IPv6 each customer has a network of 64 bits, so only the first 64 bits count.
    """
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(IPv6Address(int(found) >> 64 << 64))


@attrs.define
class Bucket:
    """A token bucket: ``rate`` calls a second, and as many at once as in one second."""

    rate: float
    _left: float = attrs.field(init=False)
    _at: float = attrs.field(default=-math.inf, init=False)

    def __attrs_post_init__(self) -> None:
        self._left = self._most

    @property
    def _most(self) -> float:
        return max(1.0, self.rate)

    def take(self, now: float) -> float:
        """Let one call through and return 0, or return the seconds to wait."""
        if self._at > -math.inf:
            self._left = min(self._most, self._left + (now - self._at) * self.rate)
        self._at = now
        if self._left >= 1.0 - 1e-9:
            self._left -= 1.0
            return 0.0
        return (1.0 - self._left) / self.rate


@attrs.define
class Buckets:
    """A bucket for each client, at most 1024.

    The least recently seen client is forgotten first.

    If ``rate`` is None there are no buckets.
    """

    rate: float | None
    _buckets: OrderedDict[str, Bucket] = attrs.field(factory=OrderedDict, init=False)

    def find(self, who: str) -> Bucket | None:
        if self.rate is None:
            return None
        bucket = self._buckets.pop(who, None) or Bucket(self.rate)
        self._buckets[who] = bucket
        if len(self._buckets) > MOST_BUCKETS:
            self._buckets.popitem(last=False)
        return bucket
