"""Choose the tool that an utterance asks for, with its arguments.

The tools are ranked by their words, as `tools.search` ranks them for models; everyday
words stand for those that tools use. A tool is only taken if it is meant: a noun of its
name is said, or a value that can only be for it. What changes something needs its verb,
and is never the answer to a question. If no tool fits, a question is put to those that
search for what is known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
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
    r"(?i)\b(?:does|do|mean|means|meant|rules?|conditions?|spells?|works?|cast"
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
    opening: str

    @classmethod
    def of(cls, spec: ToolSpec) -> _ToolWords:
        """Return the words of a tool."""
        server, _, name = spec.name.rpartition("__")
        parts = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name).lower()
        named = [stem(x) for x in WORD.findall(parts) if x not in EMPTY]
        verbs = [x for of in (_CHANGING, _COMMON, named) for x in named if x in of]
        first = spec.description.split()[:20]
        return cls(
            spec,
            frozenset(named),
            verbs[0] if verbs else "",
            stems(server.replace("_", " ")) - {"mcp"} - frozenset(named),
            stems(" ".join(first)),
            names_in(spec.parameters),
            " ".join(first[:3]).lower(),
        )

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
        needed = [schemas.get(x, {}) for x in required_of(self.spec.parameters)]
        kinds = {str(x.get("type")) for x in needed}
        return len(needed) > 1 and kinds <= {"integer", "number"}

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
        if self.changes:
            return ""
        if texts & QUESTION_NAMES and words & _ORACLES:
            return "oracle"
        if not texts & {"name", *QUERY_NAMES} or not words & _SEARCHES:
            return ""
        if self.name & _RULES:
            return "rules"
        return "memory" if words & _MEMORIES else "search"


def candidates(
    said: ParsedUtterance, tools: Sequence[ToolSpec], known: KnownThings
) -> list[FittingTool]:
    """Return the tools that fit, best first; none for what the player forbids."""
    if FORBIDS.match(said.text) or (
        _NEGATES.search(said.text) and not said.is_question
    ):
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
        evident = 2.0 * read.evident
        if evidence := _evidence(tool, said, spoken | meant, verbs, evident):
            score = evidence + rank / top
            name = tool.spec.name
            fitting.append(FittingTool(score, name, read.arguments, read.missing))
    # A tool that lacks an argument is only asked about if no other one fits.
    fitting.sort(key=lambda one: (bool(one.missing), -one.score, one.name))
    return fitting


def findable(said: ParsedUtterance, tools: Sequence[ToolSpec]) -> bool:
    """Return True if one of these tools, of which little is known, may be meant."""
    spoken, verbs = _spoken(said, KnownThings())
    spoken |= frozenset(x for word in spoken for x in _through(word))
    words = map(_ToolWords.of, tools)
    return any(_evidence(tool, said, spoken, verbs, 0.0) for tool in words)


def _spoken(
    said: ParsedUtterance, known: KnownThings
) -> tuple[frozenset[str], frozenset[str]]:
    """Return the stems of what is said, and the verbs of tools that it asks for."""
    phrases = " ".join(word for one, word in _PHRASES if one.search(said.text))
    text = QUOTED.sub(" ", said.words) if len(said.words) > 40 else said.words
    spoken = stems(f"{text} {phrases} {known.kinds_in(said.text)}")
    return spoken, frozenset(x for word in spoken for x in _verbs_for(word))


def _verbs_for(word: str) -> frozenset[str]:
    used = (used for said, used in _VERBS if word in said)
    return frozenset().union(*used, {word} & _COMMON)


def _through(word: str) -> frozenset[str]:
    """Return the stems that tools may use for a word of a player, and itself."""
    return frozenset({word}).union(*(used for said, used in _MEANT if word in said))


def _evidence(
    tool: _ToolWords,
    said: ParsedUtterance,
    spoken: frozenset[str],
    verbs: frozenset[str],
    evident: float,
) -> float:
    """Return how surely a tool is meant; 0 if it must not be called."""
    asks = said.is_question
    if tool.computes and len(said.numbers) > 1 and spoken & tool.name:
        return 4.0
    rolls = "roll" in tool.name or "roll" in tool.opening
    if rolls and not said.asks_in_words and (said.dice or (said.rolls and not asks)):
        takes_dice = tool.parameters & _TAKES_DICE or not said.counts
        named = len(spoken & tool.name)  # "an action roll" is one of several
        best = 4.0 if said.dice and takes_dice else 3.0 + min(evident, 0.9)
        return best + 0.75 * named
    if rolls and tool.parameters & _TAKES_DICE:
        return 0.0
    verb = tool.verb in verbs
    if tool.changes and (asks or not verb):
        return 0.0
    changing = verbs & _CHANGING - _READING
    # To read is no answer to who wants something changed.
    reads = tool.verb in _READING - verbs and not tool.changes
    if reads and not evident and not asks and changing and _first_verb(said):
        return 0.0
    nouns = tool.name - _COMMON
    hits = spoken & (nouns or tool.name)
    text = said.text
    score = 2.0 * len(hits)
    if tool.server & spoken:
        addressed = any(
            re.search(rf"(?i)\b(?:ask|consult|use|with|from) (?:the |your )?{x}", text)
            for x in tool.server & spoken
        )
        score += 3.0 if addressed and tool.knows == "oracle" else 1.0
    of_meaning = {x for word in spoken for x in meant_by(word)} & nouns
    of_description = len(spoken & (tool.described - _COMMON | tool.parameters))
    own_verb = tool.verb in spoken - _PLAIN
    if not (score or evident or of_meaning or own_verb) and of_description < 2:
        return 0.0
    if tool.changes and not (hits or evident or of_meaning or own_verb):
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
    ordered = said.is_polite or said.asks_in_words or verb
    if STATES.match(text.strip()) and not ordered:
        return 0.0
    return score + evident + 1.5 * verb + min(1.5, 0.5 * of_description) + 0.5 * whole


def _first_verb(said: ParsedUtterance) -> bool:
    """Return True if it begins as an order does, with a verb."""
    begun = [stem(x) for x in re.findall(r"[a-z]+", said.text.lower())[:6]]
    return any(_verbs_for(x) & _CHANGING for x in begun)


def knowing(said: ParsedUtterance, tools: Sequence[ToolSpec]) -> list[FittingTool]:
    """Return the tools that may know what a question is about, at most three."""
    text, asked = said.plain, said.asked
    if not asked and said.is_question and _CAN.match(text):  # a question of the rules
        asked = said.rest(_OF_USE)
        said = ParsedUtterance(f"what does {asked} mean?", said.speaker)
    if not asked and said.is_phrase:
        asked = said.text.strip(" .!?")
        said = ParsedUtterance(f"what is {asked}?", said.speaker)
    if asked and re.search(rf"\byour {re.escape(asked)}", text, re.IGNORECASE):
        return []
    if FORBIDS.match(said.text) or not re.search("[a-z]{3}", asked or "any"):
        return []
    fate = _OF_FATE.search(text) or (said.is_question and _YES_OR_NO.match(text))
    if not asked and not fate:
        return []
    found: dict[str, list[FittingTool]] = {}
    for spec in tools:
        tool = _ToolWords.of(spec)
        if not (kind := tool.knows) or (not asked and kind != "oracle"):
            continue
        read = arguments_for(spec.parameters, said, tool.name)
        if read.arguments and not read.missing:
            one = FittingTool(0.0, spec.name, read.arguments)
            found.setdefault(kind, []).append(one)
    found["memory"] = sorted(found.get("memory", []), key=_entities_first)[:2]
    of_rules = _OF_RULES.search(text)
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


def clauses(text: str, is_request: Any) -> list[str]:
    """Cut ``text`` between requests; a part that requests nothing is kept attached."""
    quotes: list[str] = []

    def hide(found: re.Match[str]) -> str:
        quotes.append(found[0])
        return f"\0{len(quotes) - 1}\0"

    def show(part: str) -> str:
        return re.sub("\0(\\d+)\0", lambda found: quotes[int(found[1])], part)

    hidden = QUOTED.sub(hide, text)
    parts: list[str] = []
    rest, joint = 0, ""
    for cut in [*_CUT.finditer(hidden), None]:
        end = hidden[cut.start() : cut.end()].strip() if cut else ""
        mark = end if end in ("?", "!") else ""
        part = show(hidden[rest : cut.start() if cut else None]).strip() + mark
        # "Ales for me and my friend" are one wish.
        goes_on = joint == "and" and re.match(r"(?i)(?:my|me|us|him|her|our)\b", part)
        if not parts or (not goes_on and is_request(part)):
            parts.append(part)
        elif part.strip(" .!?,"):
            parts[-1] += f" {joint} {part}" if joint in ("and", "then") else f" {part}"
        rest, joint = cut.end() if cut else rest, end
    # "Well, what is it?": a few words before a request are only its beginning.
    if len(parts) > 1 and len(parts[0].split()) < 4 and not is_request(parts[0]):
        del parts[0]
    return parts
