"""Sentences out of a stream of text, as soon as each is certainly over.

A sentence comes with the first character that decides it: a blank after its stop, or,
where only what follows can tell, what follows. The last one comes with
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
_PARTS: Final = re.compile(r"\S+|\s")
_ABBREVIATIONS: Final = frozenset(
    re.findall(
        r"\S+",
        "mr mrs ms dr st prof sr jr vs etc e.g i.e approx vol fig capt lt sgt gen",
    )
)
_LAST_WORD: Final = re.compile(r"([\w.]+)\.$")
_LONGEST_WORD: Final = 24  # no abbreviation, nor a list's number, is as long


MOST_WORDS: Final = 25


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
                ends = _ends(self._rest[start:end], following and following[0])
                if ends is None:
                    continue  # only blanks so far: a lower-case word may follow
                if not ends:
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


@attrs.define(eq=False)
class Beginning:
    """The beginning of an answer: its first sentence, or its first ``most_words``.

    It comes with the first character that decides it; a word is whole with the blank
    after it. What is written after it is not looked at.
    """

    most_words: int = attrs.field(default=MOST_WORDS, validator=attrs.validators.ge(1))
    _sentences: Sentences = attrs.field(factory=Sentences, init=False)
    _words: list[str] = attrs.field(factory=list, init=False)
    _word: str = attrs.field(default="", init=False)  # as far as it is written

    def feed(self, text: str) -> str | None:
        """The opening, if this piece decides it."""
        for part in _PARTS.findall(text):
            if first := self._sentences.feed(part):
                return first[0]
            if not part.isspace():
                self._word += part
            elif self._word:
                self._words.append(self._word)
                self._word = ""
                if len(self._words) == self.most_words:
                    return " ".join(self._words)
        return None

    def end(self) -> str | None:
        """All that there is, when nothing follows; None if that is nothing."""
        return next(iter(self._sentences.end()), None)


def _ends(candidate: str, following: str | None) -> bool | None:
    """Whether ``candidate`` is a sentence, given the next visible character; None if
    that has to be known and is not."""
    closing = candidate.rstrip(_CLOSING)
    if len(closing) < len(candidate) or closing.endswith(("...", "…")):
        # A quote within a sentence, or a pause: capitals begin a new one.
        return None if following is None else not following.islower()
    word = _LAST_WORD.search(closing[-_LONGEST_WORD:])
    if word is None:
        return True
    if closing.strip() == f"{word[1]}." and word[1].isdigit():
        return False  # the number of a list's item
    last = word[1].casefold()
    return last not in _ABBREVIATIONS and not (len(last) == 1 and last.isalpha())
