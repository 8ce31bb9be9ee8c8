"""Choose the tool that an utterance asks for, with its arguments.

The tools are ranked by their words, as `tools.search` ranks them for models; everyday
words stand for those that tools use. A tool is only taken if it is meant: a noun of its
name is said, or a value that can only be for it. What changes something needs its verb,
and is never the answer to a question. If no tool fits, a question is put to those that
search for what is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final

import attrs

from glyphoxa_trio.providers.llm import ToolSpec
from glyphoxa_trio.tools.search import Words, relevance, weighed
from glyphoxa_trio.tools.words import EMPTY, meant_by, stem

from .arguments import (
    QUERY_NAMES,
    QUESTION_NAMES,
    KnownThings,
    arguments_for,
    names_in,
    properties_of,
    required_of,
    words_of,
)
from .utterance import QUOTED, STATES, WORD, ParsedUtterance, stems

MOST_CALLS: Final = 3
_MOST_CUTS: Final = 12  # of an utterance
_SURE: Final = 2.5


def _table(text: str) -> tuple[tuple[frozenset[str], frozenset[str]], ...]:
    """Return rows of what is said, and what is meant by it."""
    rows = (row.split(":") for row in re.split(r"\n(?! )", text.strip()))
    return tuple((stems(said), stems(used)) for said, used in rows)


_READING: Final = stems(
    "get read list search find query show check look view tell ask fetch consult"
)
# The verbs of players, and those of tools that change something.
_VERBS: Final = _table("""
add put write note jot record stick charge chalk mark enter append log save insert
  scribble store: add write put record append log note insert save store post
  register
add create make new start begin open join establish invent register write: create make
  start begin open register new launch spawn
end close finish stop quit conclude: end close stop finish
delete remove erase destroy: delete remove clear
set choose pick select switch use turn change continue load dim open: set choose
  select switch use turn update toggle
edit update correct rename: edit update set rename
buy order purchase want get: buy order purchase
sell: sell
pay give hand send settle: give pay send transfer post
move walk bring: move
take: take
cancel: cancel
enable disable: enable disable
remember: store record remember
forget: forget
book: book
attack hit: attack
spend: spend
""")
_CHANGING: Final = frozenset(x for _, used in _VERBS for x in used)
# Verbs that say little of a tool without a noun.
_PLAIN: Final = _READING | stems(
    "add write create set make start open put end take give"
)
_COMMON: Final = _READING | _CHANGING | stems("take give update run")
_TAKES_DICE: Final = stems("expression dice notation formula sides")
_MEANT: Final = _table("""
sell stock wares goods offer menu sale shop merchandise: stock ware inventory menu
  catalog good shop product
cost price worth expensive cheap charge: price cost quote
way road route path walk travel far distance direction map journey: route direction
  path map distance way navigate travel journey
weather rain snow sunny cold warm wind storm temperature: weather forecast
hour clock date day late: time clock date calendar
news rumor rumour gossip happening: rumor rumour news gossip headline
job quest task mission work errand: quest task job mission
owe debt bill pay tab account spent due: tab bill account balance debt
future fate fortune prophecy destiny omen: oracle fortune prophecy
vision see look show sight gaze: vision
song tune sing: music song tune track
draw paint picture portrait sketch: image picture draw portrait
heal hurt wound bleed sick: heal cure treat
write save note jot scribble: file note
plus sum total: add sum
health hp wounded: health hp status
bag backpack pocket carry carrying: inventory backpack item
room bed sleep night: room bed
rule: rule srd
files folder: directory file
player people playing plays guest seat: participant player
character hero npc monster goblin orc beast villain: actor character
chance odds probability likely probable: probability odds chance
""")
_PHRASES: Final = tuple(
    (re.compile(phrase, re.IGNORECASE), word)
    for phrase, word in (
        (r"\bhow much (?:is|are|for|does|do)\b(?! i owe)", "price"),
        (r"\bwhat (?:have|do) you (?:got|have|sell|offer)\b", "stock"),
        (r"\bhow (?:do|can|would) (?:i|we) (?:get|go|come) ", "route"),
        (r"\d \+ \d", "add"),
        (r"\bset (?:me|us) up\b", "open"),
        (r"\bopen (?:the )?(?:file )?\S+\.\w+", "read"),
        (r"\b(?:are there|how many|which|all|every(?:one|body))\b", "list"),
        (r"\bwho(?:'s| is| are)? (?:in|at|here|playing)\b", "player list"),
        (
            r"\b(?:on|onto) (?:my|the|our|his|her|\w+'s) (?:tab|bill|list|account)",
            "add",
        ),
    )
)
# What a tool that searches is about, and when it is asked first.
_MEMORIES: Final = stems("memory entity fact session history transcript past")
_RULES: Final = stems(
    "rule srd spell condition lore wiki encyclopedia compendium codex library bestiary"
)
_ORACLES: Final = stems("question oracle consult fortune prophecy seer")
_SEARCHES: Final = stems("search find query look lookup ask consult know")
_OF_MEMORY: Final = re.compile(r"(?i)\b(?:remember|recall|met|happened|last|past)\b")
_OF_RULES: Final = re.compile(
    r"(?i)\b(?:does|do|mean|means|meant|(?<!who )rules?|conditions?|spells?|works?|cast"
    r"|differences?|happens (?:when|if)|damage|explain|compare)\b"
)
_OF_FATE: Final = re.compile(
    r"(?i)\b(?:future|fate|destiny|fortune|prophecy|omens?|(?:lies|wait\w*|awaits) "
    r"(?:ahead|before|for)|awaits|ahead of|become of|will (?!you\b)\w+|shall \w+)\b"
)
_YES_OR_NO: Final = re.compile(
    r"(?i)^(?:and |but |so )?(?:will|shall|should|is|are|am|do|does|did|can|could|has"
    r"|have|would|may)\b(?! (?:you|your|that|it|there|i ask)\b)"
)
_CAN: Final = re.compile(
    r"(?i)(?:can|does|do|is|are|may|must|when|how) .*\b(?:cast|spells?|attacks?|saves?"
    r"|turn|actions?|reactions?|rest|dodge|hide|grapple|concentrat\w*|conditions?|stack|damage"
    r"|advantage|levels?|bonus)\b"
)
_OF_USE: Final = stems("stack need take use count happen turn cast make two one")
FORBIDS: Final = re.compile(
    r"(?i)\W*(?:(?:please|now|and|but|no|oh|well|ok(?:ay)?|hey|i said|you)\b,? ?)*"
    r"(?:[\w']+, )?(?:do not|don[']?t|never|must not|mustn't|stop roll\w*)\b"
    r"(?! (?:you|we|i|they|forget|mind|know|think|like|want|worry|believe)\b)"
)
_NEGATES: Final = re.compile(
    r"(?i)\b(?:do not|don[']?t|never|must not|mustn't|should not|shouldn't|won't"
    r"|rather not|no need to|stop roll\w*)\b(?! (?:you|forget|mind|know|care)\b)"
)
_GOES_ON: Final = re.compile(r"(?i)(?:my|me|us|him|her|our)\b")
# Where one request may end and another one begin.
_CUT: Final = re.compile(
    r"(?i)\band\b|\bthen\b|[;!?]+|\.\s|,\s(?=(?:what|how|where|who|why|when)\b)"
)


@attrs.frozen
class FittingTool:
    """A tool that fits an utterance, how well, and its arguments."""

    score: float
    name: str
    arguments: dict[str, Any]
    missing: dict[str, list[Any]] = attrs.field(factory=dict)

    @property
    def is_sure(self) -> bool:
        """If it is meant, even if it lacks what a player can give."""
        technical = any(x.endswith(("id", "path")) for x in self.missing)
        return self.score > _SURE and not technical


@attrs.frozen
class _ToolWords:
    """The words of one tool: of its name, its server, and what it says of itself."""

    spec: ToolSpec
    name: frozenset[str]
    verb: str
    server: frozenset[str]
    described: frozenset[str]
    parameters: frozenset[str]

    @classmethod
    def of(cls, spec: ToolSpec) -> _ToolWords:
        """Return the words of a tool."""
        server, _, name = spec.name.rpartition("__")
        parts = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name).lower()
        named = [stem(x) for x in WORD.findall(parts) if x not in EMPTY]
        verbs = [x for of in (_CHANGING, _COMMON, named) for x in named if x in of]
        own = stems(server.replace("_", " ")) - {"mcp"} - {*named}
        described = stems(" ".join(spec.description.split()[:20]))
        names = names_in(spec.parameters)
        return cls(spec, frozenset(named), next(iter(verbs), ""), own, described, names)

    @property
    def weighed(self) -> Words:
        server, _, name = self.spec.name.rpartition("__")
        parameters = " ".join(properties_of(self.spec.parameters))
        return weighed(name, server, parameters, self.spec.description[:1000])

    @property
    def changes(self) -> bool:
        return self.verb in _CHANGING

    @property
    def computes(self) -> bool:
        """True for a tool that is called with two numbers or more, and no text."""
        schemas = properties_of(self.spec.parameters)
        kinds = [
            schemas.get(x, {}).get("type") for x in required_of(self.spec.parameters)
        ]
        return len(kinds) > 1 and all(x in ("integer", "number") for x in kinds)

    @property
    def knows(self) -> str:
        """The kind of knowledge that it finds; empty if it finds none."""
        words = self.name | stems(" ".join(self.spec.description.split()[:8]))
        texts = {
            word
            for name, schema in properties_of(self.spec.parameters).items()
            if schema.get("type", "string") == "string"
            for word in words_of(name)
        }
        if texts & QUESTION_NAMES and words & _ORACLES and not self.changes:
            return "oracle"
        searches = texts & {"name", *QUERY_NAMES} and words & _SEARCHES
        if not searches or self.changes:
            return ""
        of_memory = "memory" if words & _MEMORIES else "search"
        return "rules" if self.name & _RULES else of_memory


def candidates(
    said: ParsedUtterance, tools: Sequence[ToolSpec], known: KnownThings
) -> list[FittingTool]:
    """Return the tools that fit, best first; none for what the player forbids."""
    negated = _NEGATES.search(said.text) and not said.is_question
    if FORBIDS.match(said.text) or negated:
        return []
    words = [_ToolWords.of(tool) for tool in tools]
    spoken, verbs = _spoken(said, known)
    meant = frozenset(x for word in spoken for x in _through(word))
    query = " ".join([*sorted(spoken), *sorted(meant - spoken), *sorted(verbs)])
    ranks = relevance(query, [x.weighed for x in words])
    top = max(ranks, default=0.0) or 1.0
    fitting: list[FittingTool] = []
    for tool, rank in zip(words, ranks, strict=True):
        own = tool.name | (tool.server & spoken)
        own |= {word for word in spoken if _through(word) & tool.name}
        own |= {x for said_as, used in _VERBS if tool.verb in used for x in said_as}
        read = arguments_for(tool.spec.parameters, said, own, known)
        if fit := _fit(tool, said, meant, verbs, 2.0 * read.evident):
            one = (fit + rank / top, tool.spec.name, read.arguments, read.missing)
            fitting.append(FittingTool(*one))
    # A tool that lacks an argument is only asked about if no other one fits.
    fitting.sort(key=lambda one: (len(one.missing), -one.score, one.name))
    return fitting


def findable(said: ParsedUtterance, tools: Sequence[ToolSpec]) -> bool:
    """Return True if one of these tools, of which little is known, may be meant."""
    spoken, verbs = _spoken(said, KnownThings())
    meant = frozenset(x for word in spoken for x in _through(word))
    return any(_fit(_ToolWords.of(x), said, meant, verbs, 0.0) for x in tools)


def _spoken(
    said: ParsedUtterance, known: KnownThings
) -> tuple[frozenset[str], frozenset[str]]:
    """Return the stems of what is said, and the verbs of tools that it asks for."""
    phrases = " ".join(word for one, word in _PHRASES if one.search(said.text))
    text = QUOTED.sub(" ", said.words) if len(said.words) > 40 else said.words
    spoken = stems(f"{text} {phrases} {known.kinds_in(said.text)}")
    used = [used for said_as, used in _VERBS if said_as & spoken]
    return spoken, frozenset().union(*used, spoken & _COMMON)


def _through(word: str) -> frozenset[str]:
    """Return the stems that tools may use for a word of a player, and itself."""
    return frozenset({word}).union(*(used for said, used in _MEANT if word in said))


def _fit(
    tool: _ToolWords,
    said: ParsedUtterance,
    spoken: frozenset[str],
    verbs: frozenset[str],
    evident: float,
) -> float:
    """Return how surely a tool is meant; 0 if it must not be called."""
    asks, verb = said.is_question, tool.verb in verbs
    if tool.computes and len(said.numbers) > 1 and spoken & tool.name:
        return 4.0
    takes_dice = bool(tool.parameters & _TAKES_DICE)
    if "roll" in tool.name or tool.spec.description.lower().startswith("roll"):
        if not said.asks_in_words and (said.dice or (said.rolls and not asks)):
            of_dice = said.dice and (takes_dice or not said.counts)
            best = 4.0 if of_dice else 3.0 + min(evident, 0.9)
            # "An action roll" is one of several.
            return best + 0.75 * len(spoken & tool.name)
        if takes_dice:
            return 0.0
    nouns = tool.name - _COMMON
    hits = spoken & (nouns or tool.name)
    of_meaning = {x for word in spoken for x in meant_by(word)} & nouns
    of_description = len(spoken & (tool.described - _COMMON | tool.parameters))
    named = hits or evident or of_meaning or tool.verb in spoken - _PLAIN
    named = named or of_description > 1 or tool.server & spoken
    if tool.changes and (asks or not verb or not named):
        return 0.0
    # To read is no answer to who wants something changed, or only states something.
    reads = tool.verb in _READING - verbs and not tool.changes and not evident
    ordered = verb or said.is_polite or said.asks_in_words
    if (reads and not asks and verbs & _CHANGING - _READING) or (
        STATES.match(said.text.strip()) and not ordered
    ):
        return 0.0
    score = 2.0 * len(hits)
    if tool.server & spoken:
        score += 3.0 if tool.knows == "oracle" and verbs & _READING else 1.0
    if not (score or named):
        return 0.0
    if not (score or of_meaning or verb or asks or of_description):
        return 0.0
    about = stems(said.rest(frozenset()))
    of_tool = tool.name | tool.described | tool.parameters
    whole = bool(asks and about and about <= of_tool)
    # A question with other words in it is about these.
    plain = not (tool.changes or evident or whole or verb or len(hits) > 1)
    if asks and plain and (not hits or tool.knows):
        return 0.0
    return score + evident + 1.5 * verb + min(1.5, 0.5 * of_description) + 0.5 * whole


def knowing(said: ParsedUtterance, tools: Sequence[ToolSpec]) -> list[FittingTool]:
    """Return the tools that may know what a question is about, at most three."""
    text, asked, whole = said.plain, said.asked, said
    if FORBIDS.match(said.text):
        return []
    fate = _OF_FATE.search(text) or (said.is_question and _YES_OR_NO.match(text))
    can = said.is_question and _CAN.match(text)  # a question of the rules
    of_rules = can or _OF_RULES.search(text)
    if not asked and (said.is_phrase or (said.is_question and (not fate or can))):
        of_npc = re.search(r"\byour?\b", text) and not can
        asked = "" if of_npc else said.rest(_OF_USE)
        what = f"what is {asked}?" if asked else said.text
        said = ParsedUtterance(what, said.speaker)
    if asked and re.search(rf"\byour {re.escape(asked)}", text, re.IGNORECASE):
        return []
    if not re.search("[a-z]{3}", asked or "any"):
        return []
    if not asked and not fate:
        return []
    found: dict[str, list[FittingTool]] = {}
    for spec in tools:
        tool = _ToolWords.of(spec)
        if not (kind := tool.knows) or (not asked and kind != "oracle"):
            continue
        about = whole if kind == "oracle" else said
        read = arguments_for(spec.parameters, about, tool.name)
        if read.arguments and not read.missing:
            one = FittingTool(0.0, spec.name, read.arguments)
            found.setdefault(kind, []).append(one)
    found["memory"] = sorted(found.get("memory", []), key=_entities_first)[:2]
    for kind, meant in (
        ("oracle", fate and not of_rules),
        ("memory", _OF_MEMORY.search(text)),
        ("rules", of_rules),
    ):
        if meant and kind in found and found[kind]:
            return found[kind][:2]
    kinds = [found.get(x, [])[:2] for x in ("memory", "rules", "search", "oracle")]
    return [one for kind in kinds for one in kind][:MOST_CALLS]


def _entities_first(one: FittingTool) -> tuple[bool, bool]:
    name = one.name.rpartition("__")[2]
    return "entit" not in name, "fact" not in name


def clauses(text: str, is_request: Callable[[str], bool]) -> list[str]:
    """Cut ``text`` between requests; a part that requests nothing is kept attached."""
    hidden = QUOTED.sub(lambda found: "\0" * len(found[0]), text)
    parts: list[tuple[int, int]] = []
    start, joint = 0, ""
    for cut in [*islice(_CUT.finditer(hidden), _MOST_CUTS), None]:
        end = cut.start() + (cut[0][0] in "?!") if cut else len(text)
        # "Ales for me and my friend" are one wish.
        goes_on = joint == "and" and _GOES_ON.match(text[start:end].strip())
        if not parts or (not goes_on and is_request(text[start:end].strip())):
            parts.append((start, end))
        else:
            parts[-1] = (parts[-1][0], end)
        start, joint = (cut.end(), cut[0].lower()) if cut else (end, "")
    # "Well, what is it?": a few words before a request are only its beginning.
    found = [text[start:end].strip() for start, end in parts]
    short = len(found) > 1 and len(found[0].split()) < 4 and not is_request(found[0])
    return found[1:] if short else found
