"""What a turn is that is turned away: a line, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from .events import FellBack, Sentence, Shed, TextDelta, TurnEvent
from .utterance import Utterance


def declined(npc: str, utterance: Utterance, line: str) -> Iterator[TurnEvent]:
    """The events of a turn that is turned away, up to its `TurnDone`."""
    turn = utterance.number
    yield Shed(
        npc=npc,
        turn=turn,
        reason=utterance.shed,
        speaker=utterance.speaker,
        text=utterance.text,
    )
    yield FellBack(npc=npc, turn=turn, reason=utterance.shed_for)
    yield TextDelta(npc=npc, turn=turn, text=line)
    yield Sentence(npc=npc, turn=turn, text=line, round=0)
