"""The slash commands that call the NPCs into a voice channel, and send them away."""

from __future__ import annotations

import discord

from glyphoxa_trio.errors import GlyphoxaError

from .player_commands import answer
from .services import BotServices
from .voices import GuildVoices


class VoiceCommands(discord.Cog):
    """``/join`` and ``/leave``, for all members of a server."""

    def __init__(self, bot: BotServices, voices: GuildVoices) -> None:
        super().__init__()
        self._bot, self._voices = bot, voices

    async def cog_command_error(
        self, ctx: discord.ApplicationContext, error: Exception
    ) -> None:
        await self._bot.explain(ctx, error)

    @discord.slash_command(description="Call the NPCs into your voice channel")
    async def join(self, ctx: discord.ApplicationContext) -> None:
        state = getattr(ctx.author, "voice", None)
        if state is None or state.channel is None:
            raise GlyphoxaError("Join a voice channel first, and call us from there.")
        await ctx.defer(ephemeral=True)
        await answer(ctx, await self._voices.join(state.channel))

    @discord.slash_command(description="Send the NPCs out of the voice channel")
    async def leave(self, ctx: discord.ApplicationContext) -> None:
        await ctx.defer(ephemeral=True)
        await answer(ctx, await self._voices.leave(ctx.guild))

    @discord.Cog.listener()
    async def on_voice_state_update(
        self,
        member: discord.Member,
        before: discord.VoiceState,
        after: discord.VoiceState,
    ) -> None:
        """Let those who leave a channel be forgotten, and leave when we are alone."""
        if before.channel != after.channel:
            await self._voices.moved(member, mine=member == member.guild.me)
