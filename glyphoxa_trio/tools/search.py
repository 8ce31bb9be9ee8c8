"""The search for tools by words, and the summary of many tools, a line each. Pure.

With more external tools than a model should be shown in full, it is told of them in a
`summary` and finds one with the tool `SEARCH`. Relevance is simple: words of a tool's
name count most, then its group and parameters, then its description; a word that many
tools share counts little, a word like "the" nothing; forms of a word count as one
(`words.stem`), and everyday words stand for the words that tools use (`words.MEANT`); a
tool that is named in full comes first.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final, Protocol, TypeVar

from .arguments import cut
from .definition import ToolDefinition
from .words import EMPTY, meant_by, stem

DEFER_THRESHOLD: Final = 15  # up to so many external tools are shown in full
MOST_FOUND: Final = 10
FOUND: Final = 5

LINE: Final = 160  # characters of one line of a summary
LINES: Final = 6000  # of all of them: about 1500 tokens
_TO_COME: Final = 36  # a line may take one of so many parts of the room left
_LEAST_SAID: Final = 20  # characters of a description; fewer are left out
_SERVERS_NAMED: Final = 20

# Limits of what is read of a tool and of a query; both are foreign text.
_DESCRIPTION: Final = 1000
_PARAMETERS: Final = 64
_QUERY: Final = 400
_QUERY_WORDS: Final = 16

_OF_NAME: Final = 4.0
_OF_GROUP: Final = 2.0
_OF_PARAMETER: Final = 2.0
_OF_DESCRIPTION: Final = 1.5
_FIRST_WORDS: Final = 20  # of a description: they say what it is about
_AGAIN: Final = 0.5
# How well a tool's word fits the everyday word of a query: if no tool uses the everyday
# word itself, and if one does.
_MEANT: Final = 0.6
_SAID: Final = 0.3

_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD: Final = re.compile(r"[^\W_]+")
_BETWEEN_NAMES: Final = re.compile(r"[\s,;:\"'`()]+")

SEARCH: Final = ToolDefinition(
    name="tool_search",
    group="catalogue",
    description=(
        "Find and load tools that are not among your functions yet. Answers with"
        " the schemas of the best matches; from your next step on they are"
        " functions that you can call."
    ),
    parameters={
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "minLength": 1,
                "description": "What the tool should do, in a few words, or its name.",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": MOST_FOUND,
                "default": FOUND,
                "description": "How many tools at most.",
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    },
    estimated_duration=1e-6,  # a mere look-up: it fits wherever any tool does
    read_only=True,
    speech_field="found",
)
"""The built-in tool that finds the others. Its names are reserved."""

_OPENING: Final = (
    f"There are more tools than your functions show. Load one with {SEARCH.name}"
    " before you call it. Each line is a name, its server, and what that server"
    " says of it:"
)

Words = Mapping[str, float]
"""The words by which a tool is found, with their weights."""


class Findable(Protocol):
    """A tool as a search sees it."""

    @property
    def exposed(self) -> str: ...

    @property
    def definition(self) -> ToolDefinition: ...

    @property
    def words(self) -> Words: ...


F = TypeVar("F", bound=Findable)


def words_of(definition: ToolDefinition) -> Words:
    """Return the words by which the tool is found. Made once per tool, so that a search
    is quick; it takes some 30 µs."""
    properties = definition.parameters.get("properties")
    parameters = properties if isinstance(properties, Mapping) else {}
    return weighed(
        f"{definition.name} {definition.expose_as or ''}",
        definition.group,
        " ".join(map(str, islice(parameters, _PARAMETERS))),
        definition.description[:_DESCRIPTION],
    )


@lru_cache(maxsize=4096)
def weighed(name: str, group: str, parameters: str, description: str) -> Words:
    """Return the words of these texts, which are a tool's, with their weights."""
    weights: dict[str, float] = {}
    described = _words(description)
    first, rest = described[:_FIRST_WORDS], described[_FIRST_WORDS:]
    # The longer a description is, the less each of its later words counts.
    of_rest = _OF_DESCRIPTION * _FIRST_WORDS / 2 / max(len(described), 1)
    for found, weight in (
        (_words(name), _OF_NAME),
        (_words(group), _OF_GROUP),
        (_words(parameters), _OF_PARAMETER),
        (first, _OF_DESCRIPTION),
        (rest, of_rest),
    ):
        for word in found:
            if word not in EMPTY or weight >= _OF_GROUP:  # "all" may be a name
                weights.setdefault(stem(word), weight)
    return weights


def search(query: str, tools: Sequence[F], limit: int = FOUND) -> list[F]:
    """Return at most ``limit`` of ``tools``, the most relevant first.

    Ties keep the order given. A tool that shares no word with the query, nor the
    beginning of one, is not found.
    """
    named = frozenset(_BETWEEN_NAMES.split(query[:_QUERY]))
    scores = [
        math.inf if not named.isdisjoint((tool.exposed, tool.definition.key)) else score
        for tool, score in zip(
            tools, relevance(query, [x.words for x in tools]), strict=True
        )
    ]
    scores = _less_of_the_same(scores, tools)
    order = sorted(range(len(tools)), key=lambda at: -scores[at])
    return [tools[at] for at in order[: max(0, limit)] if scores[at] > 0]


def relevance(query: str, tools: Sequence[Words]) -> list[float]:
    """Return how well each of the tools with these words fits a query, from 0 on."""
    scores = [0.0] * len(tools)
    vocabulary = frozenset(word for words in tools for word in words)
    asked = list(islice(dict.fromkeys(_words(query[:_QUERY])), _QUERY_WORDS))
    for wanted in [x for x in asked if x not in EMPTY] or asked:
        best = [0.0] * len(tools)
        for word, likeness in _meant(wanted, vocabulary).items():
            having = [at for at, words in enumerate(tools) if word in words]
            worth = likeness * math.log(1 + len(tools) / len(having))
            for at in having:
                best[at] = max(best[at], worth * tools[at][word])
        scores = [score + more for score, more in zip(scores, best, strict=True)]
    return scores


def _less_of_the_same(scores: Sequence[float], tools: Sequence[F]) -> list[float]:
    """Lower the scores of tools that have one name on several servers, except for the
    best one: five of them would leave no room for anything else."""
    order = sorted(range(len(tools)), key=lambda at: -scores[at])
    seen: Counter[str] = Counter()
    fair = list(scores)
    for at in order:
        name = tools[at].definition.name
        fair[at] *= _AGAIN ** seen[name]
        seen[name] += 1
    return fair


def _meant(wanted: str, vocabulary: frozenset[str]) -> dict[str, float]:
    """Return the words of tools that a word of a query may mean, and their fit."""
    own = stem(wanted)
    near = _near(own, vocabulary)
    # A word that tools use themselves needs an interpretation less.
    fit = _SAID if own in vocabulary else _MEANT
    for meant in meant_by(wanted):
        if meant in vocabulary:
            near[meant] = max(near.get(meant, 0.0), fit)
    return near


def summary(tools: Iterable[Findable]) -> str:
    """Return one line per tool: its name, its server, its description.

    In the order given, so that lists with the same first tools begin with the same text
    and a model's prompt cache survives (see `Catalogue`). All of it has `LINES`
    characters at most. The more tools there are, the shorter is each line: first
    descriptions are cut, then left out; tools without room even for their names, from
    about the hundredth on, are counted by server.
    """
    lines: list[str] = []
    left_out: Counter[str] = Counter()
    room = LINES
    for tool in tools:
        # Cut by the room that is left, and by nothing else: a later tool must not
        # change this line.
        line = _line(tool, min(LINE, room // _TO_COME))
        if left_out or len(line) + 1 > room:
            left_out[tool.definition.group] += 1
            continue
        room -= len(line) + 1
        lines.append(line)
    if left_out:
        servers = [f"{n} of {_plain(server)}" for server, n in left_out.items()]
        some = ", ".join(servers[:_SERVERS_NAMED])
        others = ", and of other servers" if len(servers) > _SERVERS_NAMED else ""
        lines.append(f"- and {left_out.total()} more: {some}{others}")
    return "\n".join((_OPENING, *lines)) if lines else ""


def _line(tool: Findable, length: int) -> str:
    """Return the line of one tool; longer than ``length`` if its name is."""
    definition = tool.definition
    name, server = f"- {tool.exposed}", _plain(definition.group)
    said = _plain(definition.description[:_DESCRIPTION])
    head = f"{name} ({server})"
    if said and length - len(head) >= _LEAST_SAID:
        return cut(f"{head}: {said}", length)
    return name if server in name and len(head) > length else head


def _plain(text: str) -> str:
    """Return the text as one line, which cannot pass for another one."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(_CAMEL.sub(" ", text))]


def _near(wanted: str, vocabulary: Iterable[str]) -> dict[str, float]:
    """Return the words that ``wanted`` may mean, and how well they fit."""
    near: dict[str, float] = {}
    head = wanted[:3]
    for word in vocabulary:  # thousands, so the cheapest test comes first
        if word.startswith(head):
            if likeness := _likeness(wanted, word):
                near[word] = likeness
        elif (wanted in word and len(wanted) >= 4) or (
            len(word) >= 5 and word in wanted
        ):
            near[word] = 0.3  # part of a compound
    return near


def _likeness(wanted: str, word: str) -> float:
    """Return how alike two words are: 1 for the same, less for forms, or 0."""
    if wanted == word:
        return 1.0
    short, long = sorted((wanted, word), key=len)
    if len(short) >= 3 and long.startswith(short):
        return 0.6
    # Such as write and writing: alike but for the end.
    if len(short) >= 4 and long.startswith(short[: max(4, len(short) - 2)]):
        return 0.4
    return 0.0
