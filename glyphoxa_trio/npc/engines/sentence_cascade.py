"""The sentence cascade: a fast model opens, the one with tools goes on (G34, D23c).

    fast    no tools, a short instruction; cut at its first sentence, or at 25 words
    strong  asked with the piece that decides this; the opener stands before what it
            writes, as the beginning of the same message

The rounds are `cascaded`'s. A fast model that is slow, fails or says nothing is left
out: the turn is that of a cascaded NPC, later by no more than ``turn.opener_ms``.
"""

from __future__ import annotations

from functools import partial

import trio

from glyphoxa_trio.config.voices import CascadeMode
from glyphoxa_trio.host import Showing
from glyphoxa_trio.npc.conversation import Round
from glyphoxa_trio.npc.events import ModelFailed, Sentence, TextDelta
from glyphoxa_trio.providers.llm import (
    Finished,
    LLMError,
    LLMEvent,
    Switched,
    Usage,
)

from . import cascaded
from .cascaded import TurnInProgress
from .round import opening_request


async def run(turn: TurnInProgress) -> None:
    """Answer once. Ends within its limits; cancelling it interrupts the turn."""
    await cascaded.run(turn, opener=partial(_open, turn))


async def _open(turn: TurnInProgress, round_: Round, view: Showing) -> bool:
    """Say the first sentence; whether that is the whole answer."""
    if turn.fast is None or not _opens(turn.cascade, view):
        return False

    def told(event: LLMEvent) -> None:
        match event:
            case Switched():
                turn.post(cascaded.switched(turn, event))
            case Finished(usage=Usage() as usage):
                turn.spent(usage)

    try:
        opened = await turn.fast.open(
            opening_request(turn.conversation, turn.exchange),
            within=turn.config.opener,
            clock=turn.model_clock,
            nursery=turn.nursery,
            told=told,
        )
    except LLMError as error:
        turn.post(
            ModelFailed(
                npc=turn.npc,
                turn=turn.turn,
                kind=error.kind,
                detail=f"the fast model: {error.detail}",
            )
        )
        return False
    if opened is None:
        return False
    turn.opener = opened.text
    turn.first_text_at = trio.current_time()
    round_.sentences.append(opened.text)
    await turn.emit(TextDelta(npc=turn.npc, turn=turn.turn, text=opened.text))
    await turn.emit(Sentence(npc=turn.npc, turn=turn.turn, text=opened.text, round=0))
    return opened.whole and not view.shown


def _opens(mode: CascadeMode, view: Showing) -> bool:
    match mode:
        case CascadeMode.AUTO:
            return bool(view.shown)
        case CascadeMode.ALWAYS:
            return True
        case CascadeMode.OFF:
            return False
