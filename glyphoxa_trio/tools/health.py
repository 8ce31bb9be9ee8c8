"""The rules by which a tool counts as degraded, from the samples in its window.

There is no state here and nothing to reset: a tool recovers as newer samples replace
its failures, as these expire, or at once when its breaker closes and the window starts
health anew.
"""

from __future__ import annotations

from typing import Final

from .window import LatencyWindow, SampleKind

ENOUGH_SAMPLES: Final = 10  # fewer give no rate
LATEST: Final = 10
TOO_OFTEN_AT_LIMIT: Final = 5  # of the latest
_SICK_FROM: Final = 4  # more than 30 % of ten; with fewer failures no rule applies

# Every call checks about a hundred samples, and a property costs a call for each.
_FAILURES: Final = tuple(kind for kind in SampleKind if kind.is_failure)


def degraded(window: LatencyWindow, now: float) -> str | None:
    """Return why the tool is degraded, in words for people; None while it is healthy.

    It is degraded if five of the latest ten calls reached the tool's own limit (five
    calls are enough for that), or more than 30 % of at least ten calls failed, or the
    tool reported an error for each of the latest calls, among them ten that its model
    cannot be blamed for. Calls cut by the turn and probes do not count, neither as
    failures nor as calls.
    """
    latest_ok = window.latest is None or window.latest.kind is SampleKind.OK
    # The usual case, which every call takes.
    if latest_ok and window.failures < _SICK_FROM:
        return None
    if not latest_ok and _says_no_to_everything(window, now):
        return f"it said no to the last {ENOUGH_SAMPLES} calls that may have been right"
    if window.failures < _SICK_FROM:
        return None
    samples = window.health_samples(now)
    latest = samples[-LATEST:]
    at_limit = sum(sample.kind is SampleKind.TIMEOUT for sample in latest)
    if at_limit >= TOO_OFTEN_AT_LIMIT:
        return f"{at_limit} of the last {len(latest)} calls ran into their limit"
    failed = sum([sample.kind in _FAILURES for sample in samples])
    if len(samples) >= ENOUGH_SAMPLES and 10 * failed > 3 * len(samples):
        return f"{failed} of the last {len(samples)} calls failed"
    return None


def _says_no_to_everything(window: LatencyWindow, now: float) -> bool:
    """Return True if no recent call succeeded, and enough of them should have.

    Servers built on the SDK answer each of their exceptions with an error result, so a
    broken one returns an error for every call. "Not found" is such an error too, but an
    ordinary one, and a model may ask the same question any number of times: of calls
    with the same arguments one counts, unless these arguments have worked before. A
    call whose arguments cannot be the reason is recorded as different from all others.
    """
    samples = window.health_samples(now)
    worked = {x.arguments for x in window.samples(now) if x.kind is SampleKind.OK}
    asked: set[int | None] = set()
    count = 0
    for sample in reversed(samples):
        if sample.kind is SampleKind.OK:
            return False
        known = sample.arguments is not None and sample.arguments in worked
        count += known or sample.arguments not in asked
        asked.add(sample.arguments)
        if count >= ENOUGH_SAMPLES:
            return True
    return False
