"""Where music is played: what a player needs of it."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class MusicOutput(Protocol):
    """Plays one track at a time, over and over."""

    @property
    def playing(self) -> Path | None:
        """What plays now, and is not on its way out."""
        ...

    async def play(self, path: Path, mood: str) -> None:
        """Begin with this one; what played before fades out meanwhile.

        Returns when it has begun. Failed or cancelled, what played before goes on.

        Raises:
          ToolError: this track cannot be played.
          ToolUnavailable: nothing can, just now.
        """
        ...

    def stop(self) -> None:
        """Fade out whatever plays. Nothing, if nothing does."""
        ...
