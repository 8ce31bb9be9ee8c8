"""NPCs in text and voice channels of Discord: the bot of ``glyphoxa discord``.

    async with aio.open_runtime("npcs.yaml", approvals=True) as runtime:
        bot = DiscordBot(runtime, DiscordOptions())
        await run_until_closed(bot, token)

This stands above `glyphoxa_trio.aio` and needs the extra ``discord``, which is py-cord.
A channel is a `table`, with a session of its own; `bot` brings what happens at Discord
to it. `directing` is what a game master may do there, and `player_commands`,
`game_master_commands` and `voice_commands` are the slash commands. `voices` joins voice
channels, and `voice_channel` hears each member by `receiving`, answers by `mixing`, and
obeys what is `spoken`. docs/discord.md is the page for users.
"""

from glyphoxa_trio.extras import require, require_version

# Before names are imported that another version may not have, or that discord.py has,
# whose modules are called the same.
require_version("a bot for Discord", "discord", "py-cord", (2, 8))
require("a bot for Discord", "discord")

from .bot import DiscordBot as DiscordBot  # noqa: E402
from .options import DiscordOptions as DiscordOptions  # noqa: E402
from .running import DiscordRefused as DiscordRefused  # noqa: E402
from .running import run_bot as run_bot  # noqa: E402
from .running import run_until_closed as run_until_closed  # noqa: E402

__all__ = [
    "DiscordBot",
    "DiscordOptions",
    "DiscordRefused",
    "run_bot",
    "run_until_closed",
]
