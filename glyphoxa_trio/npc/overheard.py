"""Put into words what an NPC has overheard, and what it knows of the moment. Pure.

The text is sent as a user's message, and not as a system message, of which some models
accept only one. So a line must not be able to look like two.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

_LONGEST_LINE: Final = 1000  # characters of one line


def one_line(text: str, *, most: int = _LONGEST_LINE) -> str:
    """Return ``text`` as one line, so that it cannot pass for two, and cut."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


@attrs.frozen
class Overheard:
    """Words that were not said to this NPC, but in its hearing."""

    speaker: str
    text: str
    to: str = ""

    def __str__(self) -> str:
        who = one_line(self.speaker, most=100)
        to = f" to {one_line(self.to, most=100)}" if self.to else ""
        return f"{who}{to}: {one_line(self.text)}"


def aside_of(overheard: Iterable[Overheard], context: Iterable[str]) -> str:
    """Return one message of what was overheard and is known, or an empty text."""
    parts = []
    if lines := [f"- {line}" for line in overheard]:
        parts.append(
            "\n".join(["(What was said in your hearing meanwhile:", *lines]) + ")"
        )
    if lines := [f"- {one_line(line)}" for line in context]:
        parts.append("\n".join(["(What you know of this moment:", *lines]) + ")")
    return "\n\n".join(parts)
