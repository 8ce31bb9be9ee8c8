"""The folder of what one run leaves to the next."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from glyphoxa_trio.user_folders import NO_HOME, user_state_folder

from .model import Config

NO_STATE: Final = f"{NO_HOME}, XDG_STATE_HOME or mcp.state_dir"


def state_folder(config: Config) -> Path | None:
    """Return the folder of what a run leaves to the next one: configured, or the
    user's; None for a user without a home."""
    if config.mcp.state_dir is not None:
        return config.mcp.state_dir
    return user_state_folder()
