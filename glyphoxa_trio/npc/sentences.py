"""Split a stream of text into sentences, each as soon as it is certainly complete.

A sentence is returned with the first character that decides it: a space after its full
stop or, where only the following text can decide, that text. The last one is returned
by `Sentences.end`. "Dr. Ahn paid 3.50 …" contains no boundary; `"Run!" she cried.` has
one, at its end. Scripts that are written without spaces have full stops of their own,
which end a sentence whatever follows: 你好。再见。 are two.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

# What may close a quotation or a bracket after the full stop.
_CLOSING: Final = (
    "\"'\u201d\u2019\u00bb)]\u300d\u300f\u3011\u300b\u3009\uff09\u3015\uff3d"
)
# Chinese and Japanese: these need no space behind them.
_WIDE: Final = "\u3002\uff0e\uff61\uff01\uff1f"
# With a space behind them, and never a part of an abbreviation: Arabic and Urdu,
# Devanagari and its neighbours, Armenian, Ethiopic, Khmer, Burmese, Tibetan, Thai.
_SPACED: Final = (
    "\u061f\u06d4\u0964\u0965\u0589\u055c\u055e\u1362\u1367\u1368\u17d4\u17d5"
    "\u104a\u104b\u0f0d\u0f0e\u0e5a\u0e5b\u203c\u203d\u2047\u2048\u2049"
)
_STOPS: Final = f".!?…{_WIDE}{_SPACED}"
# Matched from the beginning of a run of stops and as a whole, so that a model that
# writes nothing but dots does not take quadratic time.
_ENDING: Final = re.compile(
    rf"(?<![{_STOPS}])[{_STOPS}]++[{re.escape(_CLOSING)}]*+(?=\s)"
    rf"|(?<![{_STOPS}])[.!?…]*+[{_WIDE}][{_STOPS}]*+[{re.escape(_CLOSING)}]*+"
    rf"(?=[^{_STOPS}{re.escape(_CLOSING)}])|\n++"
)
_MAY_END: Final = frozenset(_STOPS + _CLOSING)
# From this character on, scripts are written without spaces.
_NO_BLANKS: Final = "\u2e80"
_A_WORD: Final = 2  # characters of a word in such a script, more or less
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
    """Takes text in pieces, and returns whole sentences; only spaces are lost."""

    _rest: str = attrs.field(default="", init=False)
    # No sentence ends before this place: it was examined already.
    _decided: int = attrs.field(default=0, init=False)
    # The text behind the final space decides whether a sentence is complete.
    _open: bool = attrs.field(default=False, init=False)

    def feed(self, text: str) -> list[str]:
        """Add a piece of text; return the sentences that it completes."""
        if self._open and "\n" not in text and not text.strip():
            return []  # more spaces decide nothing
        self._rest += text
        whole: list[str] = []
        start = 0
        open_ = False
        for match in _ENDING.finditer(self._rest, self._decided):
            end = match.end()
            if match[0].strip():
                following = _VISIBLE.search(self._rest, end)
                ends = _ends(self._rest[start:end], following and following[0])
                if ends is None:  # only spaces so far: a lower-case word may follow
                    open_ = True
                    self._decided = match.start()
                    continue
                if not ends:
                    self._decided = end
                    continue
            if sentence := self._rest[start:end].strip():
                whole.append(sentence)
            start = self._decided = end
        if not open_:
            # What is neither a stop nor behind one is not examined again.
            at = len(text)
            while at and text[at - 1] in _MAY_END:
                at -= 1
            if at:
                self._decided = max(self._decided, len(self._rest) - len(text) + at)
        self._open = open_
        self._rest = self._rest[start:]
        self._decided -= start
        return whole

    def end(self) -> list[str]:
        """Return what is left when the text is over: one sentence, or nothing."""
        rest, self._rest = self._rest.strip(), ""
        self._decided, self._open = 0, False
        return [rest] if rest else []


@attrs.define(eq=False)
class AnswerOpening:
    """The beginning of an answer: its first sentence, or its first ``most_words``.

    It is returned with the first character that decides it; a word is complete with the
    space after it. Later text is ignored.
    """

    most_words: int = attrs.field(default=MOST_WORDS, validator=attrs.validators.ge(1))
    _sentences: Sentences = attrs.field(factory=Sentences, init=False)
    _words: list[str] = attrs.field(factory=list, init=False)
    _word: str = attrs.field(default="", init=False)  # as far as it is written
    _wide: int = attrs.field(default=0, init=False)  # characters that need no spaces

    def feed(self, text: str) -> str | None:
        """Add a piece of text; return the beginning if this piece decides it."""
        for part in _PARTS.findall(text):
            # Where words need no spaces, every character may be the one that decides.
            for piece in (part,) if max(part) < _NO_BLANKS else part:
                if first := self._sentences.feed(piece):
                    return first[0]
                if (opening := self._add(piece)) is not None:
                    return opening
        return None

    def _add(self, piece: str) -> str | None:
        """Add a part of a word or a space; return the beginning if it is complete."""
        if piece.isspace():
            if self._word:
                self._words.append(self._word)
                self._word = ""
                if len(self._words) == self.most_words:
                    return " ".join(self._words)
            return None
        self._word += piece
        if max(piece) >= _NO_BLANKS:
            self._wide += 1
            if len(self._words) + self._wide // _A_WORD >= self.most_words:
                return " ".join([*self._words, self._word])
        return None

    def end(self) -> str | None:
        """Return what there is when nothing follows; None if that is nothing."""
        return next(iter(self._sentences.end()), None)


def _ends(candidate: str, following: str | None) -> bool | None:
    """Return True if ``candidate`` is a sentence, given the next visible character.

    None means that the next character decides and is not known yet.
    """
    closing = candidate.rstrip(_CLOSING)
    if len(closing) < len(candidate) or closing.endswith(("...", "…")):
        # A quotation within a sentence, or a pause: a capital begins a new one.
        return None if following is None else not following.islower()
    word = _LAST_WORD.search(closing[-_LONGEST_WORD:])
    if word is None:
        return True
    if closing.strip() == f"{word[1]}." and word[1].isdigit():
        return False  # the number of a list's item
    last = word[1].casefold()
    return last not in _ABBREVIATIONS and not (len(last) == 1 and last.isalpha())
