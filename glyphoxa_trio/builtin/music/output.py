"""The part of a music output that the player needs."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class MusicOutput(Protocol):
    """An output that plays one track at a time, over and over."""

    @property
    def playing(self) -> Path | None:
        """The track that plays now and is not fading out."""
        ...

    async def play(self, path: Path, mood: str) -> None:
        """Begin this track; the one before it fades out meanwhile.

        Returns when it has begun. If this fails or is cancelled, the one before goes
        on.

        Raises:
          ToolError: if this track cannot be played.
          ToolUnavailable: if no track can be played at the moment.
        """
        ...

    def stop(self) -> None:
        """Fade out the track that plays, if there is one."""
        ...
