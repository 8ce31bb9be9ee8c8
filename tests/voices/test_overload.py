"""A machine with too much to do turns nobody away whom a model answers anyway."""

from __future__ import annotations

import attrs

import trio
from trio.testing import MockClock

from glyphoxa_trio.npc import TurnDone, TurnEnd
from glyphoxa_trio.npc.activity import Activity
from glyphoxa_trio.npc.events import Speech
from glyphoxa_trio.testing.realtime_server import ModelTurn, Reply, Speak, UserSpeaks

from .support import EACH, open_talk

REFUSED = "this machine has too much to do"


@attrs.define
class NobodyMayBegin:
    """A door that is shut. ``asked`` is beside how many turns somebody wanted to
    begin."""

    busy: bool = True
    asked: list[int] = attrs.field(factory=list)

    def refusal(self, running: int) -> str:
        self.asked.append(running)
        return REFUSED


@EACH
async def test_who_is_answered_by_the_model_itself_is_heard_also_when_it_is_late(
    model: str, autojump_clock: MockClock
) -> None:
    def script(turn: ModelTurn) -> Reply:
        if turn.number == 0:
            return [Speak("Well. ", ms=200), UserSpeaks("Who are you?", after=1.0)]
        return Speak("I am Bob, and I am here.", ms=400)

    door = NobodyMayBegin()
    activity = Activity()
    async with open_talk(model, script, table={"activity": activity}) as (t, _):
        async with t.npc.voice(speaker="Ann", rate=24_000) as voice:
            async with t.npc.say("Hello!", speaker="Ann") as turn:
                await turn.finish()
            activity.door = door  # from now on nobody may begin
            sounded, done = 0, None
            async for event in voice:
                if isinstance(event, Speech):
                    sounded += len(event.pcm)
                    assert activity.working == 0  # it is the model's work
                if isinstance(event, TurnDone):
                    done = event
                    break
        assert done is not None
        assert (done.end, done.text) == (
            TurnEnd.COMPLETED,
            "I am Bob, and I am here.",
        )
        assert sounded > 0
        assert door.asked == []
        # What is written has to be asked of the model: that may be refused.
        async with t.npc.say("And now?", speaker="Ann") as turn:
            written = await turn.finish()
        assert (written.end, written.error) == (TurnEnd.SHED, REFUSED)
        assert door.asked == [0]
        assert (activity.running, activity.working) == (0, 0)
        await trio.sleep(1)
