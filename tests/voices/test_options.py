"""Who makes responses and who stops them, from end to end: at the strict fakes, in
virtual time."""

from __future__ import annotations

from typing import Any

import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio.config.voices import S2SConfig
from glyphoxa_trio.npc import TierSelected, TurnDone, TurnEnd
from glyphoxa_trio.npc.events import Flush, Speech
from glyphoxa_trio.testing.realtime_server import (
    HangResponse,
    ModelTurn,
    Reply,
    Speak,
    UserSpeaks,
)
from glyphoxa_trio.tools.tier import Tier

from ..npc.support import ask
from .support import GEMINI_25, OPENAI, open_talk, sent_by

SEMANTIC: dict[str, Any] = {"turn_detection": "semantic_vad", "create_response": False}


def story(turn: ModelTurn) -> Reply:
    """A story, into which somebody speaks; then what they want."""
    if turn.number == 0:
        return [
            Speak("A long, long story.", ms=4000, upto_ms=400),
            UserSpeaks("Think carefully: why?", ms=100, after=0.6, late=False),
            HangResponse(),
        ]
    return Speak("Because.", ms=40)


@pytest.mark.parametrize(
    "asked",
    [SEMANTIC, SEMANTIC | {"interrupt_response": False}, {"create_response": False}],
)
async def test_a_server_that_hears_by_itself_waits_to_be_asked(
    asked: dict[str, Any], autojump_clock: MockClock
) -> None:
    routed = {"s2s": S2SConfig(route=True)}  # so the words are waited for
    async with open_talk(OPENAI, story, asked=asked, table=routed) as (table, server):
        heard = await ask(table.npc, "Tell me")
        assert heard.done.end is TurnEnd.INTERRUPTED
        await trio.sleep(5)
        (_, done) = table.events.all(TurnDone)
        assert (done.end, done.text) == (TurnEnd.COMPLETED, "Because.")
        # The words are there before it is asked.
        selected = table.events.all(TierSelected)[-1]
        assert selected.text == "Think carefully: why?"
        assert selected.selected is Tier.DEEP
        asks = sent_by(server, "response.create")
        # Beside those that only record lines for a time without it.
        aside = [x.get("response", {}).get("conversation") == "none" for x in asks]
        assert aside.count(False) == 2
        stops = sent_by(server, "response.cancel")
        assert len(stops) == (asked.get("interrupt_response") is False)


async def test_a_model_that_is_not_interrupted_says_it_to_its_end(
    autojump_clock: MockClock,
) -> None:
    def script(turn: ModelTurn) -> Reply:
        if turn.number == 0:
            return [
                UserSpeaks("Stop it", ms=100, after=0.6),
                Speak("A long, long story.", ms=2000, paced=True),
            ]
        return Speak("As you wish.", ms=40)

    for interrupts in (True, False):
        asked = {"interrupts": interrupts}
        async with open_talk(GEMINI_25, script, asked=asked) as (table, _):
            heard = await ask(table.npc, "Tell me")
            ends = {True: TurnEnd.INTERRUPTED, False: TurnEnd.COMPLETED}
            assert heard.done.end is ends[interrupts]
            assert len(heard.of(Flush)) == interrupts
            told = sum(event.seconds for event in heard.of(Speech))
            assert (told == pytest.approx(2.0)) is not interrupts
            await trio.sleep(10)
            last = table.events.all(TurnDone)[-1]
            assert last.text == "As you wish."
