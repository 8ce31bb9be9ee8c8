"""One channel: its session, the players' names, and how they are answered."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final, TypeAlias

import attrs
import discord

from glyphoxa_trio.aio import Runtime, Scene, SceneTurn
from glyphoxa_trio.errors import ActorGone, GlyphoxaError
from glyphoxa_trio.npc import ApprovalNeeded, NobodyAddressed, NpcMuted

from .approval import ApprovalButtons
from .directing import ChannelDirecting
from .limits import ChannelLimits, Flooded
from .options import DiscordOptions
from .telling import LONGEST, GrowingMessage, tell_turn

logger = logging.getLogger(__name__)

LONGEST_NAME: Final = 80
MOST_PLAYERS: Final = 200  # whose names a channel remembers

Player: TypeAlias = discord.User | discord.Member


def session_of(guild: int | None, channel: int) -> str:
    """Return the name of the session of a channel."""
    return f"discord-{guild or 'private'}-{channel}"


@attrs.define(eq=False)
class ChannelTable:
    """A channel with its session, players and limits. Made by the bot, when words for
    an NPC come from there."""

    runtime: Runtime
    options: DiscordOptions
    id: str
    limits: ChannelLimits = attrs.field(init=False)
    directing: ChannelDirecting = attrs.field(init=False)
    _names: dict[int, str] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.limits = ChannelLimits(self.options.per_user, self.options.per_channel)
        self._begin()

    def _begin(self) -> None:
        players = {name: f"discord:{id_}" for id_, name in self._names.items()}
        session = self.runtime.session(self.id, players=players)
        before = getattr(self, "directing", None)
        self.directing = (
            ChannelDirecting(session, session.scene())
            if before is None
            else attrs.evolve(before, session=session, scene=session.scene())
        )

    @property
    def scene(self) -> Scene:
        return self.directing.scene

    def name_for(self, player: Player) -> str:
        """Return a player's name, which no other player here has.

        The stable id lets NPCs know a player who has another name tomorrow.
        """
        name = "".join(x for x in player.display_name if x.isprintable()).strip()
        name = name[:LONGEST_NAME] or f"player {player.id}"
        if any(x == name for id_, x in self._names.items() if id_ != player.id):
            name = f"{name} ({player.id})"
        if self._names.get(player.id) != name:
            self._names.pop(player.id, None)
            self._names[player.id] = name
            while len(self._names) > MOST_PLAYERS:
                del self._names[next(iter(self._names))]
            self._begin()
        return name

    async def speak(
        self,
        text: str,
        player: Player,
        channel: discord.abc.Messageable,
        *,
        to: str | None = None,
    ) -> None:
        """Say something, and show the answer; what goes wrong is a line there."""
        try:
            with self.limits.place(player.id):
                await self._say(text, player, channel, to)
        except Flooded as error:
            if error.tell:
                await post(channel, f"({error})", player)
        except GlyphoxaError as error:
            logger.warning("session %s: %s", self.id, error)
            await post(channel, f"({error})", player)
        except discord.HTTPException as error:
            # Leaving its block has interrupted an NPC whose words cannot be shown.
            await refused(channel, player, error)

    async def _say(
        self,
        text: str,
        player: Player,
        channel: discord.abc.Messageable,
        to: str | None,
    ) -> None:
        name = self.name_for(player)
        tier = self.directing.tiers.pop(player.id, None)
        directs = self.options.is_game_master(player)
        turn = self.scene.say(text, speaker=name, to=to, tier=tier, dm=directs)
        try:
            await self.show(turn, channel)
        except NpcMuted:
            raise
        except NobodyAddressed:
            names = ", ".join(npc.name for npc in self.runtime.npcs)
            raise NobodyAddressed(f"Who is that for? Name one of: {names}") from None
        except ActorGone:  # ended by somebody else, and begun again
            self._begin()
            again = self.scene.say(text, speaker=name, to=to, tier=tier, dm=directs)
            await self.show(again, channel)

    async def show(self, turn: SceneTurn, channel: discord.abc.Messageable) -> None:
        """Show a turn's words and questions in a channel, to its end."""

        async def ask(asked: ApprovalNeeded) -> None:
            await self.ask(asked, channel)

        async with turn:
            await tell_turn(turn, GrowingMessage(channel, self.options.edit_every), ask)

    async def ask(
        self, asked: ApprovalNeeded, channel: discord.abc.Messageable
    ) -> None:
        """Show the question of an NPC to the game master."""
        self.directing.questions.add(asked.question, asked.npc, asked.tool)
        buttons = ApprovalButtons(self.directing, asked, self.options)
        await channel.send(buttons.text[:LONGEST], view=buttons)


async def post(
    channel: discord.abc.Messageable, text: str, player: Player | None = None
) -> None:
    """Post a line. If that is refused, the player is told in private, if possible."""
    try:
        await channel.send(text[:LONGEST])
    except discord.HTTPException as error:
        await refused(channel, player, error)


async def refused(
    channel: discord.abc.Messageable,
    player: Player | None,
    error: discord.HTTPException,
) -> None:
    """Log that Discord refused a message, and tell the player, if that is possible."""
    logger.warning("Discord refused a message to %s: %s", channel, error)
    if isinstance(error, discord.Forbidden) and player is not None:
        with suppress(discord.HTTPException):
            await player.send(
                f"I may not write in {channel}. Somebody who manages the server can"
                " give me the permissions View Channel and Send Messages there."
            )
