"""``glyphoxa discord``: the NPCs as a bot in the channels of Discord."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from glyphoxa_trio.config import Config
from glyphoxa_trio.config.secrecy import Masks
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.quiet import quiet
from glyphoxa_trio.secret import Secret

from .common import BAD_INPUT, Model, complain, memory_of, warn
from .consent import load
from .serving import note

if TYPE_CHECKING:
    from glyphoxa_trio.discord import DiscordOptions


def serve_discord(
    path: Path, model: Model, token_variable: str, options: DiscordOptions
) -> int:
    """Run the bot until SIGTERM or Ctrl-C; return the exit status."""
    from glyphoxa_trio.discord import run_bot

    async def loaded() -> Config:
        return model.applied_to(await load(path, warn=warn))

    token = os.environ.get(token_variable, "").strip()
    if not token:
        note(
            f"the variable {token_variable} is not set: put the token of the bot into"
            " it, from the page Bot of the application at discord.com/developers"
        )
        return BAD_INPUT
    try:
        config = trio.run(loaded)
        memory = memory_of(config, path)
        with quiet(Masks(lambda: config).text):
            run_bot(config, Secret(token), options, memory=memory, say=note)
    except GlyphoxaError as error:
        return complain(error)
    return 0
