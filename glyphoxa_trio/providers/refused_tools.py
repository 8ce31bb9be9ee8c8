"""The tools that a refusal of a request is about, by their place or by their name.

    Invalid schema for function 'roll': … param: tools[3].function.parameters  (OpenAI)
    tools.3.custom.input_schema: …                                          (Anthropic)
    GenerateContentRequest.tools[0].function_declarations[2].parameters: …     (Gemini)
    `roll` functionDeclaration `parameters.n` schema …                         (Vertex)

A refusal counts only if it is about the definition of a tool that was sent: an innocent
tool must not be lost to an error about a message, or about a name that occurs nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

# All functions are in the first of Gemini's tools, or each is in one of its own.
_DECLARATION: Final = re.compile(
    r"tools(?:\[|\.)(\d{1,4})\]?\.function_?declarations(?:\[|\.)(\d{1,4})",
    re.IGNORECASE,
)
_PLACE: Final = re.compile(
    r"(?<![\w-])tools(?:\[(\d{1,4})\]|\.(\d{1,4})\b)(?!\]?\.function_?declarations)"
    # Paths as lists: of a parsed refusal (Mistral, vLLM), in a text (LM Studio).
    r"|^(?:loc|path): tools\n(?:loc|path): (\d{1,4})$"
    r"|^path: (\d{1,4})\npath: function$"
    r"|['\"]path['\"]:\s*\[\s*(?:['\"]tools['\"],\s*)?(\d{1,4}),\s*['\"]function['\"]",
    re.IGNORECASE | re.MULTILINE,
)
_NAME: Final = re.compile(
    r"\b(?:function|tool)(?:[ _](?:name|named|declaration|definition))*\s*[:=]?\s*"
    r"['\"`\u2018\u201c]([^'\"`\u2019\u201d\n]{1,128})['\"`\u2019\u201d]"
    r"|['\"`]([^'\"`\n]{1,128})['\"`] function_?declaration"
    r"|\b(?:for|of|in) (?:function|tool) ([A-Za-z_][\w-]{0,127})",
    re.IGNORECASE,
)
_OF_A_DEFINITION: Final = re.compile(
    r"schema|parameters|declaration|definition|propert|invalid[_ ](?:function|tool)",
    re.IGNORECASE,
)
_OF_A_MESSAGE: Final = re.compile(
    r"\b(?:messages|contents|input)(?:\[|\.)\d|^loc: (?:messages|contents)$"
    r"|tool_(?:calls?|choice|use|result)|function_call\b|tool call",
    re.IGNORECASE | re.MULTILINE,
)


_TOO_MANY: Final = re.compile(
    r"\btools\b[^\n]{0,80}?\b(?:max(?:imum)?|at most|limit)\b[^\d\n]{0,40}(\d{1,4})\b"
    r"|(?:max(?:imum)?|at most|limit)\b[^\d\n]{0,20}(\d{1,4})\b[^\n]{0,20}\btools\b",
    re.IGNORECASE,
)

_OF_SIZE: Final = re.compile(r"character|token|byte|context|string", re.IGNORECASE)


def most_tools(words: str, count: int) -> int | None:
    """Return how many tools a refusal says are accepted, if ``count`` are too many."""
    if _PLACE.search(words) or _DECLARATION.search(words) or _OF_SIZE.search(words):
        return None  # the number is about something in one of them
    match = _TOO_MANY.search(words)
    most = int(match[1] or match[2]) if match else 0
    return most if 0 < most < count else None


def is_about_tools(words: str) -> bool:
    """Return whether these words could be a refusal of a tool."""
    if any(x.search(words) for x in (_DECLARATION, _PLACE, _TOO_MANY)):
        return True
    return bool(_OF_A_DEFINITION.search(words) and _NAME.search(words))


def refused_tools(words: str, tools: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Return the names of the tools that a refusal is about; none if it is not clear.

    Args:
      words: the server's own words.
      tools: the tools of the request, in the order in which they were sent.
    """
    names = [_name_of(tool) for tool in tools]
    if _OF_A_DEFINITION.search(words) and not _OF_A_MESSAGE.search(words):
        said = _NAME.findall(words)
        known = {name for groups in said for name in groups} & {*names}
        strangers = {a or b for a, b, _ in said if a or b} - {*names}
        if known or strangers:  # of another tool, its place says nothing about ours
            return frozenset(known)
    places = _places(words)
    if any(place >= len(names) for place in places):
        return frozenset()
    return frozenset(names[place] for place in places)


def _places(words: str) -> frozenset[int]:
    """Return the places that a refusal names; none if it names one in an odd way."""
    found: set[int] = set()
    for tool, declaration in _DECLARATION.findall(words):
        if "0" not in (tool, declaration):
            return frozenset()
        found.add(int(tool) + int(declaration))
    for groups in _PLACE.findall(words):
        found.add(int(next(filter(None, groups))))
    return frozenset(found)


def _name_of(tool: Mapping[str, Any]) -> str:
    """Return the name of a tool, in either protocol."""
    return str(tool.get("name") or tool.get("function", {}).get("name", ""))
