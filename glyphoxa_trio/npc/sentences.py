"""Split a stream of text into sentences, each as soon as it is certainly complete.

A sentence is returned with the first character that decides it. That is mostly the
first one of the next sentence, since none ends before a small letter: "Yahoo! is", "at
5 p.m. on Monday". It is a space or a line's end where nothing else can follow, and the
end of the next word where that decides: "at 5 p.m. The gate" are two sentences, "at 5
p.m. Theo" is one. The last sentence is returned by `Sentences.end`.

"Dr. J. R. Ahn paid ca. 3.50 on p. 5 …" contains no boundary; `"Run!" she cried.` has
one, at its end. Scripts that are written without spaces have full stops of their own,
which end a sentence whatever follows: 你好。再见。 are two. A writer without capitals
has sentences as well: "come in. sit down." are two.

A sentence without an end in sight is cut, so that its beginning is heard while its end
is written: behind a comma, else at a space, and in scripts without spaces anywhere but
inside a syllable. The first piece of an answer is the shortest.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final
from unicodedata import category

import attrs

from .abbreviations import (
    ABBREVIATIONS,
    AFTER_ORDINALS,
    BEFORE_ORDINALS,
    CLOSING,
    ENDING,
    NUMBERED,
    STARTERS,
)

# What may close a quotation, a bracket or emphasis after the full stop.
_CLOSERS: Final = (
    "\"'\u201d\u2019\u00bb\u203a)]*_~`\uff0a"
    "\u300d\u300f\u3011\u300b\u3009\uff09\u3015\uff3d"
)
# These do so in German and Danish, and elsewhere open one.
_GERMAN: Final = "\u201c\u2018\u00ab\u2039"
# Chinese and Japanese: these need no space behind them.
_WIDE: Final = "\u3002\uff0e\uff61\uff01\uff1f"
# With a space behind them, and never a part of an abbreviation: Arabic and Urdu,
# Devanagari and its neighbours, Armenian, Ethiopic, Khmer, Burmese, Tibetan, Thai.
_SPACED: Final = (
    "\u061f\u06d4\u0964\u0965\u0589\u055c\u055e\u1362\u1367\u1368\u17d4\u17d5"
    "\u104a\u104b\u0f0d\u0f0e\u0e5a\u0e5b\u203c\u203d\u2047\u2048\u2049"
)
_STOPS: Final = f".!?…;\u037e{_WIDE}{_SPACED}"
_BEHIND_STOPS: Final = f"{_CLOSERS}{_GERMAN} \u00a0\u202f"
_CERTAIN: Final = frozenset(_WIDE + _SPACED)
# The next character decides, or the next word.
_UNDECIDED: Final = re.compile(
    rf"[{_STOPS}]++[{re.escape(_CLOSERS)}]*+|[.!?…]++[{re.escape(_CLOSERS)}]*+( )"
)
_MAY_END: Final = _STOPS + _CLOSERS + _GERMAN
_ANY_STOP: Final = re.compile(rf"[{_STOPS}\n]")
# Matched from the beginning of a run of stops and as a whole, so that a model that
# writes nothing but dots does not take quadratic time.
_ENDING: Final = re.compile(
    rf"(?<![{_STOPS}])[.!?…]*+[{_WIDE}][{_STOPS}]*+[{re.escape(_CLOSERS)}]*+"
    rf"(?=[^{_STOPS}{re.escape(_CLOSERS)}])"
    rf"|(?<![{_STOPS}])[{_STOPS}]++[{re.escape(_CLOSERS + _GERMAN)}]*+"
    r"(?:[ \u00a0\u202f]\u00bb)?(?=\s)"
    rf"|(?<![{_STOPS}])[!?]++[{re.escape(_CLOSERS)}]*+"
    r"(?=[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff])|\n++"
)
# From this character on, scripts are written without spaces.
_NO_BLANKS: Final = "\u2e80"
_A_WORD: Final = 2  # characters of a word in such a script, more or less
_GREEK: Final = re.compile(r"[\u0370-\u03ff\u1f00-\u1fff]")
# The next word, after a dash and what opens a question.
_NEXT: Final = re.compile(r"\s*([\u2013\u2014]\s*)?([\u00bf\u00a1]*)(\S*)")
_MARKS: Final = re.compile(r"\*+|_+")
_PARTS: Final = re.compile(r"\S+|\s")
_LETTER: Final = re.compile(r"[^\W\d_]")
_BEFORE_WORDS: Final = "\"'“„«([{*_~¿¡"
_AFTER_WORDS: Final = "\"'”“»)]}*_~,.;:!?…"
# These are no initials: French, Italian, Portuguese, Russian.
_SHORT_WORDS: Final = frozenset("éèàòяЯ")
_SIGNS: Final = " \t#>-*+_~(["  # before the number of a list's item
_NEAR: Final = 48  # characters before a stop that decide; no abbreviation is as long
_TITLE: Final = 4  # letters of the second part of "Dr. med."
_LONGEST_WORD: Final = 24  # of the next word no more is looked at
_LONG: Final = 300  # characters before a mark that tell if it opens a phrase
# A sentence is cut before it weighs more than this: a character weighs one, and three
# in a script without spaces, where it is more of a word.
_MOST: Final = 240
_MOST_AT_FIRST: Final = 130
_DENSE: Final = 3
# Thai, Lao, Burmese and Khmer, and what is wider.
_DENSE_CHARACTER: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\U0003ffff]"
)
_CLAUSE: Final = re.compile(
    r"[,;:\u2013\u2014\u060c\u061b]\s|[\u3001\uff0c\uff1b\uff1a]|\u2026\u2026"
)
# No piece begins with these: vowels that follow, small kana, stops, closing marks. None
# ends with a vowel of Thai or Lao that is written before its consonant.
_FOLLOWS: Final = frozenset(
    f"ะาำๅๆฯະາຳຽໆーっゃゅょァィゥェォッャュョ々\u3001{_STOPS}{_CLOSERS}"
)
_LEADS: Final = frozenset("เแโใไເແໂໃໄ「『\uff08【《〈“")
_BLANK: Final = re.compile(r"\s+")
_MAY_CUT: Final = re.compile(rf"\s|{_DENSE_CHARACTER.pattern}")
_ITALICS: Final = "*_\uff0a"
_PAUSE: Final = re.compile(r"\.{2,}|.*…")
_FIRST_PERSON: Final = re.compile(r"I(?:['’]\w+)?[,.!?;:…]*")  # noqa: RUF001

MOST_WORDS: Final = 25


@attrs.define(eq=False)
class Sentences:
    """Takes text in pieces, and returns whole sentences; only spaces are lost."""

    # The sentence that is being written, up to ``_rest``; none ends in it.
    _done: list[str] = attrs.field(factory=list, init=False)
    # The text from the first stop on that may be an end; what follows decides.
    _rest: list[str] = attrs.field(factory=list, init=False)
    _stopped: bool = attrs.field(default=False, init=False)  # nothing follows the stop
    _spaced: bool = attrs.field(default=False, init=False)  # it has a space at its end
    # The weight of ``_done``, or more, and of the longest piece.
    _weight: int = attrs.field(default=0, init=False)
    _most: int = attrs.field(default=_MOST_AT_FIRST, init=False)
    _behind_cut: bool = attrs.field(default=False, init=False)
    _no_place: bool = attrs.field(default=False, init=False)  # to cut in ``_done``

    def feed(self, text: str) -> list[str]:
        """Add a piece of text; return the sentences that it completes."""
        if not self._rest:
            stop = _ANY_STOP.search(text)
            if stop is None:
                self._done.append(text)
                self._weight += len(text) if text.isascii() else _DENSE * len(text)
                return self._cut() if self._weight > self._most else []
            at = stop.start()
            if (undecided := _UNDECIDED.fullmatch(text, at)) is None:
                return self._split(text)
            self._rest.append(undecided[0])
            self._spaced = undecided[1] is not None
            self._stopped = not self._spaced
            return self._add(text[:at])
        if self._spaced:
            if text.isspace() and "\n" not in text:
                self._rest.append(text)  # more spaces decide nothing
                return []
        elif not text.strip(_STOPS + _CLOSERS):
            self._rest.append(text)
            return []
        text = "".join((*self._rest, text))
        self._rest.clear()
        self._stopped = self._spaced = False
        return self._split(text)

    def end(self) -> list[str]:
        """Return what is left when the text is over: mostly one sentence or none."""
        # Words after a stop that is not decided have an end now.
        whole = self.feed("\n") if self._rest and not self._stopped else []
        whole += self._add("".join(self._rest))
        if rest := "".join(self._done).strip():
            whole.append(rest)
        self._rest.clear()
        self._stopped = False
        self._begin(_MOST_AT_FIRST)
        return whole

    def _begin(self, most: int) -> None:
        """Begin a sentence."""
        self._done.clear()
        self._weight, self._most = 0, most
        self._behind_cut = self._no_place = False

    def _add(self, text: str) -> list[str]:
        """Add text in which no sentence ends; return the pieces that are cut off."""
        if not text:
            return []
        self._done.append(text)
        self._weight += _DENSE * len(text)
        return self._cut() if self._weight > self._most else []

    def _cut(self) -> list[str]:
        """Cut off and return pieces of the sentence until it is short enough."""
        if self._no_place and not _MAY_CUT.search(self._done[-1]):
            return []
        pieces: list[str] = []
        text, at = "".join(self._done), 0
        while True:
            place, self._weight = _place_to_cut(text, at, self._most)
            if not place:
                break
            if piece := text[at:place].strip():
                pieces.append(piece)
                self._most, self._behind_cut = _MOST, True
            at = place
        self._no_place = self._weight > self._most
        self._done[:] = (text[at:],)
        return pieces

    def _split(self, text: str) -> list[str]:
        whole: list[str] = []
        start = 0
        open_: int | None = None  # where the stop is that is not decided
        for match in _ENDING.finditer(text):
            stop, end = match.span()
            if open_ is None and self._weight + _DENSE * (stop - start) > self._most:
                whole += self._add(text[start:stop])
                start = stop
            if text[end - 1] in _ITALICS and not text[end : end + 1].isspace():
                near = text[max(start, end - _LONG) : end]
                words = near.rstrip(_ITALICS)
                before = "".join((*self._done[-_NEAR:], words))[-_LONG:]
                if len(_MARKS.findall(before)) % 2 == 0:
                    end -= len(near) - len(words)  # they open what follows: "好。*笑*"
            if text[stop] != "\n":
                ends = self._ends(text, start, end)
                if ends is None:
                    open_ = stop
                    continue
                if not ends:
                    continue
            if sentence := "".join((*self._done, text[start:end])).strip():
                whole.append(sentence)
                self._most = _MOST
            self._begin(self._most)
            start, open_ = end, None
        if open_ is not None:
            self._spaced = text[-1].isspace()
        else:
            open_ = len(text)
            kept = max(start, len(text.rstrip(_MAY_END)))
            if kept < open_ and _ANY_STOP.search(text, kept):
                open_, self._stopped = kept, True
        if open_ < len(text):
            self._rest.append(text[open_:])
        return whole + self._add(text[start:open_])

    def _ends(self, text: str, start: int, end: int) -> bool | None:
        """Return True if a sentence ends in ``text`` at ``end``.

        None means that following text decides and is not known yet. ``start``: where
        the sentence goes on in this text.
        """
        near = text[max(start, end - _NEAR) : end]
        whole = start >= end - _NEAR
        if whole and self._done:
            near = "".join((*self._done[-_NEAR:], near))
            whole = len(near) <= _NEAR and not self._behind_cut
            near = near[-_NEAR:]
        found = _NEXT.match(text, end)
        assert found is not None  # it matches anything
        dash, opened, word = found.groups()
        complete = found.end() < len(text) or len(word) > _LONGEST_WORD
        if (dash or opened) and word and not word[0].islower():
            word, complete = dash or opened, True
        return _ends(
            near,
            word[:_LONGEST_WORD],
            whole=whole,
            complete=complete,
            small=lambda: self._may_be_small(text[start:end]),
        )

    def _may_be_small(self, more: str) -> bool:
        """Return True if a small letter may begin a sentence after this one: it begins
        with one itself."""
        letter = (
            None if self._behind_cut else _LETTER.search("".join((*self._done, more)))
        )
        return letter is not None and letter[0].islower()


@attrs.define(eq=False)
class AnswerOpening:
    """The beginning of an answer: its first sentence, or its first ``most_words``.

    It is returned with the first character that decides it; a word is complete with the
    space after it. Later text is ignored.
    """

    most_words: int = attrs.field(default=MOST_WORDS, validator=attrs.validators.ge(1))
    _sentences: Sentences = attrs.field(factory=Sentences, init=False)
    _written: list[str] = attrs.field(factory=list, init=False)
    _words: int = attrs.field(default=0, init=False)  # that are complete
    _in_word: bool = attrs.field(default=False, init=False)
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
            self._words += self._in_word
            if self._in_word and self._words == self.most_words:
                return "".join(self._written).strip()
            self._in_word = False
            self._written.append(piece)
            return None
        self._in_word = True
        self._written.append(piece)
        if max(piece) >= _NO_BLANKS:
            self._wide += 1
            if self._words + self._wide // _A_WORD >= self.most_words:
                return "".join(self._written).strip()
        return None

    def end(self) -> str | None:
        """Return what there is when nothing follows; None if that is nothing."""
        return next(iter(self._sentences.end()), None)


def _ends(
    near: str, word: str, *, whole: bool, complete: bool, small: Callable[[], bool]
) -> bool | None:
    """Return True if a sentence ends behind ``near``.

    None means that following text decides and is not known yet.

    Args:
      near: its end, with its stops.
      word: the next word, as far as it is written.
      whole: ``near`` is all of it.
      complete: all of the next word is written.
      small: returns True if the next sentence may begin with a small letter.
    """
    closed = near.rstrip(_BEHIND_STOPS)
    words = closed.rstrip(_STOPS)
    stops = closed[len(words) :]
    quoted = closed != near
    pause = stops != "." and _PAUSE.fullmatch(stops) is not None
    if stops[-1:] == ";" and not _GREEK.match(words[-1:]):
        return False
    if whole and stops == "." and words.strip(_SIGNS).isdigit():
        return False  # the number of a list's item
    if not quoted and not pause:
        if stops[-1:] in _CERTAIN:
            return True
        if stops == ".":
            ends = _ends_behind(words.split()[-2:], word, complete=complete)
            if ends is not True:
                return ends
    if not word or (word == "\u00bb" and not complete):
        return None
    first = word[0]
    if first == "|":
        return False  # a cell of a table
    if first.islower():
        return not quoted and not pause and small()
    if pause and first == "I" and _FIRST_PERSON.fullmatch(word):
        return False if complete else None  # "I... I don't know"
    return True


def _ends_behind(words: list[str], word: str, *, complete: bool) -> bool | None:
    """Return True if a full stop behind ``words`` may end a sentence.

    ``word`` and ``complete`` are as in `_ends`.
    """
    last = words[-1].lstrip(_BEFORE_WORDS) if words else ""
    if not last or "/" in last or "@" in last or ":" in last:
        return True  # an address
    before = words[0].strip(_BEFORE_WORDS) if len(words) == 2 else ""
    if last.isdigit():
        if len(last) < 4 and _makes_ordinal(before):
            return _is_one_of(STARTERS, word, complete=complete)
        ordinal = _is_one_of(AFTER_ORDINALS, word, complete=complete)
        return None if ordinal is None else not ordinal
    if len(last) == 1 and last.isalpha() and last < _NO_BLANKS:
        # An initial, if it is not one of the words of one letter that may stand last.
        return last in _SHORT_WORDS or (last == "I" and before.islower())
    if "'" in last or "’" in last:  # noqa: RUF001  "l'avv."
        last = re.split("['’]", last)[-1] or last  # noqa: RUF001
    forms = {last, last[0].lower() + last[1:]}
    if forms & ABBREVIATIONS:
        return False
    if forms & NUMBERED or last.endswith("str"):  # "Hauptstr. 5"
        return _ends_before_no_number(last, word, complete=complete)
    if before[:1].isupper() and before[:-1] in ABBREVIATIONS and last.islower():
        return len(last) > _TITLE  # "Dr. med. Lee"
    if forms & CLOSING:
        return None if not word else not (word[0].islower() or word[0].isdigit())
    letters = "." in last and all(len(x) < 3 and x.isalpha() for x in last.split("."))
    if letters or forms & ENDING:
        return _is_one_of(STARTERS, word, complete=complete)
    return True


def _ends_before_no_number(last: str, word: str, *, complete: bool) -> bool | None:
    """Return True if the next word is no number: "Vol. II", "sec. XIX", "gem. § 5"."""
    bare = word.rstrip(_AFTER_WORDS)
    if not word or bare == "" or bare.strip("IVXLC") or last.casefold() == "no":
        return None if not word else not (word[0].isdigit() or word[0] == "§")
    return bare == "I" if complete or bare != word else None


def _makes_ordinal(word: str) -> bool:
    """Return True if a number behind this word is an ordinal, with a full stop."""
    if word.removesuffix(".").isdigit() and word.endswith("."):
        return len(word) < 4  # "am 3. 5."
    return word in BEFORE_ORDINALS or word[:1].lower() + word[1:] in BEFORE_ORDINALS


def _is_one_of(words: frozenset[str], word: str, *, complete: bool) -> bool | None:
    """Return True if the word is one of these; None if it may become one."""
    if not word:
        return None
    if word[0].islower():
        return False
    bare = word.rstrip(_AFTER_WORDS)
    if complete or bare != word:
        return bare in words
    return None if any(x.startswith(word) for x in words) else False


def _place_to_cut(text: str, at: int, most: int) -> tuple[int, int]:
    """Return where to cut off a piece that begins at ``at``; 0 if nowhere.

    The second number is the weight of what is left if it is not cut. Only the text
    before the place decides, so that it does not matter in which pieces it comes.
    """
    near = text[at : at + most + 1]
    weight = limit = 0
    if near.isascii():
        weight, limit = len(near), most
    else:
        for limit, character in enumerate(near):  # noqa: B007
            weight += _DENSE if _DENSE_CHARACTER.match(character) else 1
            if weight > most:
                break
    if weight <= most:
        return 0, weight
    for mark in (_CLAUSE, _BLANK):
        places = [x.end() for x in mark.finditer(near, limit // 3, limit)]
        if places:
            return at + places[-1], 0
    later = _MAY_CUT.search(text, at + limit)
    if not _DENSE_CHARACTER.match(near, limit - 1):
        return (
            later.start() + 1 if later[0].isspace() else later.start()
        ) if later else 0, most + 1
    place = limit
    while place > limit // 3 and (
        near[place] in _FOLLOWS
        or near[place - 1] in _LEADS
        or category(near[place])[0] == "M"
    ):
        place -= 1
    return at + place, 0
