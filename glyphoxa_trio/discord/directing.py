"""The game master's side of a table, for slash commands and spoken ones: each method
acts, and returns the line that says so."""

from __future__ import annotations

from typing import Final

import attrs

from glyphoxa_trio.aio import Scene, Session
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.tools.tier import Tier

MOST_QUESTIONS: Final = 16
LONGEST_ELEVATION: Final = 3600.0  # seconds


class NotOpen(GlyphoxaError):
    """No question of an NPC is open, or not that one."""


@attrs.define(eq=False)
class OpenQuestions:
    """The calls that wait for the word of the game master, by the id of the question,
    with the NPC and the tool. The oldest are dropped beyond
    `MOST_QUESTIONS`."""

    _open: dict[str, tuple[str, str]] = attrs.field(factory=dict, init=False)

    def add(self, question: str, npc: str, tool: str) -> None:
        self._open[question] = (npc, tool)
        while len(self._open) > MOST_QUESTIONS:
            del self._open[next(iter(self._open))]

    def take(self, question: str | None = None) -> tuple[str, str, str]:
        """Remove a question, or the oldest; return it, its NPC and its tool.

        Raises:
          NotOpen: there is none.
        """
        found = next(iter(self._open), "") if question is None else question
        if found not in self._open:
            raise NotOpen("no question is open")
        return (found, *self._open.pop(found))


@attrs.frozen(eq=False)
class ChannelDirecting:
    """The game master's side of one table.

    ``tiers``: the tier that was chosen for what a game master writes next.
    """

    session: Session
    scene: Scene
    questions: OpenQuestions = attrs.field(factory=OpenQuestions)
    tiers: dict[int, Tier] = attrs.field(factory=dict)

    async def mute(self, npc: str) -> str:
        return f"{await self.scene.mute(npc)} says nothing now."

    async def unmute(self, npc: str) -> str:
        return f"{await self.scene.unmute(npc)} may speak again."

    async def puppet(self, npc: str | None) -> str:
        """Direct all that is said to one NPC; None ends that."""
        name = await self.scene.puppet(npc)
        if name is None:
            return "What is said is for the NPC that it names again."
        return f"All that is said here is for {name} now."

    async def elevate(self, npc: str, tier: Tier, seconds: float) -> str:
        who = self.session.npc(npc)
        seconds = min(seconds, LONGEST_ELEVATION)
        await who.elevate(tier, seconds=seconds)
        return f"{who.name} may go to {tier} for {seconds:g} s."

    def override(self, game_master: int, tier: Tier) -> str:
        """Choose the tier of what this game master writes next."""
        self.tiers[game_master] = tier
        return f"What you write next is answered in {tier}, if the NPC may."

    async def tell(self, text: str) -> str:
        """Tell all NPCs about the scene; an empty text forgets what they were told."""
        if not text:
            await self.scene.tell()
            return "The scene is forgotten."
        await self.scene.tell(text)
        return f"Every NPC knows: {text}"

    async def interrupt(self) -> str:
        if await self.session.interrupt():
            return "They fall silent."
        return "They say nothing just now."

    async def approve(self, yes: bool, question: str | None = None) -> str:
        """Answer a question of an NPC, or the oldest."""
        question, npc, tool = self.questions.take(question)
        if not await self.session.npc(npc).approve(question, yes):
            return f"{npc} does not wait for {tool} any more."
        return f"{npc} may use {tool}." if yes else f"{npc} may not use {tool}."

    async def look(self) -> str:
        """Describe the NPCs and the scene, for everybody."""
        look = await self.scene.look()
        lines = []
        for name in look.npcs:
            notes = [
                note
                for note, holds in (
                    ("muted", name in look.muted),
                    ("all is said to it", name == look.puppet),
                    ("speaking", name == look.speaking),
                )
                if holds
            ]
            lines.append(f"{name} ({', '.join(notes)})" if notes else name)
        return "\n".join([*lines, *(f"*{line}*" for line in look.context or ())])
