"""Long random sessions of the fake Realtime server: what it says is always well formed.

One client does whatever it likes, right or wrong; another only what is right, and is
never found to be wrong.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st
from trio_websocket import ConnectionClosed

import trio
from trio.testing import MockClock

from glyphoxa_trio.testing.realtime.session import RealtimeSession
from glyphoxa_trio.testing.realtime_server import (
    EndResponse,
    Error,
    FailResponse,
    PauseResponse,
    RealtimeServer,
    Reply,
    Speak,
    SpokenCallTools,
    Transcription,
    UserSpeaks,
    open_realtime_server,
)

from .talk import (
    RESPOND,
    Message,
    Talk,
    append,
    output,
    realtime,
    tone,
    update,
    user,
)
from .vendor_types import judge_realtime

texts = st.text("ab ", max_size=6)
seconds = st.sampled_from([0.0, 0.01, 0.3, 2.0])
steps = st.one_of(
    st.builds(
        Speak,
        texts,
        ms=st.integers(0, 130),
        chunk_ms=st.sampled_from([20, 40]),
        paced=st.booleans(),
        upto_ms=st.none() | st.integers(0, 100),
    ),
    st.builds(
        SpokenCallTools,
        st.lists(
            st.tuples(
                st.sampled_from(["roll", "search"]),
                st.sampled_from([{}, {"dice": "2d6"}, "", "{oops"]),
            ),
            min_size=1,
            max_size=3,
        ),
        fragments=st.integers(1, 3),
        open=st.booleans(),
        undeclared=st.just(True),
    ),
    st.builds(PauseResponse, seconds),
    st.builds(UserSpeaks, texts, ms=st.just(200), after=st.none() | seconds),
    st.builds(Error, st.just("slow_down")),
    st.just(EndResponse("incomplete", "content_filter")),
    st.just(FailResponse("server_error")),
)
LONGEST = 10.0  # seconds that a reply takes
replies: st.SearchStrategy[Reply] = st.lists(steps, max_size=4)
scripts = st.lists(replies, min_size=1, max_size=6)
hears = st.lists(
    st.builds(
        Transcription, texts, late=st.none() | st.booleans(), fails=st.booleans()
    ),
    max_size=4,
)

detections = st.none() | st.builds(
    lambda create, interrupt: {
        "type": "server_vad",
        "create_response": create,
        "interrupt_response": interrupt,
        "silence_duration_ms": 200,
    },
    st.booleans(),
    st.booleans(),
)


def configured(detection: Any, transcribed: bool, modality: str) -> Message:
    transcription = {"model": "gpt-transcribe"} if transcribed else None
    heard = {"turn_detection": detection, "transcription": transcription}
    return update(audio={"input": heard}, output_modalities=[modality])


updates = st.builds(
    configured, detections, st.booleans(), st.sampled_from(["audio", "text"])
)
PIECES = {
    "loud": append(tone(80, 24_000)),
    "quiet": append(bytes(48 * 120)),
    "speech": append(tone(60, 24_000) + bytes(48 * 300)),
}
pieces = st.sampled_from([*PIECES])


def piece(name: str) -> Message:
    return PIECES[name]


def trial(
    act: Callable[[RealtimeServer, Talk, st.DataObject], Awaitable[None]],
    data: st.DataObject,
) -> RealtimeSession:
    """One session on virtual time; what was sent of it is whole and was received."""

    async def main() -> RealtimeSession:
        script, understood = data.draw(scripts), data.draw(hears)
        async with open_realtime_server(
            script, hears=understood, in_memory=True
        ) as server:
            async with realtime(server) as talk:

                async def read() -> None:
                    try:
                        while True:
                            await talk.hear()
                    except ConnectionClosed:
                        pass

                async with trio.open_nursery() as nursery:
                    nursery.start_soon(read)
                    await act(server, talk, data)
                    await trio.sleep(5)
                    nursery.cancel_scope.cancel()
                # A script may go on for ever: the end of it is not heard.
                assert talk.seen == server.sessions[0].wire.sent[: len(talk.seen)]
            judge_realtime(talk.seen)
            return server.sessions[0]

    return trio.run(main, clock=MockClock(autojump_threshold=0))


@attrs.define
class Told:
    """What one response has said so far, as a client puts it together."""

    aside: bool
    items: list[str] = attrs.field(factory=list)
    over: set[str] = attrs.field(factory=set)
    words: dict[str, str] = attrs.field(factory=dict)
    status: str | None = None


def check(sent: list[Message]) -> dict[str, Told]:
    """Raise unless the events of a server are in an order that makes sense."""
    assert sent[0]["type"] == "session.created"
    ids = [message["event_id"] for message in sent]
    assert len(set(ids)) == len(ids)
    told: dict[str, Told] = {}
    active: str | None = None
    added: set[str] = set()
    for message in sent:
        kind, item = message["type"], message.get("item", {})
        match kind:
            case "conversation.item.added":
                assert item["id"] not in added
                added.add(item["id"])
            case "conversation.item.done":
                assert item["id"] in added
                assert item["status"] != "in_progress"
            case "response.created":
                response = message["response"]
                aside = response["conversation_id"] is None
                assert aside or active is None
                active = active if aside else response["id"]
                told[response["id"]] = Told(aside)
            case "response.done":
                response = message["response"]
                found = told[response["id"]]
                assert found.status is None
                found.status = response["status"]
                assert [each["id"] for each in response["output"]] == found.items
                assert found.over == {*found.items}
                if response["id"] == active:
                    active = None
        if "response_id" in message:
            check_piece(told[message["response_id"]], message)
    return told


def check_piece(found: Told, message: Message) -> None:
    """One piece of a response that is running."""
    assert found.status is None
    kind = message["type"]
    item = message.get("item", {"id": message.get("item_id")})
    if kind == "response.output_item.added":
        assert message["output_index"] == len(found.items)
        found.items.append(item["id"])
        return
    assert found.items[message["output_index"]] == item["id"]
    assert item["id"] not in found.over
    if kind == "response.output_item.done":
        found.over.add(item["id"])
        words = found.words.get(item["id"], "")
        if item["type"] == "function_call":
            assert item["arguments"] == words
        elif item["content"]:
            part = item["content"][0]
            assert part.get("text", part.get("transcript")) == words
    elif kind == "response.output_audio.delta":
        assert 0 < len(b64decode(message["delta"])) <= 48 * 40
    elif kind.endswith(".delta"):
        found.words[item["id"]] = found.words.get(item["id"], "") + message["delta"]


def ids_of(talk: Talk, key: str) -> list[str]:
    """Every call or item that the client has heard of, and one it has not."""
    found = [m["item"].get(key) for m in talk.seen if "item" in m]
    return ["nobody", *dict.fromkeys(filter(None, found))]


def anything(talk: Talk, data: st.DataObject) -> Message | None:
    """Something to say, right or wrong; None is to wait."""
    call = data.draw(st.sampled_from(ids_of(talk, "call_id")))
    item = data.draw(st.sampled_from(ids_of(talk, "id")))
    metadata = {"conversation": "none", "output_modalities": ["text"]}
    place = {"type": "conversation.item.truncate", "item_id": item, "content_index": 0}
    message: Message | None = data.draw(
        st.one_of(
            st.none(),
            updates,
            st.builds(piece, pieces),
            st.just(RESPOND),
            st.just({"type": "response.create", "response": metadata}),
            st.just({"type": "response.cancel", "event_id": "cancel"}),
            st.just({"type": "input_audio_buffer.commit"}),
            st.just({"type": "input_audio_buffer.clear"}),
            st.builds(user, texts),
            st.just(output(call, "7")),
            st.just({"type": "conversation.item.retrieve", "item_id": item}),
            st.just({"type": "conversation.item.delete", "item_id": item}),
            st.builds(lambda ms: {**place, "audio_end_ms": ms}, st.integers(0, 99)),
            st.just({"type": "response.create", "response": {"modalities": []}}),
        )
    )
    return message


@given(st.data())
def test_whatever_a_client_does_the_server_is_well_formed(data: st.DataObject) -> None:
    async def act(server: RealtimeServer, talk: Talk, data: st.DataObject) -> None:
        await talk.say(data.draw(updates))
        for _ in range(data.draw(st.integers(0, 25))):
            message = anything(talk, data)
            if message is not None:
                await talk.say(message)
            await trio.sleep(data.draw(seconds))

    session = trial(act, data)
    sent = session.wire.sent
    told = check(sent)
    # Each response has an end, though a script may go on for ever.
    begun = [response.began for response in session.responses.every]
    for response in session.responses.every:
        if response.began < max(begun) - LONGEST:
            assert told[response.id].status == response.status != "in_progress"
    errors = [m["error"] for m in sent if m["type"] == "error"]
    assert errors == session.errors[: len(errors)]


@given(st.data())
def test_a_client_that_does_what_is_right_is_never_wrong(data: st.DataObject) -> None:
    async def act(server: RealtimeServer, talk: Talk, data: st.DataObject) -> None:
        await trio.sleep(0.1)
        await talk.say(data.draw(updates))
        for _ in range(data.draw(st.integers(0, 25))):
            await trio.sleep(data.draw(seconds))
            message = rightly(server.sessions[0], talk, data)
            if message is not None:
                await talk.say(message)
                await trio.sleep(0.001)
        assert not server.violations
        assert not server.warnings

    check(trial(act, data).wire.sent)


def rightly(
    session: RealtimeSession, talk: Talk, data: st.DataObject
) -> Message | None:
    """Something that is right now, by what the client itself has seen."""
    told = check(talk.seen)
    active = [r for r, found in told.items() if found.status is None]
    received = [json.dumps(m) for m in session.wire.received]
    owed = [
        item["call_id"]
        for message in talk.seen
        if message["type"] == "response.done"
        for item in message["response"]["output"]
        if item["type"] == "function_call"
        and not any(f'"{item["call_id"]}", "output"' in text for text in received)
    ]
    if owed:
        return output(data.draw(st.sampled_from(owed)), "7")
    moves: list[Message | None] = [None, user("Well?"), piece(data.draw(pieces))]
    moves.append(data.draw(updates))
    if active:
        moves.append({"type": "response.cancel"})
    else:
        moves.append(RESPOND)
    heard: dict[str, int] = {}
    for message in talk.seen:
        if message["type"] == "response.output_audio.delta":
            size = len(b64decode(message["delta"])) // 48
            heard[message["item_id"]] = heard.get(message["item_id"], 0) + size
        elif message["type"] == "conversation.item.truncated":
            heard[message["item_id"]] = message["audio_end_ms"]
    if heard and not active:
        item, ms = data.draw(st.sampled_from([*heard.items()]))
        moves.append(
            {
                "type": "conversation.item.truncate",
                "item_id": item,
                "content_index": 0,
                "audio_end_ms": data.draw(st.integers(0, ms)),
            }
        )
    return data.draw(st.sampled_from(moves))
