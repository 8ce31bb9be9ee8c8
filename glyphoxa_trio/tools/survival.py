"""Percentiles of the durations of calls of which some were cut before they ended.

In statistics a cut call is right-censored, and the product-limit (Kaplan-Meier)
estimator is made for it: the share of calls still running after t is the product of
(1 - ended / still watched) over the times at which calls ended, where a cut call is
watched until its cut. Dropping cut calls would make a slow tool look fast; counting
them as ended would too.

Three percentiles are needed for every call, so the calls are not processed one by one.
Between two cut ones the product telescopes, (n-1)/n · (n-2)/(n-1) · … · (n-k)/n, and
one factor is enough for all k.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right

# A stretch of calls that ended with no cut one between them: the share of all calls
# still running at its end, negated, so that stretches are in order; how many had ended
# before it, and at its end; how many are watched at its start, and the share of all
# still running there, exactly: numerator and denominator. A tuple, for `bisect`.
Stretch = tuple[float, int, int, int, int, int]


def stretches(ended: list[float], cut: list[float]) -> list[Stretch]:
    """Return the data that all percentiles of these calls share; lists in order."""
    found: list[Stretch] = []
    running, of, ends, cuts = 1, 1, 0, 0
    while ends < len(ended):
        # At a tie the call that ended comes before the one that was cut.
        cuts = bisect_left(cut, ended[ends], cuts)
        until = bisect_right(ended, cut[cuts], ends) if cuts < len(cut) else len(ended)
        watched = len(ended) - ends + len(cut) - cuts
        share, whole = running * (watched - (until - ends)), of * watched
        found.append((-share / whole, ends, until, watched, running, of))
        running, of, ends = share, whole, until
    return found


def product_limit(
    p: int, ended: list[float], cut: list[float], known: list[Stretch]
) -> float:
    """Return the least time by which ``p`` % of the calls have ended.

    If the estimator never gets that far, just above the longest cut call. It counts in
    integers where ranks have to be exact.

    Args:
      ended, cut: seconds, each in order; at least one is not empty.
      known: their `stretches`."""
    # Rounding keeps the order, so the right stretch is not before the first one found.
    first = bisect_left(known, ((p - 100) / 100,))
    for _, before, until, watched, running, of in known[first:]:
        # The least number of ends by which running/of has shrunk to 1 - p %.
        ends = watched - (100 - p) * of * watched // (100 * running)
        if ends <= until - before:
            return ended[before + ends - 1]
    return math.nextafter(cut[-1], math.inf)
