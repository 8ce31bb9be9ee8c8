"""The settings of the bot."""

from __future__ import annotations

from typing import Final

import attrs
import discord

PERMISSIONS: Final = frozenset(discord.Permissions.VALID_FLAGS)


def _is_permission(_: object, __: object, value: str) -> None:
    if value and value not in PERMISSIONS:
        raise ValueError(f"Discord has no permission {value!r}, such as manage_guild")


@attrs.frozen
class DiscordOptions:
    """The rights of members, and the limits of the bot.

    Args:
      role: game masters are members with this role, by its name or its id.
      permission: and members with this permission, such as ``manage_guild``.
      guilds: the ids of the servers in which slash commands appear at once; without
        them they appear in all, after up to an hour.
      per_user: how many messages of one member may wait or be answered, in a channel.
      per_channel: and how many of all.
      edit_every: seconds between two edits of a message that grows. Discord allows
        five in five seconds to a channel.
    """

    role: str = "Game Master"
    permission: str = attrs.field(default="", validator=_is_permission)
    guilds: tuple[int, ...] = ()
    per_user: int = attrs.field(default=2, validator=attrs.validators.ge(1))
    per_channel: int = attrs.field(default=8, validator=attrs.validators.ge(1))
    edit_every: float = attrs.field(default=1.2, validator=attrs.validators.ge(0))

    def is_game_master(self, player: object) -> bool:
        """Return True for game masters. In private messages there is none."""
        if not isinstance(player, discord.Member):
            return False
        if self.permission and getattr(player.guild_permissions, self.permission):
            return True
        return any(self.role in (role.name, str(role.id)) for role in player.roles)
