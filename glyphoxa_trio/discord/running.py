"""The bot from its login to its end."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

import aiohttp
import discord

from glyphoxa_trio.aio import open_runtime
from glyphoxa_trio.config import Config
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.quiet import quiet
from glyphoxa_trio.secret import Mask, Secret

from .bot import DiscordBot
from .options import DiscordOptions

CLOSE_WITHIN: Final = 10.0  # seconds to disconnect in


class DiscordRefused(GlyphoxaError):
    """Discord does not let the bot in, or cannot be reached; the text says what to
    do."""


def run_bot(
    config: Config,
    token: Secret,
    options: DiscordOptions,
    *,
    memory: Memory | Path | str | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> None:
    """Run the bot in an asyncio loop of its own, until SIGTERM or Ctrl-C.

    Args:
      say: called with lines for the person who started it.

    Raises:
      DiscordRefused: it was not let in.
      GlyphoxaError: the configuration cannot serve.
    """

    async def main() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, task.cancel)
        async with open_runtime(
            config, approvals=True, collector="settle", memory=memory
        ) as runtime:
            await run_until_closed(DiscordBot(runtime, options), token, say=say)

    try:
        asyncio.run(main())
    except asyncio.CancelledError:
        say("the bot has left")


async def run_until_closed(
    bot: DiscordBot,
    token: Secret,
    *,
    say: Callable[[str], None] = lambda text: None,
) -> None:
    """Log in, and stay until this is cancelled. A gateway that goes away is connected
    to again, by py-cord. Afterwards nothing of the bot is left.

    Raises:
      DiscordRefused: the bot was not let in, or is not any more.
    """
    # It logs the token of each voice connection.
    logging.getLogger("discord.voice.gateway").setLevel(logging.WARNING)
    with quiet(Mask.around(token).text):
        try:
            await bot.login(token.reveal())
            say(f"logged in as {bot.user}; stop it with Ctrl-C")
            await bot.connect()
        except discord.LoginFailure:
            raise DiscordRefused(
                "Discord refused the token: copy it again from the page Bot of the"
                " application, or reset it there"
            ) from None
        except discord.PrivilegedIntentsRequired:
            raise DiscordRefused(
                "Discord refused what the bot wants to read: switch Message Content"
                " Intent on, on the page Bot of the application"
            ) from None
        except discord.ConnectionClosed as error:
            raise DiscordRefused(f"Discord closed the connection: {error}") from error
        except (discord.HTTPException, discord.GatewayNotFound) as error:
            raise DiscordRefused(f"Discord refused the bot: {error}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise DiscordRefused(f"Discord cannot be reached: {error}") from error
        finally:
            async with asyncio.timeout(CLOSE_WITHIN):
                await bot.close()
