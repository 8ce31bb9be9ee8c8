"""The bot, as its commands and voice channels see it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

import discord

from glyphoxa_trio.aio import Runtime

from .options import DiscordOptions
from .table import ChannelTable


class BotServices(Protocol):
    """The part of `DiscordBot` that its commands need."""

    runtime: Runtime
    settings: DiscordOptions

    def table(self, channel: Any) -> ChannelTable:
        """Return the table of a channel; it begins with the first use."""
        ...

    def at_work(self) -> AbstractContextManager[None]:
        """Mark the task as one that ends when the bot does."""
        ...

    async def explain(
        self, ctx: discord.ApplicationContext, error: BaseException
    ) -> None:
        """Answer a command that failed with a plain line; details are logged."""
        ...
