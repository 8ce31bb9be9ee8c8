"""Built-in groups that hold something open for as long as the run: players, links.

They are opened once. What a reload says of them counts at the next start.
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
    """The tools of these groups.

    Args:
      prepare: begin now with what takes a while, where nothing is made up.
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
