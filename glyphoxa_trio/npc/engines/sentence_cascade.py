"""The sentence cascade: a fast model begins the answer, a model with tools continues.

    fast    no tools, a short instruction; cut after its first sentence, or 25 words
    strong  asked as soon as the opener is decided; the opener stands before what it
            writes, as the beginning of the same message

The rounds are those of `cascaded`. If the fast model is slow, fails or says nothing,
the turn continues as that of a cascaded NPC, delayed by ``turn.opener_ms`` at most.
"""

from __future__ import annotations

from functools import partial

from glyphoxa_trio.config.voices import CascadeMode
from glyphoxa_trio.host import VisibleTools
from glyphoxa_trio.npc.conversation import Round
from glyphoxa_trio.npc.prompting import opening_request
from glyphoxa_trio.npc.turn.state import TurnState
from glyphoxa_trio.providers.llm import (
    Finished,
    LLMError,
    LLMEvent,
    Switched,
    Usage,
)

from . import cascaded
from .fast import FastModel


async def run(turn: TurnState, fast: FastModel) -> None:
    """Answer once, within the limits of the turn. Cancelling interrupts the turn."""
    await cascaded.run(turn, opener=partial(_open, turn, fast))


async def _open(
    turn: TurnState, fast: FastModel, round_: Round, view: VisibleTools
) -> bool:
    """Say the first sentence; return True if it is the whole answer."""
    if not _opens(turn.settings.npc.cascade_mode, view):
        return False

    def told(event: LLMEvent) -> None:
        match event:
            case Switched():
                turn.switched(event)
            case Finished(usage=Usage() as usage):
                turn.spent(usage)

    try:
        opened = await fast.open(
            opening_request(turn.memory.conversation, turn.exchange),
            within=turn.config.opener,
            clock=turn.model_clock,
            nursery=turn.nursery,
            told=told,
        )
    except LLMError as error:
        turn.post(turn.model_failed(error, which="the fast model: "))
        return False
    if opened is None:
        return False
    turn.opened_with(opened.text)
    await turn.say_at_once(round_, 0, opened.text)
    return opened.whole and not view.shown


def _opens(mode: CascadeMode, view: VisibleTools) -> bool:
    match mode:
        case CascadeMode.AUTO:
            return bool(view.shown)
        case CascadeMode.ALWAYS:
            return True
        case CascadeMode.OFF:
            return False
