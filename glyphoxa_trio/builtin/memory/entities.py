"""The tools ``query_entities`` and ``get_summary``: people, places and things."""

from __future__ import annotations

from typing import Any, Final

from glyphoxa_trio.memory.knowledge import EntityKind, Identity, Neighbour
from glyphoxa_trio.tools.decorate import tool
from glyphoxa_trio.tools.definition import CallContext, Tool, ToolError

from .limits import NOTHING, limit_of, limited
from .view import CampaignView, CampaignViews, answers, shortened

MOST_NEIGHBOURS: Final = 40  # in the answer of get_summary
MOST_FACTS: Final = 15
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


def tools(views: CampaignViews) -> list[Tool]:
    """Return both."""
    return [_query_entities(views), _get_summary(views)]


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
                "limit": limit_of(10),
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
