"""A client of ours that is told nonsense, over a wire in memory and over HTTP.

Each call gets a hail of messages from the `Mill`, and then the answer that it waits
for, if it still does. What must be true: a call ends with its answer or with one of the
errors that `Session.call_tool` says; a session goes on, or says that it is lost; and
no task of ours holds the loop.
"""

from __future__ import annotations

import gc
import json
import logging
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import attrs

import trio
from trio.testing import memory_stream_pair

from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.mcp import bounds, sdk
from glyphoxa_trio.mcp.condensing import Condenser
from glyphoxa_trio.mcp.metadata import result_of
from glyphoxa_trio.mcp.process import LastLines
from glyphoxa_trio.mcp.transport import ConnectionFailed, SessionLost
from glyphoxa_trio.mcp.wire import PipeDispatcher
from glyphoxa_trio.testing.http_server import (
    EventStreamReply,
    Pieces,
    RawBytes,
    ReceivedRequest,
    Reply,
    StatusReply,
    open_http_server,
)
from glyphoxa_trio.tools.definition import ConnectionLost, ToolError, ToolUnavailable

from .messages import Mill

# What `Session.call_tool` says it raises; `AnswerUnusable` is a `ToolError`.
SAID = (ToolError, ToolUnavailable, ConnectionLost)
HAIL = 20  # messages for each call
PATIENCE = 0.05  # seconds of a call that the nonsense has left without an answer
GOOD = {"content": [{"type": "text", "text": "the answer"}], "resultType": "complete"}
_SERVER = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {"listChanged": True}},
    "serverInfo": {"name": "mill", "version": "1"},
}
_TOOLS = {"tools": [{"name": "grind", "inputSchema": {"type": "object"}}]}


@attrs.define(eq=False)
class Stalls(trio.abc.Instrument):
    """The longest that one step of one task of ours kept the processor, in ms.

    Processor time of this thread, so that what the machine does meanwhile is not
    counted. Nor is a collection of garbage: most of what is there is of the server,
    the mill and the suite, and a program lets its collector settle.
    """

    longest: float = 0.0
    whose: str = ""
    _began: float = attrs.field(factory=time.thread_time)
    _collecting: float = 0.0

    def collect(self, phase: str, _: dict[str, int]) -> None:
        """Told by the collector, before and after."""
        if phase == "start":
            self._collecting = time.thread_time()
        else:
            self._began += time.thread_time() - self._collecting

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        took = 1000 * (time.thread_time() - self._began)
        theirs = ("tests.", "glyphoxa_trio.testing.", "trio._highlevel_serve")
        if took > self.longest and not task.name.startswith(theirs):
            self.longest, self.whose = took, task.name


@attrs.define(eq=False)
class Told:
    """What became of the calls: by the name of the error, and how often."""

    ends: dict[str, int] = attrs.field(factory=dict)
    sessions: int = 0
    stalls: Stalls = attrs.field(factory=Stalls)
    last: list[bytes] = attrs.field(factory=list)  # of the call that is on

    def note(self, end: str) -> None:
        self.ends[end] = self.ends.get(end, 0) + 1


async def over_a_wire(mill: Mill, told: Told, *, messages: int, seconds: float) -> None:
    """Be told so many messages over a wire in memory, or as many as time allows."""
    spec = ServerSpec(name="mill", command=("mill",))
    async with trio.open_nursery() as nursery, _memory(Mill(0), Told(), nursery):
        await _session(spec, Mill(0), Told(), 0)  # what is done once
        nursery.cancel_scope.cancel()
    with _unhurried(), _measured(told), trio.move_on_after(seconds):
        while mill.ground < messages:
            async with trio.open_nursery() as nursery, _memory(mill, told, nursery):
                told.sessions += 1
                await _session(spec, mill, told, messages)
                nursery.cancel_scope.cancel()


async def over_http(mill: Mill, told: Told, *, messages: int, seconds: float) -> None:
    """The same over real sockets: bodies, events, heads and bytes that are none."""
    server = _Http(mill, told)
    async with open_http_server(server.answer) as http:
        spec = ServerSpec(name="mill", url=f"{http.origin}/mcp", timeout=2)
        await _session(spec, Mill(0), Told(), 0)  # what is done once
        with _unhurried(), _measured(told), trio.move_on_after(seconds):
            while mill.ground < messages:
                told.sessions += 1
                await _session(spec, mill, told, messages)


async def _session(spec: ServerSpec, mill: Mill, told: Told, messages: int) -> None:
    """One session, for as long as it says that it is usable."""
    try:
        async with sdk.open_session(
            spec, on_tools_changed=lambda: None, stderr=LastLines()
        ) as session:
            await session.list_tools()
            while session.loss.why is None and mill.ground < messages:
                with trio.move_on_after(PATIENCE) as patience:
                    told.note(await _call(session))
                if patience.cancelled_caught:
                    told.note("nothing")
    except ConnectionFailed:
        told.note("session lost")


async def _call(session: Any) -> str:
    try:
        answer = await session.call_tool("grind", {"a": 1}, {})
    except SAID as error:
        return type(error).__name__
    result_of(answer)  # as a host reads it
    return "answer"


@contextmanager
def _unhurried() -> Iterator[None]:
    """Take a server's talk as fast as it comes: what it may say in a second is not
    what is tried here, and would take minutes."""
    kept = bounds.LINES_A_SECOND, bounds.BYTES_A_SECOND
    bounds.LINES_A_SECOND = bounds.BYTES_A_SECOND = 1e12  # type: ignore[misc]
    try:
        yield
    finally:
        bounds.LINES_A_SECOND, bounds.BYTES_A_SECOND = kept  # type: ignore[misc]


@contextmanager
def _measured(told: Told) -> Iterator[None]:
    """Look at how long tasks take, without what the suite has left to the collector,
    and without the SDK's tracebacks, which go nowhere in a program."""
    kept = logging.root.manager.disable
    logging.disable()
    gc.collect()
    gc.freeze()
    told.stalls = Stalls()
    trio.lowlevel.add_instrument(told.stalls)
    gc.callbacks.append(told.stalls.collect)
    try:
        yield
    finally:
        gc.callbacks.remove(told.stalls.collect)
        trio.lowlevel.remove_instrument(told.stalls)
        logging.disable(kept)


# ------------------------------------------------------------------ a wire


@asynccontextmanager
async def _memory(
    mill: Mill, told: Told, nursery: trio.Nursery
) -> AsyncGenerator[None]:
    """Sessions are opened on streams in memory, with the mill at the other end."""
    ours, theirs = memory_stream_pair()

    @asynccontextmanager
    async def dispatcher(
        spec: ServerSpec,
        loss: SessionLost,
        stderr: LastLines,
        server: trio.Process | None,
        condenser: Condenser,
        *more: object,
    ) -> AsyncGenerator[PipeDispatcher]:
        async def fate() -> str | None:
            return None

        yield PipeDispatcher(
            ours,
            ours,
            loss=loss,
            note=lambda line: stderr.note(b"stdout: " + line),
            fate=fate,
            condenser=condenser,
        )

    kept = sdk._dispatcher
    sdk._dispatcher = dispatcher  # type: ignore[assignment]
    nursery.start_soon(_serve, theirs, mill, told)
    try:
        yield
    finally:
        sdk._dispatcher = kept


async def _serve(stream: trio.abc.Stream, mill: Mill, told: Told) -> None:
    unfinished = b""
    try:
        while data := await stream.receive_some():
            *lines, unfinished = (unfinished + bytes(data)).split(b"\n")
            for line in lines:
                message = json.loads(line)
                if message.get("method") == "tools/call":
                    said = [mill.message(message["id"]) for _ in range(HAIL)]
                    told.last = said
                    good = {"jsonrpc": "2.0", "id": message["id"], "result": GOOD}
                    said.append(json.dumps(good).encode())
                    await stream.send_all(b"\n".join(said) + b"\n")
                elif (plain := _plainly(message)) is not None:
                    await stream.send_all(json.dumps(plain).encode() + b"\n")
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass


def _plainly(message: dict[str, Any]) -> dict[str, Any] | None:
    if "id" not in message or "method" not in message:
        return None
    known: dict[str, Any] = {
        "initialize": _SERVER,
        "tools/list": _TOOLS,
        "ping": {},
        "tools/call": GOOD,
    }
    if message["method"] not in known:
        error = {"code": -32601, "message": "no such method"}
        return {"jsonrpc": "2.0", "id": message["id"], "error": error}
    return {"jsonrpc": "2.0", "id": message["id"], "result": known[message["method"]]}


# -------------------------------------------------------------------- HTTP


@attrs.define(eq=False)
class _Http:
    _mill: Mill
    _told: Told

    def answer(self, request: ReceivedRequest) -> Reply:
        match request.called:
            case "GET":
                return EventStreamReply((), "stay")
            case "DELETE":
                return StatusReply(204)
            case "server/discover":
                return StatusReply(400)
            case "tools/call":
                return self._nonsense(request)
        good = _plainly(dict(request.message))
        if good is None:
            return StatusReply(202)
        session = {"Mcp-Session-Id": "mill"} if request.called == "initialize" else {}
        return StatusReply(200, session, good)

    def _nonsense(self, request: ReceivedRequest) -> Reply:
        mill, ident = self._mill, request.message.get("id")
        good = _plainly(dict(request.message))
        json_kind = {"Content-Type": "application/json"}
        kind = mill.number(20)
        if kind == 0:  # a body that may be the answer
            return StatusReply(200, json_kind, self._said(ident, 1)[0])
        if kind == 1:
            status = mill.pick(200, 202, 400, 401, 404, 408, 429, 500, 503, 599)
            return StatusReply(status, json_kind, self._said(ident, 1)[0])
        if kind == 2:  # bytes that are not even HTTP
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
            line = self._said(ident, 1)[0]
            return RawBytes(
                mill.pick(head + line, line, head[: mill.number(60)], b"\r\n")
            )
        if kind == 3:
            odd = mill.pick("text/html", "text/event-stream; x=1", "", "a/b", "json")
            return StatusReply(200, {"Content-Type": odd}, self._said(ident, 1)[0])
        said = [b"data: " + line for line in self._said(ident, HAIL)]
        for number, line in enumerate(said):
            if mill.number(10) == 0:
                field = mill.pick(
                    b"id: \x00", b"retry: 0", b"retry: x", b":", b"event: x"
                )
                said[number] = field + b"\n" + line
        said.append(b"data: " + json.dumps(good).encode())
        end = mill.pick(b"\n\n", b"\n\n", b"\n\n", b"\r\n\r\n")
        whole = end.join(said) + end
        step = mill.pick(len(whole), len(whole), 1_000, 7_919)
        pieces = [whole[at : at + step] for at in range(0, len(whole), step)]
        return Pieces(lambda: pieces, {"Content-Type": "text/event-stream"})

    def _said(self, ident: Any, count: int) -> list[bytes]:
        self._told.last = [self._mill.message(ident) for _ in range(count)]
        return list(self._told.last)
