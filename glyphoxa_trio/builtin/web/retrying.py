"""The time that a server asks us to wait. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from glyphoxa_trio.units import many


def patience(headers: Mapping[str, str]) -> float | None:
    """Return the seconds in ``Retry-After``; a date is read by the server's own clock.

    Without that header, returns the first number of ``X-RateLimit-Reset``, as Brave
    sends it. Header names are in lower case.
    """
    text = headers.get("retry-after", "").strip()
    if not text:
        text = headers.get("x-ratelimit-reset", "").partition(",")[0].strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            now = parsedate_to_datetime(headers.get("date", ""))
            seconds = max(0.0, (parsedate_to_datetime(text) - now).total_seconds())
        except (ValueError, TypeError, OverflowError):
            return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def waiting(seconds: float | None) -> str:
    """Return a time to wait in words that can be spoken; empty if it is not known."""
    if seconds is None:
        return ""
    if seconds < 90:
        return f"in {many(max(1, math.ceil(seconds)), 'second')}"
    if seconds < 90 * 60:
        return f"in {math.ceil(seconds / 60)} minutes"
    return "much later"
