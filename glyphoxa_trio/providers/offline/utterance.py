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
STRAIGHT_QUOTES: Final = str.maketrans("\u2018\u2019\u201c\u201d\u201e", '\'\'"""')

_SMALL: Final[list[str]] = WORD.findall(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen"
    " fourteen fifteen sixteen seventeen eighteen nineteen"
)
_TENS: Final = "twenty thirty forty fifty sixty seventy eighty ninety hundred"
_COUNTS: Final = {word: number for number, word in enumerate(_SMALL)} | {
    **{word: 10 * number for number, word in enumerate(WORD.findall(_TENS), 2)},
    "couple": 2,
    "pair": 2,
    "dozen": 12,
}
_COUNT: Final = re.compile(
    r"(?i)(?<!that )(?<!this )(?<!no )(?<!which )(?<!the )\b(?:an? )?"
    rf"(?P<first>{'|'.join(sorted(_COUNTS, key=len, reverse=True))})"
    rf"(?:[- ](?P<rest>{'|'.join(_SMALL[1:10])})(?![- ]sided))?\b(?: of)?"
)
_DICE: Final = re.compile(
    r"(?i)(?:(?<![\w.])-)?\b(?:\d+ ?)?[dw] ?(?:\d+|%)(?:k[hl]\d*|adv|dis)?"
    r"(?:\s*[+-]\s*\d+(?:d\d+)?)*"
)
# Dice in words: how many, of how many sides.
_IN_WORDS: Final = re.compile(
    r"(?i)\b(?:number|something|anything|die)\b.{0,12}?\b(?P<low>-?\d+)"
    r" ?(?:and|to|-) ?(?P<high>\d+)"
    r"|(?:(?P<many>\d+) )?(?:(?P<sides>\d+)[- ]?sided )?"
    r"\b(?:dice|die|w\u00fcrfel)\b(?: (?:with|of) (?P<faces>\d+) sides)?"
)
_PLUS: Final = re.compile(r"(?:\+|\bplus|\badd|(?P<minus>-|\bminus)) ?(?P<much>\d+)\b")
_BONUS: Final = re.compile(r"(?<!\d)(?<!\d )(?:\+|\bplus) ?\d+\b")
_KEPT: Final = re.compile(
    r"(?i)\b(?P<how>drop|without|ignor\w+|discard\w*|keep|take|use|remov\w+)\w*"
    r" (?:the |only )*"
    r"(?:(?P<much>\d+) )?(?P<low>lowest|worst|smallest|highest|best|largest)"
    r"(?: (?P<more>\d+))?"
)
_ROLLS: Final = re.compile(
    r"(?i)\b(?:roll(?:ing)?|reroll|throw (?:a|the|some|\d+) d|initiative|percentile"
    r"|(?:wis|str|dex|con|int|cha|wisdom|strength|dexterity|constitution|intelligence"
    r"|charisma|death) save|with (?:dis)?advantage|saving throws?|w(?:ü|ue)rf\w+|wirf"
    r"|(?!the |this )\w+ check)\b"
    r"|^(?:i|we) (?:attack|strike|stab|shoot|punch|kick|hit)\b"
)
_FILE: Final = re.compile(r"(?<![\w.])(?:[\w.-]+/)*[\w-]+\.[A-Za-z]\w{0,4}\b")
_IDENTIFIER: Final = re.compile(r"\b[a-z0-9]+(?:[-_:][a-z0-9]+)+\b")
_SUBJECT: Final = re.compile(
    r"(?i)\b(?:about|for|named|called|in|at|from|with|to|on|by) (.+)"
)
BETWEEN: Final = re.compile(
    r"\W+(?:about|of|for|in|at|from|with|to|on|onto|into|by|please|now|today"
    r"|tomorrow|tonight)\b"
)
_NAME: Final = re.compile(
    r"(?<=[a-z0-9,:] )[A-Z](?!\b)[\w-]*(?:'[A-Z]\w+)?"
    r"(?: (?:(?:the|of|von) )?[A-Z](?!\b)[\w-]*)*"
)
_WHOSE: Final = re.compile(
    r"\b(?!that|it|what)([A-Za-z][\w-]*)'s (?=tab|bill|\w+$)"
    r"|^([A-Z][a-z]+) (?:wants|would|joins|owes|has|pays|gets)\b"
)
_NUMBER: Final = re.compile(r"(?<![\w.])-?\d{1,15}(?:\.\d{1,15})?(?![\w])")
# Words before and after a topic that only say how it is meant.
_LEAD: Final = re.compile(
    r"(?i)^(?:(?:the|an?|my|your|our|this|that|some|any|being|exact|basic|(?:any|some)"
    r"(?:one|body|thing)) (?=\w))*(?:(?:rule|difference|meaning|effect|definition"
    r"|detail|word|term|range|level|name)s? (?:for|of|on|about|between|behind|to|when) "
    r"|(?:spell|condition|rule|word|term)s? (?=\w)(?!is |are |do|work|in ))?"
    r"(?:called |named |the )*"
)
_AFTER_TOPIC: Final = re.compile(
    r"(?i),? (?:to me|to us|called|named|please|then|again|now|exactly|anyway"
    r"|at all|from here|mean|for me|works?|rules?|does|do|deals?|costs?|here|tonight)$"
)
# "What's behind that door?" asks of no thing that has a name.
_NO_TOPIC: Final = re.compile(
    r"(?i)(?:good|best|wrong|left|going|behind|under|over|in|on|inside|outside|upstairs"
    r"|down|it|next|for)\b"
)
_POLITE: Final = re.compile(
    r"(?i)\b(?:can|could|would|will) (?:you|u)\b(?! (?:be|die|live|do|help)\b)"
    r"|\bplease\b|\blet(?:'s| us| me)\b|\bi(?: want|'d like| would like|'ll have)\b"
    r"|\b(?:can|may|could) (?:i|we) (?:have|get|buy|see|roll|open)\b"
)
STATES: Final = re.compile(
    r"(?i)(?:(?:ba+h|oh?|well|hey|ugh|a+h|so|but|and)\b[,. ]+)*(?:i|we|he|she|they|it"
    r"|the|this|that|these|there|my|our|your|you|i'm|it's|we're|you're|he's|she's|his|her"
    r"|their|yesterday)\b(?! (?:want|need|would|wonder|rules?|have a question)\b)"
)
_ASKS: Final = re.compile(
    r"(?:whats?|who|whose|where|when|why|how|which|is|are|was|were|do|does|did|has|have"
    r"|had|am|should|shall|will|would|can|could|any)\b"
)
# The ways to ask for what is known of something, which stands as ``topic``.
_ASKED: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in r"""
\b(?:tell|teach|show|read) (?:me|us)(?: \w+){0,3}? (?:about|of|on) (?P<topic>.+)
\b(?:about|anyone (?:called|named)) (?P<topic>.+)
\b(?:know|heard?|remember|recall|said?|say|tell|told)(?: \w+){0,2}? of (?P<topic>.+)
\bwhat happened (?:to|at|in|with) (?P<topic>.+)
\b(?:how .{0,12}\b(?:get|go|come|walk)|way|route|directions?|far)(?: back)?(?: is it)?
  (?: from .+?)? (?:in)?to (?P<topic>.+)
\bwhat happens?(?: to \w+)? (?:when|if) (?:\w+ (?:am|is|are|gets?) )?(?P<topic>.+)
\b(?:where|how) (?:do|can|does|would|could|might|should) \w+ (?:cast|use|play|find)
   (?P<topic>.+)
\b(?:what|which|how)(?: \w+){1,4}? (?:is|are|does|do|has|of)
   (?P<topic>(?!i\b|you\b|we\b|there\b).+?)(?: do| deal| cost| have| last| hit| cause)?$
\b(?:what|how) (?:does|do|did|is|are) (?P<topic>(?!i\b|you\b|we\b).+?)
   (?:do|mean|works?|costs?|worth|made)\b
\b(?:what|where|who|how) (?P<topic>(?!is |are |d[oi]).+?) (?:is|are|means?|works?|does)$
\b(?:are|is) there (?:an? |any )?(?:spells?|rules?) (?:to|for|about|that) (?P<topic>.+)
\b(?:what|which) (?P<topic>.+?) (?:are|is) there\b
^(?:the )?rules? (?:for|on|of|about) (?P<topic>.+)
\b(?:what|who|where)(?:s| is| are| was| were) (?P<topic>.+)
\b(?:explain|describe|define|look up|do you know(?! of)|ever met)(?: me| us)?
   (?P<topic>.+)
""".strip()
    .replace("\n  ", "")
    .splitlines()
)
_PREPOSITIONS: Final = {"onto", "into", "to", "for", "on", "from", "at", "with", "in"}


def _words(text: str) -> frozenset[str]:
    return frozenset(WORD.findall(text))


DULL: Final = EMPTY | _words(
    "ask asks bit could explain find give gives hear know knows let look looks many"
    " mean means meant more much need ok okay one really recall remember say says"
    " search tell think want wants work works well why yes yet hey hello hi"
    " there thank thanks far get got go now then no not put talk talked speak spoken"
    " here sir bitte mir off each apiece piece pieces other"
)
# What is ordered in a few words; other words only name something.
DEEDS: Final = _words(
    "play sing dance draw go come run drink eat sit stand wait help bring cook pour"
    " kiss fetch look listen follow teach wake open close start stop end begin make"
    " create add write put set delete remove show list buy sell pay move take whisper"
)
# Words that say what is asked; a typing error in one of them is corrected.
_KEYWORDS: Final = sorted(
    _words(
        "what does where when tell about know remember roll hello your name mean sell"
        " weather which please explain thanks initiative"
    )
)
# Their neighbours that are words themselves.
_WORDS: Final = EMPTY | _words(
    "whether spell spells rolls self named role whole smell smells shell"
)
_SHORT: Final = dict(
    re.findall(
        r"(\w+)=([^,]+)",
        "u=you,ur=your,r=are,pls=please,plz=please,gimme=give me,whats=what's,ya=you"
        ",wheres=where's,whos=who's,hows=how's,wanna=want to,im=i'm,dont=don't"
        ",cant=can't",
    )
)
_CONTRACTED: Final = tuple(
    (re.compile(rf"(?i){short}\b"), full)
    for short, full in re.findall(
        "(.+) = (.+)",
        r"""can't = can not
won't = will not
n't =  not
(?<=\bi)'m =  am
(?<=let)'s =  us
(?<=what|here|that)'s|(?<=who|how)'s|(?<=it|he)'s =  is
're =  are
'll =  will
'd =  would
've =  have""",
    )
)
_FILLERS: Final = re.compile(
    r"(?:(?:and|so|but|well|then|hey|ok(?:ay)?|oh|um+|now|please),? )+(?=\w+ \w)"
)


@attrs.frozen(slots=False)
class ParsedUtterance:
    """An utterance, and its obvious parts. ``speaker`` is who says it, if known."""

    text: str
    speaker: str = ""

    @cached_property
    def expanded(self) -> str:
        """The text without contractions."""
        text = self.text.strip()
        for contracted, full in _CONTRACTED if "'" in text else ():
            text = contracted.sub(full, text)
        return text

    @cached_property
    def plain(self) -> str:
        """The text in small letters, without contractions and what only begins it."""
        return _FILLERS.sub("", self.expanded.lower(), count=1)

    @cached_property
    def _counted(self) -> str:
        """The text with number words as digits."""

        def digits(found: re.Match[str]) -> str:
            number = _COUNTS[found["first"].lower()]
            return str(number + _COUNTS.get((found["rest"] or "").lower(), 0))

        return _COUNT.sub(digits, self.text)

    @cached_property
    def dice(self) -> str | None:
        """Dice notation without spaces: ``2d6+3``, also of dice in words."""
        text = re.sub(r"(?i)\bpercentile\b(?: dice| die)?", "d100", self._counted)
        text = re.sub(r"(?i)\b(?:flip|toss)\w* (?:a|the) coin\b", "d2", text)
        extra = ""
        if found := _DICE.search(text):
            dice = re.sub(r"\s", "", found[0]).lower().replace("%", "100")
            dice = re.sub(r"w(?=\d)", "d", dice)
            dice = re.sub(r"^(-?)d", r"\g<1>1d", dice)
        elif (found := _IN_WORDS.search(text)) and found["high"]:
            least = int(found["low"]) - 1
            dice = f"1d{max(1, int(found['high']) - least)}"
            extra = f"{least:+d}" if least else ""
        elif found and (any(found.groups()) or (self.rolls and not self.asks_in_words)):
            dice = f"{found['many'] or 1}d{found['sides'] or found['faces'] or 6}"
        else:
            return None
        extra += _plus(text[found.end() :])
        if (many := re.match(r"(\d+)d\d+$", dice)) and (kept := _KEPT.search(text)):
            low = kept["low"].lower() in ("lowest", "worst", "smallest")
            much = int(kept["much"] or kept["more"] or 1)
            if kept["how"].lower()[:4] not in ("keep", "take", "use"):
                low, much = not low, max(1, int(many[1]) - much)
            dice += f"k{'l' if low else 'h'}{much}"
        return (re.split("[+-]", self.check)[0] if dice == "1d20" else dice) + extra

    @property
    def counts(self) -> bool:
        """If it has a number that is not only added."""
        return re.search(r"\d", _BONUS.sub("", self._counted)) is not None

    @property
    def check(self) -> str:
        """The roll of a check: a d20, with advantage and modifier if they are said."""
        found = re.findall(r"(?i)\b(dis)?advantage\b", self.text)
        die = f"2d20k{'l' if found[-1] else 'h'}1" if found else "1d20"
        return die + _plus(self._counted)

    @property
    def rolls(self) -> bool:
        """If something is to be rolled for, as far as a game's words say."""
        return _ROLLS.search(self.text) is not None

    @property
    def file(self) -> str | None:
        """The first file name."""
        files = [x for x in self._quotations if _FILE.fullmatch(x)]
        found = _FILE.search(" ".join([*files, QUOTED.sub(" ", self.text)]))
        return found[0] if found else None

    @property
    def link(self) -> str | None:
        """The first address of a page."""
        found = re.search(r"https?://\S+|\bwww\.\S+", self.text)
        return found[0].rstrip(".,;!?)") if found else None

    @property
    def quoted(self) -> str | None:
        """The first quotation that is not a file name."""
        return next((x for x in self._quotations if not _FILE.fullmatch(x)), None)

    @property
    def _quotations(self) -> list[str]:
        return [found[1] or found[2] for found in QUOTED.finditer(self.text)]

    @property
    def identifier(self) -> str | None:
        """Words joined by hyphens and the like, as ids are: ``condition-blinded``."""
        found = _IDENTIFIER.search(self.text.lower())
        return found[0] if found else None

    @property
    def numbers(self) -> list[tuple[str, str]]:
        """The numbers that are not part of dice notation, each with the next word."""
        text = _BONUS.sub("", _DICE.sub("", self._counted))
        return [
            (x[0], next(iter(re.findall(r"^\W*([A-Za-z]+)", text[x.end() :])), ""))
            for x in _NUMBER.finditer(text)
        ]

    @property
    def words(self) -> str:
        """The text without the names of files and without dice."""
        return _FILE.sub("", _DICE.sub(" dice ", self.text))

    @property
    def is_polite(self) -> bool:
        """If it asks for something to be done, in the form of a question or a wish."""
        return _POLITE.search(self.text) is not None

    @property
    def asks_in_words(self) -> bool:
        """If it begins as a question does, and asks for no deed."""
        return not self.is_polite and _ASKS.match(self.plain) is not None

    @property
    def is_question(self) -> bool:
        """If it asks for something to be said."""
        ends = self.text.rstrip().endswith("?")
        return not self.is_polite and (ends or self.asks_in_words)

    @property
    def is_nonsense(self) -> bool:
        """If it has no word that could be spoken."""
        words = re.findall(r"[^\W\d_]+", self.text.lower())
        return not any(
            re.search(r"[aeiouy]|[^\x00-\x7f]", x)
            and not re.search(r"[b-df-hj-np-tv-xz]{5}", x)
            for x in words
        )

    @property
    def is_phrase(self) -> bool:
        """If it only names something: a few words that neither ask nor order."""
        words = re.findall(r"[\w']+", self.plain)
        if not 0 < len(words) < 4 or words[0] in DEEDS or self.is_nonsense:
            return False
        return self.dice is None and not self.rolls and not DULL & {*words}

    @cached_property
    def asked(self) -> str:
        """The thing of which it asks what is known; empty if it does not."""
        plain = self.expanded.strip(" .!?,")
        if STATES.match(plain) and not self.is_question and not self.is_polite:
            return ""
        for pattern in _ASKED:
            if (found := pattern.search(plain)) and (topic := bare(found["topic"])):
                return topic
        return ""

    @property
    def topic(self) -> str:
        """The topic, as written: what is asked about, or is after "for" or "in"."""
        if topic := self.asked:
            return topic
        if found := _SUBJECT.search(_DICE.sub("", self.text).strip(" .!?")):
            return bare(found[1])
        return self.rest(frozenset())

    @property
    def subject(self) -> str:
        """The person or thing that is meant: quoted, after "for" or "in", or a name."""
        if called := self.called:
            return called
        if self.asked or _SUBJECT.search(_DICE.sub("", self.text).strip(" .!?")):
            return BETWEEN.split(self.topic)[0]
        return self.name

    @property
    def called(self) -> str:
        """The name that something gets: quoted, or after "called"."""
        found = re.search(
            r"(?i)(?:\b(?:named|called|titled|name is|(?:name|call) it)|:) (.+)",
            self.text,
        )
        return self.quoted or (found[1].strip(" .!?,") if found else "")

    @property
    def name(self) -> str:
        """The first name, or whom "me" and "my" mean."""
        text = QUOTED.sub("", self.text)
        if found := _WHOSE.search(text):
            return found[1] or found[2]
        if found := _NAME.search(text):
            return found[0].removesuffix("'s")
        own = re.search(r"\b(?:me|my|i|mine|myself|i'm)\b", text, re.IGNORECASE)
        return self.speaker if own else ""

    def after(self, *prepositions: str) -> str:
        """Return what stands after the first of these prepositions that is said."""
        for word in prepositions:
            found = re.search(rf"(?i)\b{word} (.+)", self.text)
            if found and (thing := bare(BETWEEN.split(found[1].strip(" .!?,"))[0])):
                return thing
        return ""

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


def _plus(text: str) -> str:
    """Return what is added in a text, as ``+3``."""
    plus = _PLUS.search(text)
    return f"{'-' if plus['minus'] else '+'}{plus['much']}" if plus else ""


def with_article(topic: str, text: str) -> str:
    """Return a topic with the article that it has in a text."""
    found = re.search(rf"\b(the|an?|my|your|this|that) {re.escape(topic)}\b", text)
    return f"{found[1]} {topic}" if found and topic else topic


def corrected(text: str) -> str:
    """Return ``text`` with the typing errors in common asking words corrected."""

    def correct(found: re.Match[str]) -> str:
        word: str = found[0]
        if len(word) < 3 or word in _WORDS:
            return word
        alike = [x for x in _KEYWORDS if sorted(x) == sorted(word)]
        near = alike or difflib.get_close_matches(word, _KEYWORDS, n=1, cutoff=0.85)
        # Of a short word, only an end may be missing.
        alike_enough = near and near[0].startswith(word if len(word) < 4 else word[0])
        return near[0] if alike_enough else word

    text = re.sub(r"\b[a-z]+\b(?!')", lambda x: _SHORT.get(x[0], x[0]), text)
    return re.sub(r"(?<![\w.'])[a-z]+(?![\w.'])", correct, text)


def bare(topic: str) -> str:
    """Return a topic without article and without what is only politeness."""
    topic = topic.strip(" .!?,")
    while (shorter := _AFTER_TOPIC.sub("", topic)) != topic:
        topic = shorter
    topic = _LEAD.sub("", topic)
    return "" if topic.lower() in DULL or _NO_TOPIC.match(topic) else topic


def stems(text: str) -> frozenset[str]:
    """Return the words of ``text`` that carry meaning, without their endings."""
    found = WORD.findall(text.lower().replace("'s", ""))
    return frozenset(stem(word) for word in found if word not in EMPTY)
