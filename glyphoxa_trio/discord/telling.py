"""An answer that grows, in one message that is edited: one request at a time, and no
more often than Discord allows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import attrs
import discord

from glyphoxa_trio.aio import SceneTurn
from glyphoxa_trio.npc import ApprovalNeeded, Sentence, TurnDone, TurnEnd

LONGEST: Final = 2000  # characters of a message; Discord refuses more


def parts_of(text: str, longest: int = LONGEST) -> list[str]:
    """Cut a text into messages, between words where that is possible.

    When a text grows, only its last part changes.
    """
    parts = []
    while len(text) > longest:
        at = max(text.rfind(" ", 1, longest + 1), text.rfind("\n", 1, longest + 1))
        at = at if at > 0 else longest
        parts.append(text[:at])
        text = text[at:].lstrip()
    return [*parts, text] if text else parts


@attrs.define(eq=False)
class GrowingMessage:
    """A text in a channel that `add` makes longer while `show` runs."""

    channel: discord.abc.Messageable
    every: float
    _text: str = attrs.field(default="", init=False)
    _ended: bool = attrs.field(default=False, init=False)
    _changed: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    _sent: list[tuple[discord.Message, str]] = attrs.field(factory=list, init=False)

    def add(self, text: str) -> None:
        """Add words; they are shown soon."""
        self._text += text
        self._changed.set()

    def end(self) -> None:
        """Let `show` end once everything is shown."""
        self._ended = True
        self._changed.set()

    async def show(self) -> None:
        """Post and edit messages until `end`.

        Raises:
          discord.HTTPException: Discord refuses them.
        """
        while True:
            parts = parts_of(self._text.strip())
            at = next((i for i, part in enumerate(parts) if self._behind(i, part)), -1)
            if at >= 0:
                await self._put(at, parts[at])
                if not (self._ended and self._is_shown()):
                    await asyncio.sleep(self.every)
            elif self._ended:
                return
            else:
                self._changed.clear()
                await self._changed.wait()

    def _behind(self, at: int, part: str) -> bool:
        return at >= len(self._sent) or self._sent[at][1] != part

    def _is_shown(self) -> bool:
        return [part for _, part in self._sent] == parts_of(self._text.strip())

    async def _put(self, at: int, part: str) -> None:
        if at < len(self._sent):
            message, _ = self._sent[at]
            await message.edit(content=part)
            self._sent[at] = (message, part)
        else:
            self._sent.append((await self.channel.send(part), part))


async def tell_turn(
    turn: SceneTurn,
    growing: GrowingMessage,
    ask: Callable[[ApprovalNeeded], Awaitable[None]],
) -> None:
    """Show an answer, from its first sentence to its end.

    Args:
      ask: shows a question of the NPC to the game master.

    Raises:
      discord.HTTPException: Discord refuses the words.
      GlyphoxaError: as the turn does.
    """
    showing = asyncio.create_task(growing.show())
    speaker = ""
    try:
        async for event in turn:
            if showing.done():
                break  # refused
            match event:
                case Sentence(npc=npc, text=text):
                    growing.add(
                        f" {text}" if npc == speaker else f"\n**{npc}:** {text}"
                    )
                    speaker = npc
                case ApprovalNeeded():
                    await ask(event)
                case TurnDone(end=TurnEnd.INTERRUPTED) if speaker:
                    growing.add(" \N{EM DASH}")
                case TurnDone(end=TurnEnd.FAILED, npc=npc) if not speaker:
                    growing.add(f"*{npc} finds no words.*")
        growing.end()
        await showing
    finally:
        showing.cancel()
