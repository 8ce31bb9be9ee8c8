"""The tools ``play_track`` and ``stop_music``, which ask the player."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, TypeVar

import trio

from glyphoxa_trio.actors import Ref, Request
from glyphoxa_trio.errors import ActorGone, DeadlineExceeded
from glyphoxa_trio.tools.decorate import tool
from glyphoxa_trio.tools.definition import CallContext, Tool, ToolError, ToolUnavailable

from .moods import LONGEST, folded
from .player import Play, Player, StopPlaying

R = TypeVar("R")

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})

# seconds: a fast turn has 500 ms, and the answer needs some of them
LIMIT: Final = 0.48


def tools(player: Ref[Player], how: Mapping[str, Any] = NOTHING) -> list[Tool]:
    """Return ``play_track`` and ``stop_music`` for a player.

    ``how`` is added to the answer about each track that plays.
    """

    # Neither tool is idempotent, since a probe would be heard.
    @tool(
        group="music",
        category="media",
        title="Play music",
        estimated_duration_ms=120,
        max_duration_ms=LIMIT * 1000,
        speech_field="message",
    )
    async def play_track(
        mood: Annotated[str, "In a word or two, for example battle, tavern, calm"],
        context: CallContext,
    ) -> dict[str, Any]:
        """Play background music for a mood, in place of what plays now.

        It plays until other music is asked for, or it is stopped.
        """
        if not mood.strip() or len(mood) > 4 * LONGEST:
            raise ToolError("say the mood in a word or two")
        heard = await _ask(player, Play(mood), context)
        track = heard.track.stem
        answer: dict[str, Any] = {"mood": heard.mood, "track": track}
        answer |= {"path": str(heard.track)} | dict(how)
        if heard.already:
            answer["message"] = f"{track} is playing already."
        else:
            answer["message"] = f"Now playing {track}, for {heard.mood}."
        if heard.mood != folded(heard.asked):
            # The model may choose better if it knows the moods.
            answer |= {"asked_for": heard.asked, "moods": list(heard.moods)}
        return answer

    @tool(
        group="music",
        category="media",
        title="Stop the music",
        estimated_duration_ms=5,
        max_duration_ms=LIMIT * 1000,
        speech_field="message",
    )
    async def stop_music(context: CallContext) -> dict[str, Any]:
        """Stop the background music; it fades out."""
        heard = await _ask(player, StopPlaying(), context)
        if heard is None:
            return {"stopped": None, "message": "No music was playing."}
        return {"stopped": heard.stem, "message": "The music fades out."}

    return [play_track, stop_music]


async def _ask(
    player: Ref[Player], request: Request[Player, R], context: CallContext
) -> R:
    left = min(LIMIT, context.deadline - trio.current_time())
    try:
        # A little less than all of it: our message says more than "timeout".
        return await player.ask(request, within=left - 0.02)
    except (DeadlineExceeded, ActorGone):
        raise ToolUnavailable(
            "the music player did not answer in time; ask again in a moment"
        ) from None
