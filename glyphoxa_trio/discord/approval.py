"""The question of an NPC to the game master, with two buttons."""

from __future__ import annotations

import discord

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc import ApprovalNeeded

from .directing import ChannelDirecting
from .options import DiscordOptions


class ApprovalButtons(discord.ui.View):
    """Allow and Refuse, for game masters only, until the question has expired."""

    def __init__(
        self,
        directing: ChannelDirecting,
        asked: ApprovalNeeded,
        options: DiscordOptions,
    ) -> None:
        super().__init__(timeout=max(1.0, asked.expires))
        self._directing, self._options = directing, options
        self._question = asked.question
        arguments = asked.arguments.replace("`", "'")
        self.text = f"{asked.npc} wants to use {asked.tool}: `{arguments}`"

    async def interaction_check(self, interaction: discord.Interaction) -> bool:
        if self._options.is_game_master(interaction.user):
            return True
        why = "Only a game master may answer that."
        await interaction.response.send_message(why, ephemeral=True)
        return False

    @discord.ui.button(label="Allow", style=discord.ButtonStyle.success)
    async def allow(self, _: object, interaction: discord.Interaction) -> None:
        await self._answer(interaction, yes=True)

    @discord.ui.button(label="Refuse", style=discord.ButtonStyle.danger)
    async def refuse(self, _: object, interaction: discord.Interaction) -> None:
        await self._answer(interaction, yes=False)

    async def _answer(self, interaction: discord.Interaction, *, yes: bool) -> None:
        try:
            said = await self._directing.approve(yes, self._question)
        except GlyphoxaError as error:
            said = str(error)
        await interaction.response.edit_message(content=said, view=None)
        self.stop()
