"""The tools for game masters: memory, and the sessions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import attrs

from glyphoxa_trio.servers.npc.granted import call_tool
from glyphoxa_trio.tools.definition import CallContext, Tool, ToolDefinition
from glyphoxa_trio.tools.gate import Grant
from glyphoxa_trio.tools.outcome import ToolResult
from glyphoxa_trio.tools.tier import Tier

from .scope import NotThere, ServedNpcs, answered

_MOST_SESSIONS: Final = 1000  # in an answer
_RECALL: Final = "memory.search_facts"
_REMEMBER: Final = "memory.remember"
_ALL: Final = 10**9


@attrs.frozen(eq=False)
class GameMasterTools:
    """The tools ``recall``, ``remember``, ``list_sessions`` and ``end_session``."""

    scope: ServedNpcs

    def tools(self) -> list[Tool]:
        """Return them."""
        scope = self.scope
        return [
            Tool(
                definition=ToolDefinition(
                    name="recall",
                    title="Search what an NPC knows",
                    description="Search what an NPC knows and has heard, its secrets as"
                    " well. What has claimed_by is only claimed by a player.",
                    parameters=scope.place(
                        query={
                            "type": "string",
                            "minLength": 1,
                            "maxLength": 1000,
                            "description": "A few words, for example: the dragon",
                        },
                        top_k={
                            "type": "integer",
                            "minimum": 1,
                            "maximum": 50,
                            "default": 10,
                        },
                    ),
                    read_only=True,
                    idempotent=True,
                ),
                handler=partial(self._memory, _RECALL),
            ),
            Tool(
                definition=ToolDefinition(
                    name="remember",
                    title="Have an NPC remember a fact",
                    description="Have an NPC remember one fact, in a sentence that can"
                    " be understood alone. Only this NPC will know it.",
                    parameters=scope.place(
                        fact={"type": "string", "minLength": 1, "maxLength": 500},
                        about={
                            "type": "array",
                            "items": {"type": "string", "maxLength": 200},
                            "maxItems": 8,
                            "default": [],
                            "description": "The names of whom or what it is about.",
                        },
                    ),
                    idempotent=True,
                ),
                handler=partial(self._memory, _REMEMBER),
            ),
            Tool(
                definition=ToolDefinition(
                    name="list_sessions",
                    title="List the sessions",
                    description="List the sessions that are open or set aside, with the"
                    " NPCs that were spoken with.",
                    read_only=True,
                    idempotent=True,
                ),
                handler=self._sessions,
            ),
            Tool(
                definition=ToolDefinition(
                    name="end_session",
                    title="End a session",
                    description="End a session: turns that run are interrupted, and"
                    " NPCs do not go on with it. Its lines stay in memory.",
                    parameters=scope.table(),
                    destructive=True,
                ),
                handler=self._end,
            ),
        ]

    async def _memory(
        self, tool: str, arguments: Mapping[str, Any], context: CallContext
    ) -> ToolResult:
        with answered():
            session, npc = self.scope.open(arguments)
        passed = {
            x: y for x, y in arguments.items() if x not in ("npc", "session") and y
        }
        # The game master's own right, for this one tool and this one NPC.
        grant = Grant(npc=npc.name, tools=(tool,))
        return await call_tool(
            self.scope.runtime, tool, passed, grant, session.id, Tier.DEEP
        )

    def _sessions(
        self, arguments: Mapping[str, Any], context: CallContext
    ) -> ToolResult:
        found = [
            {
                "session": one.session,
                "npcs": list(one.npcs),
                "talking": list(one.talking),
                "unused_ms": round(one.unused * 1000),
                "set_aside": one.set_aside,
            }
            for one in self.scope.runtime.session_status(_MOST_SESSIONS)
            if not self.scope.fixed or one.session == self.scope.session
        ]
        return ToolResult.of({"sessions": found[:_MOST_SESSIONS]})

    async def _end(
        self, arguments: Mapping[str, Any], context: CallContext
    ) -> ToolResult:
        named, runtime = self.scope.session_of(arguments), self.scope.runtime
        there = {x.session for x in runtime.session_status(_ALL)}
        if named not in there:
            raise NotThere(f"no session {named!r}; list_sessions lists those there are")
        with answered():
            await runtime.session(named).end()
        return ToolResult.of({"session": named, "ended": True})
