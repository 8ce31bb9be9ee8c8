"""The words of the rules for tiers, as stems of English, and fillers. Pure.

An utterance and the phrases of the rules are reduced by the same function, so a phrase
is always found as it was written: "remembered" and "remember" are one word, "question"
and "quest" are two. This is no dictionary: "hoping" and "hop" are one word as well,
which does no harm here.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final, NamedTuple, TypeAlias

PAST: Final = "<past>"
"""The key of every verb in the past tense."""
FILLER: Final = "<filler>"
"""The key of words that may stand between any two of a phrase: "very", "er"."""

Word: TypeAlias = tuple[str, ...]
"""All keys that find one word: its stem, "=" and the word itself, `PAST`, `FILLER`."""

_WORD: Final = re.compile(r"\w+")
_MOST: Final = 200  # words that are examined, at each end of a text
_LONGEST: Final = 32  # letters of a word that has a stem
_VOWELS: Final = frozenset("aeiouy")

_FILLERS: Final = frozenset(
    _WORD.findall(
        """
a an the very really so quite more most please pls er um uh uhm erm ah oh hm hmm like
just too rather some any all bit lot little much actually exactly again now then even
ever also well and but so hey ok okay right alright hello hi sorry wait hang on hold
"""
    )
)

_PASTS: Final = """
go: went gone
do: did done
be: was were been
have: had
say: said
tell: told
know: knew known
think: thought
see: saw seen
hear: heard
find: found
give: gave given
take: took taken
make: made
get: got gotten
come: came
meet: met
fight: fought
win: won
lose: lost
leave: left
begin: began begun
break: broke broken
steal: stole stolen
speak: spoke spoken
write: wrote written
build: built
burn: burnt
buy: bought
sell: sold
bring: brought
catch: caught
hide: hid hidden
hold: held
keep: kept
send: sent
run: ran
fall: fell fallen
flee: fled
kill: slain slew
forget: forgot forgotten
mean: meant
pay: paid
show: shown
swear: swore sworn
teach: taught
understand: understood
wear: wore worn
wake: woke
sing: sang sung
draw: drew drawn
dig: dug
seek: sought
sink: sank sunk
drink: drank drunk
eat: ate eaten
rise: rose risen
choose: chose chosen
"""
# Forms that do not follow from their endings. "us" counts as "me".
_ALSO: Final = """
be: is are am s re m being
have: has ve having
do: does doing
me: us
who: whose whom
remember: rember remeber remembr
"""
# Recognizers and players in a hurry omit the apostrophe.
_RUN_TOGETHER: Final = {
    word.replace("'", ""): word.split("'")
    for word in re.findall(
        r"[\w']+",
        """
who's what's where's when's how's why's that's there's it's he's she's let's
didn't don't doesn't isn't aren't wasn't weren't hasn't haven't can't couldn't wouldn't
i'm i've you're you've they're they've we've
""",
    )
}
_KEPT: Final = """
this his its was us yes always perhaps as has is less here there
anything something everything nothing morning evening during king ring plane
need seed indeed speed bleed breed hundred red bed
"""


def _spelled_out(table: str) -> dict[str, str]:
    lines = (line.partition(":") for line in table.strip().splitlines())
    return {form: base for base, _, forms in lines for form in forms.split()}


_IRREGULAR: Final = _spelled_out(_PASTS)
_WHOLE: Final = {word: word for word in _KEPT.split()} | {"planes": "plane"}
_BASES: Final = _WHOLE | _IRREGULAR | _spelled_out(_ALSO)


def stem(word: str) -> str:
    """Return the part of a lower-case word that its inflections share."""
    word = _BASES.get(word, word)
    if len(word) <= 3 or word in _WHOLE or not word.isascii():
        return word
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        if word.endswith("ies") and len(word) > 4:
            word = word[:-3] + "y"
        elif word.endswith(("sses", "shes", "ches", "xes", "zes")):
            word = word[:-2]
        else:
            word = word[:-1]
        if word in _WHOLE:
            return word
    for ending in ("ing", "ied", "ed", "ly"):
        if word.endswith(ending):
            rest = word[: -len(ending)]
            enough = len(rest) > (3 if ending == "ly" else 2)
            if enough and not _VOWELS.isdisjoint(rest):
                word = rest + "y" if ending == "ied" else rest
                break
    # "hoped", "hope"; "planned", "plan"; "summarise", "summarize"; "armour", "armor"
    if len(word) > 3 and word.endswith("e"):
        word = word[:-1]
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in _VOWELS:
        word = word[:-1]
    if len(word) > 4 and word.endswith(("iz", "yz")):
        word = word[:-1] + "s"
    elif len(word) > 4 and word.endswith("our"):
        word = word[:-3] + "or"
    return word


def keys_of(word: str) -> Word:
    """Return all keys that find a word; a very long word is its own only key."""
    if len(word) > _LONGEST:
        return (word,)
    keys = [stem(word), f"={word}"]
    if word in _IRREGULAR or (
        len(word) > 4 and word.endswith("ed") and word not in _WHOLE
    ):
        keys.append(PAST)
    if word in _FILLERS:
        keys.append(FILLER)
    return tuple(keys)


# Scripts without spaces between words: Thai and Lao, Burmese, Khmer, kana, Han.
_WITHOUT_SPACES: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff]"
)


def plain_words(text: str) -> list[str]:
    """Return the words of a text, without case and accents.

    Where a script has no spaces between words, each of its characters counts as one.
    """
    if not text.isascii():
        apart = unicodedata.normalize("NFKD", text)
        text = "".join(c for c in apart if not unicodedata.combining(c))
        text = _WITHOUT_SPACES.sub(r" \g<0> ", text)
    words = _WORD.findall(text.casefold())
    if not _RUN_TOGETHER.keys().isdisjoint(words):
        return [part for word in words for part in _RUN_TOGETHER.get(word, (word,))]
    return words


def words_of(text: str) -> list[str]:
    """Return the plain words of a text; of a very long one only those at its ends."""
    words = plain_words(text)
    return words if len(words) <= 2 * _MOST else words[:_MOST] + words[-_MOST:]


class StemmedText(NamedTuple):
    """The words of a text, by all their keys.

    Args:
      places: where each key is, in bits: the lowest bit is the first word.
      keys: all keys.
      fillers: where the fillers are, in bits.
      length: how many words there are.
    """

    places: dict[str, int]
    keys: frozenset[str]
    fillers: int
    length: int
