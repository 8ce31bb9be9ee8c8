"""The sockets of the fakes: many at once, over loopback, and cut at any frame."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trustme
from trio_websocket import ConnectionClosed, open_websocket_url

import trio
from trio.testing import MockClock

from glyphoxa_trio.testing.gemini_server import open_gemini_server
from glyphoxa_trio.testing.realtime_server import (
    Close,
    Drop,
    Error,
    Freeze,
    ModelTurn,
    On,
    PauseResponse,
    Reply,
    Speak,
    SpokenCallTools,
    open_realtime_server,
)

from .talk import (
    RESPOND,
    Talk,
    answer,
    gemini,
    is_over,
    output,
    realtime,
    set_up,
    spoken,
    update,
    user,
)
from .vendor_types import judge_realtime


def script(turn: ModelTurn) -> Reply:
    if turn.outputs:
        return Speak(f"{turn.user} {turn.outputs[-1].output}", ms=400)
    return SpokenCallTools([("roll", {"dice": "2d6"})])


@asynccontextmanager
async def connected(base_url: str) -> AsyncIterator[Talk]:
    """A socket of Realtime over TCP."""
    url = base_url.replace("http", "ws", 1) + "/realtime?model=gpt-realtime-2"
    headers = [(b"Authorization", b"Bearer k")]
    async with open_websocket_url(url, extra_headers=headers) as socket:
        yield Talk(socket)


async def turn(talk: Talk, text: str) -> str:
    """What is said in a turn with one call."""
    await talk.say(update(), user(text), RESPOND)
    done = await talk.until("response.done")
    call_id: str = done["response"]["output"][0]["call_id"]
    await talk.say(output(call_id, call_id), RESPOND)
    done = await talk.until("response.done")
    transcript = done["response"]["output"][0]["content"][0]["transcript"]
    assert transcript == f"{text} {call_id}"
    return call_id


async def test_many_sockets_each_have_a_conversation_of_their_own() -> None:
    ids: list[str] = []

    async def talks(number: int) -> None:
        async with connected(server.base_url) as talk:
            ids.append(await turn(talk, f"I am {number}."))

    with trio.fail_after(30):
        async with open_realtime_server(script) as server:
            async with trio.open_nursery() as nursery:
                for number in range(20):
                    nursery.start_soon(talks, number)
            assert len(set(ids)) == 20
            assert len(server.sessions) == 20
            for session in server.sessions:
                with trio.fail_after(30):
                    await session.wire.closed.wait()
                assert session.wire.code == 1000
                judge_realtime(session.wire.sent, session.wire.received)
    assert not server.violations


async def test_a_client_that_leaves_in_the_middle_hurts_nobody() -> None:
    with trio.fail_after(30):
        async with open_realtime_server([[Speak("x", ms=60_000)]]) as server:
            for _ in range(3):
                async with connected(server.base_url) as talk:
                    await talk.say(update(), RESPOND)
                    await talk.until("response.output_audio.delta")
                    await trio.aclose_forcefully(talk.socket._stream)
            stream = await trio.open_tcp_stream(
                "127.0.0.1", int(server.base_url.split(":")[2].split("/")[0])
            )
            await stream.send_all(b"GET / HTTP/1.1\r\n")
            await stream.aclose()
            async with connected(server.base_url) as talk:
                await talk.until("session.created")


@pytest.mark.parametrize("sent", [False, True])
@pytest.mark.parametrize("how", [Drop(), Close(1011, "Internal error")])
async def test_a_socket_is_cut_at_any_frame(
    autojump_clock: MockClock, sent: bool, how: Drop | Close
) -> None:
    """Nothing is sent after the frame at which it is cut, and all of it before."""
    async with open_realtime_server(script, in_memory=True) as server:
        async with realtime(server) as talk:
            await turn(talk, "Whole.")
    wire = server.sessions[0].wire
    frames = len(wire.sent if sent else wire.received)
    assert frames > 4
    for skip in range(frames):
        trap = On(lambda _: True, how, skip=skip, sent=sent)
        async with open_realtime_server(script, in_memory=True, traps=[trap]) as server:
            async with realtime(server) as talk:
                with trio.fail_after(30), pytest.raises(ConnectionClosed) as closed:
                    await turn(talk, "Whole.")
                    await talk.hear()
        wire = server.sessions[0].wire
        code = 1006 if isinstance(how, Drop) else 1011
        assert wire.code == code
        assert closed.value.reason is not None
        assert closed.value.reason.code == code
        if sent:
            assert len(wire.sent) == skip + 1
        else:
            assert len(wire.received) == skip + 1
        judge_realtime(wire.sent)


async def test_a_socket_is_closed_right_after_an_output(
    autojump_clock: MockClock,
) -> None:
    traps = [On("function_call_output", Close(1011, "Internal error"))]
    async with open_realtime_server(script, in_memory=True, traps=traps) as server:
        async with realtime(server) as talk:
            with pytest.raises(ConnectionClosed):
                await turn(talk, "Hello.")
        assert server.sessions[0].wire.received[-1]["item"]["output"]
        async with realtime(server) as talk:  # the trap is of each socket
            with pytest.raises(ConnectionClosed):
                await turn(talk, "Hello.")


async def test_traps_may_be_of_one_socket_and_of_any_event(
    autojump_clock: MockClock,
) -> None:
    traps = [On("response.created", Error("slow_down"), sent=True, skip=1, socket=1)]
    async with open_realtime_server(script, in_memory=True, traps=traps) as server:
        for _ in range(3):
            async with realtime(server) as talk:
                await turn(talk, "Hello.")
    assert [len(session.errors) for session in server.sessions] == [0, 1, 0]
    error = [m["type"] for m in server.sessions[1].wire.sent].index("error")
    before = [m["type"] for m in server.sessions[1].wire.sent][:error]
    assert before.count("response.created") == 2


async def test_gemini_traps_go_by_the_keys_of_messages(
    autojump_clock: MockClock,
) -> None:
    traps = [
        On("toolResponse", Close(1011, "Internal error")),
        On("serverContent.turnComplete", Close(1008), sent=True, socket=1),
    ]
    one = [SpokenCallTools([("roll", {})]), Speak("Yes.")]
    async with open_gemini_server(one, in_memory=True, traps=traps) as server:
        for code in (1011, 1008):
            async with gemini(server) as talk:
                await talk.say(set_up(), spoken("Roll!"))
                (call,) = (await talk.until("toolCall"))["toolCall"]["functionCalls"]
                await talk.until(is_over)
                if code == 1011:
                    await talk.say(answer(call, 7))
                await talk.rest()
                assert server.sessions[-1].wire.code == code


async def test_a_frozen_socket_stays_open_and_says_nothing(
    autojump_clock: MockClock,
) -> None:
    script = [[Speak("Well", upto_ms=40), Freeze(), PauseResponse(1), Speak("?")]]
    async with open_realtime_server(script, in_memory=True) as server:
        async with realtime(server) as talk:
            await talk.say(update(), RESPOND)
            await talk.until("response.output_audio.delta")
            assert await talk.quiet(60)
            with trio.move_on_after(60) as scope:
                await talk.socket.ping()
            assert scope.cancelled_caught
            assert not talk.socket.closed


async def test_a_response_waits_for_a_client_that_does_not_read(
    autojump_clock: MockClock,
) -> None:
    """What is said at once does not pile up without end."""
    script = [Speak("x", ms=60_000)]
    async with open_realtime_server(script, in_memory=True) as server:
        async with realtime(server, lockstep=True) as talk:
            await talk.say(update(), RESPOND)
            await talk.until("response.created")
            await trio.sleep(60)
            session = server.sessions[0]
            assert session.responses.active is not None
            assert session.responses.active.output[0].audio_ms < 100 * 40
            await talk.until("response.done")
    assert sum(m["type"] == "response.output_audio.delta" for m in talk.seen) == 1500
    assert not server.violations


async def test_unknown_fields_are_in_every_message_if_wanted(
    autojump_clock: MockClock,
) -> None:
    beside: dict[str, Any] = {"new_field": {"x": 1}}
    async with open_realtime_server(script, in_memory=True, beside=beside) as server:
        async with realtime(server) as talk:
            await turn(talk, "Hello.")
    assert all(message["new_field"] == {"x": 1} for message in talk.seen)


async def test_an_error_of_the_block_leaves_it_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        async with open_realtime_server(script) as server:
            async with open_gemini_server(script):
                assert json.dumps(server.base_url)
                raise ZeroDivisionError


async def test_a_script_has_at_least_one_reply() -> None:
    for server in (open_realtime_server([]), open_gemini_server([])):
        with pytest.raises(ValueError, match="at least one"):
            async with server:
                pass


async def test_words_come_without_audio_if_there_is_none(
    autojump_clock: MockClock,
) -> None:
    script = [Speak("Not a sound.", ms=0)]
    async with open_realtime_server(script, in_memory=True) as server:
        async with realtime(server) as talk:
            await talk.say(update(), RESPOND)
            done = await talk.until("response.done")
    content = done["response"]["output"][0]["content"]
    assert content == [{"type": "output_audio", "transcript": "Not a sound."}]
    assert "response.output_audio.delta" not in talk.types()
    async with open_gemini_server(script, in_memory=True) as server:
        async with gemini(server) as talk:
            await talk.say(set_up(), spoken("Speak!"))
            said = await talk.until("serverContent")
            transcription = {"text": "Not a sound."}
            assert said["serverContent"] == {"outputTranscription": transcription}


async def test_who_does_not_trust_the_server_or_speaks_no_tls_is_left_alone() -> None:
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(tls)
    with trio.fail_after(30):
        async with open_gemini_server(
            [Speak("Yes.")], tls=tls, host="localhost"
        ) as server:
            port = int(server.base_url.split(":")[2])
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            await stream.send_all(b"GET / HTTP/1.1\r\n\r\n")
            while await stream.receive_some():
                pass
            await stream.aclose()
            service = "google.ai.generativelanguage.v1.GenerativeService"
            url = f"wss://localhost:{port}/ws/{service}.BidiGenerateContent?key=k"
            distrusting = await trio.open_ssl_over_tcp_stream("localhost", port)
            with pytest.raises(trio.BrokenResourceError):
                await distrusting.do_handshake()
            await trio.aclose_forcefully(distrusting)
            trusting = ssl.create_default_context()
            authority.configure_trust(trusting)
            async with open_websocket_url(url, trusting) as socket:
                talk = Talk(socket)
                await talk.say(set_up())
                await talk.until("setupComplete")
    assert len(server.sessions) == 1


async def test_a_ping_that_meets_the_end_of_a_session_harms_nobody(
    autojump_clock: MockClock,
) -> None:
    upgrade = (
        b"GET /v1/realtime?model=gpt-realtime-2 HTTP/1.1\r\nHost: memory\r\n"
        b"Authorization: Bearer k\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13"
        b"\r\n\r\n"
    )
    async with open_realtime_server(script, in_memory=True, lifetime=1.0) as server:
        stream = server.dial()
        await stream.send_all(upgrade)
        heard = b""
        while b"\x88" not in heard:  # a close frame: all else here is ASCII
            heard += await stream.receive_some()
        await stream.send_all(b"\x89\x80" + bytes(4))  # a ping, masked
        with trio.fail_after(30):
            while await stream.receive_some():
                pass
        assert server.sessions[0].wire.code == 1001
