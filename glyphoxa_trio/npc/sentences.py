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
_VISIBLE: Final = re.compile(r"\S")
_ABBREVIATIONS: Final = frozenset(
    re.findall(
        r"\S+",
        "mr mrs ms dr st prof sr jr vs etc e.g i.e approx vol fig capt lt sgt gen",
    )
)
_LAST_WORD: Final = re.compile(r"([\w.]+)\.$")
_LONGEST_WORD: Final = 24  # no abbreviation, nor a list's number, is as long


@attrs.define(eq=False)
class Sentences:
    """Takes text in pieces, gives whole sentences, loses nothing but blanks."""

    _rest: str = attrs.field(default="", init=False)
    # Before this place in the rest nothing ends any more: looked at once.
    _decided: int = attrs.field(default=0, init=False)

    def feed(self, text: str) -> list[str]:
        """The sentences that this piece completes."""
        self._rest += text
        whole: list[str] = []
        start = 0
        for match in _ENDING.finditer(self._rest, self._decided):
            end = match.end()
            if match[0].strip():
                following = _VISIBLE.search(self._rest, end)
                if following is None:
                    continue  # only blanks so far: a lower-case word may follow
                if not _ends(self._rest[start:end], following[0]):
                    self._decided = end
                    continue
            if sentence := self._rest[start:end].strip():
                whole.append(sentence)
            start = self._decided = end
        self._rest = self._rest[start:]
        self._decided -= start
        return whole

    def end(self) -> list[str]:
        """What is left when the text is over: one sentence, or nothing."""
        rest, self._rest = self._rest.strip(), ""
        self._decided = 0
        return [rest] if rest else []


def _ends(candidate: str, following: str) -> bool:
    """Whether ``candidate`` is a sentence, given the next visible character."""
    closing = candidate.rstrip(_CLOSING)
    if len(closing) < len(candidate) or closing.endswith(("...", "…")):
        # A quote within a sentence, or a pause: capitals begin a new one.
        return not following.islower()
    word = _LAST_WORD.search(closing[-_LONGEST_WORD:])
    if word is None:
        return True
    if closing.strip() == f"{word[1]}." and word[1].isdigit():
        return False  # the number of a list's item
    last = word[1].casefold()
    return last not in _ABBREVIATIONS and not (len(last) == 1 and last.isalpha())
