"""Servers that say too much: what is kept of it, and that nobody else waits for it.

Real servers over both transports. `make hostile` measures how long others wait.
"""

from __future__ import annotations

import gc
import gzip
import json
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from math import inf
from traceback import walk_tb
from typing import Any

import pytest

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.mcp import bounds
from glyphoxa_trio.mcp.metadata import result_of
from glyphoxa_trio.mcp.opening import open_session
from glyphoxa_trio.mcp.process import LastLines
from glyphoxa_trio.mcp.rate_limit import RateLimit
from glyphoxa_trio.mcp.transport import ServerSession
from glyphoxa_trio.testing import hostile
from glyphoxa_trio.testing.http_server import Pieces
from glyphoxa_trio.testing.web_server import (
    ReceivedRequest,
    StatusReply,
    open_mcp_server,
)
from glyphoxa_trio.tools.condense import condense
from glyphoxa_trio.tools.definition import AnswerUnusable, ToolError
from glyphoxa_trio.tools.speech import CHAT_CAP

from .servers.large import SHAPES
from .support import SERVERS

# The SDK leaves a stream in the middle when it has its answer.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator 'http:ResourceWarning")

LIMIT = 60.0


@asynccontextmanager
async def stdio(*habits: str) -> AsyncGenerator[ServerSession]:
    command = ("python", str(SERVERS / "large.py"), *habits)
    spec = ServerSpec(name="large", command=command, start_timeout=LIMIT)
    with trio.fail_after(LIMIT):
        async with open_session(
            spec, on_tools_changed=lambda: None, stderr=LastLines()
        ) as session:
            yield session


@asynccontextmanager
async def over_http(reply: Any) -> AsyncGenerator[ServerSession]:
    def on_call(request: ReceivedRequest) -> Any:
        return reply(request) if request.called == "tools/call" else None

    with trio.fail_after(LIMIT):
        async with open_mcp_server(on_call) as server:
            spec = ServerSpec(name="large", url=server.url)
            async with open_session(
                spec, on_tools_changed=lambda: None, stderr=LastLines()
            ) as session:
                await session.list_tools()
                yield session


def sent(request: ReceivedRequest, shape: str) -> bytes:
    result = SHAPES[shape]() | {"resultType": "complete"}
    message = {"jsonrpc": "2.0", "id": request.message["id"], "result": result}
    return json.dumps(message, ensure_ascii=False).encode()


async def call(session: ServerSession, what: str, **more: Any) -> Mapping[str, Any]:
    return await session.call_tool("grow", {"what": what, **more}, {})


def check(shape: str, answer: Mapping[str, Any]) -> None:
    """What is kept is small, says the same, and says if something was cut."""
    assert bounds.is_small(json.dumps(answer, ensure_ascii=False).encode())
    result = result_of(answer)
    match shape:
        case "text":
            assert result.text[0].startswith("ááá")
            assert len(result.text[0].encode()) >= CHAT_CAP
            assert result.truncated
        case "blocks":
            assert set(result.text) == {"x"}
            assert result.truncated
        case "image":
            assert result.text == ("[image: image/png, 3000 kB]",)
            assert not result.truncated
        case "tree":
            assert result.structured["rows"][:2] == [[0, {"n": 0}], [1, {"n": 1}]]
            assert result.truncated
        case "twice":
            assert result.text == ()
            assert result.structured["rows"][0] == "x" * 99
            assert result.truncated


SMALLER = ["text", "blocks", "image", "tree", "twice"]


@pytest.mark.border
@pytest.mark.parametrize("tail", [False, True])
async def test_what_is_kept_of_a_large_answer_is_small(tail: bool) -> None:
    async with stdio() as session:
        for shape in SMALLER:
            check(shape, await call(session, shape, tail=tail))


@pytest.mark.border
@pytest.mark.parametrize(
    ("shape", "why"), [("bomb", "more than 200000 values"), ("huge", "more than 16 MB")]
)
async def test_what_is_beyond_the_bounds_costs_one_request(
    shape: str, why: str
) -> None:
    async with stdio() as session:
        for tail in (False, True):
            with pytest.raises(AnswerUnusable, match=why):
                await call(session, shape, tail=tail)
            assert session.loss.why is None
        check("image", await call(session, "image"))


@pytest.mark.border
async def test_several_large_answers_at_once_find_their_requests() -> None:
    async with stdio() as session:

        async def one(shape: str, tail: bool) -> None:
            check(shape, await call(session, shape, tail=tail))

        async with trio.open_nursery() as nursery:
            for shape in SMALLER:
                nursery.start_soon(one, shape, False)
                nursery.start_soon(one, shape, True)


@pytest.mark.border
async def test_a_large_request_or_notification_is_dropped() -> None:
    async with stdio("asks") as session:
        check("image", await call(session, "image"))
        check("text", await call(session, "text"))


@pytest.mark.border
async def test_of_a_large_list_each_tool_is_taken_that_keeps_within_the_bounds() -> (
    None
):
    async with stdio("many") as session:
        listing = await session.list_tools()
        names = {tool["name"] for tool in listing.tools}
        assert names >= {"grow", "t0", "t899", "list_resources"}
        assert not names & {"wide", "long"}
        assert "the tool 'wide' is left out: it has more than 5000 values" in (
            listing.warnings
        )
        assert "the tool 'long' is left out: it has more than 64 KiB" in (
            listing.warnings
        )


@pytest.mark.border
async def test_a_large_resource_and_a_long_list_of_them_are_cut() -> None:
    async with stdio() as session:
        await session.list_tools()
        answer = await session.call_tool("read_resource", {"uri": "a:1"}, {})
        result = result_of(answer)
        assert result.text[0].startswith("yyy")
        assert result.truncated
        answer = await session.call_tool("list_resources", {}, {})
        assert "2000 or more resources" in answer["content"][0]["text"] or (
            "2001 resources" in answer["content"][0]["text"]
        )


@pytest.mark.border
@pytest.mark.parametrize(
    ("events", "packed"),
    [
        (False, False),
        (True, True),
        pytest.param(False, True, marks=pytest.mark.long),
        pytest.param(True, False, marks=pytest.mark.long),
    ],
)
async def test_over_http_the_same_is_kept(events: bool, packed: bool) -> None:
    head = {"Content-Encoding": "gzip"} if packed else {}
    shapes = iter(SMALLER)

    def reply(request: ReceivedRequest) -> Any:
        body = sent(request, next(shapes))
        kind = "application/json"
        if events:
            kind, body = "text/event-stream", b"id: 7\ndata: " + body + b"\n\n"
        body = gzip.compress(body, 1) if packed else body
        return StatusReply(200, {"Content-Type": kind, **head}, body)

    async with over_http(reply) as session:
        for shape in SMALLER:
            check(shape, await call(session, shape))


@pytest.mark.parametrize("events", [False, True])
@pytest.mark.parametrize(
    ("shape", "why"), [("bomb", "more than 200000 values"), ("huge", "more than 16 MB")]
)
async def test_over_http_the_same_bounds_hold(
    shape: str, why: str, events: bool
) -> None:
    def reply(request: ReceivedRequest) -> Any:
        body = sent(request, shape)
        if events:
            body = b"data: " + body + b"\n\n"
        kind = "text/event-stream" if events else "application/json"
        return StatusReply(200, {"Content-Type": kind}, body)

    async with over_http(reply) as session:
        with pytest.raises(AnswerUnusable, match=why):
            await call(session, shape)
        assert session.loss.why is None


async def test_a_body_that_is_packed_more_than_once_is_not_unpacked() -> None:
    def reply(request: ReceivedRequest) -> Any:
        body = sent(request, "image")
        for _ in range(3):
            body = gzip.compress(body, 1)
        head = {"Content-Type": "application/json", "Content-Encoding": "gzip," * 2}
        return StatusReply(200, head | {"Content-Encoding": "gzip, gzip, gzip"}, body)

    async with over_http(reply) as session:
        with pytest.raises(AnswerUnusable, match="compressed more than once"):
            await call(session, "image")


@pytest.mark.parametrize("events", [False, True])
async def test_a_number_that_is_none_makes_an_answer_unusable_over_http_too(
    events: bool,
) -> None:
    def reply(request: ReceivedRequest) -> Any:
        result = {"content": [], "structuredContent": {"x": float("nan")}}
        result["resultType"] = "complete"
        message = {"jsonrpc": "2.0", "id": request.message["id"], "result": result}
        body = json.dumps(message).encode()
        if events:
            body = b"data: " + body + b"\n\n"
        kind = "text/event-stream" if events else "application/json"
        return StatusReply(200, {"Content-Type": kind}, body)

    async with over_http(reply) as session:
        with pytest.raises(AnswerUnusable, match="not usable"):
            await call(session, "x")


def test_a_condensed_answer_is_that_of_the_request_that_was_asked() -> None:
    order = {"method": "tools/call", "id": 7, "text": 10, "data": 10}
    for message, said in (
        ({"id": 8, "result": {}}, "unasked"),
        ({"id": 7, "method": "x"}, "unasked"),
        ({"id": 7}, "unusable"),
        ({"id": 7, "error": {"code": 1, "message": "no" * 999}}, "error"),
        ({"id": 7, "result": {}}, "result"),
    ):
        line = json.dumps({"jsonrpc": "2.0"} | message).encode()
        assert said in json.loads(condense(json.dumps(order).encode() + b"\n" + line))
    broken = json.loads(condense(json.dumps(order).encode() + b'\n{"jsonrpc": NaN}'))
    assert "unusable" in broken


class Steps(trio.abc.Instrument):
    """Remembers the longest step of any task, in seconds of this thread's processor."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._began = inf  # until a whole step is seen

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.longest = max(self.longest, time.thread_time() - self._began)


@pytest.mark.border
async def test_no_step_of_the_loop_costs_what_a_large_answer_costs_to_parse() -> None:
    # Both are counted in processor time: what else the machine does is no matter.
    body = json.dumps({"result": SHAPES["tree"]()}).encode()
    steps = Steps()
    gc.collect()
    gc.disable()
    try:
        began = time.thread_time()
        json.loads(body)
        parsing = time.thread_time() - began
        async with stdio() as session:
            await call(session, "image")  # the reader has started
            trio.lowlevel.add_instrument(steps)
            for _ in range(5):
                await call(session, "tree")
            trio.lowlevel.remove_instrument(steps)
    finally:
        gc.enable()
    assert steps.longest < parsing


async def test_a_stream_is_not_asked_again_at_once_because_it_says_so(
    mock_clock: MockClock,
) -> None:
    asked: list[float] = []

    def reply(request: ReceivedRequest) -> Any:
        if request.called == "GET":
            asked.append(trio.current_time())
            return StatusReply(
                200, {"Content-Type": "text/event-stream"}, b"retry: 0\n\n: bye\n\n"
            )
        return None

    async with open_mcp_server(reply, old=True) as server:
        spec = ServerSpec(name="large", url=server.url)
        async with open_session(
            spec, on_tools_changed=lambda: None, stderr=LastLines()
        ):
            while len(asked) < 3:
                await wait_all_tasks_blocked(0.01)
                mock_clock.jump(0.05)
    # 684 in two seconds were found.
    assert all(after - before > 0.2 for before, after in pairwise(asked)), asked


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
async def test_small_events_come_through_as_they_are(end: bytes) -> None:
    def reply(request: ReceivedRequest) -> Any:
        if request.called != "tools/call":
            return None
        result = {"content": [{"type": "text", "text": "é"}], "resultType": "complete"}
        message = {"jsonrpc": "2.0", "id": request.message["id"], "result": result}
        body = json.dumps(message, ensure_ascii=False).encode()
        stream = (b": hello", b"", b"event: message", b"data: " + body, b"", b"")

        def pieces() -> Iterator[bytes]:
            whole = end.join(stream)
            for start in range(0, len(whole), 3):
                yield whole[start : start + 3]

        return Pieces(pieces, {"Content-Type": "text/event-stream"})

    async with over_http(reply) as session:
        answer = await call(session, "x")
        assert result_of(answer).text == ("é",)


async def test_what_is_said_unasked_is_counted_in_bytes_too(
    autojump_clock: MockClock,
) -> None:
    chatter = RateLimit()
    await chatter.one_more(int(bounds.BYTES_AT_ONCE))
    assert trio.current_time() == 0
    await chatter.one_more(int(bounds.BYTES_A_SECOND / 4))
    assert trio.current_time() == 0.25


@pytest.mark.border
@pytest.mark.parametrize("kind", ["array", "string"])
async def test_a_large_answer_is_held_against_its_output_schema(kind: str) -> None:
    async with stdio("schema", kind) as session:
        await session.list_tools()
        if kind == "array":
            check("twice", await call(session, "twice"))
        else:
            # It says the same once more, as text, and that stays.
            answer = result_of(await call(session, "twice"))
            assert answer.text
            assert answer.structured is None
            assert "$.rows: expected string" in answer.complaint


@pytest.mark.border
async def test_the_error_of_a_large_answer_does_not_hold_all_of_it() -> None:
    # Its frames did, until somebody collected garbage: 15 MB for each call.
    command = hostile.command("answers_heavily", kind="error")
    spec = ServerSpec(name="large", command=command)
    with trio.fail_after(LIMIT):
        async with open_session(
            spec, on_tools_changed=lambda: None, stderr=LastLines()
        ) as session:
            with pytest.raises(ToolError) as caught:
                await session.call_tool("bad", {}, {})
    error: BaseException | None = caught.value
    held = 0
    while error is not None:
        for frame, _ in walk_tb(error.__traceback__):
            values = [x for x in frame.f_locals.values() if isinstance(x, bytearray)]
            held += sum(map(len, values))
        error = error.__cause__ or error.__context__
    assert held == 0
