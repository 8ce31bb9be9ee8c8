"""The events of a turn that a player may see: the answer, and that tools are used.

The arguments and results of tools, what was added to the prompt, and which tools there
are may have a game master's secrets in them. Pure.
"""

from __future__ import annotations

from typing import Final

import attrs

from glyphoxa_trio.npc import (
    FellBack,
    Filler,
    Flush,
    Hold,
    Queued,
    Resume,
    Sentence,
    Speech,
    TextDelta,
    ToolFinished,
    ToolStarted,
    Transcript,
    TurnDone,
    TurnEvent,
)
from glyphoxa_trio.npc.events import HearingFailed, SpeechFailed
from glyphoxa_trio.tools.outcome import Outcome, ToolCall

_SHOWN: Final = (
    *(Queued, TextDelta, Sentence, Filler, Speech, SpeechFailed, Flush, Hold, Resume),
    *(Transcript, HearingFailed, FellBack),
)


def for_player(event: TurnEvent) -> TurnEvent | None:
    """Return the event as a player may see it; None if a player does not see it."""
    match event:
        case ToolStarted():
            return attrs.evolve(event, call=_bare_call(event.call))
        case ToolFinished():
            return attrs.evolve(event, outcome=_bare(event.outcome))
        case TurnDone():
            return attrs.evolve(event, outcomes=(), error="")
        case _ if isinstance(event, _SHOWN):
            return event
    return None


def _bare_call(call: ToolCall) -> ToolCall:
    return ToolCall(call.id, call.name, "{}")


def _bare(outcome: Outcome) -> Outcome:
    return Outcome(
        call=_bare_call(outcome.call),
        tool=outcome.tool,
        status=outcome.status,
        elapsed=outcome.elapsed,
    )
