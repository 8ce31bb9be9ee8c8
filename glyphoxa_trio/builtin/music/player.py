"""ACTOR: the player, which knows the library and plays one track at a time.

The library is read again, in a thread, with each call that plays something. A call
waits for that only briefly and otherwise uses the library as it was.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import (
    Backoff,
    Failed,
    Inbox,
    Ref,
    Request,
    SupervisionEvent,
    crash_report,
    lone_errors,
    spawn,
)
from glyphoxa_trio.tools.definition import ToolError, ToolUnavailable

from .library import Library
from .moods import folded, nearest_mood
from .output import MusicOutput

LOOKING: Final = 0.1  # seconds that a call waits for the library
# seconds, so that reading does not compete with a program's start
AFTER_START: Final = 0.2
FIRST_LOOK: Final = 0.35  # seconds, while no library has been read
ATTEMPTS: Final = 3  # tracks of a mood that are tried in one call
MOST_NAMED: Final = 40  # moods in an answer

# A bug in the player must neither end its host nor restart in a busy loop.
_AFTER_A_FAULT: Final = Backoff(first=0.05, ceiling=5.0, max_restarts=1_000_000)

# Returns the library as it is now, given the one known before.
Look = Callable[[Library | None], Awaitable[Library]]


class NoSuchMood(ToolError):
    """No mood is near the one that was asked for; the message names some."""

    code = "NotFound"


@attrs.frozen
class Playing:
    """The track that plays now.

    ``asked`` is the mood that was asked for, ``already`` whether the track was playing
    before; ``moods`` are the moods of the library.
    """

    track: Path
    mood: str
    asked: str
    moods: tuple[str, ...]
    already: bool = False


@attrs.frozen
class Play(Request["Player", Playing]):
    mood: str


@attrs.frozen
class StopPlaying(Request["Player", Path | None]):
    """Stop the music; answered with the track that was playing, or None."""


@attrs.frozen
class Prepare(Request["Player", None]):
    """Read the library now, before the first call has to wait for it."""


@asynccontextmanager
async def open_player(
    look: Look,
    output: Callable[[trio.Nursery], MusicOutput],
    *,
    rng: random.Random | None = None,
    warn: Callable[[str], None] = lambda text: None,
) -> AsyncGenerator[Ref[Player]]:
    """Run a player until the block is left; then it is silent at once.

    Args:
      output: makes the output for each life of the actor, given its nursery.
      rng: for the choice between tracks; unseeded by default.
      warn: called for tracks that cannot be played, and with the library's warnings.
    """
    chance = random.Random() if rng is None else rng
    with lone_errors():
        async with trio.open_nursery() as nursery:

            async def live(inbox: Inbox[Player]) -> None:
                async with trio.open_nursery() as tracks:
                    player = Player(look, output(tracks), chance, warn, tracks)
                    await player.run(inbox)
                    tracks.cancel_scope.cancel("the player is stopped")

            def report(event: SupervisionEvent) -> None:
                if isinstance(event, Failed):
                    warn(crash_report(event))

            yield spawn(
                nursery, live, name="music", restart=_AFTER_A_FAULT, on_event=report
            )
            nursery.cancel_scope.cancel("the player is closed")


@attrs.define(eq=False)
class Player:
    _look: Look
    _output: MusicOutput
    _rng: random.Random
    _warn: Callable[[str], None]
    _nursery: trio.Nursery
    _library: Library | None = attrs.field(default=None, init=False)
    _looked: trio.Event | None = attrs.field(default=None, init=False)
    _last: dict[str, Path] = attrs.field(factory=dict, init=False)  # by mood
    _mood: str = attrs.field(default="", init=False)
    _broken: set[Path] = attrs.field(factory=set, init=False)

    async def run(self, inbox: Inbox[Player]) -> None:
        async for call in inbox:
            with call.answering():
                match call.request:
                    case Play(mood):
                        call.reply(await self._play(mood))
                    case StopPlaying():
                        heard = self._output.playing
                        self._output.stop()
                        call.reply(heard)
                    case Prepare():
                        self._nursery.start_soon(self._prepare)
                        call.reply(None)

    async def _prepare(self) -> None:
        await trio.sleep(AFTER_START)
        if self._library is None:
            self._begin_to_look()

    async def _play(self, asked: str) -> Playing:
        library = await self._now()
        mood = nearest_mood(asked, library.moods)
        moods = tuple(library.moods)[:MOST_NAMED]
        if mood is None:
            raise NoSuchMood(_nothing_near(asked, library))
        playable = [x for x in library.moods[mood] if x not in self._broken]
        now = self._output.playing
        if playable == [now] and mood == self._mood:
            return Playing(playable[0], mood, asked, moods, already=True)
        for path in self._in_order(mood, playable)[:ATTEMPTS]:
            try:
                await self._output.play(path, mood)
            except ToolError as error:
                self._broken.add(path)
                self._warn(f"{path.name}: {error}")
            else:
                self._mood, self._last[mood] = mood, path
                return Playing(path, mood, asked, moods)
        raise ToolError(f"no track for {mood} can be played")

    def _in_order(self, mood: str, tracks: list[Path]) -> list[Path]:
        """Return the tracks in random order, but those heard last at the end."""
        recent = {self._last.get(mood), self._output.playing}
        shuffled = self._rng.sample(tracks, len(tracks))
        return sorted(shuffled, key=lambda path: path in recent)

    def _begin_to_look(self) -> trio.Event:
        if self._looked is None:
            self._looked = trio.Event()
            self._nursery.start_soon(self._look_through)
        return self._looked

    async def _now(self) -> Library:
        """Return the library, as new as can be had within the time limit."""
        looked = self._begin_to_look()
        with trio.move_on_after(FIRST_LOOK if self._library is None else LOOKING):
            await looked.wait()
        if self._library is None:
            raise ToolUnavailable(
                "the music library is being read; ask again in a moment"
            )
        return self._library

    async def _look_through(self) -> None:
        library = await self._look(self._library)
        if library is not self._library:
            known = () if self._library is None else self._library.warnings
            for warning in library.warnings:
                if warning not in known:
                    self._warn(warning)
            kept = {x for tracks in library.moods.values() for x in tracks}
            self._library, self._broken = library, set()
            self._last = {m: x for m, x in self._last.items() if x in kept}
        assert self._looked is not None
        self._looked.set()
        self._looked = None


def _nothing_near(asked: str, library: Library) -> str:
    if not library.moods:
        why = f": {library.warnings[0]}" if library.warnings else ""
        return f"there is no music in the library{why}"
    named = ", ".join(tuple(library.moods)[:MOST_NAMED])
    more = len(library.moods) - MOST_NAMED
    return f"there is no music for {folded(asked)!r}; there is {named}" + (
        f" and {more} more" if more > 0 else ""
    )
