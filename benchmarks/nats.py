"""The cost of a request through NATS, and of twenty streamed replies.

Promised: a request of 500 bytes takes at most 8 times a round trip of bare TCP (p50),
although it makes two, through another process; and at most 1.5 times what the official
client takes on asyncio.

Measured: `requests` between two connections of one process to a nats-server on this
machine, one after the other; 64 callers at once, as the time of each request of all of
them together; a request with 20 replies. Without nats-server nothing is measured.

Against: an echo over TCP, trio to trio, in the same process; the official client
(``nats-py``) on asyncio, likewise, if it is installed.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from importlib.util import find_spec
from time import perf_counter
from typing import Any, Final

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from glyphoxa_trio.nats import NatsLink, NatsRequests, open_nats, open_requests
from tests.nats.server import MISSING, PROGRAM, a_server

PAYLOAD: Final = b"x" * 500
CALLERS: Final = 64
REPLIES: Final = 20
WITHIN: Final = 10.0


async def echoes(count: int) -> list[float]:
    """Return the round trips of bare TCP, in seconds."""

    async def echo(stream: trio.SocketStream) -> None:
        async for data in stream:
            await stream.send_all(data)

    found = []
    async with trio.open_nursery() as nursery:
        listeners: list[trio.SocketListener] = await nursery.start(
            trio.serve_tcp, echo, 0
        )
        port = listeners[0].socket.getsockname()[1]
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            for _ in range(count):
                began = perf_counter()
                await stream.send_all(PAYLOAD)
                await stream.receive_some()
                found.append(perf_counter() - began)
        nursery.cancel_scope.cancel()
    return found


async def answer(nats: NatsLink, task_status: trio.TaskStatus[None]) -> None:
    async with nats.subscribe("one") as messages:
        async with nats.subscribe("many") as more, trio.open_nursery() as nursery:

            async def answer_many() -> None:
                async for message in more:
                    for _ in range(REPLIES):
                        nats.publish_nowait(message.reply, PAYLOAD)

            nursery.start_soon(answer_many)
            await nats.flush(within=WITHIN)
            task_status.started()
            async for message in messages:
                nats.publish_nowait(message.reply, message.payload)


async def one_by_one(requests: NatsRequests, count: int) -> list[float]:
    found = []
    for _ in range(count):
        began = perf_counter()
        await requests.ask("one", PAYLOAD, within=WITHIN)
        found.append(perf_counter() - began)
    return found


async def streamed(requests: NatsRequests, count: int) -> list[float]:
    found = []
    for _ in range(count):
        began = perf_counter()
        async with requests.stream("many", PAYLOAD, within=WITHIN) as replies:
            for _ in range(REPLIES):
                await anext(replies)
        found.append(perf_counter() - began)
    return found


async def ours(url: str, count: int) -> tuple[list[float], float, list[float]]:
    """Return round trips, the time of one of many at once, and twenty replies."""
    async with open_nats(url) as nats, open_nats(url) as other:
        async with trio.open_nursery() as nursery:
            await nursery.start(answer, other)
            with open_requests(nats) as requests:
                await one_by_one(requests, 50)
                alone = await one_by_one(requests, count)
                began = perf_counter()
                async with trio.open_nursery() as crowd:
                    for _ in range(CALLERS):
                        crowd.start_soon(one_by_one, requests, count // CALLERS)
                each = (perf_counter() - began) / (count // CALLERS * CALLERS)
                many = await streamed(requests, count // 10)
            nursery.cancel_scope.cancel()
    return alone, each, many


async def official(url: str, count: int) -> tuple[list[float], float]:
    """Return round trips of nats-py, and the time of one of many at once."""
    import nats

    client, other = await nats.connect(url), await nats.connect(url)

    async def reply(message: Any) -> None:
        await other.publish(message.reply, message.data)

    async def asked(times: int) -> list[float]:
        found = []
        for _ in range(times):
            began = perf_counter()
            await client.request("one", PAYLOAD, timeout=WITHIN)
            found.append(perf_counter() - began)
        return found

    await other.subscribe("one", cb=reply)
    while True:  # its own `flush` overtakes the subscription at times
        with suppress(nats.errors.NoRespondersError):
            await client.request("one", timeout=WITHIN)
            break
        await asyncio.sleep(0.01)
    await asked(50)
    alone = await asked(count)
    began = perf_counter()
    await asyncio.gather(*(asked(count // CALLERS) for _ in range(CALLERS)))
    each = (perf_counter() - began) / (count // CALLERS * CALLERS)
    await client.close()
    await other.close()
    return alone, each


def measure(quick: bool) -> list[Figure]:
    count = 128 if quick else 6400
    with a_server() as server:
        bare = trio.run(echoes, count)
        alone, each, many = trio.run(ours, server.url, count)
        figures = [
            figure("a request", alone, unit="ms", bare=bare),
            figure("twenty replies", many, unit="ms", bare=bare),
        ]
        if find_spec("nats") is None:
            print("nats-py is not installed", file=sys.stderr)
            return [*figures, figure("of 64 at once", [each], unit="µs")]
        theirs, their_each = asyncio.run(official(server.url, count))
    return [
        *figures,
        figure("of 64 at once, beside nats-py", [each], unit="µs", bare=[their_each]),
        figure("a request, beside nats-py", alone, unit="ms", bare=theirs),
    ]


BENCHMARK = Benchmark(
    name="nats",
    promise="a request takes at most 8 times an echo, and 1.5 times nats-py",
    measure=measure,
    budgets=(
        Budget(figure="a request", statistic="ratio", at_most=8.0),
        *(
            [Budget(figure="a request, beside nats-py", statistic="ratio", at_most=1.5)]
            if find_spec("nats")
            else []
        ),
    ),
)

if __name__ == "__main__":
    if PROGRAM is None:
        sys.exit(MISSING)
    main(BENCHMARK)
