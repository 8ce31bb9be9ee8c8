"""Questions at a terminal with a list: all of it, none, or some by their numbers."""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from .terminal import InputLines

MOST_TRIES: Final = 3
ANSWERS: Final = "all, none, or numbers such as 1 3-5"

_ALL: Final = ("all", "a", "yes", "y")
_NONE: Final = ("none", "no", "n", "")
_PIECE: Final = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")


def somebody_is_there() -> bool:
    """Return true if a person can see a question and answer it: both are terminals."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def chosen(answer: str, count: int) -> frozenset[int] | None:
    """The numbers, from 0, of the lines that an answer picks; None if it is unclear.

    An empty answer means none of them.
    """
    text = answer.strip().lower()
    if text in _ALL:
        return frozenset(range(count))
    if text in _NONE:
        return frozenset()
    found: set[int] = set()
    for piece in re.split(r"[,\s]+", text.strip(", ")):
        numbers = _PIECE.fullmatch(piece)
        if numbers is None:
            return None
        first, last = int(numbers[1]), int(numbers[2] or numbers[1])
        if not 1 <= first <= last <= count:
            return None
        found.update(range(first - 1, last))
    return frozenset(found)


async def choose(
    question: str,
    count: int,
    *,
    tell: Callable[[str], None],
    answer: Callable[[], Awaitable[str | None]] | None = None,
) -> frozenset[int]:
    """Ask until the answer can be understood, three times at most.

    Args:
      tell: shows a text; the person answers on its last line.
      answer: the next line that the person types, None at the end of them.

    Returns the numbers of the chosen lines: none of them without an answer.
    """
    read = InputLines().next if answer is None else answer
    for _ in range(MOST_TRIES):
        tell(f"{question} ({ANSWERS}) [none] ")
        line = await read()
        if line is None:
            return frozenset()
        if (picked := chosen(line, count)) is not None:
            return picked
        tell(f"answer {ANSWERS}, from 1 to {count}\n")
    return frozenset()


def numbered(lines: Sequence[str]) -> list[str]:
    """The lines with the numbers to choose them by; further lines are indented."""
    width = len(str(len(lines)))
    return [
        f"  {at:>{width}}  " + line.replace("\n", "\n" + " " * (width + 4))
        for at, line in enumerate(lines, 1)
    ]
