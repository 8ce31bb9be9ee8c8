"""The voice channels that the bot is in, one in each server."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

import discord
from discord.opus import OpusNotLoaded

from glyphoxa_trio.errors import GlyphoxaError

from .receiving import MODE, MonoDecoder
from .services import BotServices
from .voice_channel import JoinedChannel

logger = logging.getLogger(__name__)

JOIN_WITHIN: Final = 20.0  # seconds
LEAVE_WITHIN: Final = 5.0


class CannotJoin(GlyphoxaError):
    """The bot cannot be in that voice channel; the text says why."""


class GuildVoices:
    """Joins and leaves voice channels. One at a time in each server."""

    def __init__(self, bot: BotServices) -> None:
        self._bot = bot
        self._joined: dict[int, JoinedChannel] = {}
        self._lock = asyncio.Lock()

    async def join(self, channel: discord.VoiceChannel | discord.StageChannel) -> str:
        """Join a channel, and leave the one before; return the line that says so.

        Raises:
          CannotJoin: a permission is missing, or the connection fails.
        """
        async with self._lock:
            _check(channel)
            before = self._joined.pop(channel.guild.id, None)
            if before is not None:
                await self._close(before)
            try:
                client: discord.VoiceClient
                client = await channel.connect(timeout=JOIN_WITHIN)
            except (TimeoutError, discord.ClientException, OSError) as error:
                logger.warning("no connection to %s: %r", channel, error)
                raise CannotJoin(f"I cannot reach {channel.name} just now.") from error
            if client.mode != MODE:
                await client.disconnect(force=True)
                raise CannotJoin(f"I cannot hear you: I do not know {client.mode}.")
            joined = JoinedChannel(self._bot, client, channel)
            self._joined[channel.guild.id] = joined
            joined.start()
            return f"We are in {channel.name} and listen."

    async def leave(self, guild: discord.Guild | None) -> str:
        """Leave the channel of a server; return the line that says so."""
        async with self._lock:
            joined = self._joined.pop(guild.id, None) if guild is not None else None
            if joined is None:
                return "We are in no voice channel."
            await self._close(joined)
            return f"We have left {joined.channel.name}."

    async def moved(self, member: discord.Member, *, mine: bool) -> None:
        """Note that a member has another voice channel, or none."""
        joined = self._joined.get(member.guild.id)
        if joined is None:
            return
        here = member.voice.channel if member.voice is not None else None
        if here == joined.channel:
            return
        if mine or not joined.listeners:  # sent away, or alone
            await self.leave(member.guild)
        else:
            joined.forget(member.id)

    async def close(self) -> None:
        """Leave all channels."""
        joined, self._joined = list(self._joined.values()), {}
        await asyncio.gather(*map(self._close, joined), return_exceptions=True)

    async def _close(self, joined: JoinedChannel) -> None:
        try:
            async with asyncio.timeout(LEAVE_WITHIN):
                await joined.close()
        except TimeoutError:
            logger.warning("Discord did not confirm that we left %s", joined.channel)


def _check(channel: discord.VoiceChannel | discord.StageChannel) -> None:
    rights = channel.permissions_for(channel.guild.me)
    needed = {"View Channel": rights.view_channel, "Connect": rights.connect}
    needed["Speak"] = rights.speak
    if lacking := [name for name, has in needed.items() if not has]:
        raise CannotJoin(
            f"I may not join {channel.name}: I need the permission"
            f" {' and '.join(lacking)} there."
        )
    try:
        MonoDecoder()
    except OpusNotLoaded:
        raise CannotJoin(
            "I cannot speak: the library opus is missing where I run (libopus0)."
        ) from None
