"""Turns that use no model: a greeting, the DM's words as the NPC, and refused turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from glyphoxa_trio.npc.events import (
    FellBack,
    Scripted,
    Sentence,
    Shed,
    TextDelta,
    TurnEvent,
)
from glyphoxa_trio.npc.sentences import Sentences

from .utterance import Utterance


def scripted(
    of: Mapping[str, Any], utterance: Utterance, text: str
) -> Iterator[TurnEvent]:
    """Yield the events of a scripted turn, up to its `TurnDone`."""
    yield Scripted(**of, speaker=utterance.speaker, text=text)
    if not text.strip():
        return
    sentences = Sentences()
    whole = [*sentences.feed(text), *sentences.end()]
    round_ = utterance.exchange.begin_round()
    for place, sentence in enumerate(whole):
        round_.sentences.append(sentence)
        yield TextDelta(**of, text=f" {sentence}" if place else sentence)
        yield Sentence(**of, text=sentence, round=0)


def declined(
    of: Mapping[str, Any], utterance: Utterance, line: str
) -> Iterator[TurnEvent]:
    """Yield the events of a turn that is turned away, up to its `TurnDone`."""
    yield Shed(
        **of,
        reason=utterance.shed,
        speaker=utterance.speaker,
        text=utterance.text,
    )
    yield FellBack(**of, reason=utterance.shed_for)
    yield TextDelta(**of, text=line)
    yield Sentence(**of, text=line, round=0)
