"""Thousands of requests that no client should send: nothing breaks, nothing is left.

In process on virtual time, and over a socket. ``FUZZ_REQUESTS`` and
``FUZZ_SOCKET_REQUESTS`` say how many (docs/serving-http.md).
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from .driver import Exchange, Peer, Served, open_served
from .mutations import requests
from .notes import Notes
from .test_serving import open_here

_TOGETHER: Final = 10  # requests to one server
_REQUESTS: Final = int(os.environ.get("FUZZ_REQUESTS", "400"))
_OVER_SOCKETS: Final = int(os.environ.get("FUZZ_SOCKET_REQUESTS", "40"))
_ANSWERS: Final = {
    *(200, 202, 400, 403, 404, 405, 406, 408, 409, 413, 415, 421, 429, 431, 505),
}
_FUZZ = settings(
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
)


class _Errors(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(logging.Formatter().format(record))


@contextmanager
def no_errors() -> Iterator[None]:
    """Whatever the libraries log as an error is one: a 500 that nobody saw."""
    errors = _Errors()
    logging.getLogger().addHandler(errors)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(errors)
    assert not errors.told, "\n".join(errors.told)


def count_tasks() -> int:
    """How many tasks there are."""
    root = trio.lowlevel.current_root_task()
    assert root is not None
    waiting, count = [root], 0
    while waiting:
        task = waiting.pop()
        count += 1
        for nursery in task.child_nurseries:
            waiting += nursery.child_tasks
    return count


async def send(served: Served, peer: Peer, other: str, request: Any) -> Exchange:
    """One request, for as long as its client stays."""
    session = peer.headers.get("mcp-session-id", "none")
    headers = {"host": "localhost", "content-type": "application/json"}
    for name, text in request["headers"].items():
        headers[name] = text and text.replace("$S", session).replace("$OTHER", other)
    raw = [
        (name.encode(), text.encode("utf-8" if name == "content-length" else "latin-1"))
        for name, text in headers.items()
        if text is not None
    ]
    raw += [(n, v) for n, v in raw if n.decode() == request["twice"]]
    body, pieces = request["body"], request["pieces"]
    size = len(body) // pieces + 1
    parts: list[Any] = [
        {
            "type": "http.request",
            "body": body[size * n : size * (n + 1)],
            "more_body": n < pieces - 1,
        }
        for n in range(pieces)
    ]
    if request["cut"]:
        parts = [*parts[:-1], {"type": "http.disconnect"}]
    exchange, scope = peer.exchange(
        request["method"], parts, path=request["path"], headers=raw
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(peer.play, exchange, scope)
        with trio.move_on_after(request["stays"]):
            await exchange.until_done()
        exchange.leave()
    return exchange


def check(request: Any, exchange: Exchange) -> None:
    if not exchange.status:  # it left first, or has nobody to be answered
        assert request["cut"] or request["stays"] < 15, request
        return
    assert exchange.status in _ANSWERS, (exchange.status, exchange.body)
    if request["method"] == "POST" and exchange.done and exchange.body:
        if exchange.headers.get("content-type") == "application/json":
            assert isinstance(exchange.json, dict)
        elif exchange.headers.get("content-type", "").startswith("text/event"):
            answers = [m for m in exchange.messages if "method" not in m]
            assert len(answers) == 1
    if exchange.status >= 400:
        assert "set-cookie" not in exchange.headers
        assert b"Traceback" not in exchange.body


async def play(batch: list[Any]) -> None:
    notes = Notes()
    async with open_served(notes.offer(), sessions=20) as served:
        outside = count_tasks()
        peers = [await served.greeted() for _ in range(3)]
        other = peers[1].headers["mcp-session-id"]
        async with trio.open_nursery() as nursery:

            async def one(number: int, request: Any) -> None:
                peer = peers[number % 3]
                check(request, await send(served, peer, other, request))

            for number, request in enumerate(batch):
                nursery.start_soon(one, number, request)
                if number % 2:
                    await wait_all_tasks_blocked()
            await trio.sleep(5)
            notes.released.set()
        # Who is left is well, and nothing else is left.
        for peer in peers:
            pong = await peer.ask("POST", peer.request("ping", id="last"))
            assert pong.status in (200, 404)  # 404: deleted by one of the requests
        for session in served.service.sessions:
            await served.service.sessions.discard(session)
        await wait_all_tasks_blocked()
        shim = served.service.shim
        assert (len(shim.sessions), shim.running.count) == (0, 0)
        assert (shim.sessions.log.bytes, len(shim.sessions.log)) == (0, 0)
        await trio.sleep(1)  # what was cancelled has stopped
        assert count_tasks() == outside


@settings(_FUZZ, max_examples=_REQUESTS // _TOGETHER)
@given(st.lists(requests(), min_size=_TOGETHER, max_size=_TOGETHER))
def test_nothing_that_is_sent_breaks_anything(batch: list[Any]) -> None:
    with no_errors():
        trio.run(play, batch, clock=MockClock(autojump_threshold=0))


@st.composite
def wires(draw: Any) -> bytes:
    """A request as it is on the wire, or nearly."""
    request = draw(requests())
    line = draw(
        st.sampled_from(
            [f"{request['method']} {request['path']} HTTP/1.1"] * 9
            + ["GET /mcp HTTP/1.0", "GET /mcp", "POST /mcp HTTP/2", "\x00", "GET  /"]
            + ["PRI * HTTP/2.0", "CONNECT x:1 HTTP/1.1", "OPTIONS * HTTP/1.1"]
        )
    )
    headers = {
        "host": "localhost",
        "content-type": "application/json",
        "content-length": str(len(request["body"])),
        **request["headers"],
    }
    lines = [line, *(f"{n}: {v}" for n, v in headers.items() if v is not None)]
    upgrade = draw(st.sampled_from([None] * 9 + ["h2c", "websocket"]))
    if upgrade:
        lines += [f"Upgrade: {upgrade}", "Connection: Upgrade"]
    wire: bytes = "\r\n".join([*lines, "", ""]).encode("utf-8", "replace")
    wire += request["body"][:70_000]
    if draw(st.sampled_from([False] * 5 + [True])):
        at = draw(st.integers(0, min(len(wire), 400)))
        wire = wire[:at] + draw(st.binary(max_size=4)) + wire[at:]
    return wire


async def over_sockets(batch: list[bytes]) -> None:
    with trio.fail_after(120):
        notes = Notes()
        async with open_here(notes, head_within=1, body_within=1) as (url, served):
            for wire in batch:
                host, port = url.partition("://")[2].split(":")
                async with await trio.open_tcp_stream(host, int(port)) as stream:
                    said = b""
                    try:
                        await stream.send_all(wire)
                        with trio.move_on_after(0.2):
                            while chunk := await stream.receive_some():
                                said += chunk
                    except trio.BrokenResourceError:
                        pass  # it closed before all was said
                status = said.partition(b" ")[2][:3]
                assert status[:1] != b"5" or status in (b"505", b"501"), said[:2000]
            async with await trio.open_tcp_stream(host, int(port)) as stream:
                await stream.send_all(b"GET /mcp/health HTTP/1.1\r\nHost: a\r\n\r\n")
                assert (await stream.receive_some()).startswith(b"HTTP/1.1 200")
            assert await served.service.shim.running.wait_none(10)


@settings(_FUZZ, max_examples=max(1, _OVER_SOCKETS // _TOGETHER))
@given(st.lists(wires(), min_size=_TOGETHER, max_size=_TOGETHER))
def test_nothing_on_the_wire_breaks_anything(batch: list[bytes]) -> None:
    with no_errors():
        trio.run(over_sockets, batch, clock=MockClock(autojump_threshold=0.02))


def test_a_mutation_is_often_still_understood() -> None:
    """What never gets past the door tests the door alone."""
    understood = 0
    drawn = 0

    @settings(_FUZZ, max_examples=60)
    @given(requests())
    def draw(request: Any) -> None:
        nonlocal understood, drawn
        drawn += 1
        try:
            message = json.loads(request["body"])
        except (ValueError, RecursionError):
            return
        understood += isinstance(message, dict) and message.get("jsonrpc") == "2.0"

    draw()
    assert understood > drawn / 5
