"""Find what an utterance asks of a memory: to remember something, or to recall it.

Only tools with the names of the memory's own are called so, here or on a server.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from glyphoxa_trio.providers.llm import ToolSpec

from .utterance import ParsedUtterance

REMEMBER: Final = "remember"
_SEARCHES: Final = ("search_sessions", "search_history", "search_facts")
_SUMMARY: Final = "get_session_summary"

ORDER: Final = re.compile(
    r"(?is)(?:^|[,.!?;]\s*)(?:please,? |can you |could you )?"
    r"(?:remember|keep in mind|(?:do not|don't|never) forget)"
    r"(?: this)?(?:: ?| that |(?= my | i | we ))(?P<fact>.+)"
    r"|^(?P<before>.{8,}?),? (?:and |but |please )*"
    r"(?:keep|remember|(?:do not|don't|never) forget) (?:that|it|this)"
    r"(?: in mind| for me)?\W*$"
)
_WHO_SPOKE: Final = r"(?:i|we|you|he|she|they|[a-z'-]+)"
_QUESTION: Final = re.compile(
    r"(?i)\byou (?:still )?(?:remember|recall)\b(?! (?:about|of)\b)"
    rf"|\b(?:what|when|where|who|did|have|had|has)\b.{{0,20}}\b{_WHO_SPOKE}"
    r" (?:ever |just |already )?"
    r"(?:asked|say|said|tell|told|mention|mentioned|talk|talked|speak|spoken)\b"
    r"|\bhave (?:we|i) (?:ever )?(?:met|been)\b|\bremember me\b"
    r"|\bwe (?:talk|spoke|speak)\w* about\b"
    r"|\bdid i (?:just )?ask\b|\b(?:know|remember) about (?:me|us)\b"
)
_LAST_TIME: Final = re.compile(
    r"(?i)\blast (?:time|session|evening)\b|\bwhat\b.* last night\b"
    r"|\bwhere (?:did|had) we (?:leave|left) off\b"
)
# Of this conversation, in which nothing need be searched for.
_JUST_NOW: Final = re.compile(
    r"(?i)\b(?:what|which)\b.{0,30}\b(?:i|you|we)\b.{0,12}\b(?:just|first|before|last|now"
    r"|earlier|a (?:moment|minute) ago|at the (?:start|beginning))\b"
    r"|\bmy (?P<which>last|first|previous) (?:\w+)\W*$"
    r"|^(?:what|repeat what) (?:did|have|was it) ?(?:i|you) (?:say|said|ask|asked)\W*$"
    r"|\brepeat (?:that|what (?:i|you) said|yourself)\W*$"
)
FIRST: Final = re.compile(r"(?i)\b(?:first|beginning|start)\b")


def is_memory_order(name: str) -> bool:
    """Return True for the tool that remembers, which is called when told to, only."""
    return _plain(name) == REMEMBER


def recalls(text: str) -> bool:
    """Return True if a question is about what was said earlier."""
    said = ParsedUtterance(text)
    if said.file:
        return False
    return bool(
        _JUST_NOW.search(text)
        or (
            (_QUESTION.search(text) or _LAST_TIME.search(text))
            and (said.is_question or said.is_polite or "?" in text or said.asked)
        )
    )


def just_now(text: str) -> bool:
    """Return True if it is asked what was said in this conversation."""
    return bool(_JUST_NOW.search(text)) and not _LAST_TIME.search(text)


def recalled(
    text: str, tools: Sequence[ToolSpec], speaker: str
) -> list[tuple[str, dict[str, Any]]]:
    """Return the call that remembers or recalls what is asked; none for other words."""
    shown = {_plain(tool.name): tool.name for tool in tools}
    if found := ORDER.search(text):
        if REMEMBER not in shown:
            return []
        fact = " ".join((found["before"] or found["fact"]).split())
        told = f"{speaker} said: {fact}" if speaker else fact
        return [(shown[REMEMBER], {"fact": told})]
    if not recalls(text) or just_now(text):
        return []
    topic = topic_of(text)
    if _SUMMARY in shown and (_LAST_TIME.search(text) or not topic):
        return [(shown[_SUMMARY], {"session_id": "last"})]
    query = topic or speaker
    searches = (shown[name] for name in _SEARCHES if name in shown and query)
    return [(name, {"query": query}) for name in searches][:1]


def topic_of(text: str) -> str:
    """Return what is to be recalled; empty if it is everything."""
    utterance = ParsedUtterance(_LAST_TIME.sub(" ", text))
    return utterance.quoted or utterance.topic


def _plain(name: str) -> str:
    return name.rpartition("__")[2]
