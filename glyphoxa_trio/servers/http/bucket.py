"""How many calls a second are let through. No clock: the time is handed in."""

from __future__ import annotations

import math
from collections import OrderedDict
from ipaddress import IPv6Address, ip_address
from typing import Final

import attrs

MOST_BUCKETS: Final = 1024


def whose(address: str) -> str:
    """The client that an address stands for: IPv6 gives everybody a network of 64
    bits, so only what is before them counts."""
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
    """As many calls as ``rate`` a second, and one second's worth at once."""

    rate: float
    _left: float = attrs.field(init=False)
    _at: float = attrs.field(default=-math.inf, init=False)

    def __attrs_post_init__(self) -> None:
        self._left = self._most

    @property
    def _most(self) -> float:
        return max(1.0, self.rate)

    def take(self, now: float) -> float:
        """Let one call through, and return 0; or the seconds until one may come."""
        if self._at > -math.inf:
            self._left = min(self._most, self._left + (now - self._at) * self.rate)
        self._at = now
        if self._left >= 1.0 - 1e-9:
            self._left -= 1.0
            return 0.0
        return (1.0 - self._left) / self.rate


@attrs.define
class Buckets:
    """A bucket for each client; who was away longest is forgotten first. Without a rate
    there are none."""

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
