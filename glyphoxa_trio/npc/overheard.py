"""What an NPC knows that was not said to it, as it is put into words. Pure.

Told as something a player might say, and not as a system message: some models take only
one of those. So nobody's line may look like two.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

_LONGEST_LINE: Final = 1000  # characters of what was overheard, or is known


def one_line(text: str, *, most: int = _LONGEST_LINE) -> str:
    """``text`` without line breaks, so that it cannot pass for two lines, and cut."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


@attrs.frozen
class Overheard:
    """Something that was not said to this NPC, in its hearing."""

    speaker: str
    text: str
    to: str = ""

    def __str__(self) -> str:
        who = one_line(self.speaker, most=100)
        to = f" to {one_line(self.to, most=100)}" if self.to else ""
        return f"{who}{to}: {one_line(self.text)}"


def aside_of(overheard: Iterable[Overheard], context: Iterable[str]) -> str:
    """What is known beside what is said: one message, or nothing."""
    parts = []
    if lines := [f"- {line}" for line in overheard]:
        parts.append(
            "\n".join(["(What was said in your hearing meanwhile:", *lines]) + ")"
        )
    if lines := [f"- {one_line(line)}" for line in context]:
        parts.append("\n".join(["(What you know of this moment:", *lines]) + ")")
    return "\n\n".join(parts)
