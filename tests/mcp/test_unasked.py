"""What an HTTP server says by itself, and before its answer: how much of it is read.

Counted is the work, not the time: messages that the SDK validates, requests that are
sent, statuses that h11 takes apart.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import h11
import httpcore2
import mcp.client.streamable_http as sdk_http
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.mcp import ServerSession, bounds, sdk
from glyphoxa_trio.mcp.process import LastLines
from glyphoxa_trio.mcp.statuses import count_statuses
from glyphoxa_trio.testing.http_server import Pieces
from glyphoxa_trio.testing.web_server import (
    EventStreamReply,
    LateReply,
    McpServer,
    RawBytes,
    ReceivedRequest,
    Reply,
    Script,
    StatusReply,
    open_mcp_server,
    result,
)
from glyphoxa_trio.tools.definition import AnswerUnusable, ConnectionLost, ToolError

# The SDK leaves a stream in the middle when it has its answer.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator 'http:ResourceWarning")

LIMIT = 60.0
FLOOD = 300
ON = b"HTTP/1.1 100 Continue\r\n\r\n"
HELLO = {"content": [{"type": "text", "text": "hello"}]}
CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


@asynccontextmanager
async def opened(
    script: Script, changes: list[int] | None = None, *, old: bool = True
) -> AsyncGenerator[tuple[McpServer, ServerSession]]:
    heard = [] if changes is None else changes
    with trio.fail_after(LIMIT):
        async with open_mcp_server(script, old=old) as server:
            spec = ServerSpec(name="web", url=server.url)
            async with sdk.open_session(
                spec, on_tools_changed=lambda: heard.append(1), stderr=LastLines()
            ) as session:
                yield server, session


def on(called: str, reply: Any) -> Script:
    def script(request: ReceivedRequest) -> Reply | None:
        if request.called != called:
            return None
        made: Reply = reply(request) if callable(reply) else reply
        return made

    return script


async def until(changes: list[int]) -> None:
    while not changes:  # noqa: ASYNC110
        await trio.sleep(0.01)


# ------------------------------------------------------ statuses and redirects


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The interim statuses that h11 took apart."""
    seen: list[int] = []
    was = h11.Connection.next_event

    def next_event(connection: h11.Connection) -> Any:
        event = was(connection)
        if isinstance(event, h11.InformationalResponse):
            seen.append(event.status_code)
        return event

    monkeypatch.setattr(h11.Connection, "next_event", next_event)
    return seen


async def test_statuses_without_end_end_the_call(parsed: list[int]) -> None:
    script = on("tools/call", RawBytes(ON * 2_600))
    async with opened(script, old=False) as (_, session):
        with pytest.raises(ConnectionLost, match="more than 16 interim statuses"):
            await session.call_tool("greet", {}, {})
        assert len(parsed) <= bounds.MOST_INTERIM
        assert session.loss.why is None


async def test_some_statuses_before_an_answer_are_passed_over(
    parsed: list[int],
) -> None:
    head = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    script = on("tools/call", RawBytes(ON * bounds.MOST_INTERIM + head))
    async with opened(script, old=False) as (_, session):
        for _ in range(3):  # they are counted for each request
            with pytest.raises(Exception, match="404"):
                await session.call_tool("greet", {}, {})
    assert len(parsed) == 3 * bounds.MOST_INTERIM


@given(
    interim=st.integers(0, 40),
    cuts=st.lists(st.integers(0, 2_000), max_size=20),
    end=st.sampled_from([b"\r\n", b"\n"]),
)
async def test_statuses_are_counted_however_they_are_cut(
    interim: int, cuts: list[int], end: bytes
) -> None:
    data = (b"HTTP/1.1 103 Early" + end + b"A: b" + end * 2) * interim
    data += b"HTTP/1.1 200 OK" + end * 2 + ON * 100  # the body may say what it likes
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[a:b] for a, b in pairwise(places)]

    class Stream:
        async def read(self, most: int) -> bytes:
            return pieces.pop(0)

        async def write(self, data: bytes) -> None:
            pass

    stream = Stream()
    await count_statuses("connection.connect_tcp.complete", {"return_value": stream})
    await stream.write(b"POST")
    try:
        while pieces:
            await stream.read(1)
    except httpcore2.RemoteProtocolError:
        assert interim > bounds.MOST_INTERIM
    else:
        assert interim <= bounds.MOST_INTERIM


async def test_a_server_that_redirects_to_itself_is_asked_some_times_only() -> None:
    script = on("tools/call", StatusReply(307, {"Location": "/mcp"}))
    async with opened(script, old=False) as (server, session):
        with pytest.raises(ToolError, match="Redirect"):
            await session.call_tool("greet", {}, {})
        assert server.calls.count("tools/call") == 1 + bounds.MOST_REDIRECTS


# --------------------------------------------------------- what the SDK reads


@pytest.fixture
def validated(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The messages of event streams that the SDK validated."""
    seen: list[Any] = []
    was: Any = vars(sdk_http)["jsonrpc_message_adapter"]

    class Counting:
        def validate_json(self, data: Any, **options: Any) -> Any:
            seen.append(data)
            return was.validate_json(data, **options)

    monkeypatch.setattr(sdk_http, "jsonrpc_message_adapter", Counting())
    return seen


UNHEARD: dict[str, dict[str, Any]] = {
    "message": {"method": "notifications/message", "params": {"data": "x" * 500}},
    "progress": {"method": "notifications/progress", "params": {"progress": 1}},
    "unknown": {"method": "notifications/wizard"},
    "oddity": {"method": [[]]},
    "answer": {"id": 10**9, "result": {}},
    "nothing": {},
}


@pytest.mark.parametrize("kind", UNHEARD)
async def test_what_nobody_hears_never_reaches_the_sdk(
    kind: str, validated: list[Any]
) -> None:
    word = {"jsonrpc": "2.0", **UNHEARD[kind]}
    changes: list[int] = []
    stream = EventStreamReply([*[word] * FLOOD, CHANGED], "stay")
    async with opened(on("GET", stream), changes) as (_, _session):
        await until(changes)
    # The handshake's two answers, the change, and no more.
    assert len(validated) <= 5


async def test_a_server_that_asks_without_end_is_answered_now_and_then(
    mock_clock: MockClock,
) -> None:
    def ask(number: int) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": number, "method": "roots/list"}

    stream = EventStreamReply([ask(number) for number in range(FLOOD)], "stay")
    async with opened(on("GET", stream)) as (server, session):

        def answers() -> int:
            return sum("error" in request.message for request in server.http.requests)

        # No time passes, so nothing is earned.
        await server.http.wait(lambda: answers() >= 1)
        await session.call_tool("greet", {}, {})
        await wait_all_tasks_blocked(0.05)
        assert answers() <= 1 + bounds.LINES_AT_ONCE / bounds.LINES_OF_A_REQUEST
        mock_clock.autojump_threshold = 0.05
        await trio.sleep(1)
        earned = bounds.LINES_AT_ONCE + bounds.LINES_A_SECOND
        assert answers() <= 1 + earned / bounds.LINES_OF_A_REQUEST


async def test_a_reply_may_have_words_before_it_of_which_nobody_hears(
    validated: list[Any],
) -> None:
    word = {"jsonrpc": "2.0", **UNHEARD["message"]}

    def reply(request: ReceivedRequest) -> Reply:
        return EventStreamReply([*[word] * 50, result(request, HELLO)])

    async with opened(on("tools/call", reply)) as (_, session):
        before = len(validated)
        answer = await session.call_tool("greet", {}, {})
        assert answer["content"] == HELLO["content"]
        assert len(validated) == before + 1


MISSHAPEN: dict[str, dict[str, Any]] = {
    "error": {"error": {"code": "7", "message": [0] * 5_000}},
    "result": {"result": [{"a": number} for number in range(4_000)]},
    "params": {"method": "roots/list", "params": [0] * 9_000},
}


@pytest.mark.parametrize("packed", ["json", "events"])
@pytest.mark.parametrize("kind", MISSHAPEN)
async def test_what_has_no_shape_is_refused_before_the_sdk_writes_all_of_it_down(
    kind: str, packed: str, validated: list[Any]
) -> None:
    # It did so for each kind of message that it is not: 27 ms for 60 kB.
    def reply(request: ReceivedRequest) -> Reply:
        body = {"jsonrpc": "2.0", "id": request.message["id"], **MISSHAPEN[kind]}
        return (
            StatusReply(200, body=body)
            if packed == "json"
            else EventStreamReply([body])
        )

    async with opened(on("tools/call", reply)) as (_, session):
        with pytest.raises((AnswerUnusable, ConnectionLost)):
            await session.call_tool("greet", {}, {})
        assert max(map(len, validated)) < 1_000
        assert session.loss.why is None


async def test_an_event_that_nobody_hears_still_says_where_its_stream_is() -> None:
    asked: list[str | None] = []

    def listen(request: ReceivedRequest) -> Reply:
        asked.append(request.headers.get("last-event-id"))
        if len(asked) > 1:
            return EventStreamReply([CHANGED], "stay")
        data = b'data: {"jsonrpc":"2.0","method":"notifications/message"}\n\n'
        event = b"id: 7\nretry: 1\n" + data
        return Pieces(lambda: [event], {"Content-Type": "text/event-stream"})

    changes: list[int] = []
    async with opened(on("GET", listen), changes) as (_, _session):
        await until(changes)
    assert asked == [None, "7"]


# ------------------------------------------------------------------- its log


async def test_nothing_that_a_server_can_repeat_is_a_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def stray() -> list[bytes]:
        changed = b'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
        return [b"event: \x1b[2Jwizard\n" + changed + b"\n\n", changed + b"\n\n"]

    def script(request: ReceivedRequest) -> Reply | None:
        if request.called == "GET":
            return Pieces(stray, {"Content-Type": "text/event-stream"})
        if request.called == "tools/call":
            return StatusReply(307, {"Location": "/mcp"})
        return None

    changes: list[int] = []
    with caplog.at_level(logging.WARNING):
        async with opened(script, changes) as (_, session):
            await until(changes)
            with pytest.raises(ToolError, match="Redirect"):
                await session.call_tool("greet", {}, {})
    assert [r.getMessage() for r in caplog.records if r.name[:4] == "mcp."] == []


# ------------------------------------------------------------------- its end


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_an_answer_without_end_is_not_read_on_when_nobody_waits_for_it(
    kind: str,
) -> None:
    # It was read to its bound, 16 MB, and kept the end of the session waiting.
    def pieces() -> Iterator[bytes]:
        while True:
            yield b":\n\n" if "event" in kind else b" "

    endless = Pieces(pieces, {"Content-Type": kind}, pause=0.01)
    async with opened(on("tools/call", endless)) as (server, session):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.call_tool, "greet", {}, {})
            await server.http.wait(lambda: "tools/call" in server.calls)
            nursery.cancel_scope.cancel()
        await server.http.wait(lambda: server.http.hangups == 1)
        assert session.loss.why is None


async def test_an_answer_that_comes_while_its_session_ends_is_no_loss() -> None:
    # Said as a warning, and found in the midst of floods: `BrokenResourceError`.
    def script(request: ReceivedRequest) -> Reply | None:
        if request.called == "tools/call":
            return LateReply(0.2, StatusReply(200, body=result(request, HELLO)))
        return LateReply(0.6, StatusReply(204)) if request.called == "DELETE" else None

    async with opened(script) as (server, session):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.call_tool, "greet", {}, {})
            await server.http.wait(lambda: "tools/call" in server.calls)
            nursery.cancel_scope.cancel()
