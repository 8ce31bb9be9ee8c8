"""The rules by which equal calls of several workers are made once. Pure.

A call that takes long, and whose result is cached, belongs to one of the workers: the
hash of its tool, arguments and tenant says which. Another worker that is to make it
asks that one, which makes it once for all, or has its result already. Whoever asks
waits only as long as there is time left to make the call itself.
"""

from __future__ import annotations

from bisect import bisect
from hashlib import blake2b
from typing import Final

import attrs

from glyphoxa_trio.host import CatalogueEntry
from glyphoxa_trio.tools.cache import CacheKey
from glyphoxa_trio.tools.estimate import Estimate

LEAST_CACHED: Final = 5.0
"""Seconds for which results of a tool must stay valid."""

LEAST_MEDIAN: Final = 0.02
"""Seconds that the tool must take, half of the time: asking costs one or two ms."""

TAKEN_WITHIN: Final = 0.002
"""Seconds in which the other worker must say that it has taken the call; a tenth of
what the call takes, if that is longer."""

SILENT: Final = 1.6
"""Seconds without a beat after which a worker is not asked: three are missing."""

AVOIDED: Final = 1.0
"""Seconds for which a worker that has not answered is not asked again."""

_PATIENCE: Final = 2.0  # times what the call takes
_LEAST_PATIENCE: Final = 1.25  # with less it would mostly be in vain
_MOST_WORKERS: Final = 1024
_POINTS: Final = 32  # of each worker on the ring, so that their shares are alike


def is_shared(listing: CatalogueEntry) -> bool:
    """Return True if calls of a tool are worth asking another worker for. They must
    also be such that may be shared (`host.calls_for_others.may_be_shared`)."""
    expected = listing.estimate.p50
    if expected is None:
        expected = listing.estimate.seconds
    return listing.definition.cacheable >= LEAST_CACHED and expected > LEAST_MEDIAN


def taken_within(estimate: Estimate) -> float:
    """Return the seconds in which the other worker must have taken a call."""
    return max(TAKEN_WITHIN, estimate.seconds / 10)


def patience(estimate: Estimate, left: float) -> float:
    """Return the seconds to wait for another worker's answer, if there are ``left`` for
    the call in all; 0 if it is not to be asked.

    As much is kept back as the call takes here, 99 times of 100.
    """
    takes = estimate.seconds
    kept_back = max(takes, estimate.p99 or 0.0)
    wait = min(_PATIENCE * takes, left - taken_within(estimate) - kept_back)
    return wait if wait >= _LEAST_PATIENCE * takes else 0.0


@attrs.define(eq=False)
class CallRing:
    """The workers that live, and the calls that belong to each.

    If a worker comes or goes, only calls that belong to it change hands.
    """

    _seen: dict[str, float] = attrs.field(factory=dict, init=False)
    _avoided: dict[str, float] = attrs.field(factory=dict, init=False)
    # The points of all workers on a ring, in order; each owns what is before its own.
    _points: list[tuple[int, str]] = attrs.field(factory=list, init=False)

    @property
    def workers(self) -> int:
        """The number of those that were alive when it was last asked."""
        return len(self._seen)

    def beat(self, worker: str, now: float, *, takes_calls: bool) -> None:
        """Hear from a worker. One that drains, or stood still, takes no calls."""
        if not takes_calls:
            self._forget(worker)
        elif worker in self._seen:
            self._seen[worker] = now
        elif len(self._seen) < _MOST_WORKERS:
            self._seen[worker] = now
            self._points += [(_hash(f"{x} {worker}"), worker) for x in range(_POINTS)]
            self._points.sort()

    def avoid(self, worker: str, now: float) -> None:
        """Note that a worker has not answered."""
        if worker in self._seen:
            self._avoided[worker] = now + AVOIDED

    def owner(self, key: CacheKey, now: float) -> str:
        """Return the worker that a call belongs to; "" if there is none to be asked."""
        while self._points:
            at = bisect(self._points, (_hash("\0".join(attrs.astuple(key))), ""))
            _, worker = self._points[at % len(self._points)]
            if now - self._seen[worker] <= SILENT:
                return "" if now < self._avoided.get(worker, now) else worker
            self._forget(worker)
        return ""

    def _forget(self, worker: str) -> None:
        if self._seen.pop(worker, None) is not None:
            self._avoided.pop(worker, None)
            self._points = [x for x in self._points if x[1] != worker]


def _hash(text: str) -> int:
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest())
