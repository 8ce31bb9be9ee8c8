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
_QUESTION: Final = re.compile(
    r"(?i)\byou (?:still )?(?:remember|recall)\b(?! (?:about|of) (?!me|us))"
    r"|\b(?:what|when|where|who|did|have|had|has|all|everything|summari\w+)\b.{0,20}\b"
    r"(?:i|we|you|he|she|they|[a-z'-]+) (?:ever |just |already )?"
    r"(?:asked|say|said|tell|told|mention|mentioned|talk|talked|speak|spoken)\b"
    r"|\bhave (?:we|i) (?:ever )?(?:met|been)\b|\bremember me\b"
    r"|\bwe (?:talk|spoke|speak)\w* about\b|\bdid i (?:just )?ask\b"
    r"|\b(?:know|remember|recall) (?:about|of) (?:me|us)\b|\b(?:know|recogni\w+) me\b"
)
_LAST_TIME: Final = re.compile(
    r"(?i)\blast (?:time|session|evening)\b|\bwhat\b.* last night\b"
    r"|\bwhere (?:did|had) we (?:leave|left) off\b"
)
_OF_RECALLING: Final = re.compile(
    r"(?i)\bsummari\w+|\b(?:list|repeat|everything|so far|told|said|asked|mentioned)\b"
    r"(?! about)"
)
# Of this conversation, in which nothing need be searched for.
_JUST_NOW: Final = re.compile(
    r"(?i)\b(?:what|which)\b.{0,30}\b(?:i|you|we)\b.{0,12}\b(?:just|first|before|last"
    r"|earlier|a (?:moment|minute) ago|at the (?:start|beginning))\b"
    r"|\bmy (?:last|first|previous) (?:\w+)\W*$"
    r"|^(?:(?:can|could) you )?(?:please )?(?:say|repeat) (?:that|it)\b.{0,13}$"
    r"|^(?:what|repeat what) (?:did|have|was it) ?(?:i|you) (?:say|said|ask|asked)\W*$"
    r"|\brepeat (?:what (?:i|you) said|yourself)\W*$"
)


def recalls(text: str) -> bool:
    """Return True if a question is about what was said earlier."""
    said = ParsedUtterance(text)
    if (
        said.file
        or said.plain.startswith("forget")
        or (_LAST_TIME.search(text) and not said.is_question)
    ):
        return False
    asks = said.is_question or said.is_polite or "?" in text or bool(said.asked)
    asks = asks or re.match(r"(?i)summari|list|repeat|tell", text) is not None
    return bool(
        _JUST_NOW.search(text)
        or ((_QUESTION.search(text) or _LAST_TIME.search(text)) and asks)
    )


def just_now(text: str) -> bool:
    """Return True if it is asked what was said in this conversation."""
    return bool(_JUST_NOW.search(text)) and not _LAST_TIME.search(text)


def recalled(
    text: str, tools: Sequence[ToolSpec], speaker: str
) -> list[tuple[str, dict[str, Any]]]:
    """Return the call that remembers or recalls what is asked; none for other words."""
    shown = {plain_name(tool.name): tool.name for tool in tools}
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
    utterance = ParsedUtterance(_OF_RECALLING.sub(" ", _LAST_TIME.sub(" ", text)))
    return utterance.quoted or utterance.topic


def plain_name(name: str) -> str:
    """Return the name of a tool without its server."""
    return name.rpartition("__")[2]
