"""The bot: what happens at Discord is brought to the table of its channel."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import discord

from glyphoxa_trio.aio import Runtime
from glyphoxa_trio.errors import GlyphoxaError

from .game_master_commands import GameMasterCommands
from .options import DiscordOptions
from .player_commands import PlayerCommands, answer
from .table import ChannelTable, session_of
from .voice_commands import VoiceCommands
from .voices import GuildVoices

logger = logging.getLogger(__name__)

MOST_TABLES: Final = 1000  # channels that are remembered; the runtime has its own bound
_SPEAKER: Final = re.compile(r"^\*\*(.+?):\*\*")


class DiscordBot(discord.Bot):
    """A bot through which the members of servers speak with the NPCs of a runtime.

    `run_until_closed` runs it. Each channel is a table with a session of its own, and
    those who write there are told apart. The words of NPCs mention nobody.
    """

    def __init__(self, runtime: Runtime, settings: DiscordOptions) -> None:
        intents = discord.Intents.default()
        intents.message_content = True
        super().__init__(
            intents=intents,
            allowed_mentions=discord.AllowedMentions.none(),
            debug_guilds=list(settings.guilds) or None,
        )
        self.runtime, self.settings = runtime, settings
        self.voices = GuildVoices(self)
        self._tables: dict[int, ChannelTable] = {}
        self._working: set[asyncio.Task[Any]] = set()
        self.add_cog(PlayerCommands(self))
        self.add_cog(GameMasterCommands(self))
        self.add_cog(VoiceCommands(self, self.voices))

    def table(self, channel: Any) -> ChannelTable:
        """Return the table of a channel; it begins with the first use."""
        found = self._tables.pop(channel.id, None)
        if found is None:
            guild = getattr(channel, "guild", None)
            id_ = session_of(guild and guild.id, channel.id)
            found = ChannelTable(self.runtime, self.settings, id_)
        self._tables[channel.id] = found  # the one used last comes last
        while len(self._tables) > MOST_TABLES:
            del self._tables[next(iter(self._tables))]
        return found

    async def on_ready(self) -> None:
        logger.info("ready as %s in %d servers", self.user, len(self.guilds))

    async def on_message(self, message: discord.Message) -> None:
        """Answer a message that is for the NPCs."""
        if message.author.bot or not (text := self._said(message)):
            return
        to = self._replied_to(message)
        with self.at_work():
            table = self.table(message.channel)
            await table.speak(text, message.author, message.channel, to=to)

    def _said(self, message: discord.Message) -> str:
        """Return the words for the NPCs; "" if there are none."""
        assert self.user is not None
        mine = self.user in message.mentions or self._of_mine(message) is not None
        channel = message.channel
        if isinstance(channel, discord.Thread):
            mine = (
                mine or channel.owner_id == self.user.id or channel.id in self._tables
            )
        elif isinstance(channel, discord.DMChannel):
            mine = True
        if not mine:
            return ""
        return re.sub(rf"<@!?{self.user.id}>", "", message.content).strip()

    def _of_mine(self, message: discord.Message) -> discord.Message | None:
        """Return the message of this bot that a message replies to, if it does."""
        reference = message.reference
        found = reference and (reference.resolved or reference.cached_message)
        if isinstance(found, discord.Message) and found.author == self.user:
            return found
        return None

    def _replied_to(self, message: discord.Message) -> str | None:
        """Return the NPC whose words a message replies to, if it does."""
        mine = self._of_mine(message)
        found = _SPEAKER.match(mine.content) if mine is not None else None
        names = [npc.name for npc in self.runtime.npcs]
        return found[1] if found is not None and found[1] in names else None

    async def explain(
        self, ctx: discord.ApplicationContext, error: BaseException
    ) -> None:
        """Answer a command that failed with a plain line; details are logged."""
        cause = error.__cause__ or getattr(error, "original", error)
        if isinstance(cause, GlyphoxaError):
            text = str(cause)
        else:
            text = "That did not work; the log of the bot says why."
            logger.error("the command %s failed", ctx.command, exc_info=cause)
        try:
            await answer(ctx, text)
        except discord.HTTPException as refused:
            logger.warning("Discord refused an answer to %s: %s", ctx.command, refused)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Mark the task as one that ends when the bot does."""
        task = asyncio.current_task()
        assert task is not None
        self._working.add(task)
        try:
            yield
        finally:
            self._working.discard(task)

    async def close(self) -> None:
        """Interrupt what is said, leave all voice channels, and disconnect."""
        working = list(self._working)
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)
        await self.voices.close()
        await super().close()
