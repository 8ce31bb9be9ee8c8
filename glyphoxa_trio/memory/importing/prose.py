"""Texts in pieces that are not too long to be facts. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

MOST_PIECE: Final = 1000  # characters of a fact
MOST_SUMMARY: Final = 300
_SENTENCE_END: Final = re.compile(r"[.!?…]['\")\]”’»]*\s")  # noqa: RUF001
_BLANK_LINE: Final = re.compile(r"\n\s*\n")


def paragraphs(text: str) -> list[str]:
    """Return the parts of a plain text that blank lines separate."""
    parts = (" ".join(x.split()) for x in _BLANK_LINE.split(text))
    return [x for x in parts if x]


def pieces(text: str, most: int = MOST_PIECE) -> Iterator[str]:
    """Yield the text in pieces of at most ``most`` characters.

    They end with a sentence where that is possible, else with a word.
    """
    rest = " ".join(text.split())
    while len(rest) > most:
        window = rest[: most + 1]
        ends = [x.end() for x in _SENTENCE_END.finditer(window)]
        cut = ends[-1] if ends and ends[-1] > most // 4 else window.rfind(" ")
        cut = cut if cut > 0 else most
        yield rest[:cut].strip()
        rest = rest[cut:].strip()
    if rest:
        yield rest


def beginning(text: str, most: int = MOST_SUMMARY) -> str:
    """Return the first sentences of a text; an ellipsis says that there is more."""
    plain = " ".join(text.split())
    first = next(pieces(plain, most), "")
    return first if len(first) == len(plain) else f"{first} …"
