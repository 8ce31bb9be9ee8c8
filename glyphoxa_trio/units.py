"""Conversion between milliseconds at the edge and seconds inside, in one place; and
numbers in words.

Configuration, wires and screens use whole milliseconds; code uses float seconds on
trio's clock.
"""

from __future__ import annotations


def many(count: int, one: str, more: str = "") -> str:
    """Write a number of things: ``1 tool``, ``2 entities``.

    Args:
      one: what follows the number 1.
      more: what follows any other; by default the plural of ``one``.
    """
    if count == 1:
        return f"1 {one}"
    return f"{count} {more or _plural(one)}"


def singular(word: str) -> str:
    """Return the singular of a plural that `many` makes by itself, of one word."""
    return f"{word[:-3]}y" if word.endswith("ies") else word.removesuffix("s")


def _plural(word: str) -> str:
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "ch", "sh")) else f"{word}s"


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
