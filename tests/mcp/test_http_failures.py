"""What a caller sees of each way in which HTTP goes wrong, over real sockets.

Three things are asked of each failure: which exception, so what is known of the
effect; whether the session survives; and whether the server is looked after.
The clock is virtual: client and server are in one process, so when all of it
waits nothing is on its way.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio.config import RestartConfig, ServerSpec
from glyphoxa_trio.mcp import (
    ConnectionFailed,
    ServerSession,
    ServerState,
    open_server_pool,
    sdk,
)
from glyphoxa_trio.mcp.answers import retry_after
from glyphoxa_trio.mcp.bounds import MOST_BYTES
from glyphoxa_trio.mcp.process import LastLines
from glyphoxa_trio.mcp.transport import Busy, NeverSent
from glyphoxa_trio.testing.web_server import (
    CloseConnection,
    EventStreamReply,
    LateReply,
    NoAnswer,
    RawBytes,
    ReceivedRequest,
    Reply,
    StatusReply,
    error,
    open_mcp_server,
    result,
)
from glyphoxa_trio.tools.definition import (
    AnswerUnusable,
    ConnectionLost,
    ToolError,
    ToolUnavailable,
)

from .support import Watcher

HELLO = {"content": [{"type": "text", "text": "hello"}], "resultType": "complete"}
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def clock() -> MockClock:
    return MockClock(autojump_threshold=0.05)


def on(method: str, *replies: Any) -> Callable[[ReceivedRequest], Reply | None]:
    """A script: these replies to ``method`` in turn, then as the server likes.

    A reply may be a function of the request.
    """
    left = list(replies)

    def script(request: ReceivedRequest) -> Reply | None:
        if request.called != method or not left:
            return None
        reply: Any = left.pop(0)
        made: Reply = reply(request) if callable(reply) else reply
        return made

    return script


@asynccontextmanager
async def opened(
    url: str, suspicions: list[int] | None = None, **options: Any
) -> AsyncGenerator[ServerSession]:
    spec = ServerSpec(name="web", url=url, **options)

    def suspect() -> None:
        if suspicions is not None:
            suspicions.append(1)

    with trio.fail_after(100_000):
        async with sdk.open_session(
            spec, on_tools_changed=suspect, stderr=LastLines()
        ) as session:
            yield session


async def call(session: ServerSession) -> str:
    answer = await session.call_tool("greet", {}, {})
    text = answer["content"][0]["text"]
    assert isinstance(text, str)
    return text


def cut(request: ReceivedRequest) -> Reply:
    body = json.dumps(result(request, HELLO)).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    length = b"Content-Length: %d\r\n\r\n" % len(body)
    return RawBytes(head + length + body[:-10])


def half(request: ReceivedRequest) -> Reply:
    return StatusReply(200, JSON, json.dumps(result(request, HELLO)).encode()[:-10])


def zipped(request: ReceivedRequest) -> Reply:
    body = json.dumps(result(request, HELLO)).encode()
    return StatusReply(200, JSON | {"Content-Encoding": "gzip"}, gzip.compress(body))


def mislabelled(request: ReceivedRequest) -> Reply:
    body = json.dumps(result(request, HELLO)).encode()
    return StatusReply(200, JSON | {"Content-Encoding": "gzip"}, body)


def huge(request: ReceivedRequest) -> Reply:
    return StatusReply(
        200, body=result(request, HELLO | {"_meta": {"x": "y" * MOST_BYTES}})
    )


def says_no(status: int) -> Callable[[ReceivedRequest], Reply]:
    return lambda request: StatusReply(status, body=error(request, -32602, "bad dice"))


def refuses(request: ReceivedRequest) -> Reply:  # as TypeScript servers do
    return StatusReply(400, body=error(request, -32000, "not like this"))


def drops(request: ReceivedRequest) -> Reply:
    params = {"progressToken": 1, "progress": 0.5}
    progress = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
    return EventStreamReply([progress], "die")


def somebody_else(request: ReceivedRequest) -> Reply:
    return StatusReply(307, {"Location": f"http://jo:pw@{request.headers['host']}/mcp"})


LOGIN = StatusReply(200, {"Content-Type": "text/html; charset=utf-8"}, b"<html>Log in")
SCOPE = 'Bearer error="insufficient_scope", scope="tools:call"'

# Sent or not? Not run: the call did nothing. Lost: nobody knows what it did, and
# the server is looked after.
NOT_RUN, LOST, NO = ToolUnavailable, ConnectionLost, ToolError


@pytest.mark.parametrize(
    ("reply", "seen", "said"),
    [
        (StatusReply(401), NOT_RUN, "HTTP 401 Unauthorized"),
        (StatusReply(403), NOT_RUN, "HTTP 403 Forbidden"),
        (
            StatusReply(403, {"WWW-Authenticate": SCOPE}),
            NOT_RUN,
            "HTTP 403 Forbidden: insufficient_scope, tools:call",
        ),
        (says_no(401), NOT_RUN, "HTTP 401 Unauthorized"),
        (StatusReply(400), NOT_RUN, "HTTP 400 Bad Request"),
        (StatusReply(404), NOT_RUN, "HTTP 404 Not Found"),
        (StatusReply(405), NOT_RUN, "HTTP 405 Method Not Allowed"),
        (StatusReply(408), LOST, "HTTP 408 Request Timeout"),
        (StatusReply(500), LOST, "HTTP 500 Internal Server Error"),
        (StatusReply(502, body=b"<html>"), LOST, "HTTP 502 Bad Gateway"),
        (StatusReply(503), LOST, "HTTP 503 Service Unavailable"),
        (StatusReply(504), LOST, "HTTP 504 Gateway Timeout"),
        (StatusReply(599), LOST, "HTTP 599"),
        (says_no(200), NO, "bad dice"),
        (says_no(400), NO, "bad dice"),
        (says_no(500), NO, "bad dice"),
        (refuses, NOT_RUN, "HTTP 400 Bad Request: not like this"),
        (
            CloseConnection(),
            LOST,
            "no complete answer: Server disconnected without sending a response.",
        ),
        (
            RawBytes(b"SSH-2.0-Open\r\n\r\n"),
            LOST,
            "no complete answer: illegal status line",
        ),
        (
            cut,
            LOST,
            "no complete answer: peer closed connection without sending complete",
        ),
        (half, LOST, "its answer is not JSON, or is incomplete"),
        (StatusReply(200, JSON, b""), LOST, "its answer is not JSON, or is incomplete"),
        (huge, AnswerUnusable, "its answer is not usable: it has more than 16 MB"),
        (LOGIN, LOST, "HTTP 200 OK, with text/html instead of JSON"),
        (StatusReply(200), LOST, "HTTP 200 OK, with nothing instead of JSON"),
        (StatusReply(202), LOST, "HTTP 202 Accepted, with nothing instead of JSON"),
        (StatusReply(204), LOST, "HTTP 204 No Content, with nothing instead of JSON"),
        (drops, LOST, "SSE stream ended without a response"),
        (EventStreamReply([], "end"), LOST, "SSE stream ended without a response"),
        (
            StatusReply(307, {"Location": "https://jo:pw@elsewhere.example/mcp?key=k"}),
            NOT_RUN,
            (
                "HTTP 307 Temporary Redirect: Redirect to"
                " https://elsewhere.example/mcp is not followed"
            ),
        ),
        (
            somebody_else,
            NOT_RUN,
            "HTTP 307 Temporary Redirect: Redirect to http://127.0.0.1:",
        ),
        (
            StatusReply(302, {"Location": "/login"}),
            NOT_RUN,
            "HTTP 302 Found: Redirect to http://127.0.0.1:",
        ),
        (
            StatusReply(308, {"Location": "http://h:x"}),
            NOT_RUN,
            "HTTP 308 Permanent Redirect: it redirects without an address",
        ),
    ],
)
async def test_one_calls_failure_has_a_meaning_and_costs_no_session(
    clock: MockClock, reply: Any, seen: type[Exception], said: str
) -> None:  # part of A42
    suspicions: list[int] = []
    async with open_mcp_server(on("tools/call", reply)) as server:
        async with opened(server.url, suspicions) as session:
            with pytest.raises(seen) as caught:
                await call(session)
            assert caught.type is seen
            assert str(caught.value).startswith(said)
            assert len(suspicions) == (seen is LOST)
            assert session.loss.why is None
            assert await call(session) == "greet says hello"


@pytest.mark.parametrize(
    ("reply", "wait"),
    [
        (StatusReply(429, {"Retry-After": "2"}), 2.0),
        (StatusReply(429), None),
        (StatusReply(429, {"Retry-After": "soon"}), None),
        (StatusReply(503, {"Retry-After": "120"}), 120.0),
        (
            StatusReply(
                429,
                {
                    "Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT",
                    "Date": "Wed, 21 Oct 2015 07:27:30 GMT",
                },
            ),
            30.0,
        ),
        (
            lambda request: StatusReply(
                429, {"Retry-After": "1"}, error(request, -32000, "slow down")
            ),
            1.0,
        ),
    ],
)
async def test_a_busy_server_says_for_how_long(
    clock: MockClock, reply: Any, wait: float | None
) -> None:
    suspicions: list[int] = []
    async with open_mcp_server(on("tools/call", reply)) as server:
        async with opened(server.url, suspicions) as session:
            with pytest.raises(Busy, match=r"^HTTP (429|503) ") as caught:
                await call(session)
            assert caught.value.retry_after == wait
            assert (session.loss.why, suspicions) == (None, [])
            assert await call(session) == "greet says hello"


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({}, None),
        ({"Retry-After": ""}, None),
        ({"Retry-After": "0"}, 0.0),
        ({"Retry-After": " 7 "}, 7.0),
        ({"Retry-After": "-1"}, None),
        ({"Retry-After": "1.5"}, None),
        ({"Retry-After": "9" * 400}, None),
        ({"Retry-After": "٣"}, None),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),  # long ago
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:00", "Date": "x"}, None),
        ({"Retry-After": "Wed, 99 Oct 2015 07:28:00 GMT"}, None),
    ],
)
def test_a_retry_after_of_any_kind(headers: dict[str, str], wait: float | None) -> None:
    encoded = {name.encode(): value.encode() for name, value in headers.items()}
    assert retry_after(httpx2.Headers(encoded)) == wait


async def test_a_good_answer_may_be_packed_or_redirected(clock: MockClock) -> None:
    moved = StatusReply(308, {"Location": "/mcp?at=home"})
    async with open_mcp_server(on("tools/call", zipped, moved)) as server:
        async with opened(server.url) as session:
            assert await call(session) == "hello"
            assert await call(session) == "greet says hello"
            assert [r.query for r in server.http.requests][-2:] == ["", "at=home"]


async def test_redirects_in_a_circle_come_to_an_end(clock: MockClock) -> None:
    circle = [StatusReply(307, {"Location": "/mcp"})] * 30
    async with open_mcp_server(on("tools/call", *circle)) as server:
        async with opened(server.url) as session:
            with pytest.raises(ToolError, match="Redirect"):
                await call(session)
            assert session.loss.why is None


# httpx2 leaves its own generators unclosed when it cannot unpack, and the SDK those
# of a stream that it has read far enough; trio closes them, and says so.
@pytest.mark.filterwarnings("ignore:Async generator 'http:ResourceWarning")
async def test_an_answer_that_cannot_be_unpacked_is_lost(clock: MockClock) -> None:
    async with open_mcp_server(on("tools/call", mislabelled)) as server:
        async with opened(server.url) as session:
            with pytest.raises(ConnectionLost, match="no complete answer: Error -3"):
                await call(session)
            assert session.loss.why is None


@pytest.mark.filterwarnings("ignore:Async generator 'http:ResourceWarning")
async def test_a_stream_may_say_more_than_the_answer(clock: MockClock) -> None:
    def stream(request: ReceivedRequest) -> Reply:
        log = {"jsonrpc": "2.0", "method": "notifications/unheard/of", "params": {}}
        return EventStreamReply([log, log, result(request, HELLO)])

    async with open_mcp_server(on("tools/call", stream)) as server:
        async with opened(server.url) as session:
            assert await call(session) == "hello"


# ------------------------------------------------------------------- silence


@pytest.mark.parametrize("old", [False, True], ids=["new", "old"])
async def test_a_call_that_is_never_answered_ends_on_its_own_clock(
    clock: MockClock, old: bool
) -> None:
    # A socket that takes everything and says nothing: half open, or a server that
    # was stopped.
    async with open_mcp_server(on("tools/call", NoAnswer()), old=old) as server:
        async with opened(server.url) as session:
            began = trio.current_time()
            with trio.move_on_after(1.5) as patience:
                await call(session)
            assert patience.cancelled_caught
            assert trio.current_time() == began + 1.5
            await server.http.wait(lambda: server.http.hangups == 1)
            assert await call(session) == "greet says hello"


async def test_nobody_waits_longer_than_a_call_may_take(clock: MockClock) -> None:
    suspicions: list[int] = []
    async with open_mcp_server(on("tools/call", NoAnswer())) as server:
        async with opened(server.url, suspicions, timeout=3) as session:
            began = trio.current_time()
            with pytest.raises(ConnectionLost, match="no complete answer: timed out"):
                await call(session)
            assert trio.current_time() == began + 8
            assert suspicions == [1]


async def test_a_server_that_has_fallen_silent_is_lost_when_it_is_checked(
    clock: MockClock,
) -> None:
    async with open_mcp_server(on("tools/list", NoAnswer())) as server:
        async with opened(server.url, timeout=3) as session:
            with pytest.raises(ConnectionFailed, match="timed out"):
                await session.list_tools()
            assert session.loss.why == "no complete answer: timed out"


async def test_a_server_may_be_silent_on_its_own_streams_for_ever(
    clock: MockClock,
) -> None:
    # The stream of the older family says something after a day.
    note = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    changes: list[int] = []
    script = on("GET", LateReply(86_400, EventStreamReply([note], "stay")))
    async with open_mcp_server(script, old=True) as server:
        async with opened(server.url, changes, timeout=1) as session:
            await server.http.wait(lambda: "GET" in server.calls)
            await trio.sleep(80_000)
            assert (server.http.hangups, changes) == (0, [])
            assert await call(session) == "greet says hello"
            await trio.sleep(7_000)
            assert changes == [1]
            assert server.calls.count("GET") == 1


async def test_a_subscription_may_be_silent_for_ever(clock: MockClock) -> None:
    def script(request: ReceivedRequest) -> Reply | None:
        if request.called == "subscriptions/listen":
            return EventStreamReply([], "stay")
        if request.called == "server/discover":
            value = {
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {"listChanged": True}},
                "resultType": "complete",
                "ttlMs": 0,
                "cacheScope": "public",
            }
            return StatusReply(200, body=result(request, value))
        return None

    async with open_mcp_server(script) as server:
        async with opened(server.url, timeout=1) as session:
            await server.http.wait(lambda: "subscriptions/listen" in server.calls)
            await trio.sleep(80_000)
            assert await call(session) == "greet says hello"
            assert server.calls.count("subscriptions/listen") == 1
            assert server.http.hangups == 0


# ------------------------------------------------------------- gone for good


@pytest.mark.parametrize(
    "reply",
    [
        StatusReply(404),
        StatusReply(410),
        lambda request: StatusReply(
            404, body=error(request, -32001, "Session not found")
        ),
        lambda request: StatusReply(
            400, body=error(request, -32000, "Bad Request: No valid session ID")
        ),
        lambda request: StatusReply(
            400, body=error(request, -32000, "Bad Request: Server not initialized")
        ),
    ],
)
async def test_a_forgotten_session_is_lost_and_the_call_was_not_run(
    clock: MockClock, reply: Any
) -> None:
    async with open_mcp_server(on("tools/call", reply), old=True) as server:
        async with opened(server.url) as session:
            with pytest.raises(NeverSent, match="the session has ended"):
                await call(session)
            assert session.loss.why is not None


async def test_a_refused_connection_is_a_lost_session(clock: MockClock) -> None:
    gone = trio.Event()
    async with trio.open_nursery() as nursery:
        found: list[str] = []

        async def serve() -> None:
            async with open_mcp_server() as server:
                found.append(server.url)
                up.set()
                await gone.wait()

        up = trio.Event()
        nursery.start_soon(serve)
        await up.wait()
        async with opened(found[0]) as session:
            assert await call(session) == "greet says hello"
            gone.set()
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(NeverSent, match="cannot connect: "):
                await call(session)
            assert session.loss.why is not None


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (StatusReply(401), "HTTP 401 Unauthorized"),
        (StatusReply(429, {"Retry-After": "9"}), "HTTP 429 Too Many Requests"),
        (StatusReply(503), "HTTP 503 Service Unavailable"),
        (LOGIN, "HTTP 200 OK, with text/html instead of JSON"),
        (StatusReply(200, JSON, b"{"), "its answer is not JSON, or is incomplete"),
        (CloseConnection(), "no complete answer: Server disconnected"),
        (
            StatusReply(301, {"Location": "https://elsewhere.example/"}),
            "HTTP 301 Moved Permanently: Redirect to https://elsewhere.example/",
        ),
    ],
)
async def test_a_server_that_cannot_be_talked_to_says_why(
    clock: MockClock, reply: Reply, said: str
) -> None:  # N23
    async with open_mcp_server(lambda _: reply) as server:
        with pytest.raises(ConnectionFailed) as caught:
            async with opened(server.url):
                raise AssertionError("it must not open")
        assert str(caught.value).startswith(said)


# --------------------------------------------------------------- all together


@asynccontextmanager
async def fleet_of(url: str, watcher: Watcher) -> AsyncGenerator[None]:
    spec = ServerSpec(
        name="web", url=url, restart=RestartConfig(backoff=0.5, max_restarts=9)
    )
    async with open_server_pool(
        [spec],
        publish=watcher.publish,
        warn=watcher.warn,
        open_session=sdk.open_session,
    ):
        ready = lambda: watcher.state("web") is ServerState.READY  # noqa: E731
        await watcher.until(ready, within=60)
        yield


async def test_a_call_waits_for_a_busy_server_within_its_time(
    clock: MockClock,
) -> None:
    watcher = Watcher()
    busy = StatusReply(429, {"Retry-After": "2"})
    async with open_mcp_server(on("tools/call", busy)) as server:
        async with fleet_of(server.url, watcher):
            began = trio.current_time()
            answer = await watcher.call("web", "greet", deadline=5)
            assert answer.text == ("greet says hello",)
            assert trio.current_time() - began == pytest.approx(2, abs=0.1)


async def test_a_forgotten_session_costs_a_caller_nothing(clock: MockClock) -> None:
    # A42: over a new session, because the old one did not run it
    watcher = Watcher()
    async with open_mcp_server(on("tools/call", StatusReply(404)), old=True) as server:
        async with fleet_of(server.url, watcher):
            answer = await watcher.call("web", "greet", deadline=5)
            assert answer.text == ("greet says hello",)
        assert server.calls.count("initialize") == 2
        assert server.calls.count("tools/call") == 2
