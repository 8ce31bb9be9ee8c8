"""What a turn is whose words are there already: a greeting, or what the DM says as
the NPC. Nobody is asked."""

from __future__ import annotations

from collections.abc import Iterator

from .events import Scripted, Sentence, TextDelta, TurnEvent
from .sentences import Sentences
from .utterance import Utterance


def scripted(npc: str, utterance: Utterance, text: str) -> Iterator[TurnEvent]:
    """The events of such a turn, up to its `TurnDone`."""
    turn = utterance.number
    yield Scripted(npc=npc, turn=turn, speaker=utterance.speaker, text=text)
    if not text.strip():
        return
    sentences = Sentences()
    whole = [*sentences.feed(text), *sentences.end()]
    round_ = utterance.exchange.begin_round()
    for place, sentence in enumerate(whole):
        round_.sentences.append(sentence)
        yield TextDelta(npc=npc, turn=turn, text=f" {sentence}" if place else sentence)
        yield Sentence(npc=npc, turn=turn, text=sentence, round=0)
