"""Opening the group ``music``: a library, an output, and the tools."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import attrs

import trio

from glyphoxa_trio.actors import Ref
from glyphoxa_trio.tools.definition import Tool

from .events import Announcer, MusicEvent
from .handlers import tools
from .library import Library, read_library
from .mixer import Mixer
from .mpv import installed, open_mpv
from .output import MusicOutput
from .player import Player, Prepare, open_player


@attrs.frozen(kw_only=True)
class Music:
    """The tools, and the player behind them. ``by_events``: the application plays."""

    tools: tuple[Tool, ...]
    by_events: bool
    _player: Ref[Player] = attrs.field(repr=False)

    def prepare(self) -> None:
        """Read the library now, before the first call has to wait for it."""
        self._player.tell(Prepare())


@asynccontextmanager
async def open_music(
    library: Path,
    *,
    moods: Path | None = None,
    player: str = "auto",
    volume: float = 60.0,
    crossfade: float = 2.0,
    tell: Callable[[MusicEvent], None] = lambda event: None,
    warn: Callable[[str], None] = lambda text: None,
    rng: random.Random | None = None,
) -> AsyncGenerator[Music]:
    """Open music until the block is left; then it is silent, and no process is left.

    Nothing is read or started before it is needed.

    Args:
      library, moods: see `read_library`.
      player: ``mpv``, ``events``, or ``auto``: mpv where it is installed.
      volume: 0 to 100.
      crossfade: seconds.
      tell: called with the events, if the application plays the music.
      warn: called for files that cannot be read or played.
    """

    async def look(known: Library | None) -> Library:
        # Abandoned when cancelled, as the disk may hang: its result is not needed then.
        return await trio.to_thread.run_sync(
            partial(read_library, library, moods, known=known), abandon_on_cancel=True
        )

    by_events = player == "events" or (player == "auto" and not installed())
    async with AsyncExitStack() as stack:
        mpv = None if by_events else await stack.enter_async_context(open_mpv())

        def output(nursery: trio.Nursery) -> MusicOutput:
            if mpv is None:
                return Announcer(tell=tell, volume=volume, crossfade=crossfade)
            return Mixer(
                nursery=nursery,
                open_track=mpv.open_track,
                volume=volume,
                crossfade=crossfade,
                warn=warn,
            )

        ref = await stack.enter_async_context(
            open_player(look, output, rng=rng, warn=warn)
        )
        # The client that reads the answers may be the one that plays.
        how = {"volume": volume, "fade_ms": round(crossfade * 1000)}
        made = tools(ref, how if by_events else {})
        yield Music(tools=tuple(made), by_events=by_events, player=ref)
