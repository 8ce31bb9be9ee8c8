"""The slash commands for game masters: ``/gm mute`` and the like."""

from __future__ import annotations

import discord

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.tools.tier import Tier

from .directing import ChannelDirecting
from .player_commands import MOST_NAME, MOST_WORDS, answer, place
from .services import BotServices
from .telling import LONGEST

TIERS = [str(tier) for tier in Tier]


class NotGameMaster(GlyphoxaError):
    """A player gave a command of the game master."""


class GameMasterCommands(discord.Cog):
    """The commands of game masters, who have a role or a permission of the server."""

    gm = discord.SlashCommandGroup("gm", "For the game master")

    def __init__(self, bot: BotServices) -> None:
        super().__init__()
        self._bot = bot

    async def cog_command_error(
        self, ctx: discord.ApplicationContext, error: Exception
    ) -> None:
        await self._bot.explain(ctx, error)

    def _directing(self, ctx: discord.ApplicationContext) -> ChannelDirecting:
        options = self._bot.settings
        if not options.is_game_master(ctx.author):
            also = f" or the permission {options.permission}" * bool(options.permission)
            raise NotGameMaster(f"That needs the role {options.role!r}{also}.")
        return self._bot.table(ctx.channel).directing

    @gm.command(description="An NPC says nothing of its own until it may again")
    @discord.option("npc", str, description="Which one", max_length=MOST_NAME)
    async def mute(self, ctx: discord.ApplicationContext, npc: str) -> None:
        await answer(ctx, await self._directing(ctx).mute(npc))

    @gm.command(description="A muted NPC may speak again")
    @discord.option("npc", str, description="Which one", max_length=MOST_NAME)
    async def unmute(self, ctx: discord.ApplicationContext, npc: str) -> None:
        await answer(ctx, await self._directing(ctx).unmute(npc))

    @gm.command(description="All that is said is for one NPC; without a name: no more")
    @discord.option("npc", str, required=False, default=None, max_length=MOST_NAME)
    async def puppet(self, ctx: discord.ApplicationContext, npc: str | None) -> None:
        await answer(ctx, await self._directing(ctx).puppet(npc))

    @gm.command(description="An NPC may use slower tools for a while")
    @discord.option("npc", str, description="Which one", max_length=MOST_NAME)
    @discord.option("tier", str, description="Up to this tier", choices=TIERS)
    @discord.option("seconds", int, required=False, default=60, min_value=1)
    async def elevate(
        self, ctx: discord.ApplicationContext, npc: str, tier: str, seconds: int
    ) -> None:
        directing = self._directing(ctx)
        await answer(ctx, await directing.elevate(npc, Tier.parse(tier), seconds))

    @gm.command(description="The tier of the next answer to you")
    @discord.option("tier", str, description="Which tier", choices=TIERS)
    async def override(self, ctx: discord.ApplicationContext, tier: str) -> None:
        directing = self._directing(ctx)
        await answer(ctx, directing.override(ctx.author.id, Tier.parse(tier)))

    @gm.command(name="as", description="An NPC says your words")
    @discord.option("npc", str, description="Which one", max_length=MOST_NAME)
    @discord.option("text", str, description="Its words", max_length=MOST_WORDS)
    async def speak_as(
        self, ctx: discord.ApplicationContext, npc: str, text: str
    ) -> None:
        directing = self._directing(ctx)
        channel, name = place(ctx), directing.session.npc(npc).name
        await answer(ctx, f"{name} says: {text}"[:LONGEST])
        table = self._bot.table(ctx.channel)
        speaker = table.name_for(ctx.author)
        with self._bot.at_work():
            turn = table.scene.speak_as(name, text, speaker=speaker)
            await table.show(turn, channel)

    @gm.command(description="What every NPC knows of this moment; no text: nothing")
    @discord.option("text", str, required=False, default="", max_length=MOST_WORDS)
    async def scene(self, ctx: discord.ApplicationContext, text: str) -> None:
        await answer(ctx, await self._directing(ctx).tell(text))

    @gm.command(description="End all that is said here")
    async def interrupt(self, ctx: discord.ApplicationContext) -> None:
        await answer(ctx, await self._directing(ctx).interrupt())

    @gm.command(description="Allow the tool that an NPC asks for, or refuse it")
    @discord.option("allow", bool, description="May it?")
    async def approve(self, ctx: discord.ApplicationContext, allow: bool) -> None:
        await answer(ctx, await self._directing(ctx).approve(allow))
