"""Long random sessions of the fake Gemini Live server, of every family of models.

One client does whatever it likes, until the socket is closed for it; another only what
its model takes, and is never found to be wrong.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from trio_websocket import ConnectionClosed

import trio
from trio.testing import MockClock

from glyphoxa_trio.testing.gemini_server import (
    EndResponse,
    GeminiServer,
    GoAway,
    PauseResponse,
    Reply,
    Speak,
    SpokenCallTools,
    Transcription,
    TurnComplete,
    UserSpeaks,
    open_gemini_server,
)

from .talk import Message, Talk, answer, audio, gemini, set_up, spoken, tone
from .vendor_types import judge_gemini

V25 = "gemini-2.5-flash-native-audio"
V31 = "gemini-3.1-flash-live-preview"
V38 = "gemini-3.8-live"
EXTENDED = "gemini-3.8-live-extended-thinking"
BEHAVIORS = {
    V25: ["BLOCKING", "NON_BLOCKING"],
    V31: ["BLOCKING"],
    V38: ["NON_BLOCKING", "BLOCKING"],
    EXTENDED: ["NON_BLOCKING"],
}
SCHEDULES = {V25: ["SILENT", "WHEN_IDLE", "INTERRUPT"], V31: [], EXTENDED: []}
SCHEDULES[V38] = SCHEDULES[V25]

texts = st.text("ab ", max_size=6)
seconds = st.sampled_from([0.0, 0.01, 0.3, 2.0])
steps = st.one_of(
    st.builds(
        Speak,
        texts,
        ms=st.integers(0, 130),
        paced=st.booleans(),
        upto_ms=st.none() | st.integers(0, 100),
    ),
    st.builds(
        SpokenCallTools,
        st.lists(
            st.tuples(
                st.sampled_from(["roll", "search"]),
                st.sampled_from([None, {}, {"dice": "2d6"}]),
            ),
            min_size=1,
            max_size=3,
        ),
        undeclared=st.just(True),
        twice=st.booleans(),
    ),
    st.builds(PauseResponse, seconds),
    st.builds(UserSpeaks, texts, ms=st.just(200), after=st.none() | seconds),
    st.just(TurnComplete()),
    st.just(GoAway(50)),
    st.just(EndResponse(reason="MALFORMED_FUNCTION_CALL")),
)
replies: st.SearchStrategy[Reply] = st.lists(steps, max_size=4)
scripts = st.lists(replies, min_size=1, max_size=6)
hears = st.lists(
    st.builds(
        Transcription, texts, late=st.none() | st.booleans(), fails=st.booleans()
    ),
    max_size=4,
)
mores: st.SearchStrategy[Message] = st.sampled_from(
    [{}, {"willContinue": True}, {"scheduling": "SILENT"}]
)
PIECES = {
    "loud": audio(tone(80, 16_000)),
    "quiet": audio(bytes(32 * 120)),
    "speech": audio(tone(60, 16_000) + bytes(32 * 600)),
}
pieces = st.sampled_from([*PIECES])


def piece(name: str) -> Message:
    return PIECES[name]


@st.composite
def setups(draw: st.DrawFn, model: str) -> Message:
    declared = {"name": "roll", "behavior": draw(st.sampled_from(BEHAVIORS[model]))}
    detection = {
        "disabled": draw(st.booleans()),
        "silenceDurationMs": draw(st.sampled_from([200, 500])),
    }
    handling = ["START_OF_ACTIVITY_INTERRUPTS", "NO_INTERRUPTION"]
    setup = {
        "tools": [{"functionDeclarations": [declared]}],
        "realtimeInputConfig": {
            "automaticActivityDetection": detection,
            "activityHandling": draw(st.sampled_from(handling)),
        },
        "explicitVadSignal": draw(st.booleans()),
    }
    if draw(st.booleans()):
        setup["sessionResumption"] = {}
    return set_up(model, **setup)


def trial(
    act: Callable[[GeminiServer, Talk, str, st.DataObject], Awaitable[None]],
    data: st.DataObject,
) -> None:
    """One session on virtual time; what was sent of it is whole and was received."""

    async def main() -> None:
        script, understood = data.draw(scripts), data.draw(hears)
        merged, lag = data.draw(st.booleans()), data.draw(seconds)
        model = data.draw(st.sampled_from([*BEHAVIORS]))
        async with open_gemini_server(
            script, hears=understood, merged=merged, lag=lag, in_memory=True
        ) as server:
            async with gemini(server) as talk:

                async def read() -> None:
                    try:
                        while True:
                            await talk.hear()
                    except ConnectionClosed:
                        pass

                async with trio.open_nursery() as nursery:
                    nursery.start_soon(read)
                    await talk.say(data.draw(setups(model)))
                    await act(server, talk, model, data)
                    await trio.sleep(5)
                    nursery.cancel_scope.cancel()
            # A script may go on for ever: the end of it is not heard.
            assert talk.seen == server.sessions[0].wire.sent[: len(talk.seen)]
            judge_gemini(talk.seen)
            check(talk.seen)

    trio.run(main, clock=MockClock(autojump_threshold=0))


def check(sent: list[Message]) -> None:
    """Raise unless the messages of a server are in an order that makes sense."""
    assert "setupComplete" in sent[0]
    issued: set[str] = set()
    handles: set[str] = set()
    stopped = False  # interrupted, and its turn is not complete yet
    for number, message in enumerate(sent):
        assert not number or "setupComplete" not in message
        for call_id in message.get("toolCallCancellation", {}).get("ids", ()):
            assert call_id in issued
        for call in message.get("toolCall", {}).get("functionCalls", ()):
            assert call["id"] not in issued
            issued.add(call["id"])
        update = message.get("sessionResumptionUpdate", {})
        assert update.get("resumable", False) is ("newHandle" in update)
        if update.get("newHandle"):
            assert update["newHandle"] not in handles
            handles.add(update["newHandle"])
        content = message.get("serverContent", {})
        if stopped or content.get("interrupted"):
            assert not content.keys() & {"modelTurn", "generationComplete"}
        stopped = stopped or content.get("interrupted", False)
        stopped = stopped and not content.get("turnComplete", False)


def owed(talk: Talk, said: list[Message]) -> list[Message]:
    """The calls that the client has neither answered nor been told to forget."""
    over: set[str] = set()
    for message in talk.seen:
        over |= {*message.get("toolCallCancellation", {}).get("ids", ())}
    for message in said:
        for response in message.get("toolResponse", {}).get("functionResponses", ()):
            over.add(response["id"])
    calls = [
        call
        for message in talk.seen
        for call in message.get("toolCall", {}).get("functionCalls", ())
    ]
    return [call for call in calls if call["id"] not in over]


def content(text: str, complete: bool) -> Message:
    turn = {"role": "user", "parts": [{"text": text}]}
    return {"clientContent": {"turns": [turn], "turnComplete": complete}}


def answered(call: Message, text: str, more: Message) -> Message:
    return answer(call, text, **more)


CLEARED: Message = {"contextUpdate": {"tools": {"tools": []}}}
ACTIVITY: list[Message] = [
    {"realtimeInput": {"activityStart": {}}},
    {"realtimeInput": {"activityEnd": {}}},
]
JUNK: list[Message] = [{}, {"setup": {}}, {"toolResponse": {}}, {"hello": {}}]


@given(st.data())
def test_whatever_a_client_does_the_server_is_well_formed(data: st.DataObject) -> None:
    async def act(
        server: GeminiServer, talk: Talk, model: str, data: st.DataObject
    ) -> None:
        said: list[Message] = []
        for _ in range(data.draw(st.integers(0, 25))):
            calls = owed(talk, said)
            daring = not data.draw(st.integers(0, 9))  # what may close the socket
            if daring:
                calls.append({"id": "fc-?", "name": "roll"})
            message: Message = data.draw(
                st.one_of(
                    st.builds(spoken, texts),
                    st.builds(piece, pieces),
                    st.builds(content, texts, st.booleans()),
                    st.sampled_from([*ACTIVITY, CLEARED, *JUNK])
                    if daring
                    else st.nothing(),
                    st.builds(answered, st.sampled_from(calls), texts, mores)
                    if calls
                    else st.nothing(),
                )
            )
            try:
                await talk.say(message)
            except ConnectionClosed:
                return
            said.append(message)
            await trio.sleep(data.draw(seconds))

    trial(act, data)


@given(st.data())
def test_a_client_that_does_what_is_right_is_never_wrong(data: st.DataObject) -> None:
    async def act(
        server: GeminiServer, talk: Talk, model: str, data: st.DataObject
    ) -> None:
        said: list[Message] = []
        await trio.sleep(0.01)
        config = server.sessions[0].setup["realtimeInputConfig"]
        manual = config["automaticActivityDetection"]["disabled"]
        speaks = False
        for _ in range(data.draw(st.integers(0, 25))):
            await trio.sleep(data.draw(seconds) + 0.01)
            moves: list[Any] = [spoken("Well?"), piece(data.draw(pieces)), None]
            if model in (V25, V38, EXTENDED):
                moves.append(content("Well?", data.draw(st.booleans())))
            if model == V38:
                moves.append(CLEARED)
            if manual:
                moves.append(ACTIVITY[speaks])
            schedules = SCHEDULES[model]
            for call in owed(talk, said):
                more: Message = {}
                if schedules:
                    more["scheduling"] = data.draw(st.sampled_from(schedules))
                moves += 3 * [answer(call, "7", **more)]
            move = data.draw(st.sampled_from(moves))
            if move is None:
                continue
            speaks = speaks is not (move in ACTIVITY)
            await talk.say(move)
            said.append(move)
        await trio.sleep(5)
        assert not server.violations
        assert not talk.socket.closed

    trial(act, data)
