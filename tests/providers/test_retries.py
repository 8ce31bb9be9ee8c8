"""A server that could not take a request, and may do so in a moment.

Times are virtual and exact; the last test has real sockets.
"""

from __future__ import annotations

import http.server
import json
import socket
import struct
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import attrs
import httpx2
import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio import Config, open_runtime
from glyphoxa_trio.config import LlmConfig, McpConfig, NpcConfig, Provider, TurnConfig
from glyphoxa_trio.npc import TurnDone, TurnEnd
from glyphoxa_trio.providers.chain import Chain, ModelCandidate
from glyphoxa_trio.providers.chat_completions import ChatCompletions
from glyphoxa_trio.providers.llm import (
    ErrorKind,
    LLMError,
    LLMEvent,
    LLMRequest,
    Message,
    Switched,
    TextChunk,
)

from .test_model_remedies import HELLO, SSE

ASK = LLMRequest(messages=(Message(role="user", content="hello"),))


def reset() -> httpx2.ConnectError:
    error = httpx2.ConnectError("while shaking hands")
    error.__cause__ = ConnectionResetError(104, "Connection reset by peer")
    return error


def refused() -> httpx2.ConnectError:
    error = httpx2.ConnectError("all attempts failed")
    error.__cause__ = ConnectionRefusedError(111, "Connection refused")
    return error


def good() -> httpx2.Response:
    return httpx2.Response(200, headers=SSE, content=HELLO.encode())


def busy(status: int, after: str | None = None) -> httpx2.Response:
    headers = {} if after is None else {"retry-after": after}
    return httpx2.Response(status, headers=headers, json={"error": {"message": "x"}})


@attrs.define(eq=False)
class Server:
    """Answers each request with what is next, then well."""

    outcomes: list[Any]
    asked: list[float] = attrs.field(factory=list)
    connects: list[float] = attrs.field(factory=list)

    async def answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(trio.current_time())
        self.connects.append(request.extensions["timeout"]["connect"])
        if not self.outcomes:
            return good()
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, httpx2.ConnectTimeout):
            await trio.sleep(self.connects[-1])
        if isinstance(outcome, Exception):
            raise outcome
        assert isinstance(outcome, httpx2.Response)
        return outcome


@asynccontextmanager
async def serving(
    *outcomes: Any, patient: bool = True
) -> AsyncIterator[tuple[ChatCompletions, Server]]:
    server = Server([*outcomes])
    transport = httpx2.MockTransport(server.answer)
    async with httpx2.AsyncClient(transport=transport) as client:
        url = "http://127.0.0.1/v1"
        model = ChatCompletions(model="m", base_url=url, client=client, patient=patient)
        yield model, server


async def read(model: Any) -> list[LLMEvent]:
    async with model.stream(ASK) as events:
        return [event async for event in events]


def said(events: list[LLMEvent]) -> str:
    return "".join(x.text for x in events if isinstance(x, TextChunk))


PASSING: Final[dict[str, Callable[[], Any]]] = {
    "reset": lambda: httpx2.ReadError("Connection reset by peer"),
    "reset while connecting": reset,
    "closed": lambda: httpx2.RemoteProtocolError("Server disconnected"),
    "closed while it was sent": lambda: httpx2.WriteError("broken pipe"),
    "502": lambda: busy(502),
    "503": lambda: busy(503),
    "529": lambda: busy(529),
    "503 in a page": lambda: httpx2.Response(503, text="<html>busy"),
    "503 in a success": lambda: httpx2.Response(
        200, json={"error": {"code": 503, "message": "no instance"}}
    ),
}


@pytest.mark.parametrize("patient", [True, False], ids=["alone", "with a fallback"])
@pytest.mark.parametrize("failure", PASSING.values(), ids=PASSING)
async def test_it_is_asked_again_at_once_and_after_half_a_second(
    failure: Callable[[], Any], patient: bool, autojump_clock: MockClock
) -> None:
    begun = trio.current_time()
    async with serving(failure(), patient=patient) as (model, server):
        assert said(await read(model)) == "Well met."
        assert [at - begun for at in server.asked] == [0, 0]
    begun = trio.current_time()
    async with serving(failure(), failure(), patient=patient) as (model, server):
        assert said(await read(model)) == "Well met."
        assert [at - begun for at in server.asked] == [0, 0, 0.5]
    begun = trio.current_time()
    async with serving(*[failure() for _ in range(9)]) as (model, server):
        with pytest.raises(LLMError):
            await read(model)
        assert [at - begun for at in server.asked] == [0, 0, 0.5]


@pytest.mark.parametrize(
    ("after", "limit", "asked"),
    [
        ("2", 60.0, [0, 0, 2]),
        ("0", 60.0, [0, 0, 0.05]),
        ("30", 60.0, [0, 0]),  # it is not waited for
        ("2", 1.5, [0, 0]),  # longer than the caller has
        (None, 0.4, [0, 0]),
    ],
)
async def test_the_pause_is_the_servers_within_the_callers_time(
    after: str | None, limit: float, asked: list[float], autojump_clock: MockClock
) -> None:
    begun = trio.current_time()
    async with serving(*[busy(503, after) for _ in range(2)]) as (model, server):
        with trio.fail_after(limit):
            if len(asked) == 3:
                assert said(await read(model)) == "Well met."
            else:
                with pytest.raises(LLMError, match="overloaded: HTTP 503"):
                    await read(model)
                assert trio.current_time() == begun
    assert [at - begun for at in server.asked] == asked


async def test_half_of_the_time_is_for_connecting_so_that_it_can_be_tried_again(
    autojump_clock: MockClock,
) -> None:
    late = [httpx2.ConnectTimeout("late") for _ in range(2)]
    begun = trio.current_time()
    async with serving(*late) as (model, server):
        with trio.fail_after(8):
            assert said(await read(model)) == "Well met."
    assert server.connects[:2] == [4, 2]
    assert [at - begun for at in server.asked] == [0, 4, 6.5]


@pytest.mark.parametrize(
    "failure",
    [
        refused(),  # nobody is there
        httpx2.LocalProtocolError("ours"),
        busy(500),
        busy(504),
        busy(429),
        busy(401),
    ],
)
async def test_what_does_not_pass_is_not_tried_again(
    failure: Any, autojump_clock: MockClock
) -> None:
    async with serving(failure) as (model, server):
        with pytest.raises(LLMError):
            await read(model)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "error",
    [
        {"error": {"type": "overloaded_error", "message": "Overloaded"}},
        {"error": {"code": 503, "message": "no capacity"}},
        {"error": {"code": 502, "message": "Provider returned error"}},
        {"object": "error", "code": 503, "message": "the engine restarts"},
    ],
)
async def test_a_server_may_say_in_the_stream_that_it_is_busy(
    autojump_clock: MockClock, error: Any
) -> None:
    said = f"data: {json.dumps(error)}\n\n".encode()
    busy_twice = [httpx2.Response(200, headers=SSE, content=said) for _ in range(2)]
    async with serving(*busy_twice) as (model, server):
        assert await read(model)
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    "begun", ['<tool_call>{"name": "x"}', "<think>pon", "[", {"reasoning_content": "A"}]
)
async def test_what_has_begun_is_not_begun_again(
    autojump_clock: MockClock, begun: Any
) -> None:
    delta = begun if isinstance(begun, dict) else {"content": begun}
    chunks = ({"choices": [{"delta": delta}]}, {"error": {"code": 503, "message": "x"}})
    said = "".join(f"data: {json.dumps(x)}\n\n" for x in chunks)
    answer = httpx2.Response(200, headers=SSE, content=said.encode())
    async with serving(answer) as (model, server):
        with pytest.raises(LLMError):
            await read(model)
    assert len(server.asked) == 1


async def test_nothing_is_sent_again_after_the_first_byte(
    autojump_clock: MockClock,
) -> None:
    async def halfway() -> AsyncIterator[bytes]:
        yield HELLO.partition("data: [DONE]")[0].partition("\n\n")[0].encode() + b"\n\n"
        raise httpx2.ReadError("Connection reset by peer")

    begun = httpx2.Response(200, headers=SSE, content=halfway())
    async with serving(begun) as (model, server):
        with pytest.raises(LLMError) as caught:
            await read(model)
    assert caught.value.kind is ErrorKind.INTERRUPTED
    assert len(server.asked) == 1


async def test_a_model_that_comes_back_is_not_replaced(
    autojump_clock: MockClock,
) -> None:
    closed = httpx2.RemoteProtocolError
    async with serving(closed("a"), closed("b"), patient=False) as (first, server):
        async with serving() as (second, other):
            chain = Chain([ModelCandidate("a", first), ModelCandidate("b", second)])
            with trio.fail_after(5):
                events = await read(chain)
            assert said(events) == "Well met."
            assert not any(isinstance(x, Switched) for x in events)
            assert (len(server.asked), other.asked) == (3, [])


async def test_a_fallback_is_asked_when_it_does_not_come_back(
    autojump_clock: MockClock,
) -> None:
    begun = trio.current_time()
    down = [busy(529) for _ in range(3)]
    async with serving(*down, patient=False) as (first, server):
        async with serving() as (second, other):
            chain = Chain([ModelCandidate("a", first), ModelCandidate("b", second)])
            with trio.fail_after(5):
                events = await read(chain)
            assert any(isinstance(x, Switched) for x in events)
            assert len(server.asked) == 3
            assert [at - begun for at in other.asked] == [0.5]


# Real sockets


class Small(http.server.ThreadingHTTPServer):
    """A server with a thread for each connection and hardly any backlog.

    It resets the first connections, as one does whose backlog is full.
    """

    request_queue_size = 1
    daemon_threads = True
    resets = 6

    def verify_request(self, request: Any, client_address: Any) -> bool:
        self.resets -= 1
        if self.resets < 0:
            return True
        linger = struct.pack("ii", 1, 0)
        request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        return False


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        size = int(self.headers["content-length"])
        asked = json.loads(self.rfile.read(size))
        assert asked["messages"]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(HELLO)))
        self.end_headers()
        self.wfile.write(HELLO.encode())
        # A kept connection that is closed without a word.
        self.close_connection = True

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def small_server() -> Iterator[str]:
    with Small(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.border
async def test_twenty_sessions_at_once_lose_no_turn_at_a_small_server() -> None:
    # Before, four of them failed: "Connection reset by peer".
    with small_server() as url:
        llm = LlmConfig(provider=Provider.CHAT_COMPLETIONS, model="m", base_url=url)
        # What a busy machine adds to the seconds of lost packets is not the subject.
        turn = TurnConfig(first_token=60.0, model_total=90.0)
        npcs = (NpcConfig(name="Bo"),)
        mcp = McpConfig(remember=False)
        config = Config(llm=llm, npcs=npcs, mcp=mcp, turn=turn)
        done: list[TurnDone] = []

        async def speak(number: int) -> None:
            async with runtime.session(f"table-{number}") as session:
                for words in ("Hello?", "And now?"):
                    async with session.npc("Bo").say(words) as turn:
                        done.append(await turn.finish())

        async with open_runtime(config) as runtime:
            async with trio.open_nursery() as nursery:
                for number in range(20):
                    nursery.start_soon(speak, number)
    assert [x.text for x in done] == ["Well met."] * 40
    assert {x.end for x in done} == {TurnEnd.COMPLETED}
