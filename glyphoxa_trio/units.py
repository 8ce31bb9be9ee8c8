"""Conversion between milliseconds at the edge and seconds inside, in one place.

Configuration, wires and screens use whole milliseconds; code uses float seconds on
trio's clock.
"""

from __future__ import annotations


def seconds(milliseconds: float) -> float:
    """Convert milliseconds to seconds."""
    return milliseconds / 1000


def milliseconds(seconds: float) -> int:
    """Convert seconds to whole milliseconds, rounded to nearest."""
    return round(seconds * 1000)


def in_ms(seconds: float) -> str:
    """Write seconds for people and models: ``0.8`` as ``800 ms``, ``4e-4`` as
    ``0.4 ms``."""
    value = seconds * 1000
    return f"{value:.1f} ms" if 0 < value < 10 else f"{value:.0f} ms"
