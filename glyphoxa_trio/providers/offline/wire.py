"""The answers of the stand-in, without I/O: the same request gives the same events.

If there are no results yet it looks for tools. What was said before is asked of the
tools of memory (`recalling`). Else a tool fits by the words of its name,
its parameters and its description, by a few synonyms, and only if its arguments can be
read from the utterance. If there are results it speaks about them, and calls nothing
more in that turn. If tools must be searched for, it searches when the line of one of
them fits, and then calls what it finds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

import attrs

from glyphoxa_trio.providers.llm import (
    CallReady,
    Finished,
    FinishReason,
    LLMEvent,
    LLMRequest,
    Message,
    TextChunk,
    ToolSpec,
)
from glyphoxa_trio.tools.outcome import ToolCall
from glyphoxa_trio.tools.search import SEARCH

from .arguments import arguments_for, evident, properties_of
from .recalling import is_memory_order, recalled
from .report import report, sentence
from .utterance import QUOTED, STRAIGHT_QUOTES, ParsedUtterance, stem, stems

MOST_CALLS: Final = 3
CONFESSION: Final = "I am the offline stand-in, not a language model."
_ENOUGH: Final = 3  # the score of a word of the name, or of a synonym
_NEARLY: Final = 0.75  # the share of the best score that is enough to be called as well
_MOST_HEARD: Final = 1000  # characters of an utterance
_MOST_NAMED: Final = 8  # tools named if no tool fits
# The heading under which NPCs are told of late results.
_ENDED: Final = "What went on by itself has ended:"
_LINE: Final = re.compile(r"^- (\S+) \([^)]*\)(?:: (.*))?$", re.MULTILINE)

# Words of a player, and the words of tools that answer them.
_MEANING: Final = (
    (
        {"remember", "recall", "know", "who", "met", "happen", "last", "past"},
        {"memory", "remember", "fact", "entity", "session", "transcript", "history"},
    ),
    (
        {"mean", "means", "meant", "rule", "condition", "spell", "work", "works"},
        {"rule", "srd"},
    ),
    ({"write", "save", "note", "put"}, {"write", "save"}),
    ({"read", "open", "show"}, {"read"}),
)


def respond(request: LLMRequest) -> list[LLMEvent]:
    """Return the events of one round."""
    spoken = [at for at, one in enumerate(request.messages) if one.role == "user"]
    start = spoken[-1] if spoken else len(request.messages)
    text = request.messages[start].content if spoken else ""
    text = text[:_MOST_HEARD].translate(STRAIGHT_QUOTES).replace("\0", " ")
    turn = request.messages[start:]
    calls_so_far = [call for one in turn for call in one.calls]
    searches = {call.id for call in calls_so_far if call.name == SEARCH.name}
    told = [one for one in turn if one.role != "tool" or one.call_id not in searches]
    news = _news(request.messages[:start])
    if any(one.role == "tool" for one in told):
        return _speak(" ".join([*news, *report(told)]))
    if not request.tools_forbidden:
        shown = [x for x in request.tools if x.name != SEARCH.name]
        speaker = request.messages[start].name if spoken else ""
        chosen = recalled(text, shown, speaker) or _chosen(
            text, [x for x in shown if not is_memory_order(x.name)]
        )
        if not chosen and not searches and _is_findable(text, request):
            chosen = [(SEARCH.name, {"query": text})]
        already = sum(len(one.calls) for one in request.messages)
        calls = [
            ToolCall(f"offline_{number}", name, json.dumps(arguments))
            for number, (name, arguments) in enumerate(chosen, start=already + 1)
        ]
        if calls:
            ready = [CallReady(call) for call in calls]
            return [*ready, Finished(reason=FinishReason.TOOL_CALLS)]
    return _speak(" ".join(news) or _small_talk(request))


def _news(before: Sequence[Message]) -> list[str]:
    """Return sentences about the calls that ended since the last turn."""
    lines: list[str] = []
    for one in reversed(before):
        if one.role == "system" and one.content.startswith(_ENDED):
            lines = one.content.splitlines()[1:]
        if one.role not in ("system", "user"):
            break
    return [
        sentence(name, content)
        for name, _, content in (line.partition(": ") for line in lines)
    ]


def _speak(text: str) -> list[LLMEvent]:
    """Return the events of a spoken text."""
    words = text.split()
    pieces = [word if at == 0 else f" {word}" for at, word in enumerate(words)]
    return [*map(TextChunk, pieces), Finished()]


# Choosing


@attrs.frozen(kw_only=True)
class _Candidate:
    """A tool that fits an utterance, with its arguments."""

    score: float
    name: str
    arguments: dict[str, Any]


def _chosen(text: str, tools: Sequence[ToolSpec]) -> list[tuple[str, dict[str, Any]]]:
    """Return tools and arguments for all requests, in order, each once."""
    chosen: list[tuple[str, dict[str, Any]]] = []
    for clause in _clauses(text, tools):
        for one in _candidates(clause, tools):
            if (one.name, one.arguments) not in chosen:
                chosen.append((one.name, one.arguments))
    return chosen[:MOST_CALLS]


def _clauses(text: str, tools: Sequence[ToolSpec]) -> list[str]:
    """Cut ``text`` between requests; a part that requests nothing is kept attached."""
    quotes: list[str] = []

    def hide(found: re.Match[str]) -> str:
        quotes.append(found[0])
        return f"\0{len(quotes) - 1}\0"

    def show(part: str) -> str:
        return re.sub("\0(\\d+)\0", lambda found: quotes[int(found[1])], part)

    hidden = QUOTED.sub(hide, text)
    clauses: list[str] = []
    rest = 0
    for cut in [*re.finditer(r"\band\b|\bthen\b|[;!?]|\.\s", hidden), None]:
        part = show(hidden[rest : cut.start() if cut else None]).strip()
        if not clauses or _candidates(part, tools):
            clauses.append(part)
        elif part:
            clauses[-1] += f" and {part}"
        rest = cut.end() if cut else rest
    return clauses


def _candidates(text: str, tools: Sequence[ToolSpec]) -> list[_Candidate]:
    """Return the tools that fit ``text`` about as well as the best, best first."""
    utterance = ParsedUtterance(text)
    fitting: list[_Candidate] = []
    for tool in tools:
        score = _score(tool, utterance)
        if score >= _ENOUGH:
            # The tool of mcp__oracle__vision is its last part; the rest names the
            # server.
            own = stems(tool.name.rpartition("__")[2].replace("_", " "))
            arguments = arguments_for(tool.parameters, utterance, own)
            if arguments is not None:
                fitting.append(
                    _Candidate(score=score, name=tool.name, arguments=arguments)
                )
    fitting.sort(key=lambda one: (-one.score, one.name))
    return [one for one in fitting if one.score >= _NEARLY * fitting[0].score][
        :MOST_CALLS
    ]


def _is_findable(text: str, request: LLMRequest) -> bool:
    """Return whether a tool that is only listed in a line may be meant."""
    if all(tool.name != SEARCH.name for tool in request.tools):
        return False
    told = "\n".join(one.content for one in request.messages if one.role == "system")
    utterance = ParsedUtterance(text)
    lines = (
        ToolSpec(name=found[1], description=found[2] or "", parameters={})
        for found in _LINE.finditer(told)
    )
    return any(_score(line, utterance) >= _ENOUGH for line in lines)


def _named(tool: ToolSpec) -> frozenset[str]:
    """Return the stems of a tool's name."""
    return stems(tool.name.replace("_", " ")) - {"mcp"}


def _score(tool: ToolSpec, utterance: ParsedUtterance) -> float:
    """Return how well a tool fits an utterance."""
    said = stems(utterance.text)
    plain = {stem(word) for word in re.findall(r"[a-z]+", utterance.text.lower())}
    named = _named(tool)
    described = stems(tool.description) - named
    score = 3.0 * len(said & named) + 0.5 * min(4, len(said & described))
    for asked, answering in _MEANING:
        if plain & {stem(word) for word in asked} and named & answering:
            score += 3
    if utterance.dice and named & {"roll", "dice"}:
        score += 3
    for name, schema in properties_of(tool.parameters).items():
        if evident(name, schema, utterance) is not None:
            score += 2
    return score


def _small_talk(request: LLMRequest) -> str:
    """Return an answer without tools; the confession comes once in a conversation."""
    system = " ".join(one.content for one in request.messages if one.role == "system")
    found = re.search(
        r"\b(?:[Yy]ou are|[Nn]ame is|[Nn]ame:)\s+([A-Z][\w'-]*(?: [A-Z][\w'-]*)*)",
        system,
    )
    told = any(
        CONFESSION in one.content for one in request.messages if one.role == "assistant"
    )
    name = f"{found[1]} here." if found else ""
    names = [tool.name for tool in request.tools[:_MOST_NAMED]]
    more = len(request.tools) - len(names)
    if request.tools_forbidden:
        seen = "I may use no tools right now."
    elif not names:
        seen = "I can see no tools right now."
    else:
        others = f" and {more} more" if more else ""
        seen = f"The tools I can see right now: {', '.join(names)}{others}."
    return " ".join(filter(None, [name, "" if told else CONFESSION, seen]))
