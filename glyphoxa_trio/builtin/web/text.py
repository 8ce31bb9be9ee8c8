"""Cleaning and bounding text from outside. Pure.

Imports nothing of ours, since the process that reads a page waits for the import.
"""

from __future__ import annotations

import re
from typing import Final

MAX_TITLE: Final = 200  # characters
_LANGUAGE: Final = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*")
_BLANK: Final = re.compile(r"\n[ \t\n]*\n")


def tidy(text: str) -> str:
    """Remove unprintable characters, and all but one of several empty lines."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = "".join(c for c in text if c.isprintable() or c in "\n\t")
    return _BLANK.sub("\n\n", text).strip()


def bounded(text: str, most: int) -> tuple[str, bool]:
    """Return at most ``most`` characters, cut between words, and whether it was cut."""
    if len(text) <= most:
        return text, False
    head = text[:most]
    at = max(head.rfind(" "), head.rfind("\n"))
    return head[: at if at > most // 2 else most].rstrip(), True


def language_of(text: str | None) -> str | None:
    """Return the language that a page declares, if that can be the name of one."""
    text = (text or "").partition(",")[0].strip()
    return text if _LANGUAGE.fullmatch(text) and len(text) <= 35 else None
