"""Finding tools by words, and telling of many in a line each (N24 to N26). Pure.

With more external tools than a model should be shown in full, it is told of them
in a `summary` and finds one with the tool `SEARCH`. Relevance is plain: words of
a tool's name count most, then its group and parameters, then its description; a
word that many tools share counts little; a tool that is named in full comes first.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, Protocol, TypeVar

from .arguments import cut
from .definition import ToolDefinition

DEFER_THRESHOLD: Final = 15  # N24: so many external tools are shown in full
MOST_FOUND: Final = 10
FOUND: Final = 5

LINE: Final = 160  # characters of one line of a summary
LINES: Final = 6000  # of all of them: about 1500 tokens
_SERVERS_NAMED: Final = 20

# What is looked at of a tool, and of a query. Both are other people's text.
_DESCRIPTION: Final = 1000
_PARAMETERS: Final = 64
_QUERY: Final = 400
_QUERY_WORDS: Final = 16

_OF_NAME: Final = 4.0
_OF_GROUP: Final = 2.0
_OF_PARAMETER: Final = 2.0
_OF_DESCRIPTION: Final = 1.0

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
    estimated_duration=1e-6,  # it only looks things up: it fits wherever any tool does
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
    """What the tool is found by. Made once a tool, so that a search is quick."""
    weights: dict[str, float] = {}
    properties = definition.parameters.get("properties")
    parameters = properties if isinstance(properties, Mapping) else {}
    for text, weight in (
        (f"{definition.name} {definition.expose_as or ''}", _OF_NAME),
        (definition.group, _OF_GROUP),
        (" ".join(map(str, islice(parameters, _PARAMETERS))), _OF_PARAMETER),
        (definition.description, _OF_DESCRIPTION),
    ):
        for word in _words(text[:_DESCRIPTION]):
            weights.setdefault(word, weight)
    return weights


def search(query: str, tools: Sequence[F], limit: int = FOUND) -> list[F]:
    """At most ``limit`` of ``tools``, the most relevant first.

    Ties keep the order given. A tool that shares no word with the query, nor the
    beginning of one, is not found.
    """
    query = query[:_QUERY]
    named = frozenset(_BETWEEN_NAMES.split(query))
    scores = [
        math.inf if not named.isdisjoint((tool.exposed, tool.definition.key)) else 0.0
        for tool in tools
    ]
    vocabulary = frozenset(word for tool in tools for word in tool.words)
    for wanted in islice(dict.fromkeys(_words(query)), _QUERY_WORDS):
        near = _near(wanted, vocabulary)
        matches = [
            max(
                (near[word] * tool.words[word] for word in near.keys() & tool.words),
                default=0.0,
            )
            for tool in tools
        ]
        having = sum(match > 0 for match in matches)
        rarity = math.log(1 + len(tools) / having) if having else 0.0
        for at, match in enumerate(matches):
            scores[at] += match * rarity
    order = sorted(range(len(tools)), key=lambda at: -scores[at])
    return [tools[at] for at in order[: max(0, limit)] if scores[at] > 0]


def summary(tools: Iterable[Findable]) -> str:
    """One line a tool: its name, its server, what it does.

    In the order given, so that what begins with the same tools begins with the
    same text and a model's prompt cache survives (see `Catalogue`). What exceeds
    `LINES` characters is only counted, by server.
    """
    lines: list[str] = []
    left_out: Counter[str] = Counter()
    room = LINES
    for tool in tools:
        if room > 0:
            line = _line(tool)
            room -= len(line) + 1
            if room >= 0:
                lines.append(line)
                continue
        left_out[tool.definition.group] += 1
    if left_out:
        servers = [f"{n} of {_plain(server)}" for server, n in left_out.items()]
        some = ", ".join(servers[:_SERVERS_NAMED])
        others = ", and of other servers" if len(servers) > _SERVERS_NAMED else ""
        lines.append(f"- and {left_out.total()} more: {some}{others}")
    return "\n".join((_OPENING, *lines)) if lines else ""


def _line(tool: Findable) -> str:
    definition = tool.definition
    head = f"- {tool.exposed} ({_plain(definition.group)})"
    said = _plain(definition.description[:_DESCRIPTION])
    return cut(f"{head}: {said}" if said else head, LINE)


def _plain(text: str) -> str:
    """One line without anything that could pass for another one."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(_CAMEL.sub(" ", text))]


def _near(wanted: str, vocabulary: Iterable[str]) -> dict[str, float]:
    """The words that ``wanted`` may mean, and how well they fit."""
    near: dict[str, float] = {}
    head = wanted[:3]
    for word in vocabulary:  # thousands, so the cheapest question first
        if word.startswith(head):
            if likeness := _likeness(wanted, word):
                near[word] = likeness
        elif wanted in word and len(wanted) >= 4:
            near[word] = 0.3  # part of a compound
    return near


def _likeness(wanted: str, word: str) -> float:
    """The same word, or a form of it; 0 is neither."""
    if wanted == word:
        return 1.0
    short, long = sorted((wanted, word), key=len)
    if len(short) >= 3 and long.startswith(short):
        return 0.6
    # Write and writing: all but the end.
    if len(short) >= 4 and long.startswith(short[: max(4, len(short) - 2)]):
        return 0.4
    return 0.0
