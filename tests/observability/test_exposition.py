"""The page that Prometheus reads: what it says, to whom, and how long that may take.

Real sockets on loopback, port 0, an absolute limit on every wait. Where a test is
about patience the patience is made short, and what would hang without an end hangs.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import cast
from urllib.parse import urlsplit

import h11
import httpx2
import pytest
from prometheus_client import CollectorRegistry, Counter, Metric
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as open_metrics_families,
)
from prometheus_client.parser import text_string_to_metric_families

import trio
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from glyphoxa_trio import open_runtime
from glyphoxa_trio.observability import (
    MetricsError,
    exposition,
    open_exposition,
    open_metrics,
)

from .support import LIMIT, config, opened, say

NO_VERSIONS = [
    kind + b";version=" + version
    for kind in (b"text/plain", b"application/openmetrics-text")
    for version in (b"one", b"1=2", b'1"')
]
GET = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n"


@asynccontextmanager
async def served(registry: CollectorRegistry | None = None) -> AsyncGenerator[str]:
    chosen = CollectorRegistry() if registry is None else registry
    with trio.fail_after(LIMIT):
        async with open_exposition(chosen) as url:
            yield url


async def connected(url: str) -> trio.SocketStream:
    parts = urlsplit(url)
    assert parts.hostname == "127.0.0.1"
    assert parts.port is not None
    return await trio.open_tcp_stream(parts.hostname, parts.port)


async def answer_to(url: str, *said: bytes) -> tuple[int, str]:
    """The status and the body of the answer to these bytes, read to its end."""
    async with await connected(url) as stream:
        for piece in said:
            await stream.send_all(piece)
        return await answer_on(stream)


async def answer_on(stream: trio.SocketStream) -> tuple[int, str]:
    http, status, body = h11.Connection(h11.CLIENT), 0, b""
    http.send(h11.Request(method="GET", target="/", headers=[("Host", "x")]))
    http.send(h11.EndOfMessage())
    while True:
        match http.next_event():
            case h11.NEED_DATA:
                http.receive_data(await stream.receive_some())
            case h11.Response(status_code=status):
                pass
            case h11.Data(data=data):
                body += data
            case h11.EndOfMessage():
                assert await stream.receive_some() == b""  # one answer, and no more
                return status, body.decode()


# ------------------------------------------------------------------- what it says


async def test_a_running_table_can_be_scraped_in_both_formats() -> None:
    # A46, A47: with the library's own parsers
    async with opened(config("dice")) as runtime:
        async with open_metrics(runtime, port=0) as metrics:
            await say(runtime, "roll 1d4")
            assert metrics.url is not None
            assert metrics.url.startswith("http://127.0.0.1:")
            async with httpx2.AsyncClient(timeout=60, trust_env=False) as client:
                plain = await client.get(metrics.url)
                accept = "application/openmetrics-text; version=1.0.0, text/plain;q=0.5"
                modern = await client.get(metrics.url, headers={"Accept": accept})
    assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert modern.headers["content-type"].startswith("application/openmetrics-text")
    for families in (
        text_string_to_metric_families(plain.text),
        open_metrics_families(modern.text),  # type: ignore[no-untyped-call]
    ):
        samples = {
            (sample.name, *sample.labels.values()): sample.value
            for family in families
            for sample in family.samples
        }
        names = {name for name, *_ in samples}
        assert "ai_agent_mcp_tool_latency_seconds_bucket" in names
        calls = {k[1:]: v for k, v in samples.items() if "tool_calls_total" in k[0]}
        assert {tuple(sorted(k)): v for k, v in calls.items()} == {
            ("dice", "ok", "roll"): 1.0
        }


async def test_somebody_elses_registry_is_served_as_it_is() -> None:
    registry = CollectorRegistry()
    Counter("ravens", "Ravens sent.", registry=registry).inc(3)
    async with served(registry) as url:
        status, body = await answer_to(url, GET + b"\r\n")
    assert status == 200
    assert "ravens_total 3.0" in body


async def test_a_head_has_everything_but_the_body() -> None:
    async with (
        served() as url,
        httpx2.AsyncClient(timeout=60, trust_env=False) as client,
    ):
        head, whole = await client.head(url), await client.get(url)
    assert head.status_code == 200
    assert head.content == b""
    for name in ("content-type", "content-length"):
        assert head.headers[name] == whole.headers[name]


async def test_an_accept_that_makes_no_sense_gets_the_plain_text() -> None:
    async with (
        served() as url,
        httpx2.AsyncClient(timeout=60, trust_env=False) as client,
    ):
        for accept in (*NO_VERSIONS, b";;;", b"image/png", b"\xff"):
            answer = await client.get(url, headers={b"Accept": accept})
            assert answer.status_code == 200, accept
            assert answer.headers["content-type"].startswith("text/plain")


async def test_a_query_is_no_mistake() -> None:
    async with served() as url:
        status, _ = await answer_to(url, GET.replace(b"cs ", b"cs?name=x ") + b"\r\n")
    assert status == 200


# -------------------------------------------------------------------- to whom (D25)


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:9464", "127.0.0.1:1", "[::1]", "[::1]:9464"]
)
async def test_this_machine_may_ask_by_all_its_names(host: str) -> None:
    async with served() as url:
        request = f"GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n"
        assert (await answer_to(url, request.encode()))[0] == 200


@pytest.mark.parametrize(
    "header",
    [
        "Host: evil.example",
        "Host: localhost.evil.example",
        "Host: evil.example:localhost",
        "Host: localhost@evil.example",
        "Host: 127.0.0.1.evil.example",
        "Host: ",
        "Host: localhost\r\nOrigin: https://evil.example",
        "Host: localhost\r\nOrigin: null",
    ],
)
async def test_a_page_of_the_web_may_not(header: str) -> None:
    async with served() as url:
        request = f"GET /metrics HTTP/1.1\r\n{header}\r\n\r\n"
        status, body = await answer_to(url, request.encode())
    assert status == 403
    assert body.startswith("this is ")


async def test_it_listens_on_loopback_only() -> None:
    async with served() as url:
        address = trio.socket.socket(trio.socket.AF_INET)
        with address:
            # The same port of another address of this machine is free.
            await address.bind(("127.0.0.2", urlsplit(url).port))


# ------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (
            b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx",
            405,
        ),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET /metricsx HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET /metrics HTTP/1.1\r\n\r\n", 400),  # a host is missing
        (b"GET /metrics HTTP/1.0\r\n\r\n", 403),  # here it may be, and is wanted
        (b"GET /metrics\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),  # TLS
        (GET + b"Content-Length: x\r\n\r\n", 400),
        (GET + b"Transfer-Encoding: gzip\r\n\r\n", 501),
        (GET + b"X: " + b"x" * 100_000 + b"\r\n\r\n", 431),
        (GET + b"Content-Length: 300000\r\n\r\n" + b"x" * 300_000, 413),
        (GET + b"Content-Length: 5\r\nExpect: 100-continue\r\n\r\n", 417),
    ],
    ids=lambda value: str(value)[:60],
)
async def test_a_bad_request_gets_a_clear_answer(request_: bytes, status: int) -> None:
    async with served() as url:
        found, body = await answer_to(url, request_)
        assert found == status
        assert body.endswith("\n")
        assert len(body) > 5
        assert (await answer_to(url, GET + b"\r\n"))[0] == 200  # and life goes on


async def test_a_method_that_is_not_allowed_is_told_which_ones_are() -> None:
    async with (
        served() as url,
        httpx2.AsyncClient(timeout=60, trust_env=False) as client,
    ):
        assert (await client.delete(url)).headers["allow"] == "GET, HEAD"


async def test_a_client_that_still_talks_when_it_is_refused_gets_its_answer() -> None:
    async with served() as url, await connected(url) as stream:
        # So little that it has to be read, to be said to the end.
        stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_SNDBUF, 4096)
        await stream.send_all(GET + b"Content-Length: 900000\r\n\r\n")
        for _ in range(9):
            await stream.send_all(b"x" * 100_000)
        assert (await answer_on(stream))[0] == 413


async def test_a_client_that_asks_on_and_on_is_heard_out_after_its_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A socket that is closed with something unread takes its answer back.
    monkeypatch.setattr(exposition, "_GOODBYE", LIMIT)
    ours, theirs = memory_stream_pair()
    desk = exposition._Desk(CollectorRegistry())
    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(desk.attend, cast("trio.SocketStream", theirs))
            await ours.send_all(GET + b"\r\n")
            assert (await answer_on(cast("trio.SocketStream", ours)))[0] == 200
            for _ in range(3):
                await wait_all_tasks_blocked()
                await ours.send_all(GET + b"\r\n")
            await ours.aclose()


async def test_a_request_that_ends_halfway_is_a_bad_one() -> None:
    async with served() as url, await connected(url) as stream:
        await stream.send_all(GET)
        await stream.send_eof()
        assert (await answer_on(stream))[0] == 400


async def test_a_client_that_leaves_without_a_word_is_no_error() -> None:
    async with served() as url:
        for said in (b"", GET):
            async with await connected(url) as stream:
                await stream.send_all(said)
        assert (await answer_to(url, GET + b"\r\n"))[0] == 200


async def test_a_collector_that_fails_is_an_answer_and_no_end() -> None:
    class Broken:
        def collect(self) -> Iterator[Metric]:
            raise RuntimeError("sk-secret")

    registry = CollectorRegistry()
    registry.register(Broken())
    async with served(registry) as url:
        for _ in range(2):
            assert await answer_to(url, GET + b"\r\n") == (500, "RuntimeError\n")


# -------------------------------------------------------------------- and how long


@pytest.mark.border
async def test_a_client_that_asks_too_slowly_is_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exposition, "PATIENCE", 0.05)
    async with served() as url:
        assert (await answer_to(url, GET))[0] == 408  # and never the last line
        assert (await answer_to(url))[0] == 408


@pytest.mark.border
async def test_a_client_that_does_not_read_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exposition, "PATIENCE", 10.0)
    monkeypatch.setattr(exposition, "MOST_CLIENTS", 1)
    registry = CollectorRegistry()
    # More than the buffers of a connection hold.
    Counter("ravens", "x" * 20_000_000, registry=registry)
    async with served(registry) as url, await connected(url) as stream:
        await stream.send_all(GET + b"\r\n")
        await stream.receive_some(1)  # its answer has begun
        # The next one has its time, however busy the machine is.
        monkeypatch.setattr(exposition, "PATIENCE", 60.0)
        async with httpx2.AsyncClient(timeout=60, trust_env=False) as client:
            status = 503  # until it is left, nobody else has a place
            while status != 200:
                await trio.sleep(0.05)
                status = (await client.head(url)).status_code


async def test_so_many_clients_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "MOST_CLIENTS", 3)
    async with served() as url:
        waiting = [await connected(url) for _ in range(3)]
        await wait_all_tasks_blocked(0.01)
        status, body = await answer_to(url, GET + b"\r\n")
        assert (status, body) == (503, "there are 3 clients already\n")
        await waiting[0].aclose()
        await wait_all_tasks_blocked(0.01)
        assert (await answer_to(url, GET + b"\r\n"))[0] == 200
        for stream in waiting:
            await stream.aclose()


async def test_who_comes_in_crowds_is_not_even_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exposition, "MOST_CLIENTS", 1)
    monkeypatch.setattr(exposition, "_MOST_REFUSED", 2)
    monkeypatch.setattr(exposition, "_GOODBYE", LIMIT)
    async with served() as url:
        crowd = [await connected(url) for _ in range(3)]
        await wait_all_tasks_blocked(0.01)
        last = await connected(url)
        assert await last.receive_some() == b""
        for stream in (*crowd, last):
            await stream.aclose()
        await wait_all_tasks_blocked(0.01)
        assert (await answer_to(url, GET + b"\r\n"))[0] == 200


async def test_a_port_that_is_taken_is_an_error_that_says_so() -> None:
    async with served() as url:
        port = urlsplit(url).port
        assert port is not None
        with pytest.raises(MetricsError, match=rf"port {port} is taken"):
            async with open_exposition(CollectorRegistry(), port=port):
                pytest.fail("opened")
        async with opened(config()) as runtime:
            with pytest.raises(MetricsError, match="is taken"):
                async with open_metrics(runtime, port=port):
                    pytest.fail("opened")
            assert runtime.events._taps == []
    with pytest.raises(MetricsError, match="no port 70000"):
        async with open_exposition(CollectorRegistry(), port=70_000):
            pytest.fail("opened")


async def test_the_end_of_the_block_is_the_end_of_every_connection() -> None:
    async with served() as url:
        stream = await connected(url)
        await stream.send_all(GET)
        await wait_all_tasks_blocked(0.01)
    with trio.fail_after(LIMIT):
        with pytest.raises(OSError, match="all attempts to connect"):
            await connected(url)
        assert await stream.receive_some() == b""
        await stream.aclose()


async def test_an_error_of_the_block_leaves_it_as_it_is() -> None:
    async with open_runtime(config()) as runtime:
        with pytest.raises(KeyError):
            async with open_metrics(runtime, port=0):
                raise KeyError
