"""The group ``memory``: lines, entities and facts that an NPC may know of.

Each answer has the most relevant first, a ``message`` that can be spoken, and nothing
of what the viewer may not know: that is searched as if it did not exist.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import trio

from glyphoxa_trio.memory.contract import FoundChunk, FoundFact, Memory
from glyphoxa_trio.memory.knowledge import (
    Basis,
    EntityKind,
    Fact,
    Identity,
    Neighbour,
    Provenance,
    Standing,
)
from glyphoxa_trio.memory.visibility import NO_NPC, CampaignKey, Reach, Viewer
from glyphoxa_trio.tools.decorate import tool
from glyphoxa_trio.tools.definition import CallContext, Tool, ToolError

from . import sessions
from .dates import times
from .view import CampaignView, CampaignViews, answers, shortened

Embed = Callable[[str], Awaitable["tuple[str, Sequence[float]] | None"]]
"""Returns the name of a model and the vector of a text; None if there is none now."""

MOST_RESULTS: Final = 20
MOST_FACT: Final = 500  # characters of a fact to remember
MOST_ABOUT: Final = 8  # entities that it is about
MOST_NEIGHBOURS: Final = 40  # in the answer of get_summary
MOST_FACTS: Final = 15
# seconds: then words are searched instead, which leaves time for that
EMBEDDING: Final = 0.4
NOTHING: Final = "I remember nothing of that."

_ME: Final = frozenset({"me", "myself", "self"})
_KINDS: Final = ", ".join(EntityKind)
# What models and people call the kinds.
_CALLED: Final = {
    EntityKind.NPC: "character person people creature monster",
    EntityKind.PLAYER: "pc adventurer",
    EntityKind.LOCATION: "place city town region building",
    EntityKind.ITEM: "object thing weapon artifact artefact",
    EntityKind.FACTION: "group guild organization organisation",
    EntityKind.EVENT: "battle happening",
    EntityKind.QUEST: "mission task job",
    EntityKind.LORE: "history legend story",
    EntityKind.CONCEPT: "idea magic",
}
_KIND_OF: Final = {
    word: kind
    for kind, words in _CALLED.items()
    for word in (kind.value, *words.split())
}


def tools(
    memory: Memory,
    *,
    campaign_of: Callable[[CallContext], CampaignKey],
    viewer_of: Callable[[CallContext], Viewer],
    embed: Embed | None = None,
    now: Callable[[], float],
) -> list[Tool]:
    """Return the tools of the groups ``memory`` and ``sessions``.

    Args:
      campaign_of: returns the campaign of a call.
      viewer_of: returns the NPC of a call, as a viewer of that campaign.
      embed: embeds a query; without it, words are searched.
      now: returns the time, in Unix time.
    """
    views = CampaignViews(memory, campaign_of, viewer_of, now)
    return [
        _search_sessions(views),
        _query_entities(views),
        _get_summary(views),
        _search_facts(views, embed),
        _remember(views),
        *sessions.tools(views),
    ]


def _search_sessions(views: CampaignViews) -> Tool:
    @tool(
        group="memory",
        category="memory",
        title="Search what was said",
        description="Search what was said in your hearing, in this session and earlier"
        " ones, by words. The most relevant lines come first, with who said them and"
        " when.",
        parameters={
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "description": "A few words that were said, for example: red"
                    " dragon",
                },
                "session_id": {
                    "type": "string",
                    "description": "Only this session: an id from another answer, a"
                    " day such as 2026-11-12, or last.",
                },
                "limit": _limit(5),
            },
            "required": ["query"],
            "additionalProperties": False,
        },
        estimated_duration_ms=100,
        max_duration_ms=500,
        read_only=True,
        idempotent=True,
        per_npc=True,
        examples=({"query": "red dragon", "limit": 1},),
        speech_field="message",
    )
    async def search_sessions(
        query: str, context: CallContext, session_id: str | None = None, limit: int = 5
    ) -> dict[str, Any]:
        view = views.of(context)
        with answers():
            evening = ""
            if session_id and session_id.strip():
                meant = await view.evening(session_id)
                if meant is None:
                    return {"message": sessions.NONE_YET, "results": []}
                evening = meant.id
            found = await view.memory.transcripts.search(
                *view.key, query, evening=evening, limit=limited(limit)
            )
        answer: dict[str, Any] = {
            "message": view.quoted(found.lines) if found.lines else NOTHING,
            "results": [view.line(x) for x in found.lines],
        }
        if evening:
            answer["session_id"] = evening
        if found.partial:
            answer["partial"] = "so much matches that only the newest was ranked"
        return answer

    return search_sessions


def _query_entities(views: CampaignViews) -> Tool:
    @tool(
        group="memory",
        category="memory",
        title="Find people, places and things",
        description="Find the people, places and things that you know of, by name, by"
        " type, or both. get_summary tells more of one.",
        parameters={
            "type": "object",
            "properties": {
                "name": {
                    "type": "string",
                    "description": "A name or a part of it, for example: Bartok",
                },
                "type": {"type": "string", "description": f"One of {_KINDS}."},
                "limit": _limit(10),
            },
            "additionalProperties": False,
        },
        estimated_duration_ms=50,
        max_duration_ms=200,
        read_only=True,
        idempotent=True,
        per_npc=True,
        examples=({"name": "Bartok", "limit": 1},),
        speech_field="message",
    )
    async def query_entities(
        context: CallContext,
        name: str | None = None,
        type: str | None = None,  # noqa: A002  the seed's name of the argument
        limit: int = 10,
    ) -> dict[str, Any]:
        view, kind, called = views.of(context), _kind(type), (name or "").strip()
        with answers():
            found = await view.memory.graph.entities(
                *view.key, name=called, kind=kind, limit=limited(limit)
            )
            near = [] if found or not called else await view.near(called)
        answer: dict[str, Any] = {
            "message": NOTHING,
            "results": [
                {
                    "id": one.id,
                    "name": one.name,
                    "type": one.kind.value,
                    **({"also_called": list(one.aliases)} if one.aliases else {}),
                    **({"summary": shortened(one.summary)} if one.summary else {}),
                }
                for one in found
            ],
        }
        if found:
            first = found[0]
            said = f"{first.name}: {shortened(first.summary or first.kind.value)}"
            more = [x.name for x in found[1:4]]
            answer["message"] = f"{said} And {', '.join(more)}." if more else said
        elif near:
            answer["did_you_mean"] = near
        return answer

    return query_entities


def _get_summary(views: CampaignViews) -> Tool:
    @tool(
        group="memory",
        category="memory",
        title="Tell all that is known of one",
        description="Get all that you know of one person, place or thing: attributes,"
        " relationships, the people, places and things around it, and facts.",
        parameters={
            "type": "object",
            "properties": {
                "entity_id": {
                    "type": "string",
                    "description": "An id from query_entities, or a name, or me.",
                }
            },
            "required": ["entity_id"],
            "additionalProperties": False,
        },
        estimated_duration_ms=80,
        max_duration_ms=300,
        read_only=True,
        idempotent=True,
        per_npc=True,
        examples=({"entity_id": "me"},),
        speech_field="message",
    )
    async def get_summary(entity_id: str, context: CallContext) -> dict[str, Any]:
        view, named = views.of(context), entity_id.strip()
        with answers():
            if not named:
                raise ToolError("entity_id is empty; query_entities finds ids")
            own = named.casefold() in _ME
            entity = await view.named((view.viewer.npc or "") if own else named)
            if entity is None and own:
                return {"message": "Nothing is known of me yet.", "found": False}
            if entity is None:
                raise await view.unknown(named)
            found = await view.memory.graph.identity(*view.key, entity.id, depth=1)
        return _summary(view, found)

    return get_summary


def _summary(view: CampaignView, found: Identity) -> dict[str, Any]:
    entity = found.entity
    names = {x.entity.id: x.entity.name for x in found.neighbours}
    names[entity.id] = entity.name
    edges = found.neighbours[:MOST_NEIGHBOURS]
    connected = {x.entity.id: x.entity for x in edges if x.entity.id != entity.id}
    answer: dict[str, Any] = {
        "message": "",
        "id": entity.id,
        "name": entity.name,
        "type": entity.kind.value,
        "also_called": list(entity.aliases),
        "summary": entity.summary,
        "attributes": dict(entity.attributes),
        "relationships": [_edge(x, names) for x in edges],
        "connected": [
            {"id": x.id, "name": x.name, "type": x.kind.value}
            for x in connected.values()
        ],
        "facts": [view.fact(x) for x in found.facts[:MOST_FACTS]],
    }
    if left_out := found.more + len(found.neighbours) - len(edges):
        answer["relationships_left_out"] = left_out
    said = [entity.summary or f"{entity.name}, {entity.kind.value}."]
    said += [f"{x['from']} {x['type']} {x['to']}." for x in answer["relationships"][:2]]
    said += [view.told(x) for x in found.facts[:2]]
    answer["message"] = shortened(" ".join(filter(None, said)), 400)
    return answer


def _edge(neighbour: Neighbour, names: dict[str, str]) -> dict[str, Any]:
    one = neighbour.relationship
    edge: dict[str, Any] = {
        "from": names.get(one.source, one.source),
        "type": one.type.replace("_", " "),
        "to": names.get(one.target, one.target),
    }
    if one.attributes:
        edge["attributes"] = dict(one.attributes)
    return edge


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
                "top_k": _limit(10),
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
            fact_ = Fact(
                text=text,
                about=tuple(dict.fromkeys(x.id for _, x in found if x is not None)),
                standing=Standing.ACCEPTED,
                reach=NO_NPC if npc is None else Reach.of(npc),
                provenance=Provenance(
                    basis=Basis.STATED, at=view.now, by=npc or "the game master"
                ),
            )
            await view.memory.graph.put(view.campaign, facts=[fact_])
        answer: dict[str, Any] = {"message": "I will remember that.", "fact": text}
        answer["about"] = [x.name for _, x in found if x is not None]
        if strange := [name[:100] for name, x in found if x is None]:
            answer["not_known"] = strange
        return answer

    return remember


def limited(limit: float) -> int:
    """Return a limit as a slice takes it.

    Raises:
      ToolError: it is not from 1 to 20.
    """
    if not 1 <= limit <= MOST_RESULTS:
        raise ToolError(f"the limit must be from 1 to {MOST_RESULTS}, got {limit}")
    return int(limit)


def _limit(default: int) -> dict[str, Any]:
    return {
        "type": "integer",
        "minimum": 1,
        "maximum": MOST_RESULTS,
        "default": default,
    }


def _asked(query: str) -> str:
    # Without a word it would be a request for the newest facts.
    if not query.strip():
        raise ToolError("the query is empty; ask in a few words")
    return query


def _kind(said: str | None) -> EntityKind | None:
    """Return the kind that a word means.

    Raises:
      ToolError: it means none.
    """
    word = (said or "").strip().casefold()
    if not word:
        return None
    kind = _KIND_OF.get(word) or _KIND_OF.get(word.removesuffix("s"))
    if kind is None:
        raise ToolError(f"no type {word[:40]!r}; there are: {_KINDS}")
    return kind
