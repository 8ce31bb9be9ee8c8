"""The socket is cut before each of the messages of a spoken turn with two tools, one
after the other: the NPC is back, nothing is paid twice, nobody is cut off. Virtual
time.
"""

from __future__ import annotations

import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio.npc import Flush, TurnDone, TurnEnd
from glyphoxa_trio.testing.realtime_server import (
    Drop,
    ModelTurn,
    Reply,
    Speak,
    SpokenCallTools,
)
from glyphoxa_trio.testing.voice.wire import Message, SocketWriter

from ..npc.support import Ran
from .support import GEMINI_25, GEMINI_31, GEMINI_38, OPENAI, live_of, open_talk
from .test_long_tools import connect, hear

BACK = "I am here."
MOST = 200  # messages of such a turn, and a few more


def script(turn: ModelTurn) -> Reply:
    if "And now" in turn.user:
        return Speak(BACK, ms=200)
    if turn.outputs or "call of" in turn.user or "Result" in turn.user:
        return Speak("It is done.", ms=300)
    return [
        Speak("A moment.", ms=200),
        SpokenCallTools([("roll", {}), ("pay", {})]),
    ]


async def evening(model: str, cut: int, patch: pytest.MonkeyPatch) -> bool:
    """Cut before the ``cut``-th message from when somebody speaks; whether there was
    one to be cut."""
    ran, told, count = Ran(), SocketWriter.emit, 0
    listening = False

    def emit(wire: SocketWriter, message: Message) -> None:
        nonlocal count
        if listening and not wire.ending:
            count += 1
            if count == cut:
                wire.end(Drop())
        told(wire, message)

    patch.setattr(SocketWriter, "emit", emit)
    tools = (ran.tool("roll", 0.1), ran.tool("pay", 0.3, read_only=False))
    async with open_talk(model, script, *tools) as (table, server):
        await connect(table)
        listening = True
        await hear(server, "Roll, and pay them")
        await trio.sleep(20.0)
        was_cut, listening = count >= cut, False
        await connect(table)
        await hear(server, "And now?")
        await trio.sleep(20.0)
        paid = [at for name, at in ran.began if name == "pay"]
        assert len(paid) <= 1, "paid twice"
        assert [name for name, _ in ran.ended].count("pay") == len(paid)
        turns = table.events.all(TurnDone)
        assert turns[-1].text == BACK, [turn.text for turn in turns]
        assert turns[-1].end is TurnEnd.COMPLETED
        assert not table.events.all(Flush), "somebody was cut off"
        assert not live_of(table).statistics().owed
        sockets = live_of(table).statistics().sockets
        assert sockets == (2 if was_cut else 1)
    return was_cut


@pytest.mark.parametrize("model", [OPENAI, GEMINI_25, GEMINI_31, GEMINI_38])
def test_wherever_the_socket_is_cut_the_npc_is_back_and_pays_once(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuts = 0
    for cut in range(1, MOST):
        with monkeypatch.context() as patch:
            clock = MockClock(autojump_threshold=0)
            if not trio.run(evening, model, cut, patch, clock=clock):
                break
        cuts += 1
    assert 8 < cuts < MOST - 1
