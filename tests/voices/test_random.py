"""Whatever a model says, whoever speaks, wherever the link is cut: the whole stack,
from the session of an NPC to the frames of its vendor.

What must hold is in `check`; what the wire forbids, the strict fake notes. Virtual
time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock

from glyphoxa_trio.npc import TurnDone, TurnEnd
from glyphoxa_trio.testing.gemini_server import GoAway
from glyphoxa_trio.testing.realtime_server import (
    Close,
    Drop,
    EndResponse,
    Error,
    Expire,
    FailResponse,
    Freeze,
    HangResponse,
    ModelTurn,
    On,
    PauseResponse,
    Refuse,
    Reply,
    Speak,
    SpokenCallTools,
    UserSpeaks,
)
from glyphoxa_trio.tools.tier import Tier

from ..npc.support import Ran, Table, ask
from .support import GEMINI_25, GEMINI_38, OPENAI, Server, live_of, open_talk, sent_by

LAST = "Are you still there?"
ANSWER = "Yes, I am."
PATIENCE = 60.0  # beyond the limits of any turn

arguments = st.sampled_from(["{}", '{"at": "door"}', '{"at": ', "[1]", '"x"', ""])
names = st.sampled_from(["look", "write", "slow", "nothing"])
ends = st.sampled_from(
    [Drop(), Freeze(), *(Close(code) for code in (1000, 1001, 1007, 1008, 1011))]
)
seconds = st.sampled_from([0.0, 0.1, 0.5, 2.0])


@st.composite
def calls(draw: st.DrawFn, model: str) -> SpokenCallTools:
    count = draw(st.integers(1, 3))
    made: list[tuple[str, Any]] = []
    for _ in range(count):
        given: Any = draw(arguments)
        if model != OPENAI:  # an object on that wire, or nothing
            given = draw(st.sampled_from([None, {}, {"at": "door"}, {"at": [{}]}]))
        made.append((draw(names), given))
    return SpokenCallTools(
        made,
        undeclared=True,
        open=model == OPENAI and draw(st.booleans()),
        twice=model != OPENAI and draw(st.booleans()),
    )


def steps(model: str) -> st.SearchStrategy[Any]:
    """One thing that a model of this vendor does in a response."""
    theirs: list[st.SearchStrategy[Any]] = [st.just(Error("server_error"))]
    theirs.append(st.just(FailResponse("server_error")))
    theirs.append(st.just(EndResponse("incomplete", "max_output_tokens")))
    if model != OPENAI:
        theirs = [st.builds(GoAway, st.sampled_from([0.0, 6.0, 50.0]))]
        theirs.append(st.just(EndResponse(reason="MALFORMED_FUNCTION_CALL")))
    return st.one_of(
        st.builds(Speak, st.just("Well."), ms=st.sampled_from([40, 400])),
        st.just(Speak("A long story.", ms=800, paced=True)),
        calls(model),
        calls(model),
        st.builds(PauseResponse, seconds),
        st.builds(UserSpeaks, st.just("Wait"), ms=st.just(200), after=seconds),
        st.just(UserSpeaks("Stop", ms=100)),
        st.just(HangResponse()),
        st.just(Expire()),
        *theirs,
    )


def traps(model: str) -> st.SearchStrategy[Any]:
    """A cut of the link after any frame, in either direction."""
    return st.builds(
        On,
        st.just(lambda _: True),
        ends,
        skip=st.integers(0, 25),
        sent=st.booleans(),
        socket=st.integers(0, 3),
    )


ACTIONS = st.sampled_from(["say", "say", "deep", "leave", "interrupt", "hear", "wait"])


def scripted(replies: list[list[Any]]) -> Callable[[ModelTurn], Reply]:
    left = list(replies)

    def script(turn: ModelTurn) -> Reply:
        if turn.user == LAST or not left:
            return Speak(ANSWER, ms=40)
        return left.pop(0)

    return script


def check(model: str, table: Table, server: Server) -> None:
    """What holds in the end, whatever was done."""
    assert not server.violations, server.violations
    done = table.events.all(TurnDone)
    assert len({x.turn for x in done}) == len(done) == table.session.memory.turns
    assert all(x.timings.total <= PATIENCE for x in done)
    assert not live_of(table).statistics().owed
    cap = live_of(table).capabilities.max_result
    for session in server.sessions:
        answered: list[str] = []
        for message in session.wire.received:
            if (item := message.get("item", {})).get("type") == "function_call_output":
                answered.append(item["call_id"])
                assert len(item["output"].encode()) <= cap
            results = message.get("toolResponse", {}).get("functionResponses", ())
            answered += [result["id"] for result in results]
        assert len(answered) == len(set(answered))
        if model == OPENAI:
            active = 0
            for sent in session.wire.sent:
                active += sent["type"] == "response.created"
                active -= sent["type"] == "response.done"
                assert 0 <= active <= 1


async def last_turn(table: Table) -> None:
    """A turn works again, at the latest when what failed was given up."""
    for _ in range(8):
        heard = await ask(table.npc, LAST, speaker="last")
        if heard.done.end is TurnEnd.COMPLETED and ANSWER in heard.done.text:
            return
        await trio.sleep(10.0)
    raise AssertionError(heard.done)


@given(st.sampled_from([OPENAI, GEMINI_25, GEMINI_38]), st.data())
def test_whatever_happens_the_wire_is_kept_and_every_turn_ends(
    model: str, data: st.DataObject
) -> None:  # G35, G36; field problems 1 to 20
    replies = data.draw(
        st.lists(st.lists(steps(model), max_size=5), min_size=1, max_size=8)
    )
    cuts = data.draw(st.lists(traps(model), max_size=4))
    actions = data.draw(st.lists(st.tuples(ACTIONS, seconds), min_size=1, max_size=10))
    refusals = data.draw(
        st.lists(st.sampled_from([None, Refuse(503), Refuse(429)]), max_size=3)
    )

    async def main() -> None:
        ran = Ran()
        tools = (
            ran.tool("look", 0.125),
            ran.tool("write", 0.25, read_only=False),
            ran.tool("slow", 3.0),
        )
        said: list[trio.CancelScope] = []

        async def talk(table: Table, tier: Tier | None) -> None:
            with trio.CancelScope() as scope:
                said.append(scope)
                await ask(table.npc, "Think", speaker=f"p{len(said)}", tier=tier)

        async with open_talk(
            model,
            scripted(replies),
            *tools,
            settings={"idle": 200.0, "rotate": 300.0},
            traps=cuts,
            handshakes=[None, *refusals],
        ) as (table, server):
            live = live_of(table)
            async with trio.open_nursery() as nursery:
                for action, wait in (("say", 0.0), *actions):
                    match action:
                        case "say":
                            nursery.start_soon(talk, table, None)
                        case "deep":
                            nursery.start_soon(talk, table, Tier.DEEP)
                        case "leave" if said:
                            said.pop().cancel()
                        case "interrupt":
                            await table.npc.interrupt()
                        case "hear":
                            live.hear(bytes(960))
                        case _:
                            await trio.sleep(1.0)
                    await trio.sleep(wait)
            with trio.fail_after(1000):
                await trio.sleep(PATIENCE)
                await last_turn(table)
            await trio.sleep(PATIENCE)
            check(model, table, server)
            event(f"{model}, sockets: {min(len(server.sessions), 5)}")
            if sent_by(server, "function_call_output") or sent_by(
                server, "toolResponse"
            ):
                event(f"{model}, results")

    trio.run(main, clock=MockClock(autojump_threshold=0))
