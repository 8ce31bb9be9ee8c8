"""Passages of an evening, as they are embedded: neighbouring lines. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

# At most so much in one passage, unless one line alone is longer.
MOST_LINES: Final = 12
MOST_CHARACTERS: Final = 1200
T = TypeVar("T")


def in_passage(speaker: str, text: str, corrected: str) -> str:
    """Return a line as it stands in a passage."""
    return f"{speaker}: {corrected or text}"


def passages(
    lines: Iterable[T], reach: Callable[[T], object], text: Callable[[T], str]
) -> Iterator[list[T]]:
    """Yield the passages that the lines of an evening make, in order.

    Args:
      reach: returns who heard a line: all lines of a passage were heard by the same
        NPCs. None means that the line is in a passage already; those before and behind
        it are no neighbours.
      text: returns a line as it stands in a passage.
    """
    passage: list[T] = []
    heard: object = None
    size = 0
    for line in lines:
        by, length = reach(line), len(text(line)) + 1
        full = len(passage) == MOST_LINES or size + length > MOST_CHARACTERS
        if passage and (full or by != heard):
            yield passage
            passage, size = [], 0
        heard = by
        if by is not None:
            passage.append(line)
            size += length
    if passage:
        yield passage
