"""The group ``memory``: lines, entities and facts that an NPC may know of.

Each answer has the most relevant first, a ``message`` that can be spoken, and nothing
of what the viewer may not know: that is searched as if it did not exist.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.visibility import CampaignKey, Viewer
from glyphoxa_trio.tools.decorate import tool
from glyphoxa_trio.tools.definition import CallContext, Tool

from . import entities, facts, sessions
from .facts import Embed
from .limits import NOTHING, limit_of, limited
from .view import CampaignViews, answers


def tools(
    memory: Memory,
    *,
    campaign_of: Callable[[CallContext], CampaignKey],
    viewer_of: Callable[[CallContext], Viewer],
    embed: Embed | None = None,
    now: Callable[[], float],
    player_of: Callable[[CallContext], tuple[str, str]] = lambda _: ("", ""),
) -> list[Tool]:
    """Return the tools of the groups ``memory`` and ``sessions``.

    Args:
      campaign_of: returns the campaign of a call.
      viewer_of: returns the NPC of a call, as a viewer of that campaign.
      embed: embeds a query; without it, words are searched.
      now: returns the time, in Unix time.
      player_of: returns the stable id and the name of the player who speaks to the NPC
        of a call; two empty texts if that is not known.
    """
    views = CampaignViews(memory, campaign_of, viewer_of, now, player_of)
    return [
        _search_sessions(views),
        *entities.tools(views),
        *facts.tools(views, embed),
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
                "limit": limit_of(5),
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
