"""The folder of what one run leaves to the next."""

from __future__ import annotations

from pathlib import Path

from .model import Config


def state_folder(config: Config) -> Path:
    """Return the folder of what a run leaves to the next one: configured, or the
    user's."""
    if config.mcp.state_dir is not None:
        return config.mcp.state_dir
    import platformdirs

    return platformdirs.user_state_path("glyphoxa")
