"""The time of a call of one of our servers over HTTP, with many clients.

Promised: with 50 sessions and 100 calls a second in all, on two cores that the clients
use as well, an answer is there within 25 ms at the 99th percentile.

Measured: a client that writes requests to sockets and reads the answers, without any
library, one kept connection for each session, and two servers as processes: ``glyphoxa
serve duality --transport http`` and ``servers/sdk_duality.py http``, the SDK's own
application on hypercorn, which calls the same function. They take turns. A call's time
begins when it is due, so that one that waits for another is not counted as quick.

    50 sessions       a Duality roll every 10 ms, by one session after the other
    as JSON           the same, by clients that take no stream: ours alone
    one after another a session that calls as soon as it is answered
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import attrs

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from benchmarks.serve_stdio import INTRODUCTION, ROLL

HERE: Final = Path(__file__).parent
OURS: Final = (
    *(str(Path(sys.executable).with_name("glyphoxa")), "serve", "duality"),
    *("--transport", "http", "--http-addr", "127.0.0.1:0"),
)
THEIRS: Final = (sys.executable, str(HERE / "servers" / "sdk_duality.py"), "http")
SESSIONS: Final = 50
RATE: Final = 100.0  # calls a second
STREAMS: Final = "application/json, text/event-stream"


def measure(quick: bool) -> list[Figure]:
    return trio.run(_measure, quick)


async def _measure(quick: bool) -> list[Figure]:
    turns, calls = (1, 50) if quick else (7, 300)
    paced: dict[str, list[float]] = {"ours": [], "theirs": [], "json": []}
    in_row: dict[str, list[float]] = {"ours": [], "theirs": []}
    async with AsyncExitStack() as stack:
        ours, theirs = [
            await stack.enter_async_context(_served(command))
            for command in (OURS, THEIRS)
        ]
        clients = {
            "ours": [await _greeted(stack, ours) for _ in range(SESSIONS)],
            "theirs": [await _greeted(stack, theirs) for _ in range(SESSIONS)],
            "json": [await _greeted(stack, ours, "*/*") for _ in range(SESSIONS)],
        }
        for which in clients:  # warm
            await _pace(clients[which], SESSIONS)
        for _ in range(turns):
            for which in clients:
                paced[which] += await _pace(clients[which], calls)
            for which in in_row:
                in_row[which] += await _in_row(clients[which][0], calls // 5)
    return [
        figure(f"{SESSIONS} sessions", paced["ours"], unit="ms", bare=paced["theirs"]),
        figure("as JSON", paced["json"], unit="ms", bare=paced["theirs"]),
        figure("one after another", in_row["ours"], unit="ms", bare=in_row["theirs"]),
    ]


@attrs.define(eq=False)
class Client:
    """One session over one connection."""

    stream: trio.SocketStream
    accept: str
    session: str = ""
    _rest: bytes = b""
    _last: int = 0

    async def greet(self) -> None:
        head = await self._post("initialize", INTRODUCTION)
        for line in head.split(b"\r\n"):
            name, _, value = line.partition(b": ")
            if name.lower() == b"mcp-session-id":
                self.session = value.decode()
        assert self.session
        await self._post("notifications/initialized", {})

    async def roll(self) -> None:
        await self._post("tools/call", ROLL)

    async def _post(self, method: str, params: dict[str, Any]) -> bytes:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if not method.startswith("notifications/"):
            self._last += 1
            message["id"] = self._last
        body = json.dumps(message).encode()
        lines = [
            *("POST /mcp HTTP/1.1", "Host: 127.0.0.1:80", f"Accept: {self.accept}"),
            *("Content-Type: application/json", f"Content-Length: {len(body)}"),
        ]
        if self.session:
            lines.append(f"Mcp-Session-Id: {self.session}")
        await self.stream.send_all("\r\n".join([*lines, "", ""]).encode() + body)
        head = await self._until(b"\r\n\r\n")
        if b"transfer-encoding: chunked" in head.lower():
            answer = await self._until(b"\r\n0\r\n\r\n")
        else:
            lower = head.lower()
            length = int(lower.partition(b"content-length: ")[2].split(b"\r")[0])
            answer = await self._exactly(length)
        assert head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 202")), head
        if method == "tools/call":
            assert b'"structuredContent"' in answer, answer
        return head

    async def _until(self, mark: bytes) -> bytes:
        while mark not in self._rest:
            await self._more()
        found, _, self._rest = self._rest.partition(mark)
        return found

    async def _exactly(self, length: int) -> bytes:
        while len(self._rest) < length:
            await self._more()
        found, self._rest = self._rest[:length], self._rest[length:]
        return found

    async def _more(self) -> None:
        chunk = await self.stream.receive_some()
        assert chunk, "the server hung up"
        self._rest += chunk


@asynccontextmanager
async def _served(command: Sequence[str]) -> AsyncIterator[int]:
    """Yields the port."""
    process = await trio.lowlevel.open_process(list(command), stderr=subprocess.PIPE)
    assert process.stderr is not None
    said = b""
    try:
        while b"/mcp" not in said:
            chunk = await process.stderr.receive_some()
            assert chunk, said
            said += chunk
        yield int(said.partition(b"127.0.0.1:")[2].partition(b"/")[0])
    finally:
        process.terminate()
        with trio.CancelScope(shield=True):
            await process.wait()
            await process.stderr.aclose()


async def _greeted(stack: AsyncExitStack, port: int, accept: str = STREAMS) -> Client:
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    client = Client(await stack.enter_async_context(stream), accept)
    await client.greet()
    return client


async def _pace(clients: Sequence[Client], calls: int) -> list[float]:
    """The seconds of each call, from when it was due."""
    took: list[float] = []
    begun = trio.current_time() + 0.1
    offset = perf_counter() - trio.current_time()

    async def play(number: int) -> None:
        for call in range(number, calls, len(clients)):
            due = begun + call / RATE
            await trio.sleep_until(due)
            await clients[number].roll()
            took.append(perf_counter() - offset - due)

    async with trio.open_nursery() as nursery:
        for number in range(len(clients)):
            nursery.start_soon(play, number)
    return took


async def _in_row(client: Client, calls: int) -> list[float]:
    took: list[float] = []
    for _ in range(calls):
        begun = perf_counter()
        await client.roll()
        took.append(perf_counter() - begun)
    return took


BENCHMARK = Benchmark(
    name="serve_http",
    promise="50 sessions, 100 calls a second: answered within 25 ms (p99)",
    measure=measure,
    budgets=(
        Budget(figure=f"{SESSIONS} sessions", statistic="p99", at_most=25),
        Budget(figure="as JSON", statistic="p99", at_most=25),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
