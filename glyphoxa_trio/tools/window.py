"""What a tool has lately been like: its last calls, in one ring (D7, G22).

A call cut by the turn's clock was not measured to its end; it only says "longer
than this". Statistics calls such a sample right-censored, and has the
product-limit (Kaplan-Meier) estimator for it: the share of calls still running
after t is the product of (1 - ended / still watched) over the times at which
calls ended, where a cut call is watched until its cut. Nothing cut, this is the
nearest rank. Dropping cut calls would make a slow tool look fast; counting them
as ended would too.
"""

from __future__ import annotations

import math
from collections import deque
from enum import StrEnum
from itertools import islice
from typing import Final

import attrs

# D8: as many samples as make a share of one tenth more than an accident or two.
_BIMODAL_SAMPLES: Final = 20
# One normal distribution, cut in two, reaches 64 %, a uniform one 75 %.
_BIMODAL_EXPLAINED: Final = 0.8
# No tier tells times below this apart, seconds; it also keeps 0 out of log().
_ONE_AND_THE_SAME: Final = 0.001


class SampleKind(StrEnum):
    """How a call that reached its tool ended, as far as the tool is concerned.

    Never recorded at all: caller's mistakes (invalid arguments), cache hits,
    followers of a shared flight, refusals, interruptions. They say nothing of
    the tool.
    """

    OK = "ok"  # executed: latency; health success
    TOOL_ERROR = "tool_error"  # it said no: no latency; health success
    TIMEOUT = "timeout"  # at the tool's or server's limit: latency; health failure
    FAILED = "failed"  # transport failure, crash: no latency; health failure
    CENSORED = "censored"  # cut by the turn: latency is longer; nothing of health

    @property
    def is_failure(self) -> bool:
        """True if it speaks against the tool's health."""
        return self is SampleKind.TIMEOUT or self is SampleKind.FAILED


# A member read through its class costs nine times a global (Python 3.11), and
# every percentile asks a hundred samples.
_OK, _TIMEOUT, _CENSORED = SampleKind.OK, SampleKind.TIMEOUT, SampleKind.CENSORED


def _duration(_: object, attribute: attrs.Attribute[float], value: float) -> None:
    if not 0 <= value < math.inf:
        raise ValueError(f"{attribute.name} must be a duration, got {value!r}")


@attrs.frozen
class Sample:
    """One call: how it ended, its seconds, and when that was (``at``, clock time).

    A ``probe`` is a latency sample like any other, and nothing of health (D9).
    """

    kind: SampleKind
    seconds: float = attrs.field(validator=_duration)
    at: float
    probe: bool = False


@attrs.define(eq=False, on_setattr=attrs.setters.NO_OP)
class LatencyWindow:
    """The last ``size`` samples of one tool, none older than ``expiry`` seconds.

    ``now`` is on the clock of the samples' ``at``. A sample that is exactly
    ``expiry`` old has expired. A percentile costs 10 µs, with cut calls 25.
    """

    size: int = attrs.field(default=100, validator=attrs.validators.ge(1))
    expiry: float = attrs.field(default=86400.0, validator=attrs.validators.gt(0))
    _ring: deque[Sample] = attrs.field(init=False, repr=False)
    _since_anew: int = attrs.field(default=0, init=False, repr=False)
    _since_failure: int = attrs.field(default=0, init=False, repr=False)
    # An estimate asks four times at one moment: (now, expiry, measured, cut).
    _known: tuple[float, float, list[float], list[float]] | None = attrs.field(
        default=None, init=False, repr=False
    )

    @_ring.default
    def _empty(self) -> deque[Sample]:
        return deque(maxlen=self.size)

    def record(self, sample: Sample) -> None:
        """Add the newest sample; in a full window the oldest makes room."""
        self._ring.append(sample)
        self._since_anew += 1
        self._since_failure = 0 if sample.kind.is_failure else self._since_failure + 1
        self._known = None

    def start_health_anew(self) -> None:
        """Samples so far say nothing of health any more; latencies stay (D7)."""
        self._since_anew = 0

    def forget(self) -> None:
        """Empty the window."""
        self._ring.clear()
        self._known = None

    @property
    def flawless(self) -> bool:
        """True if nothing in here is a failure, expired or not."""
        return self._since_failure >= len(self._ring)

    def samples(self, now: float) -> list[Sample]:
        """What is not expired, in the order recorded."""
        expiry = self.expiry
        return [sample for sample in self._ring if now - sample.at < expiry]

    def health_samples(self, now: float) -> list[Sample]:
        """What speaks about health: recorded since it started anew, not expired.

        Cut calls and probes are neither failures nor successes, and not in the
        denominator: a cut call reached the tool, but nobody saw how it would end.
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
        """How many samples say something of latency, the cut ones included."""
        measured, cut = self._latencies(now)
        return len(measured) + len(cut)

    def percentile(self, p: int, now: float) -> float | None:
        """The ``p``-th percentile of latency, seconds; None without samples.

        The least time by which ``p`` % of the calls have ended: nearest rank, or
        product-limit if some were cut. If the estimator never gets that far, the
        answer is just above the longest cut call: "longer than this". It grows
        with ``p``: p99 >= p50.

        Raises:
          ValueError: unless 1 <= p <= 100.
        """
        if not 1 <= p <= 100:
            raise ValueError(f"p must be within 1 to 100, got {p!r}")
        measured, cut = self._latencies(now)
        if cut:
            return _product_limit(p, measured, cut)
        if not measured:
            return None
        measured.sort()
        # ceil(p/100 * n) in integers: floats would round 7 % of 100 up to rank 8.
        return measured[-(-p * len(measured) // 100) - 1]

    def bimodal(self, now: float) -> bool:
        """True if the tool has two speeds: say, a cache hit and a miss (D8, G40).

        The latencies are split in two where that explains most of the variance of
        their logarithms (Otsu's method). The sides are two modes if the split
        explains at least 80 % of it, each side holds at least a tenth of at least
        20 samples, and the slower's median is at least twice the faster's.

        A call cut beyond the median is surely one of the slow ones and counts; one
        cut before says nothing of which side it belongs to and is left out.
        """
        measured, cut = self._latencies(now)
        middle = self.percentile(50, now)
        if middle is None:
            return False
        known = measured + [seconds for seconds in cut if seconds > middle]
        if len(known) < _BIMODAL_SAMPLES:
            return False
        # Imported on use: it brings half of the numeric tower with it.
        from statistics import median

        known.sort()
        logs = [math.log(max(seconds, _ONE_AND_THE_SAME)) for seconds in known]
        n, mean = len(logs), math.fsum(logs) / len(logs)
        split, explained, below = 0, -1.0, 0.0
        for i, value in enumerate(logs[:-1], start=1):
            below += value - mean
            between = below * below * n / (i * (n - i))
            if between > explained:
                split, explained = i, between
        total = math.fsum((value - mean) ** 2 for value in logs)
        return (
            explained >= _BIMODAL_EXPLAINED * total
            and 10 * min(split, n - split) >= n
            and median(logs[split:]) - median(logs[:split]) >= math.log(2)
        )

    def _latencies(self, now: float) -> tuple[list[float], list[float]]:
        """In any order: calls measured to their end, and calls cut before it."""
        if self._known is None or self._known[:2] != (now, self.expiry):
            live = self.samples(now)
            measured = [s.seconds for s in live if s.kind is _OK or s.kind is _TIMEOUT]
            rest = live if len(measured) < len(live) else []
            cut = [s.seconds for s in rest if s.kind is _CENSORED]
            self._known = now, self.expiry, measured, cut
        return self._known[2:]


def _product_limit(p: int, measured: list[float], cut: list[float]) -> float:
    """The percentile where some were cut; in integers, so that ranks stay exact."""
    # At a tie the call that ended comes before the one that was cut (False < True).
    ordered = sorted(
        [(seconds, False) for seconds in measured]
        + [(seconds, True) for seconds in cut]
    )
    running, of = 1, 1
    for watched, (seconds, was_cut) in zip(
        range(len(ordered), 0, -1), ordered, strict=True
    ):
        if not was_cut:
            running *= watched - 1
            of *= watched
            if 100 * running <= (100 - p) * of:
                return seconds
    return math.nextafter(max(cut), math.inf)
