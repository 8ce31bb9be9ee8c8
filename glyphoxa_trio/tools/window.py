"""The window of a tool's last calls, from which its percentiles and health follow.

A call cut by the turn's clock was not measured to its end; it only tells "longer than
this", which `survival` takes into account. If no call was cut, the percentiles are the
nearest rank.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from itertools import accumulate, islice
from operator import mul
from typing import Final

import attrs

from .survival import Stretch, product_limit, stretches

# With so many samples, a tenth of them is more than one or two by chance.
_BIMODAL_SAMPLES: Final = 20
_TENTH: Final = 10  # each side has at least one in so many samples
# A bimodal tool stays so while each side has at least one in so many: if the slower
# side had fewer, p95 would be one of the faster calls.
_STILL: Final = 19
# One normal distribution, cut in two, reaches 64 %, a uniform one 75 %.
_BIMODAL_EXPLAINED: Final = 0.8
# Times below this, in seconds, are in one tier anyway; it also keeps 0 out of log().
_ONE_AND_THE_SAME: Final = 0.001
_TWICE: Final = math.log(2)
_SLOWER: Final = 2.001  # twice, plus the rounding error of logarithms


class SampleKind(StrEnum):
    """The way a call that reached its tool ended, as far as the tool is concerned.

    Calls that tell nothing of the tool are never recorded: a caller's mistakes (invalid
    arguments), cache hits, further waiters of a shared task, refusals, interruptions.
    """

    OK = "ok"  # executed: latency; health success
    TOOL_ERROR = "tool_error"  # the tool's own error: no latency; health success
    TIMEOUT = "timeout"  # at the tool's or server's limit: latency; health failure
    FAILED = "failed"  # transport failure, crash: no latency; health failure
    CENSORED = "censored"  # cut by the turn: latency is longer; nothing of health

    @property
    def is_failure(self) -> bool:
        """True if it counts against the tool's health."""
        return self is SampleKind.TIMEOUT or self is SampleKind.FAILED


# A member read through its class costs nine times a global (Python 3.11).
_OK, _TIMEOUT = SampleKind.OK, SampleKind.TIMEOUT
_FAILED, _CENSORED = SampleKind.FAILED, SampleKind.CENSORED
_LATENCIES: Final = (_OK, _TIMEOUT, _CENSORED)


def _duration(_: object, attribute: attrs.Attribute[float], value: float) -> None:
    if not 0 <= value < math.inf:
        raise ValueError(f"{attribute.name} must be a duration, got {value!r}")


@attrs.frozen
class Sample:
    """One call: how it ended, its seconds, and the time of its end (``at``).

    A ``probe`` is a latency sample like any other, but does not count for health.
    ``arguments`` is equal for calls with equal arguments; None if it is not known."""

    kind: SampleKind
    seconds: float = attrs.field(validator=_duration)
    at: float
    probe: bool = False
    arguments: int | None = attrs.field(default=None, eq=False, repr=False)


@attrs.define(eq=False, on_setattr=attrs.setters.NO_OP)
class LatencyWindow:
    """The last ``size`` samples of one tool, none older than ``expiry`` seconds.

    ``now`` is on the clock of the samples' ``at``. A sample that is exactly ``expiry``
    old has expired. Neither ``at`` nor ``now`` need to grow.

    Every call is recorded and needs percentiles, so the latencies are kept in order as
    samples come and go: both together take 4 µs, and nothing is sorted.
    """

    size: int = attrs.field(default=100, validator=attrs.validators.ge(1))
    expiry: float = attrs.field(default=86400.0, validator=attrs.validators.gt(0))
    _ring: deque[Sample] = attrs.field(init=False, repr=False)
    _since_anew: int = attrs.field(default=0, init=False, repr=False)
    _failures: int = attrs.field(default=0, init=False, repr=False)
    # Of the ring's samples, those newer than `_expired_to`, in order: seconds of calls
    # measured to their end, and of calls cut before it. None of them is older than
    # `_oldest`, so two comparisons decide if they are up to date.
    _ended: list[float] = attrs.field(factory=list, init=False, repr=False)
    _cut: list[float] = attrs.field(factory=list, init=False, repr=False)
    _oldest: float = attrs.field(default=math.inf, init=False, repr=False)
    _expired_to: float = attrs.field(default=-math.inf, init=False, repr=False)
    # The data that percentiles share if calls were cut; None if outdated.
    _stretches: list[Stretch] | None = attrs.field(default=None, init=False, repr=False)

    @_ring.default
    def _empty(self) -> deque[Sample]:
        return deque(maxlen=self.size)

    def record(self, sample: Sample) -> None:
        """Add the newest sample; in a full window the oldest is dropped."""
        ring = self._ring
        if len(ring) == ring.maxlen:
            self._evict(ring[0])
        ring.append(sample)
        self._since_anew += 1
        kind, at = sample.kind, sample.at
        if kind is _TIMEOUT or kind is _FAILED:
            self._failures += 1
        if at > self._expired_to:
            if kind is _OK or kind is _TIMEOUT:
                insort(self._ended, sample.seconds)
            elif kind is _CENSORED:
                insort(self._cut, sample.seconds)
            if at < self._oldest:
                self._oldest = at
            self._stretches = None

    def start_health_anew(self) -> None:
        """Let the samples so far no longer count for health; latencies stay."""
        self._since_anew = 0

    def forget(self) -> None:
        """Empty the window."""
        self._ring.clear()
        self._failures = 0
        self._take([], -math.inf)

    def withdraw(self, since: float) -> bool:
        """Remove the calls from ``since`` on; return True if there were any.

        Samples that they pushed out do not come back. Probes stay: they are few, made
        when there is time, and often the only samples.
        """
        return self._keep(lambda sample: sample.at < since or sample.probe)

    def begin_life(self, most: int) -> bool:
        """Keep only the last ``most`` good calls, as a first guess, since the tool's
        server has started again. Return True if there was any other sample.
        """
        well = [sample for sample in self._ring if sample.kind is _OK][-most:]
        prior = {id(sample) for sample in well}
        changed = self._keep(lambda sample: id(sample) in prior)
        self.start_health_anew()
        return changed

    def drop_slower(self, seconds: float, *, but: int = 0) -> bool:
        """Drop the calls that took at least ``seconds``, or were cut after as much by
        any limit, except for the newest ``but`` of them. Other failures stay. Return
        True if there were any such calls.
        """
        slow = [x for x in self._ring if x.kind in _LATENCIES and x.seconds >= seconds]
        gone = {id(sample) for sample in slow[: len(slow) - but]}
        return self._keep(lambda sample: id(sample) not in gone)

    def most_outliers(self, seconds: float) -> int:
        """Return how many calls slower than ``seconds`` may be among the others without
        making the tool bimodal."""
        quick = bisect_left(self._ended, seconds)
        return max(0, (quick - 1) // (_TENTH - 1))

    def _keep(self, chosen: Callable[[Sample], bool]) -> bool:
        """Start over with the chosen samples; return False if those are all."""
        before = len(self._ring) - self._since_anew  # health started anew
        kept = [x for x in enumerate(self._ring) if chosen(x[1])]
        if len(kept) == len(self._ring):
            return False
        self.forget()
        for _, sample in kept:
            self.record(sample)
        self._since_anew = sum(at >= before for at, _ in kept)
        return True

    def only_cut_after(self, seconds: float) -> bool:
        """Return True if a percentile of so many seconds comes from cut calls alone: no
        call that ended took as long."""
        ended = self._ended
        return bool(self._cut) and (not ended or ended[-1] < seconds)

    @property
    def latest(self) -> Sample | None:
        """The newest sample, expired or not."""
        return self._ring[-1] if self._ring else None

    def longest_cut(self, now: float) -> float | None:
        """Return the longest time after which a call was cut, seconds, or None. A later
        call that ended sooner outweighs all those that were cut before it.
        """
        longest: float | None = None
        for sample in self.samples(now):
            seconds = sample.seconds
            if sample.kind is _CENSORED or sample.kind is _TIMEOUT:
                longest = seconds if longest is None else max(longest, seconds)
            elif sample.kind is _OK and longest is not None and seconds < longest:
                longest = None
        return longest

    def least_lately(self, cuts: int, now: float) -> float | None:
        """Return the time that each of the newest calls took at least, seconds, as far
        back as so many of them were cut by turns; None if fewer were.
        """
        least = math.inf
        if len(self._cut) < cuts:  # the usual case, at no cost
            return None
        for sample in reversed(self._ring):
            if now - sample.at >= self.expiry:
                break
            if sample.kind in _LATENCIES:
                least = min(least, sample.seconds)
                cuts -= sample.kind is _CENSORED
                if not cuts:
                    return least
        return None

    @property
    def failures(self) -> int:
        """The number of samples that are failures, with expired ones and probes.

        It costs nothing to read, and `health_samples` never has more.
        """
        return self._failures

    def samples(self, now: float) -> list[Sample]:
        """Return the unexpired samples, in the order recorded."""
        expiry = self.expiry
        return [sample for sample in self._ring if now - sample.at < expiry]

    def health_samples(self, now: float) -> list[Sample]:
        """Return the samples that count for health: since its restart, unexpired.

        Cut calls and probes are neither failures nor successes, and not in the
        denominator: a cut call reached the tool, but its end was not seen.
        """
        before = max(0, len(self._ring) - self._since_anew)
        return [
            sample
            for sample in islice(self._ring, before, None)
            if sample.kind is not _CENSORED
            and not sample.probe
            and now - sample.at < self.expiry
        ]

    def latency_count(self, now: float) -> int:
        """Return the number of latency samples, the cut ones included."""
        self._as_of(now)
        return len(self._ended) + len(self._cut)

    def percentile(self, p: int, now: float) -> float | None:
        """Return the ``p``-th percentile of latency, seconds; None without samples.

        It is the least time by which ``p`` % of the calls have ended: nearest rank, or
        product-limit if some were cut. If the estimator never gets that far, the result
        is just above the longest cut call: "longer than this". It grows with ``p``: p99
        >= p50.

        Raises:
          ValueError: unless 1 <= p <= 100.
        """
        if not 1 <= p <= 100:
            raise ValueError(f"p must be within 1 to 100, got {p!r}")
        self._as_of(now)
        ended = self._ended
        if self._cut:
            if self._stretches is None:
                self._stretches = stretches(ended, self._cut)
            return product_limit(p, ended, self._cut, self._stretches)
        if not ended:
            return None
        # ceil(p/100 * n) in integers: floats would round 7 % of 100 up to rank 8.
        return ended[-(-p * len(ended) // 100) - 1]

    def bimodal(self, now: float, *, before: bool = False) -> bool:
        """Return True if the tool has two speeds: say, a cache hit and a miss.

        The latencies are split in two where that explains most of the variance of their
        logarithms (Otsu's method). The sides are two modes if the split explains at
        least 80 % of it, each side has at least a tenth of at least 20 samples, and the
        slower's median is at least twice the faster's. A tool that was bimodal
        ``before`` stays so until a side has less than a nineteenth: near a tenth,
        chance alone would change the result all day.

        A call cut beyond the median is surely one of the slow ones and counts as if it
        had taken at least twice the median: its real duration is not known, and a tool
        whose faster side is near the ceiling would otherwise look as if it had one
        speed. A call cut before the median could be on either side and is left out.
        """
        middle = self.percentile(50, now)
        if middle is None:
            return False
        known = self._ended
        if self._cut:
            least = _SLOWER * middle
            slow = self._cut[bisect_right(self._cut, middle) :]
            known = sorted(known + [max(seconds, least) for seconds in slow])
        if len(known) < _BIMODAL_SAMPLES:
            return False
        # The slower side's median is at most this, and the faster's at least that.
        share = _STILL if before else _TENTH
        least_side = -(-len(known) // share)
        slower = max(known[least_side // 2 - least_side], _ONE_AND_THE_SAME)
        faster = max(known[(least_side - 1) // 2], _ONE_AND_THE_SAME)
        if math.log(slower) - math.log(faster) < _TWICE:  # the usual case
            return False
        if known[0] < _ONE_AND_THE_SAME:
            known = [max(seconds, _ONE_AND_THE_SAME) for seconds in known]
        logs = list(map(math.log, known))
        n, mean = len(logs), math.fsum(logs) / len(logs)
        away = [value - mean for value in logs]
        total = math.fsum(map(mul, away, away))
        between = [
            below * below * weight
            for below, weight in zip(accumulate(away[:-1]), _weights(n), strict=True)
        ]
        explained = max(between)
        split = between.index(explained) + 1
        return (
            explained >= _BIMODAL_EXPLAINED * total
            and share * min(split, n - split) >= n
            and _middle(logs[split:]) - _middle(logs[:split]) >= _TWICE
        )

    def _evict(self, sample: Sample) -> None:
        """Remove the ring's oldest sample from all that was computed of it."""
        kind = sample.kind
        if kind is _TIMEOUT or kind is _FAILED:
            self._failures -= 1
        if sample.at > self._expired_to:
            if kind is _OK or kind is _TIMEOUT:
                del self._ended[bisect_left(self._ended, sample.seconds)]
            elif kind is _CENSORED:
                del self._cut[bisect_left(self._cut, sample.seconds)]
            self._stretches = None

    def _as_of(self, now: float) -> None:
        """Bring the latencies up to date: drop the expired ones, add the others.

        The difference grows with the sample's age, however floats are rounded, so the
        two at the ends decide for all. A tool whose samples expire is called less than
        a hundred times in that time, so that starting over is cheap enough.
        """
        if now - self._oldest < self.expiry <= now - self._expired_to:
            return
        live = self.samples(now)
        gone = [s.at for s in self._ring if not now - s.at < self.expiry]
        self._take(live, max(gone, default=-math.inf))

    def _take(self, live: list[Sample], expired_to: float) -> None:
        """Start over with these samples."""
        self._ended = sorted(
            s.seconds for s in live if s.kind is _OK or s.kind is _TIMEOUT
        )
        self._cut = sorted(s.seconds for s in live if s.kind is _CENSORED)
        self._oldest = min((s.at for s in live), default=math.inf)
        self._expired_to = expired_to
        self._stretches = None


@lru_cache(maxsize=256)
def _weights(n: int) -> list[float]:
    """Return the factors that turn the sum of the first i deviations into the variance
    between i and the other n - i, for every i."""
    return [n / (i * (n - i)) for i in range(1, n)]


def _middle(ordered: list[float]) -> float:
    """Return the median."""
    half = len(ordered) // 2
    return (ordered[half] + ordered[-half - 1]) / 2
