"""The slash commands for everybody."""

from __future__ import annotations

import discord

from glyphoxa_trio.errors import GlyphoxaError

from .services import BotServices
from .telling import LONGEST

# The name of an NPC, or the beginning of it.
MOST_NAME = 100
MOST_WORDS = 1800  # with the name they fit into one message


async def answer(ctx: discord.ApplicationContext, text: str) -> None:
    """Answer a command, for nobody else to see."""
    await ctx.respond(text[:LONGEST], ephemeral=True)


def place(ctx: discord.ApplicationContext) -> discord.abc.Messageable:
    """Return the channel of a command, to write to.

    Raises:
      GlyphoxaError: nothing can be written there, as in a list of threads.
    """
    if not isinstance(ctx.channel, discord.abc.Messageable):
        raise GlyphoxaError("I cannot write here.")
    return ctx.channel


class PlayerCommands(discord.Cog):
    """The commands of all members."""

    def __init__(self, bot: BotServices) -> None:
        super().__init__()
        self._bot = bot

    async def cog_command_error(
        self, ctx: discord.ApplicationContext, error: Exception
    ) -> None:
        await self._bot.explain(ctx, error)

    @discord.slash_command(description="Say something to an NPC")
    @discord.option("text", str, description="Your words", max_length=MOST_WORDS)
    @discord.option(
        "npc",
        str,
        description="Whom you speak to, if you do not name them",
        required=False,
        default=None,
        max_length=MOST_NAME,
    )
    async def say(
        self, ctx: discord.ApplicationContext, text: str, npc: str | None
    ) -> None:
        """Show the words, and the answer as a message of its own."""
        channel = place(ctx)
        table = self._bot.table(channel)
        to = None if npc is None else table.directing.session.npc(npc).name
        said = f"{ctx.author.display_name}{f' to {to}' if to else ''}: {text}"
        await ctx.respond(said[:LONGEST])
        with self._bot.at_work():
            await table.speak(text, ctx.author, channel, to=to)

    @discord.slash_command(description="Interrupt the answer to you")
    async def hush(self, ctx: discord.ApplicationContext) -> None:
        table = self._bot.table(ctx.channel)
        speaker = table.name_for(ctx.author)
        if await table.scene.interrupt(speaker=speaker):
            await answer(ctx, "They fall silent.")
        else:
            await answer(ctx, "They say nothing to you just now.")

    @discord.slash_command(description="The NPCs here, and what they know of the scene")
    async def who(self, ctx: discord.ApplicationContext) -> None:
        await answer(ctx, await self._bot.table(ctx.channel).directing.look())
