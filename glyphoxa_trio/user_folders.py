"""The folders in which this user's programs keep state and data between runs.

A user of a container may have neither ``HOME`` nor an entry in the passwd file. Then
there are no such folders, and the caller says what it does without.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

NO_HOME: Final = "this user has no home folder: set HOME"


def user_home() -> Path | None:
    """Return the home folder of this user; None if there is none."""
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return home if home.is_absolute() else None


def user_state_folder() -> Path | None:
    """Return the folder of what a run leaves to the next one; None without a home."""
    import platformdirs

    try:
        return platformdirs.user_state_path("glyphoxa")
    except RuntimeError:
        return None


def user_data_folder() -> Path | None:
    """Return the folder of files that belong to the user; None without a home."""
    import platformdirs

    try:
        return platformdirs.user_data_path("glyphoxa")
    except RuntimeError:
        return None


def expanded(path: Path) -> Path | None:
    """Return the path with a home folder in place of ``~``; None if there is none."""
    try:
        return path.expanduser()
    except RuntimeError:
        return None
