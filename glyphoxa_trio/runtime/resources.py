"""Built-in groups that hold resources for the whole run: players, connections.

They are opened once. A reload's changes to them take effect at the next start.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from glyphoxa_trio.config import Config
from glyphoxa_trio.tools.definition import Tool

if TYPE_CHECKING:
    from glyphoxa_trio.builtin.music import MusicEvent


@asynccontextmanager
async def open_lasting(
    config: Config,
    *,
    prepare: bool,
    tell: Callable[[MusicEvent], None],
    warn: Callable[[str], None],
) -> AsyncGenerator[tuple[Tool, ...]]:
    """Open the resources of these groups, and give their tools.

    Args:
      prepare: start long preparations now; False in a simulation.
      tell: called with each `MusicEvent`.
    """
    found: list[Tool] = []
    async with AsyncExitStack() as stack:
        settings = config.builtin.music
        if settings.enabled and settings.library is not None:
            from glyphoxa_trio.builtin.music import open_music

            music = await stack.enter_async_context(
                open_music(
                    settings.library,
                    moods=settings.moods,
                    player=settings.player,
                    volume=settings.volume,
                    crossfade=settings.crossfade,
                    tell=tell,
                    warn=warn,
                )
            )
            if prepare:
                music.prepare()
            found += music.tools
        yield tuple(found)
