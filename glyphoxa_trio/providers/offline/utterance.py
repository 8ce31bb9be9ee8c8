"""Find the obvious parts of an utterance: dice, files, quotes, its topic."""

from __future__ import annotations

import re
from typing import Final

import attrs

WORD: Final = re.compile(r"[a-z0-9]+")
QUOTED: Final = re.compile(r"\"([^\"]+)\"|(?<!\w)'(.+?)'(?!\w)")
STRAIGHT_QUOTES: Final = str.maketrans("\u2018\u2019\u201c\u201d", "''\"\"")
_DICE: Final = re.compile(
    r"\b\d*d\d+(?:k[hl]\d+)?(?:\s*[+-]\s*\d+(?:d\d+)?)*", re.IGNORECASE
)
_FILE: Final = re.compile(r"(?<![\w.])(?:[\w.-]+/)*[\w-]+\.[A-Za-z]\w{0,4}\b")
_IDENTIFIER: Final = re.compile(r"\b[a-z0-9]+(?:[-_:][a-z0-9]+)+\b")
_TO_WRITE: Final = re.compile(r"\b(?:write|save|note|put|add)\b(.+?)\b(?:in|to|into)\b")
_SUBJECT: Final = re.compile(
    r"\b(?:about|for|named|called|in|at|from|with|to|on|by) (.+)", re.IGNORECASE
)
_NEXT: Final = re.compile(r"\W+(?:about|of|for|in|at|from|with|to|on|by|please|now)\b")
_NAME: Final = re.compile(r"(?<=[a-z,] )[A-Z][\w'-]+(?: [A-Z][\w'-]+)*")
_NUMBER: Final = re.compile(r"(?<![\w.])-?\d{1,15}(?:\.\d{1,15})?(?!\w)")
_ARTICLE: Final = re.compile(r"^(?:the|a|an|my|your|our|this|that) ", re.IGNORECASE)


_FUNCTION_WORDS: Final = frozenset(
    WORD.findall(
        """
        a about again all am an and any are as at be been but by can could did
        do does for from get give had has have he her here hers him his how i if
        in into is it its just let like may me might my now of off on or our out
        over please she should so some than that the their them then there these
        they thing this those to under up us was we were what when where which
        who whom whose why will with would you your
        """
    )
)
_ASKING_WORDS: Final = frozenset(
    WORD.findall(
        """ask find know look mean means meant recall remember say search tell think
    work works"""
    )
)


@attrs.frozen
class ParsedUtterance:
    """An utterance, and its obvious parts."""

    text: str

    @property
    def dice(self) -> str | None:
        """Dice notation without spaces: ``2d6+3``."""
        if found := _DICE.search(self.text):
            closed = re.sub(r"\s", "", found[0]).lower()
            return f"1{closed}" if closed.startswith("d") else closed
        return None

    @property
    def file(self) -> str | None:
        """The first file name."""
        found = _FILE.search(QUOTED.sub(_only_files, self.text))
        return found[0] if found else None

    @property
    def quoted(self) -> str | None:
        """The first quotation that is not a file name."""
        for found in QUOTED.finditer(self.text):
            inside = next(group for group in found.groups() if group)
            if not _FILE.fullmatch(inside):
                return inside
        return None

    @property
    def identifier(self) -> str | None:
        """Words joined by hyphens and the like, as ids are: ``condition-blinded``."""
        found = _IDENTIFIER.search(self.text.lower())
        return found[0] if found else None

    @property
    def number(self) -> str | None:
        """The first number that is not part of dice notation."""
        found = _NUMBER.search(_DICE.sub("", self.text))
        return found[0] if found else None

    @property
    def to_write(self) -> str | None:
        """The text to write: the words between the verb and the place."""
        found = _TO_WRITE.search(self.text)
        return found[1].strip(" :,") if found else None

    @property
    def topic(self) -> str:
        """The topic, as written: everything after "about", "of" or "for"."""
        bare = _DICE.sub("", self.text).strip(" .!?")
        if found := _SUBJECT.search(bare):
            return _ARTICLE.sub("", found[1])
        marked = re.findall(r"[\w'-]+", bare)
        dull = _FUNCTION_WORDS | _ASKING_WORDS
        return " ".join(word for word in marked if word.lower() not in dull)

    @property
    def subject(self) -> str:
        """The person or thing that is meant: quoted, after "for" or "in", or a name."""
        if self.quoted:
            return self.quoted
        bare = _DICE.sub("", self.text).strip(" .!?")
        if _SUBJECT.search(bare):
            return _NEXT.split(self.topic)[0]
        found = _NAME.search(bare)
        return found[0] if found else ""


def _only_files(quoted: re.Match[str]) -> str:
    """Return a quotation that is a file name, without its quotes; otherwise a space."""
    inside = next(group for group in quoted.groups() if group)
    return f" {inside} " if _FILE.fullmatch(inside) else " "


def stems(text: str) -> frozenset[str]:
    """Return the words of ``text`` that carry meaning, without their endings."""
    found = WORD.findall(text.lower().replace("'s", ""))
    return frozenset(stem(word) for word in found if word not in _FUNCTION_WORDS)


def stem(word: str) -> str:
    """Return a word without its ending."""
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    for ending in ("ing", "ed", "s"):
        if word.endswith(ending) and len(word) - len(ending) > 2:
            return word.removesuffix(ending)
    return word
