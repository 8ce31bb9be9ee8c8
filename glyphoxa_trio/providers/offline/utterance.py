"""Find the obvious parts of an utterance: dice, files, quotes, numbers, its topic."""

from __future__ import annotations

import difflib
import re
from functools import cached_property
from typing import Final

import attrs

from glyphoxa_trio.tools.words import EMPTY, stem

WORD: Final = re.compile(r"[a-z0-9]+")
QUOTED: Final = re.compile(r"\"([^\"]+)\"|(?<!\w)'(.+?)'(?!\w)")
STRAIGHT_QUOTES: Final = str.maketrans("\u2018\u2019\u201c\u201d", "''\"\"")

_WRITTEN_COUNTS: Final = """zero 0 one 1 two 2 couple 2 pair 2 three 3 four 4 five 5
six 6 seven 7 eight 8 nine 9 ten 10 eleven 11 twelve 12 dozen 12 thirteen 13 fourteen 14
fifteen 15 sixteen 16 seventeen 17 eighteen 18 nineteen 19 twenty 20 thirty 30 forty 40
fifty 50 sixty 60 seventy 70 eighty 80 ninety 90 hundred 100"""
_COUNTS: Final = {
    word: int(number) for word, number in re.findall(r"(\w+) (\d+)", _WRITTEN_COUNTS)
}
_COUNT: Final = re.compile(
    r"(?<!that )(?<!this )(?<!no )(?<!which )(?<!the )\b(?:(?:a|the) )?"
    rf"(?P<first>{'|'.join(sorted(_COUNTS, key=len, reverse=True))})"
    rf"(?:[- ](?P<rest>{'|'.join(list(_COUNTS)[1:10])})(?![- ]sided))?\b(?: of)?",
    re.IGNORECASE,
)
_DICE: Final = re.compile(
    r"\b(?:\d+ ?)?d ?(?:\d+|%)(?:k[hl]\d+)?(?:\s*[+-]\s*\d+(?:d\d+)?)*", re.IGNORECASE
)
_SPOKEN_DICE: Final = re.compile(
    r"(?:(?P<many>\d+) )?(?:(?P<sides>\d+)[- ]?sided )?\b(?:dice|die)\b", re.IGNORECASE
)
_PLUS: Final = re.compile(r"(?:\+|\bplus|(?P<minus>-|\bminus)) ?(?P<much>\d+)\b")
_CHECKS: Final = re.compile(
    r"\b(?:roll(?:ing)?|initiative|saving throws?|\w+ check)\b"
    r"|^(?:i|we) (?:attack|strike|stab|shoot|punch|kick|hit)\b",
    re.IGNORECASE,
)
_FILE: Final = re.compile(r"(?<![\w.])(?:[\w.-]+/)*[\w-]+\.[A-Za-z]\w{0,4}\b")
_IDENTIFIER: Final = re.compile(r"\b[a-z0-9]+(?:[-_:][a-z0-9]+)+\b")
_TO_WRITE: Final = re.compile(
    r"\b(?:write|save|note|put|add)\b(.+?)\b(?:in|to|into|on|onto)\b"
)
_SUBJECT: Final = re.compile(
    r"\b(?:about|for|named|called|in|at|from|with|to|on|by) (.+)", re.IGNORECASE
)
BETWEEN: Final = re.compile(
    r"\W+(?:about|of|for|in|at|from|with|to|on|onto|by|please|now)\b"
)
_NAME: Final = re.compile(
    r"(?<=[a-z0-9,:] )[A-Z](?!\b)[\w-]*(?:'[A-Z]\w+)?(?: [A-Z](?!\b)[\w-]*)*"
)
_NUMBER: Final = re.compile(r"(?<![\w.])-?\d{1,15}(?:\.\d{1,15})?(?![\w])")
_ARTICLE: Final = re.compile(
    r"^(?:the|an?|my|your|our|this|that|some|any) (?=\w)", re.IGNORECASE
)
_POLITE: Final = re.compile(
    r"\b(?:can|could|would|will) you\b|\bplease\b|\bi(?: want|'d like| would like)\b"
    r"|\blet(?:'s| us)\b|\bmay i\b|\bcan i (?:have|get|buy)\b",
    re.IGNORECASE,
)
_ASKS: Final = re.compile(
    r"^(?:(?:and|so|but|well|then|hey|ok(?:ay)?|oh|um+|now),? )*(?:what|whats|who|whose"
    r"|where|when|why|how|which|is|are|was|were|do|does|did|has|have|had|am|should"
    r"|shall|will|would|can|could)\b",
    re.IGNORECASE,
)
# The ways to ask for what is known of something, which stands as ``topic``.
_ASKED: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in r"""
\b(?:tell|teach|show) (?:me|us)(?: \w+){0,3}? (?:about|of|on) (?P<topic>.+)
\babout (?P<topic>.+)
\b(?:know|heard?|remember|recall|said?|say|tell|told)(?: \w+){0,2}? of (?P<topic>.+)
\bhow(?: \w+){0,3} (?:get|go|come|walk)(?: from .+?)?(?: back)? (?:in)?to (?P<topic>.+)
\b(?:way|route|directions?|far)(?: is it)? to (?P<topic>.+)
\b(?:what|where|who|how) (?P<topic>(?!is |are |d[oi]).+?) (?:is|are|means?|works?|does)$
\b(?:what|how) (?:does|do|did|is) (?P<topic>.+?) (?:do|mean|works?|costs?|worth|made)\b
\b(?:what|who|where)(?:'s|s| is| are| was| were) (?P<topic>.+)
\bhow (?:\w+ ){1,3}?(?:is|are|does) (?P<topic>.+?)(?: cost| away| from here)?$
\b(?:explain|describe|define|look up|do you know|ever met)(?: me| us)? (?P<topic>.+)
\b(?:where|how) (?:can|do|could|would|might|should) (?:i|we|one) find (?P<topic>.+)
""".strip().splitlines()
)
_PREPOSITIONS: Final = {"onto", "into", "to", "for", "on", "from", "at", "with", "in"}
_AFTER_TOPIC: Final = re.compile(
    r",? (?:to me|to us|called|named|please|then|again|now|exactly|anyway"
    r"|at all|from here|mean|for me)$",
    re.IGNORECASE,
)
_ASKING_WORDS: Final = (
    "ask asks bit could explain find give gives hear know knows let look looks many"
    " mean means meant more much need ok okay one really recall remember say says"
    " search tell think want wants work works well why yes yet hey hello hi"
    " there thank thanks far get got go now then no not put talk talked speak spoken"
)
DULL: Final = EMPTY | frozenset(WORD.findall(_ASKING_WORDS))
# Words that say what is asked; a typing error in one of them is corrected.
_KEYWORDS: Final[tuple[str, ...]] = tuple(
    WORD.findall(
        "what does where when tell about know remember roll hello your name mean sell"
        " weather which please explain thanks initiative"
    )
)

_SHORT: Final = dict(
    re.findall(
        r"(\w+)=([^,]+)",
        "u=you,ur=your,r=are,pls=please,gimme=give me,whats=what's,wheres=where's"
        ",whos=who's,hows=how's,wanna=want to,im=i'm,dont=don't,cant=can't",
    )
)


@attrs.frozen(slots=False)
class ParsedUtterance:
    """An utterance, and its obvious parts. ``speaker`` is who says it, if known."""

    text: str
    speaker: str = ""

    @cached_property
    def _counted(self) -> str:
        """The text with number words as digits."""

        def digits(found: re.Match[str]) -> str:
            number = _COUNTS[found["first"].lower()]
            return str(number + _COUNTS.get((found["rest"] or "").lower(), 0))

        return _COUNT.sub(digits, self.text)

    @property
    def dice(self) -> str | None:
        """Dice notation without spaces: ``2d6+3``, also of dice in words."""
        text = re.sub(
            r"\bpercentile\b", "100 sided", self._counted, flags=re.IGNORECASE
        )
        text = re.sub(
            r"\b(?:flip|toss) (?:a|the) coin\b", "d2", text, flags=re.IGNORECASE
        )
        if found := _DICE.search(text):
            closed = re.sub(r"\s", "", found[0]).lower().replace("%", "100")
            closed = f"1{closed}" if closed.startswith("d") else closed
            rest = text[found.end() :]
        elif found := _SPOKEN_DICE.search(text):
            if not (found["many"] or found["sides"]) and not self.rolls:
                return None
            closed = f"{found['many'] or 1}d{found['sides'] or 6}"
            rest = text[found.end() :]
        else:
            return None
        if plus := _PLUS.search(rest):
            closed += f"{'-' if plus['minus'] else '+'}{plus['much']}"
        return closed

    @property
    def check(self) -> str:
        """The roll of a check: a d20, with advantage and modifier if they are said."""
        text = self._counted
        die = "1d20"
        if found := re.search(r"\b(dis)?advantage\b", text, re.IGNORECASE):
            die = "2d20kl1" if found[1] else "2d20kh1"
        if plus := _PLUS.search(text):
            die += f"{'-' if plus['minus'] else '+'}{plus['much']}"
        return die

    @property
    def rolls(self) -> bool:
        """If something is to be rolled for, as far as a game's words say."""
        return _CHECKS.search(self.text) is not None

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
    def numbers(self) -> list[tuple[str, str]]:
        """The numbers that are not part of dice notation, each with the next word."""
        text = _DICE.sub("", self._counted)
        return [
            (
                found[0],
                next(iter(re.findall(r"^\W*([A-Za-z]+)", text[found.end() :])), ""),
            )
            for found in _NUMBER.finditer(text)
        ]

    @property
    def to_write(self) -> str | None:
        """The text to write: the words between the verb and the place."""
        found = _TO_WRITE.search(self.text)
        return found[1].strip(" :,") if found else None

    @property
    def words(self) -> str:
        """The text without the names of files."""
        return _FILE.sub("", self.text)

    @property
    def is_polite(self) -> bool:
        """If it asks for something to be done, in the form of a question or a wish."""
        return _POLITE.search(self.text) is not None

    @property
    def is_question(self) -> bool:
        """If it asks for something to be said."""
        plain = self.text.strip()
        if self.is_polite:
            return False
        return plain.endswith("?") or _ASKS.search(plain) is not None

    @property
    def asked(self) -> str:
        """The thing of which it asks what is known; empty if it does not."""
        plain = self.text.strip(" .!?,")
        for pattern in _ASKED:
            if (found := pattern.search(plain)) and (topic := bare(found["topic"])):
                return topic
        return ""

    @property
    def topic(self) -> str:
        """The topic, as written: what is asked about, or is after "for" or "in"."""
        plain = _DICE.sub("", self.text).strip(" .!?")
        if topic := self.asked:
            return topic
        if found := _SUBJECT.search(plain):
            return bare(found[1])
        return self.rest(frozenset())

    @property
    def subject(self) -> str:
        """The person or thing that is meant: quoted, after "for" or "in", or a name."""
        if self.quoted:
            return self.quoted
        plain = _DICE.sub("", self.text).strip(" .!?")
        if self.asked or _SUBJECT.search(plain):
            return BETWEEN.split(self.topic)[0]
        return self.name

    @property
    def name(self) -> str:
        """The first name, or whom "me" and "my" mean."""
        if found := _NAME.search(QUOTED.sub("", self.text)):
            return found[0].removesuffix("'s")
        own = re.search(r"\b(?:me|my|i|mine|myself)\b", self.text, re.IGNORECASE)
        return self.speaker if own else ""

    def after(self, *prepositions: str) -> str:
        """Return what stands after one of these prepositions; empty if nothing does."""
        words = "|".join(prepositions)
        found = re.search(rf"\b(?:{words}) (.+)", self.text, re.IGNORECASE)
        return bare(BETWEEN.split(found[1].strip(" .!?,"))[0]) if found else ""

    def rest(self, known: frozenset[str]) -> str:
        """Return the words that carry meaning and whose stems are not ``known``.

        They are looked for after the last known word, up to a preposition.
        """
        text = _NUMBER.sub("", _DICE.sub("", _FILE.sub("", self._counted)))
        marked = re.findall(r"[^\W_](?:[\w'-]*\w)?", text)

        def telling(words: list[str]) -> list[str]:
            return [
                word
                for word in words
                if "'" not in (low := word.lower().removesuffix("'s"))
                and low not in DULL
                and stem(low) not in known
            ]

        known_at = [at for at, x in enumerate(marked, 1) if stem(x.lower()) in known]
        for start in [*reversed(known_at), 0]:
            words = marked[start:]
            ends = (
                at for at, x in enumerate(words) if at and x.lower() in _PREPOSITIONS
            )
            if found := telling(words[: next(ends, len(words))]) or telling(words):
                return " ".join(found)
        return ""


def with_article(topic: str, text: str) -> str:
    """Return a topic with the article that it has in a text."""
    found = re.search(rf"\b(the|an?|my|your|this|that) {re.escape(topic)}\b", text)
    return f"{found[1]} {topic}" if found and topic else topic


def corrected(text: str) -> str:
    """Return ``text`` with the typing errors in common asking words corrected."""

    def correct(found: re.Match[str]) -> str:
        word: str = found[0]
        if len(word) < 3 or word in EMPTY or word in _KEYWORDS:
            return word
        for keyword in _KEYWORDS:
            if keyword[0] == word[0] and sorted(keyword) == sorted(word):
                return keyword
        near = difflib.get_close_matches(word, _KEYWORDS, n=1, cutoff=0.85)
        return near[0] if near and near[0][0] == word[0] else word

    text = re.sub(r"\b[a-z]+\b(?!')", lambda x: _SHORT.get(x[0], x[0]), text)
    return re.sub(r"(?<![\w.'])[a-z]+(?![\w.'])", correct, text)


def bare(topic: str) -> str:
    """Return a topic without article and without what is only politeness."""
    topic = topic.strip(" .!?,")
    while (shorter := _AFTER_TOPIC.sub("", topic)) != topic:
        topic = shorter
    topic = _ARTICLE.sub("", topic)
    return "" if topic.lower() in DULL else topic


def _only_files(quoted: re.Match[str]) -> str:
    """Return a quotation that is a file name, without its quotes; otherwise a space."""
    inside = next(group for group in quoted.groups() if group)
    return f" {inside} " if _FILE.fullmatch(inside) else " "


def stems(text: str) -> frozenset[str]:
    """Return the words of ``text`` that carry meaning, without their endings."""
    found = WORD.findall(text.lower().replace("'s", ""))
    return frozenset(stem(word) for word in found if word not in EMPTY)
