"""The tools for players: who is there, saying something, and what was said.

They show what `service.player_view` shows to players: what an NPC says, and the names
of the tools that it used. What those were asked and answered may be a game master's
secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.npc.snapshot import ExchangeSnapshot, NpcSnapshot
from glyphoxa_trio.servers.request import ASKED
from glyphoxa_trio.tools.definition import (
    CallContext,
    Tool,
    ToolDefinition,
    ToolUnavailable,
)
from glyphoxa_trio.tools.outcome import ToolResult

from .heard import HeardAnswer
from .one_at_a_time import OneAtATime
from .scope import MOST_NAME, ServedNpcs, answered

MOST_TEXT: Final = 16 * 1024  # characters of an utterance
MOST_LINES: Final = 100  # of an answer of `conversation`
# Seconds before a call must be answered in which its turn is interrupted.
_TO_END: Final = 1.5
_A_NAME: Final = {"type": "string", "minLength": 1, "maxLength": MOST_NAME}


@attrs.frozen(eq=False)
class PlayerTools:
    """The tools ``list_npcs``, ``say`` and ``conversation``.

    Args:
      within: seconds within which each call of ``say`` is answered.
      destructive: an NPC has tools that delete or overwrite.
    """

    scope: ServedNpcs
    within: float
    destructive: bool
    _line: OneAtATime = attrs.field(factory=OneAtATime, init=False)

    def tools(self) -> list[Tool]:
        """Return them."""
        scope = self.scope
        return [
            Tool(
                definition=ToolDefinition(
                    name="list_npcs",
                    title="List the NPCs",
                    description="List the NPCs that can be spoken to with say.",
                    read_only=True,
                    idempotent=True,
                ),
                handler=self._list,
            ),
            Tool(
                definition=ToolDefinition(
                    name="say",
                    title="Say something to an NPC",
                    description="Say something to an NPC, in character, and get its"
                    " answer. It remembers what was said before in the same session,"
                    " and may use the tools that it was granted.",
                    parameters=scope.place(
                        text={
                            "type": "string",
                            "minLength": 1,
                            "maxLength": MOST_TEXT,
                            "description": "The words, as the speaker says them.",
                        },
                        speaker={
                            **_A_NAME,
                            "default": "player",
                            "description": "The name of whoever speaks.",
                        },
                    ),
                    max_duration=self.within,
                    destructive=self.destructive,
                    open_world=True,
                ),
                handler=self._say,
            ),
            Tool(
                definition=ToolDefinition(
                    name="conversation",
                    title="Read a conversation",
                    description="Read what was said between players and an NPC in a"
                    " session, the oldest line first.",
                    parameters=scope.place(
                        last={
                            "type": "integer",
                            "minimum": 1,
                            "maximum": MOST_LINES,
                            "default": 20,
                            "description": "So many lines, the newest.",
                        }
                    ),
                    read_only=True,
                    idempotent=True,
                ),
                handler=self._conversation,
            ),
        ]

    def _list(self, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:
        tiers = {x.name: str(x.budget_tier) for x in self.scope.runtime.npcs}
        names = [x for x in self.scope.npcs if x in tiers]
        return ToolResult(
            text=("\n".join(names),),
            structured={"npcs": [{"name": x, "tier": tiers[x]} for x in names]},
        )

    async def _say(
        self, arguments: Mapping[str, Any], context: CallContext
    ) -> ToolResult:
        now, asked = trio.current_time(), ASKED.get()
        left = min(now + self.within, context.deadline) - now
        heard, begun = None, False
        with answered(), trio.move_on_after(left - min(_TO_END, left / 4)):
            name = self.scope.name_of(arguments)
            session_id = self.scope.session_of(arguments)
            async with self._line.turn(session_id, name):
                await self.scope.settled()
                _, npc = self.scope.open(arguments)
                heard = HeardAnswer(npc.name, session_id)
                speaker = arguments.get("speaker", "player")
                async with npc.say(arguments["text"], speaker=speaker) as turn:
                    begun = True
                    async for event in turn:
                        if said := heard.take(event):
                            await asked.progress(len(heard.sentences), message=said)
        late = f"the time for this call, {left:.3g} s, was over"
        if heard is None or not begun:
            raise ToolUnavailable(f"{name} still answers others; {late}")
        return heard.result(late)

    async def _conversation(
        self, arguments: Mapping[str, Any], context: CallContext
    ) -> ToolResult:
        with answered():
            session, npc = self.scope.open(arguments)
            kept = (await session.snapshot()).npcs.get(npc.name)
        lines = [] if kept is None else lines_of(npc.name, kept)
        lines = lines[-arguments.get("last", 20) :]
        told = "\n".join(f"{x['speaker']}: {x['text']}" for x in lines)
        answer = {"npc": npc.name, "session": session.id, "lines": lines}
        return ToolResult(text=(told or "Nothing was said yet.",), structured=answer)


def lines_of(npc: str, kept: NpcSnapshot) -> list[dict[str, str]]:
    """Return what was said to an NPC and what it answered, the oldest first."""
    return [line for one in kept.history for line in _exchanged(npc, one)]


def _exchanged(npc: str, one: ExchangeSnapshot) -> list[dict[str, str]]:
    lines = [{"speaker": one.speaker, "text": one.text}] if one.asked else []
    heard = " ".join(part for x in one.rounds for part in x.heard)
    if heard:
        lines.append({"speaker": npc, "text": heard})
    return lines
