"""The sentence cascade: a fast model opens, the one with tools goes on (G34, D23c).

    fast    no tools, a short instruction; cut at its first sentence, or at 25 words
    strong  asked with the piece that decides this; the opener stands before what it
            writes, as the beginning of the same message

The rounds are `cascaded`'s. A fast model that is slow, fails or says nothing is left
out: the turn is that of a cascaded NPC, later by no more than ``turn.opener_ms``.
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
    """Answer once. Ends within its limits; cancelling it interrupts the turn."""
    await cascaded.run(turn, opener=partial(_open, turn, fast))


async def _open(
    turn: TurnState, fast: FastModel, round_: Round, view: VisibleTools
) -> bool:
    """Say the first sentence; whether that is the whole answer."""
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
