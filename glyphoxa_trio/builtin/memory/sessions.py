"""The group ``sessions``: earlier sessions as a whole, and where something was said."""

from __future__ import annotations

from typing import Any, Final

from glyphoxa_trio.memory.contract import FoundLine
from glyphoxa_trio.memory.entries import Evening
from glyphoxa_trio.memory.words import words_in_query, words_of
from glyphoxa_trio.tools.decorate import tool
from glyphoxa_trio.tools.definition import CallContext, Tool, ToolError

from .dates import day_in_words, times
from .view import CampaignView, CampaignViews, answers, shortened

MOST_SESSIONS: Final = 10
NONE_YET: Final = "No session is remembered here yet."
_LAST_LINES: Final = 12  # of a session that has no summary
_SEARCHED: Final = 50  # lines, and sessions whose summaries are searched


def tools(views: CampaignViews) -> list[Tool]:
    """Return ``get_summary`` and ``search_history``."""
    return [_get_summary(views), _search_history(views)]


def _get_summary(views: CampaignViews) -> Tool:
    @tool(
        name="get_summary",
        group="sessions",
        category="memory",
        title="Tell of a session",
        description="Get the summary of an earlier session that you were in: when it"
        " was, and what happened. One without a summary yet has its last lines.",
        parameters={
            "type": "object",
            "properties": {
                "session_id": {
                    "type": "string",
                    "description": "An id from another answer, a day such as"
                    " 2026-11-12, or last.",
                }
            },
            "required": ["session_id"],
            "additionalProperties": False,
        },
        estimated_duration_ms=100,
        max_duration_ms=300,
        read_only=True,
        idempotent=True,
        per_npc=True,
        examples=({"session_id": "last"},),
        speech_field="message",
    )
    async def get_summary(session_id: str, context: CallContext) -> dict[str, Any]:
        view = views.of(context)
        if not session_id.strip():
            raise ToolError("session_id is empty; give an id, a day, or last")
        with answers():
            evening = await view.evening(session_id)
            if evening is None:
                return {"message": NONE_YET, "found": False}
            lines: tuple[FoundLine, ...] = ()
            if not evening.summary:
                lines = await view.memory.transcripts.recent(
                    *view.key, evening=evening.id, limit=_LAST_LINES
                )
        answer = {"message": "", **_head(view, evening), "summary": evening.summary}
        if evening.summary:
            answer["message"] = f"{_when(view, evening)}: {evening.summary}"
            return answer
        answer["note"] = (
            "there is no summary of it; these are the last lines that you heard"
        )
        answer["lines"] = [view.line(x) for x in lines]
        answer["message"] = view.quoted(lines[-1:]) if lines else "Nothing was said."
        return answer

    return get_summary


def _search_history(views: CampaignViews) -> Tool:
    @tool(
        group="sessions",
        category="memory",
        title="Find the session of something",
        description="Find the sessions in which something was said or happened, the"
        " most relevant first, with what was said there. Use it to learn when something"
        " was; search_sessions finds single lines.",
        parameters={
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "description": "A few words, for example: goblin ambush",
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MOST_SESSIONS,
                    "default": 3,
                },
            },
            "required": ["query"],
            "additionalProperties": False,
        },
        estimated_duration_ms=100,
        max_duration_ms=300,
        read_only=True,
        idempotent=True,
        per_npc=True,
        examples=({"query": "goblin ambush", "limit": 1},),
        speech_field="message",
    )
    async def search_history(
        query: str, context: CallContext, limit: int = 3
    ) -> dict[str, Any]:
        if not 1 <= limit <= MOST_SESSIONS:
            raise ToolError(f"limit must be from 1 to {MOST_SESSIONS}, got {limit}")
        view = views.of(context)
        with answers():
            transcripts = view.memory.transcripts
            lines = (await transcripts.search(*view.key, query, limit=_SEARCHED)).lines
            evenings = await transcripts.evenings(*view.key, limit=_SEARCHED)
            found = {x.id: x for x in evenings}
            for name in {x.line.evening for x in lines} - found.keys() - {""}:
                found[name] = await transcripts.evening(*view.key, name)
            telling = words_in_query(query)[1]
        said: dict[str, list[FoundLine]] = {}
        for line in lines:
            said.setdefault(line.line.evening, []).append(line)
        in_summary = {
            x.id: len(set(telling) & set(words_of(x.summary))) for x in evenings
        }
        # A session is as relevant as its best line; lines come before summaries.
        names = [x for x in said if x in found]
        rest = [x.id for x in evenings if in_summary[x.id] and x.id not in said]
        names += sorted(rest, key=lambda x: -in_summary[x])
        results = [
            _result(
                view, found[name], said.get(name, []), told=bool(in_summary.get(name))
            )
            for name in names[: int(limit)]
        ]
        answer: dict[str, Any] = {"message": "I remember nothing of that."}
        if results:
            first = names[0]
            answer["message"] = (
                view.quoted(said[first])
                if first in said
                else f"{_when(view, found[first])}: {shortened(found[first].summary)}"
            )
        return answer | {"results": results, "sessions": len(names)}

    return search_history


def _result(
    view: CampaignView, evening: Evening, lines: list[FoundLine], *, told: bool
) -> dict[str, Any]:
    result = _head(view, evening) | {
        "lines": [view.line(x) for x in lines[:3]],
        "more_lines": max(0, len(lines) - 3),
    }
    if told:
        result["summary"] = shortened(evening.summary)
    return result


def _head(view: CampaignView, evening: Evening) -> dict[str, Any]:
    return {
        "session_id": evening.id,
        **times(evening.began, view.now),
        "ended": evening.ended is not None,
    }


def _when(view: CampaignView, evening: Evening) -> str:
    said = day_in_words(evening.began, view.now)
    return said[:1].upper() + said[1:]
