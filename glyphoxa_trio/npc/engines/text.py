"""The text engine: a model with tools, or a fast model that begins for it."""

from __future__ import annotations

import attrs

from glyphoxa_trio.config.voices import CascadeMode
from glyphoxa_trio.config.voices import Engine as Kind
from glyphoxa_trio.npc.turn.engine import TurnEngine, Understood
from glyphoxa_trio.npc.turn.settings import Links, SessionSettings
from glyphoxa_trio.npc.turn.state import TurnState
from glyphoxa_trio.npc.turn.utterance import Utterance

from . import cascaded, sentence_cascade
from .fast import FastModel


@attrs.define(eq=False)
class TextEngine(TurnEngine):
    """Answers in text, as the NPC's configuration says."""

    _settings: SessionSettings
    _fast: FastModel

    async def answer(
        self, turn: TurnState, utterance: Utterance, understood: Understood
    ) -> None:
        if turn.settings.npc.engine is Kind.SENTENCE_CASCADE:
            await sentence_cascade.run(turn, self._fast)
        else:
            await cascaded.run(turn)

    @property
    def may_speculate(self) -> bool:
        npc = self._settings.npc
        return npc.engine is Kind.CASCADED or (
            npc.engine is Kind.SENTENCE_CASCADE and npc.cascade_mode is CascadeMode.OFF
        )

    def configure(self, settings: SessionSettings, links: Links) -> bool:
        self._settings = settings
        fast = links.fast or links.llm
        if self._fast.llm is not fast:
            self._fast = FastModel(fast)
        return settings.npc.engine is not Kind.S2S
