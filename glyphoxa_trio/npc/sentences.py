"""Sentences out of a stream of text, as soon as each is certainly over.

A boundary is decided by the character after it, so the last sentence comes with
`Sentences.end`. "Dr. Ahn paid 3.50 …" holds no boundary; `"Run!" she cried.`
has one, at its end.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

# What may close a quotation or a bracket after the full stop.
_CLOSING: Final = "\"'\u201d\u2019\u00bb)]"
# Taken from the beginning of a run of stops and as a whole: a model that writes
# nothing but dots must not keep everybody waiting.
_ENDING: Final = re.compile(rf"(?<![.!?…])[.!?…]++[{re.escape(_CLOSING)}]*+(?=\s)|\n++")
_ABBREVIATIONS: Final = frozenset(
    re.findall(
        r"\S+",
        "mr mrs ms dr st prof sr jr vs etc e.g i.e approx no vol fig capt lt sgt gen",
    )
)
_LAST_WORD: Final = re.compile(r"([\w.]+)\.$")
_LONGEST_WORD: Final = 24  # no abbreviation, nor a list's number, is as long


@attrs.define(eq=False)
class Sentences:
    """Takes text in pieces, gives whole sentences, loses nothing but blanks."""

    _rest: str = attrs.field(default="", init=False)

    def feed(self, text: str) -> list[str]:
        """The sentences that this piece completes."""
        self._rest += text
        whole: list[str] = []
        start = 0
        for match in _ENDING.finditer(self._rest):
            candidate = self._rest[start : match.end()]
            if match[0].strip() and not self._ends(candidate, match.end()):
                continue
            if candidate.strip():
                whole.append(candidate.strip())
            start = match.end()
        self._rest = self._rest[start:]
        return whole

    def end(self) -> list[str]:
        """What is left when the text is over: one sentence, or nothing."""
        rest, self._rest = self._rest.strip(), ""
        return [rest] if rest else []

    def _ends(self, candidate: str, end: int) -> bool:
        following = self._rest[end:].lstrip()
        if not following:
            return False  # only blanks so far: a lower-case word may follow
        closing = candidate.rstrip(_CLOSING)
        if len(closing) < len(candidate) or closing.endswith(("...", "…")):
            # A quote within a sentence, or a pause: capitals begin a new one.
            return not following[0].islower()
        word = _LAST_WORD.search(closing[-_LONGEST_WORD:])
        if word is None:
            return True
        if closing.strip() == f"{word[1]}." and word[1].isdigit():
            return False  # the number of a list's item
        last = word[1].casefold()
        return last not in _ABBREVIATIONS and not (len(last) == 1 and last.isalpha())
