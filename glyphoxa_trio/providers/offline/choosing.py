"""Choose the tools that an utterance asks for, with their arguments.

A tool fits by the words of its name, its parameters and its description, by everyday
words that stand for them, and by values that can only be meant for it. What changes
something needs its verb, and is never the answer to a question. If no tool fits, a
question is put to those that search for what is known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import attrs

from glyphoxa_trio.providers.llm import ToolSpec
from glyphoxa_trio.tools.words import EMPTY, meant_by, stem

from .arguments import (
    QUERY_NAMES,
    QUESTION_NAMES,
    arguments_for,
    choices_of,
    missing_for,
    properties_of,
    required_of,
    words_of,
)
from .utterance import QUOTED, ParsedUtterance, stems

MOST_CALLS: Final = 3
_ENOUGH: Final = 3.0  # the score of a noun of the name, or of a word that stands for it
_NEARLY: Final = 0.75  # more than this share of the best score is called as well
_FIRST_WORDS: Final = 20  # of a description: they say what it is about

# Verbs that say little of a tool, alone.
_COMMON: Final = stems(
    "get read list search find query show check look open add write create set make"
    " start begin end stop give take put save delete update ask tell fetch view run"
)
# Verbs of tools that change something.
_CHANGING: Final = stems(
    "add write create set make start begin end stop delete remove update put save open"
    " close send post buy sell book order move spawn give take pay cancel edit rename"
    " insert register record store forget enable disable turn spend transfer attack"
)
_MEANING: Final = tuple(
    (stems(said), stems(used))
    for said, used in (
        (
            "sell stock wares goods offer menu sale shop merchandise",
            "stock ware inventory menu catalog good shop product",
        ),
        ("cost price worth expensive cheap charge", "price cost quote"),
        (
            "way road route path walk travel far distance direction map journey",
            "route direction path map distance way navigate travel journey",
        ),
        (
            "weather rain snow sunny cold warm wind storm temperature",
            "weather forecast",
        ),
        ("hour clock date day late", "time clock date calendar"),
        (
            "news rumor rumour gossip heard happening",
            "rumor rumour news gossip headline",
        ),
        ("job quest task mission work errand", "quest task job mission"),
        ("owe debt bill pay tab", "tab bill account balance debt"),
        ("future fate fortune prophecy destiny omen", "oracle fortune vision prophecy"),
        ("vision see look", "vision"),
        ("song tune sing", "music song tune track"),
        ("draw paint picture portrait sketch", "image picture draw portrait"),
        ("heal hurt wound bleed sick", "heal cure treat"),
        ("write save note jot", "write save note"),
        ("show", "read"),
        ("turn switch change dim", "set switch turn toggle"),
        ("plus sum total", "add sum"),
        ("health hp wounded", "health hp status"),
        ("bag backpack pocket carry carrying", "inventory backpack item"),
        ("room bed sleep night", "room bed"),
        ("rule", "rule srd"),
    )
)

# Phrases, and a word that is meant by each.
_PHRASES: Final = (
    (
        re.compile(r"\bhow much (?:is|are|for|does|do)\b(?! i owe)", re.IGNORECASE),
        "price",
    ),
    (
        re.compile(r"\bwhat (?:have|do) you (?:got|have|sell|offer)\b", re.IGNORECASE),
        "stock",
    ),
    (
        re.compile(r"\bhow (?:do|can|would) (?:i|we) (?:get|go|come) ", re.IGNORECASE),
        "route",
    ),
    (re.compile(r"\d \+ \d", re.IGNORECASE), "add"),
)
# What a tool that searches is about, and when it is asked first.
_MEMORIES: Final = stems("memory entity fact session history transcript past")
_RULES: Final = stems(
    "rule srd spell condition lore wiki encyclopedia compendium codex library bestiary"
)
_ORACLES: Final = stems("question oracle consult fortune prophecy seer")
_SEARCHES: Final = stems("search find query look lookup ask consult know")
_OF_MEMORY: Final = re.compile(
    r"\b(?:remember|recall|met|happen\w*|last|past)\b", re.IGNORECASE
)
_OF_KNOWLEDGE: Final = re.compile(
    r"\b(?:know|knew|who|where|get to|go to|way|far)\b", re.IGNORECASE
)
_OF_RULES: Final = re.compile(
    r"\b(?:does|do|mean|means|meant|rules?|conditions?|spells?|works?|cast)\b",
    re.IGNORECASE,
)
_YES_OR_NO: Final = re.compile(
    r"^(?:and |but |so )?(?:will|shall|should|is|are|am|do|does|did|can|could|has|have"
    r"|would|may)\b",
    re.IGNORECASE,
)
_STATES: Final = re.compile(
    r"^(?:i|we|he|she|they|it|the|a|an|this|that|these|there|my|our|your|you|i'm|it's"
    r"|we're|you're|he's|she's|his|her|their|yesterday)\b(?! (?:want|need|would))",
    re.IGNORECASE,
)

_FORBIDS: Final = re.compile(
    r"\W*(?:please |now |and )?(?:do not|don['\u2019]?t|never)\b"
    r"(?! (?:you|we|i|they)\b)",
    re.IGNORECASE,
)


# Where one request may end and another one begin.
_CUT: Final = re.compile(
    r"\band\b|\bthen\b|[;!?]+|\.\s|,\s(?=(?:what|how|where|who|why|when)\b)",
    re.IGNORECASE,
)


@attrs.frozen(kw_only=True)
class FittingTool:
    """A tool that fits an utterance, with its arguments.

    ``arguments`` are None if those of ``missing`` were not said.
    """

    score: float
    name: str
    arguments: dict[str, Any] | None
    missing: tuple[str, ...] = ()


def candidates(
    utterance: ParsedUtterance, tools: Sequence[ToolSpec]
) -> list[FittingTool]:
    """Return the tools that fit about as well as the best, best first.

    What the player forbids is done by none.
    """
    if _FORBIDS.match(utterance.text):
        return []
    fitting: list[FittingTool] = []
    for tool in tools:
        if (score := score_of(tool, utterance)) >= _ENOUGH:
            own = _own(tool, utterance)
            arguments = arguments_for(tool.parameters, utterance, own)
            missing = missing_for(tool.parameters, utterance, own)
            fitting.append(
                FittingTool(
                    score=score,
                    name=tool.name,
                    arguments=arguments,
                    missing=tuple(missing),
                )
            )
    # A tool that lacks an argument is only asked about if no other one fits.
    ready = [one for one in fitting if one.arguments is not None]
    fitting = ready or fitting
    fitting.sort(key=lambda one: (-one.score, one.name))
    least = _NEARLY * fitting[0].score if fitting else 0.0
    return [one for at, one in enumerate(fitting) if not at or one.score > least][
        :MOST_CALLS
    ]


def score_of(tool: ToolSpec, utterance: ParsedUtterance) -> float:
    """Return how well a tool fits an utterance; 0 if it must not be called for it."""
    said = _said(utterance)
    named, verb = _named(tool), _verb(tool)
    if verb in _CHANGING and utterance.is_question and not _computes(tool):
        return 0.0
    server = stems(tool.name.rpartition("__")[0].replace("_", " ")) - {"mcp"} - named
    described = stems(" ".join(tool.description.split()[:_FIRST_WORDS]))
    of_parameters = stems(" ".join(" ".join(words_of(x)) for x in _properties(tool)))
    score = of_description = 0.0
    hit: set[str] = set()
    for word in said:
        if through := ({word} | _meant(word)) & named:
            hit |= through
            score += 1.0 if through <= _COMMON else 3.0
        elif word in server and _is_addressed(word, utterance.text):
            score += 4.0 if _knows(tool) == "oracle" else 3.0
        elif word in server or {*meant_by(word)} & (named - _COMMON):
            score += 2.0
        elif word in of_parameters or ({word} | _meant(word)) & described - _COMMON:
            of_description += 1.0
    score += min(3.0, of_description)
    for name, schema in _properties(tool).items():
        if _is_evident(tool, name, schema, utterance):
            score += 2.0
    has_dice = bool((named | described) & {"roll", "dic"})
    if has_dice and (utterance.dice or (utterance.rolls and not utterance.is_question)):
        return score + 3.0
    # Its words are all that is asked about.
    about = stems(utterance.rest(frozenset()))
    of_tool = named | described | of_parameters
    if utterance.is_question and about and about <= of_tool and verb not in _CHANGING:
        score += 2.0
    if _computes(tool) and len(utterance.numbers) > 1:
        return score + 2.0
    # What it does may be said in the word of its description.
    does = bool(hit & {verb} or said & stems(tool.description.partition(" ")[0]))
    if verb in _CHANGING and not does:
        return 0.0
    if _STATES.search(utterance.text.strip()) and not utterance.is_question:
        return score if utterance.is_polite or does else 0.0
    # Which tool is meant is best said by its verb.
    return score + 3.0 * does if score >= _ENOUGH else score


def knowing(utterance: ParsedUtterance, tools: Sequence[ToolSpec]) -> list[FittingTool]:
    """Return the tools that may know what a question is about, at most three."""
    text = utterance.text
    asked = utterance.asked
    if asked and re.search(rf"\byour {re.escape(asked)}", text, re.IGNORECASE):
        return []
    if not asked and not (utterance.is_question and _YES_OR_NO.search(text.strip())):
        return []
    found: dict[str, list[FittingTool]] = {}
    for tool in tools:
        kind = _knows(tool)
        if not kind or (not asked and kind != "oracle"):
            continue
        arguments = arguments_for(tool.parameters, utterance, _named(tool))
        if arguments:
            one = FittingTool(score=0.0, name=tool.name, arguments=arguments)
            found.setdefault(kind, []).append(one)
    memories = sorted(found.get("memory", []), key=_entities_first)[:2]
    rules = found.get("rules", [])[:1]
    others = [*found.get("search", [])[:1], *found.get("oracle", [])[:1]]
    if _OF_MEMORY.search(text) and memories:
        return memories
    if _OF_KNOWLEDGE.search(text):
        return [*memories, *rules, *others][:MOST_CALLS]
    if _OF_RULES.search(text) and rules:
        return rules
    return [*rules, *memories, *others][:MOST_CALLS]


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
        if not parts or is_request(part):
            parts.append(part)
        elif part.strip(" .!?,"):
            parts[-1] += f" {joint} {part}" if joint in ("and", "then") else f" {part}"
        rest, joint = cut.end() if cut else rest, end
    # "Well, what is it?": a few words before a request are only its beginning.
    if len(parts) > 1 and len(parts[0].split()) < 4 and not is_request(parts[0]):
        del parts[0]
    return parts


def _is_addressed(server: str, text: str) -> bool:
    """Return True if a server is named as one that is asked: "ask the oracle"."""
    asks = rf"\b(?:ask|consult|use|with|from) (?:the |your |our )?{re.escape(server)}"
    return re.search(asks, text, re.IGNORECASE) is not None


def _said(utterance: ParsedUtterance) -> frozenset[str]:
    """Return the stems of an utterance, and of what its phrases mean."""
    meant = [word for phrase, word in _PHRASES if phrase.search(utterance.text)]
    return stems(f"{utterance.words} {' '.join(meant)}")


def _computes(tool: ToolSpec) -> bool:
    """Return True for a tool that is called with two numbers or more, and no text."""
    needed = set(required_of(tool.parameters))
    kinds = [str(x.get("type")) for n, x in _properties(tool).items() if n in needed]
    return len(kinds) > 1 and set(kinds) <= {"integer", "number"}


def _own(tool: ToolSpec, utterance: ParsedUtterance) -> frozenset[str]:
    """Return the stems of the name, and of words of the utterance that mean them."""
    named = _named(tool)
    said = stems(utterance.text)
    server = stems(tool.name.rpartition("__")[0].replace("_", " "))
    return named | {word for word in said if _meant(word) & named} | (server & said)


def _named(tool: ToolSpec) -> frozenset[str]:
    """Return the stems of a tool's own name."""
    return stems(" ".join(_parts(tool)))


def _parts(tool: ToolSpec) -> list[str]:
    name = tool.name.rpartition("__")[2]
    split = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    return re.findall(r"[a-z0-9]+", split.lower())


def _verb(tool: ToolSpec) -> str:
    """Return the stem of the verb in a name: ``create`` also of campaign_create."""
    parts = [stem(part) for part in _parts(tool) if part not in EMPTY] or [""]
    verbs = [x for x in parts if x in _CHANGING] or [x for x in parts if x in _COMMON]
    return parts[0] if parts[0] in _CHANGING or not verbs else verbs[0]


def _properties(tool: ToolSpec) -> Any:
    return properties_of(tool.parameters)


def _meant(word: str) -> frozenset[str]:
    """Return the stems that tools may use for a word of a player."""
    return frozenset(x for said, used in _MEANING if word in said for x in used)


def _is_evident(
    tool: ToolSpec, name: str, schema: Any, utterance: ParsedUtterance
) -> bool:
    one = {**tool.parameters, "properties": {name: schema}, "required": []}
    # A search is filled with any topic: that says nothing.
    if words_of(name) & {"name", *QUERY_NAMES} and not choices_of(schema):
        return False
    return bool(arguments_for(one, utterance, frozenset()))


def _knows(tool: ToolSpec) -> str:
    """Return the kind of knowledge that a tool finds; empty if it finds none."""
    if _verb(tool) in _CHANGING:
        return ""
    words = _named(tool) | stems(" ".join(tool.description.split()[:8]))
    texts = {
        word
        for name, schema in _properties(tool).items()
        if schema.get("type", "string") == "string"
        for word in words_of(name)
    }
    if texts & QUESTION_NAMES and words & _ORACLES:
        return "oracle"
    if not texts & {"name", *QUERY_NAMES} or not words & _SEARCHES:
        return ""
    if _named(tool) & _RULES:
        return "rules"
    return "memory" if words & _MEMORIES or "entities" in tool.name else "search"


def _entities_first(one: FittingTool) -> tuple[bool, bool]:
    name = one.name.rpartition("__")[2]
    return "entit" not in name, "fact" not in name
