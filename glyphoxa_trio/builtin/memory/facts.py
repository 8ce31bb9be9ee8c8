"""The tools ``search_facts`` and ``remember``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import trio

from glyphoxa_trio.memory.claims import remembered_fact
from glyphoxa_trio.memory.contract import FoundChunk, FoundFact
from glyphoxa_trio.memory.knowledge import Basis, Fact, Provenance
from glyphoxa_trio.memory.visibility import NO_NPC
from glyphoxa_trio.tools.decorate import tool
from glyphoxa_trio.tools.definition import CallContext, Tool, ToolError

from .dates import times
from .limits import NOTHING, limit_of, limited
from .view import CampaignView, CampaignViews, answers, shortened

Embed = Callable[[str], Awaitable["tuple[str, Sequence[float]] | None"]]
"""Returns the name of a model and the vector of a text; None if there is none now."""

MOST_FACT: Final = 500  # characters of a fact to remember
MOST_ABOUT: Final = 8  # entities that it is about
# seconds: then words are searched instead, which leaves time for that
EMBEDDING: Final = 0.4


def tools(views: CampaignViews, embed: Embed | None) -> list[Tool]:
    """Return both."""
    return [_search_facts(views, embed), _remember(views)]


def _search_facts(views: CampaignViews, embed: Embed | None) -> Tool:
    @tool(
        group="memory",
        category="memory",
        title="Search for facts",
        description="Search for facts in all that you have heard and know: by meaning"
        " or by words, `searched` says which. What has claimed_by is only claimed by a"
        " player, and may be untrue.",
        parameters={
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "description": "What you want to know, for example: what does the"
                    " dragon fear",
                },
                "top_k": limit_of(10),
            },
            "required": ["query"],
            "additionalProperties": False,
        },
        estimated_duration_ms=200,
        max_duration_ms=800,
        read_only=True,
        idempotent=True,
        per_npc=True,
        examples=({"query": "what does the dragon fear", "top_k": 1},),
        speech_field="message",
    )
    async def search_facts(
        query: str, context: CallContext, top_k: int = 10
    ) -> dict[str, Any]:
        view, most = views.of(context), limited(top_k)
        with answers():
            facts = await view.memory.graph.facts(*view.key, _asked(query), limit=most)
            chunks = await _similar(view, embed, query, most)
            known = [(view.told(x.fact), view.fact(x.fact)) for x in facts]
            if chunks is None:
                found = await view.memory.transcripts.search(
                    *view.key, query, limit=most
                )
                quoted = [(view.quoted([x]), view.line(x)) for x in found.lines]
            else:
                quoted = _passages(view, chunks, facts)
        results = _in_turn(known, quoted)[:most]
        return {
            "message": results[0][0] if results else NOTHING,
            "searched": "words" if chunks is None else "meaning",
            "results": [x for _, x in results],
        }

    return search_facts


async def _similar(
    view: CampaignView, embed: Embed | None, query: str, most: int
) -> tuple[FoundChunk, ...] | None:
    """Return what is similar in meaning; None if the query cannot be embedded now."""
    made = None
    if embed is not None:
        with trio.move_on_after(EMBEDDING):
            made = await embed(query)
    if made is None:
        return None
    return await view.memory.index.search(*view.key, *made, limit=most)


def _passages(
    view: CampaignView, found: Sequence[FoundChunk], facts: Sequence[FoundFact]
) -> list[tuple[str, dict[str, Any]]]:
    """Return similar passages and facts, without the facts that words have found."""
    already = {x.fact.id for x in facts}
    passages = []
    for one in found:
        chunk = one.chunk
        if chunk.fact in already:
            continue
        answer: dict[str, Any] = {
            ("fact" if chunk.fact else "passage"): shortened(chunk.text, 600),
            **times(chunk.at, view.now),
            "similarity": round(one.score, 3),
        }
        if chunk.evening:
            answer["session_id"] = chunk.evening
        passages.append((shortened(chunk.text), answer))
    return passages


def _in_turn(*several: Sequence[Any]) -> list[Any]:
    """Return the first of each, then the second of each, and so on."""
    longest = max(map(len, several))
    return [x[at] for at in range(longest) for x in several if at < len(x)]


def _asked(query: str) -> str:
    # Without a word it would be a request for the newest facts.
    if not query.strip():
        raise ToolError("the query is empty; ask in a few words")
    return query


def _remember(views: CampaignViews) -> Tool:
    @tool(
        group="memory",
        category="memory",
        title="Remember a fact",
        description="Remember one fact for later sessions, in a sentence that can be"
        " understood alone. Only you will know it.",
        parameters={
            "type": "object",
            "properties": {
                "fact": {
                    "type": "string",
                    "description": "For example: Aria owes me three copper.",
                },
                "about": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "The names or ids of whom or what it is about.",
                },
            },
            "required": ["fact"],
            "additionalProperties": False,
        },
        estimated_duration_ms=50,
        max_duration_ms=500,
        idempotent=True,
        per_npc=True,
        speech_field="message",
    )
    async def remember(
        fact: str, context: CallContext, about: Sequence[str] = ()
    ) -> dict[str, Any]:
        view, text = views.of(context), " ".join(fact.split())
        if not text:
            raise ToolError("the fact is empty; write one sentence")
        if len(text) > MOST_FACT:
            raise ToolError(
                f"the fact has more than {MOST_FACT} characters: shorten it"
            )
        if len(about) > MOST_ABOUT:
            raise ToolError(f"about names more than {MOST_ABOUT}: leave some out")
        npc = view.viewer.npc
        with answers():
            found = [(name, await view.named(name)) for name in about]
            ids = tuple(dict.fromkeys(x.id for _, x in found if x is not None))
            if npc is None:
                told = Provenance(basis=Basis.STATED, at=view.now, by="the game master")
                kept = Fact(text=text, about=ids, reach=NO_NPC, provenance=told)
            else:
                kept = remembered_fact(
                    text,
                    npc=npc,
                    at=view.now,
                    about=ids,
                    player=views.player_of(context),
                )
            await view.memory.graph.put(view.campaign, facts=[kept])
        answer: dict[str, Any] = {"message": "I will remember that.", "fact": text}
        answer["about"] = [x.name for _, x in found if x is not None]
        if strange := [name[:100] for name, x in found if x is None]:
            answer["not_known"] = strange
        return answer

    return remember
