"""Facts that a model is told but no player said: how calls ended that went on, what
holds at the moment, what others said. Spoken turns of every model, in virtual time.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio.actors import SharedTasks
from glyphoxa_trio.npc import TurnDone, TurnEnd
from glyphoxa_trio.npc.hot_context import HotContext, Moment
from glyphoxa_trio.testing.realtime_server import (
    ModelTurn,
    Reply,
    Speak,
    SpokenCallTools,
)

from ..npc.support import Ran, ask
from .support import EVERY, GEMINI_31, OPENAI, Server, live_of, open_talk
from .test_long_tools import connect, hear


def received(server: Server, word: str) -> list[str]:
    """The messages of clients that have this in them, the setups left out."""
    return [
        text
        for session in server.sessions
        for message in session.wire.received
        if word in (text := json.dumps(message)) and "setup" not in message
    ]


def pays(turn: ModelTurn) -> Reply:
    if "earlier call" in turn.user or turn.outputs:
        return Speak("I see.", ms=300)
    if turn.user.startswith("Pay"):
        return SpokenCallTools([("pay", {})])
    return Speak("Bless you.", ms=300)


@EVERY
@pytest.mark.parametrize("usual", [0.2, 5.0], ids=["quick", "slow"])
@pytest.mark.parametrize("spoken", [True, False], ids=["spoken", "written"])
async def test_a_cough_while_something_is_paid_loses_no_result(
    model: str, usual: float, spoken: bool, autojump_clock: MockClock
) -> None:  # D12a, D23d, D23e2: told once, in the next turn at the latest
    ran = Ran()
    pay = ran.tool("pay", 5.0, read_only=False, estimated_duration=usual)
    async with open_talk(model, pays, pay) as (table, server):
        await connect(table)
        await hear(server, "Pay them")
        await trio.sleep(0.3)
        await trio.sleep_until(ran.began[0][1] + 0.4)
        await hear(server, "Ahem")
        await trio.sleep_until(ran.began[0][1] + 8.0)
        if spoken:
            await hear(server, "And now?")
        else:
            await ask(table.npc, "And now?")
        await trio.sleep(8.0)
        assert ran.ended == [("pay", ran.began[0][1] + 5.0)]
        assert len(ran.began) == 1
        assert len(received(server, "pay is done")) == 1
        assert not received(server, "system")
        assert not live_of(table).statistics().owed


@EVERY
async def test_what_holds_at_the_moment_is_told_in_spoken_turns_and_once(
    model: str, autojump_clock: MockClock
) -> None:  # D23e2
    weather = ["It rains.", "It rains.", "The sun shines.", "The sun shines."]

    def look(moment: Moment) -> str:
        return weather[moment.turn - 1]

    async with trio.open_nursery() as nursery:
        context = HotContext(SharedTasks(nursery))
        context.add(look)
        script: Callable[[ModelTurn], Reply] = lambda _: Speak("Aye.", ms=300)  # noqa: E731
        table_: dict[str, Any] = {"context": context}
        async with open_talk(model, script, table=table_) as (table, server):
            await connect(table)
            for number in range(3):
                await hear(server, f"Number {number}")
                await trio.sleep(5.0)
            if model == GEMINI_31:  # which answers all text
                assert not received(server, "It rains.")
                await ask(table.npc, "And?")
                (told,) = received(server, "It rains.")
                assert "The sun shines." in told
            else:
                assert len(received(server, "It rains.")) == 1
                assert len(received(server, "The sun shines.")) == 1
            forgotten = received(server, "conversation.item.delete")
            assert len(forgotten) == (model == OPENAI)
            assert all(x.end is TurnEnd.COMPLETED for x in table.events.all(TurnDone))
        nursery.cancel_scope.cancel()


@EVERY
async def test_what_others_say_reaches_a_model_that_is_spoken_to(
    model: str, autojump_clock: MockClock
) -> None:  # D23a
    async with open_talk(model, [Speak("Aye.", ms=300)]) as (table, server):
        await connect(table)
        await hear(server, "Hello")
        await trio.sleep(5.0)
        await table.npc.overhear("Aria", "Is it safe?", to="Ysolde")
        await hear(server, "And now?")
        await trio.sleep(5.0)
        if model == GEMINI_31:
            await ask(table.npc, "And?")
        assert len(received(server, "Aria to Ysolde: Is it safe?")) == 1
