"""Milliseconds at the edge, seconds inside: the one place that converts.

Configuration, wires and screens speak whole milliseconds; code speaks float
seconds on trio's clock.
"""

from __future__ import annotations


def seconds(milliseconds: float) -> float:
    """Milliseconds from the edge, as seconds."""
    return milliseconds / 1000


def milliseconds(seconds: float) -> int:
    """Seconds from inside, as whole milliseconds, rounded to nearest."""
    return round(seconds * 1000)


def in_ms(seconds: float) -> str:
    """For people and models: ``0.8`` becomes ``800 ms``, ``0.0004`` ``0.4 ms``."""
    value = seconds * 1000
    return f"{value:.1f} ms" if 0 < value < 10 else f"{value:.0f} ms"
