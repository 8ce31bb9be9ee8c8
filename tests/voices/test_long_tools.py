"""Tools that take long, in spoken turns of every model: they are there in the tenth
utterance, nobody sits in silence, and what they come to is told once.

Virtual time; transcripts are late and crossed, as these servers have them by default.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio.npc import TierSelected, ToolFinished, TurnDone
from glyphoxa_trio.npc.events import LateResult, Speech
from glyphoxa_trio.npc.s2s.talk import STILL_WORKING
from glyphoxa_trio.testing.realtime_server import (
    ModelTurn,
    Reply,
    Speak,
    SpokenCallTools,
    UserSpeaks,
)
from glyphoxa_trio.tools.outcome import Status
from glyphoxa_trio.tools.tier import Tier

from ..npc.support import Ran, Table
from .support import (
    EVERY,
    GEMINI_25,
    GEMINI_31,
    GEMINI_38,
    OPENAI,
    THINKING,
    Server,
    live_of,
    open_talk,
    sent_by,
)

SECONDS = {"quick": 0.1, "medium": 1.2, "slow": 3.0, "study": 20.0}
EACH_TOOL = pytest.mark.parametrize("name", SECONDS)
WORDS = ("Hello", "Think carefully, investigate it", "Who rules the north?")


def script(turn: ModelTurn) -> Reply:
    """Calls what it is asked to use, once, and says what came of it."""
    if turn.outputs:
        pending = "pending" in str(turn.outputs[-1].output)
        return Speak("Patience." if pending else "Done.", ms=500)
    if STILL_WORKING in f"{turn.user} {turn.request}":
        return Speak("One moment.", ms=900)
    if "earlier call" in turn.user:
        return Speak("Done.", ms=500)
    if turn.user.startswith("Use "):
        return SpokenCallTools([(turn.user.removeprefix("Use "), {})])
    return Speak("Well met.", ms=500)


async def hear(server: Server, text: str) -> None:
    """A player says this."""
    server.sessions[-1].happen(UserSpeaks(text, ms=300))
    await trio.sleep(0.3)


async def connect(table: Table) -> None:
    live_of(table).open()
    await trio.sleep(1)


def outcomes(table: Table) -> list[Status]:
    return [event.outcome.status for event in table.events.all(ToolFinished)]


def answers(server: Server) -> list[Any]:
    """What the calls were answered, in order; and what was told of them as text."""
    told: list[Any] = [
        answer["response"].get("output", answer["response"])
        for message in sent_by(server, "toolResponse")
        for answer in message["toolResponse"]["functionResponses"]
    ]
    told += [
        json.loads(message["item"]["output"])
        for message in sent_by(server, "function_call_output")
    ]
    return told


def texts(server: Server) -> Iterator[str]:
    for session in server.sessions:
        for message in session.wire.received:
            if "earlier call" in (text := json.dumps(message)):
                yield text


@EVERY
@EACH_TOOL
async def test_a_tool_of_any_length_is_of_use_in_the_tenth_utterance(
    model: str, name: str, autojump_clock: MockClock
) -> None:  # G17, G18, G36, D23d
    ran = Ran()
    tools = [ran.tool(*one) for one in SECONDS.items()]
    async with open_talk(model, script, *tools) as (table, server):
        await connect(table)
        for number in range(9):
            await hear(server, WORDS[number % 3])
            await trio.sleep(4)
        assert len(table.events.all(TurnDone)) == 9
        began = trio.current_time()
        await hear(server, f"Use {name}")
        await trio.sleep(40)
        # It was shown, run and told once, and the model has spoken of it.
        assert [x for x, _ in ran.ended] == [name]
        assert ran.cancelled == []
        lists = sent_by(server, "contextUpdate") + [
            x
            for x in sent_by(server, "session.update")
            if "instructions" not in x["session"]
        ]
        assert lists == []
        assert len(server.sessions) == 1
        assert all(x.tier is Tier.DEEP for x in table.events.all(TierSelected))
        dones = [(at, x) for at, x in table.events.kept if isinstance(x, TurnDone)]
        spoken = [x.text for at, x in dones if at > began]
        assert spoken[-1].endswith("Done.")
        results = answers(server)
        lines = [*texts(server)]
        assert sum("is done" in str(x) for x in (*results, *lines)) == 1
        # As its own answer, wherever the wire lets a call stay owed.
        interim = [x for x in results if "pending" in str(x)]
        assert bool(interim) == bool(lines) == (model == GEMINI_31 and name in LONG)
        late = name == "study" or (name in LONG and model == GEMINI_31)
        assert len(table.events.all(LateResult)) == late
        assert outcomes(table) == [Status.PENDING if late else Status.OK]
        assert not live_of(table).statistics().owed


LONG = ("slow", "study")  # that no model is kept waiting for in silence


@EVERY
async def test_nobody_sits_in_silence_while_a_tool_takes_twenty_seconds(
    model: str, autojump_clock: MockClock
) -> None:  # D23d
    ran = Ran()
    async with open_talk(model, script, ran.tool("study", 20.0)) as (table, server):
        await connect(table)
        await hear(server, "Hello")
        await trio.sleep(4)
        before = trio.current_time()
        await hear(server, "Use study")
        await trio.sleep(40)
        turn, report = [
            (at, x)
            for at, x in table.events.kept
            if isinstance(x, TurnDone) and at > before
        ]
        # From when it was called to its end there is no second without a word: what is
        # said is heard at the pace of speech.
        heard_until = ran.began[0][1]
        for at, event in table.events.kept:
            if isinstance(event, Speech) and event.turn == turn[1].turn:
                assert at - heard_until <= 1.0 + 1e-9
                heard_until = max(at, heard_until) + event.seconds
        assert turn[0] - heard_until <= 1.0 + 1e-9
        assert turn[1].text in ("One moment.", "Patience.")
        # The result comes in a turn of its own, with a clock of its own.
        assert report[1].text == "Done."
        assert report[0] == pytest.approx(ran.ended[0][1], abs=1.0)
        assert report[1].timings.tools == 0.0


@EVERY
async def test_what_comes_while_somebody_speaks_waits_until_they_were_answered(
    model: str, autojump_clock: MockClock
) -> None:  # D23d: told when the model is idle, and all of it in one reply
    ran = Ran()

    def two(turn: ModelTurn) -> Reply:
        if turn.user == "Both" and not turn.outputs:
            return SpokenCallTools([("study", {}), ("read", {})])
        return script(turn)

    tools = ran.tool("study", 20.0), ran.tool("read", 20.5)
    async with open_talk(model, two, *tools) as (table, server):
        await connect(table)
        await hear(server, "Both")
        await trio.sleep(2)
        began = ran.began[0][1]
        await trio.sleep_until(began + 19.9)
        # They speak from before the first result until after the second.
        server.sessions[-1].happen(UserSpeaks("Hello again", ms=1500))
        await trio.sleep(20)
        dones = table.events.all(TurnDone)
        spoken = [x.text for x in dones]
        assert "Well met." in spoken or spoken[1] == "Done."
        assert len(dones) <= 3
        told = [str(x) for x in (*answers(server), *texts(server))]
        assert sum("study is done" in x for x in told) == 1
        assert sum("read is done" in x for x in told) == 1


@pytest.mark.parametrize("model", [OPENAI, GEMINI_25, GEMINI_38, THINKING, GEMINI_31])
async def test_the_same_change_is_not_made_twice_until_the_model_knows_of_it(
    model: str, autojump_clock: MockClock
) -> None:  # D6, D23d
    ran = Ran()
    pay = ran.tool("pay", 20.0, read_only=False)
    async with open_talk(model, script, pay) as (table, server):
        await connect(table)
        for _ in range(2):
            await hear(server, "Use pay")
            await trio.sleep(5)
        assert [x for x, _ in ran.began] == ["pay"]
        assert outcomes(table) == [Status.PENDING, Status.DENIED]
        await trio.sleep(30)
        await hear(server, "Use pay")
        await trio.sleep(5)
        assert [x for x, _ in ran.began] == ["pay", "pay"]
