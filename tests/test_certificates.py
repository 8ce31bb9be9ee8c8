"""The certificates of the machine: read once, in a thread, for all clients."""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trustme

import trio
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from glyphoxa_trio.builtin.images.server import ImageServer
from glyphoxa_trio.builtin.web.fetching import Fetcher
from glyphoxa_trio.builtin.web.search import Search
from glyphoxa_trio.builtin.web.searxng import SearXNG
from glyphoxa_trio.builtin.web.settings import FetchSettings
from glyphoxa_trio.certificates import CertificatesUnreadable, trusted, trusted_for
from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.config.servers import OAuth
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.mcp.http import open_client
from glyphoxa_trio.nats.handshake import open_connection
from glyphoxa_trio.nats.servers import NatsAddress, NatsCredentials
from glyphoxa_trio.observability.sending import post
from glyphoxa_trio.providers.embeddings_http import HttpEmbedder
from glyphoxa_trio.providers.endpoint import Endpoint
from glyphoxa_trio.providers.live_socket.dialling import Address, dial, dialled
from glyphoxa_trio.providers.speech_server import SpeechServer
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.servers.atis.cache import FeedFailure
from glyphoxa_trio.servers.atis.feed import HttpFeed

AUTHORITY = trustme.CA()
LIMIT = 30.0  # seconds; only a hang comes near it


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads that read certificates, one for each reading."""
    threads: list[int] = []

    def noted(name: str) -> None:
        read = getattr(ssl.SSLContext, name)

        def reading(*args: Any, **more: Any) -> Any:
            threads.append(threading.get_ident())
            return read(*args, **more)

        monkeypatch.setattr(ssl.SSLContext, name, reading)

    for name in ("load_verify_locations", "load_default_certs"):
        noted(name)
    noted("set_default_verify_paths")
    return threads


@pytest.fixture
def authorities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that the environment names, and that was never read."""
    file = tmp_path / "authorities.pem"
    AUTHORITY.cert_pem.write_to_path(str(file))
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    return file


async def secured(
    context: ssl.SSLContext, *protocols: str
) -> tuple[str | None, dict[str, Any]]:
    """Connect to a server of `AUTHORITY`; return the protocol that it chose."""
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.set_alpn_protocols(list(protocols))
    AUTHORITY.issue_cert("inn.example").configure_cert(theirs)
    one, other = memory_stream_pair()
    client = trio.SSLStream(one, context, server_hostname="inn.example")
    server = trio.SSLStream(other, theirs, server_side=True)
    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.do_handshake)
            await client.do_handshake()
    return client.selected_alpn_protocol(), client.getpeercert()


async def test_all_who_ask_at_once_get_what_one_thread_has_read(
    authorities: Path, readers: list[int]
) -> None:
    found: list[ssl.SSLContext] = []

    async def ask() -> None:
        found.append(await trusted())

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(ask)
    assert len(found) == 10
    assert len({*found, await trusted()}) == 1
    assert len(readers) == 1
    assert readers[0] != threading.get_ident()
    assert (await secured(found[0]))[1]


def test_runs_of_trio_share_what_was_read(
    authorities: Path, readers: list[int]
) -> None:
    assert trio.run(trusted) is trio.run(trusted)
    assert len(readers) == 1


async def test_another_file_counts_at_once(
    authorities: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    readers: list[int],
) -> None:
    await secured(await trusted())
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(other))
    monkeypatch.setenv("SSL_CERT_FILE", str(other))
    with pytest.raises(BaseExceptionGroup) as refused:
        await secured(await trusted())
    assert refused.group_contains(trio.BrokenResourceError)
    assert len(readers) == 2
    monkeypatch.setenv("SSL_CERT_FILE", str(authorities))
    await secured(await trusted())


async def test_without_the_variables_it_is_the_machine_that_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    for empty in (None, ""):
        if empty is None:
            monkeypatch.delenv("SSL_CERT_FILE", raising=False)
        else:
            monkeypatch.setenv("SSL_CERT_FILE", empty)
        context = await trusted()
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.check_hostname


async def test_a_folder_can_be_named(
    authorities: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await trusted()
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    context = await trusted()
    assert context is not before
    await secured(context)  # the file counts beside it
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(BaseExceptionGroup) as refused:
        await secured(await trusted())
    assert refused.group_contains(trio.BrokenResourceError)


async def test_only_http_is_offered_and_only_by_who_speaks_it(
    authorities: Path,
) -> None:
    assert (await secured(await trusted(), "http/1.1"))[0] == "http/1.1"
    assert (await secured(await trusted(http=False), "http/1.1"))[0] is None


async def test_nothing_is_read_for_an_address_without_tls(
    authorities: Path, readers: list[int]
) -> None:
    context = await trusted_for("http://127.0.0.1:11434/v1")
    assert readers == []
    # And if it is used for TLS all the same, it trusts no server.
    with pytest.raises(BaseExceptionGroup) as refused:
        await secured(context)
    assert refused.group_contains(trio.BrokenResourceError)
    assert await trusted_for("https://inn.example/v1") is await trusted()


async def test_who_is_cancelled_leaves_at_once_and_the_next_gets_what_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, readers: list[int]
) -> None:
    file = tmp_path / "slow.pem"
    os.mkfifo(file)  # who reads it waits for one who writes
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(trusted)
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trusted)
            await wait_all_tasks_blocked()
            await trio.to_thread.run_sync(file.write_bytes, AUTHORITY.cert_pem.bytes())
        await secured(await trusted())
    assert len(readers) == 1


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "SSL_CERT_FILE: cannot be read: No such file or directory"),
        ("hm", "SSL_CERT_FILE: has no certificates in PEM"),
    ],
)
async def test_a_file_that_is_none_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: str | None,
    why: str,
) -> None:
    file = tmp_path / "lost.pem"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with pytest.raises(CertificatesUnreadable) as told:
        await trusted()
    assert str(told.value).startswith(why)
    assert str(told.value).endswith(f"@ {file}")
    AUTHORITY.cert_pem.write_to_path(str(file))
    await secured(await trusted())


# ------------------------------------------------------------------------- clients


async def ask_model(port: int) -> None:
    endpoint = Endpoint(base_url=f"https://127.0.0.1:{port}", path="/chat")
    try:
        await endpoint.get("/models")
    finally:
        await endpoint.aclose()


async def ask_voice(port: int) -> None:
    server = SpeechServer(base_url=f"https://127.0.0.1:{port}")
    try:
        async with server.post("/speech", accept="*/*"):
            pass
    finally:
        await server.aclose()


async def embed(port: int) -> None:
    embedder = HttpEmbedder(name="m", base_url=f"https://127.0.0.1:{port}")
    try:
        await embedder.embed(["a"])
    finally:
        await embedder.aclose()


async def open_socket(port: int) -> None:
    address = Address.of(f"wss://127.0.0.1:{port}/")
    await dialled(dial, address, trio.current_time() + LIMIT)


async def fetch_weather(port: int) -> None:
    url = f"https://127.0.0.1:{port}/{{}}"
    feed = HttpFeed(url=url, agent="us", now=partial(datetime.now, UTC))
    try:
        assert isinstance(await feed.fetch("EDDF", ""), FeedFailure)
    finally:
        await feed.aclose()
    raise GlyphoxaError


async def send_report(port: int) -> None:
    await post(f"https://127.0.0.1:{port}/", "{}")


async def search(port: int) -> None:
    engine = SearXNG()
    await Search(engine=engine, base_url=f"https://127.0.0.1:{port}").find("ale", 1)


async def paint(port: int) -> None:
    await ImageServer(base_url=f"https://127.0.0.1:{port}").paint("an inn", "")


async def fetch_page(port: int) -> None:
    settings = FetchSettings.of(allow_private=["127.0.0.1"], ports=[port])
    await Fetcher(settings).page(f"https://127.0.0.1:{port}/")


async def ask_tools(port: int) -> None:
    spec = ServerSpec(name="web", url=f"https://127.0.0.1:{port}/")
    async with open_client(spec) as client:
        assert "cannot" in (await client.post(spec.url or "", json={"id": 1})).text
    raise GlyphoxaError


async def fetch_token(port: int) -> None:
    oauth = OAuth(
        client_id="sage",
        client_secret=Secret("hush"),
        token_url=f"https://127.0.0.1:{port}/token",
    )
    spec = ServerSpec(name="web", url=f"https://127.0.0.1:{port}/", oauth=oauth)
    async with open_client(spec) as client:
        assert "cannot" in (await client.post(spec.url or "", json={"id": 1})).text
    raise GlyphoxaError


async def open_bus(port: int) -> None:
    async def dial_one(host: str, port: int) -> trio.abc.Stream:
        ours, theirs = memory_stream_pair()
        await theirs.send_all(b'INFO {"tls_required":true}\r\n')
        await theirs.send_eof()
        return ours

    address = NatsAddress.of(f"tls://127.0.0.1:{port}", NatsCredentials())
    await open_connection(address, name="us", dial=dial_one)


CLIENTS: list[Callable[[int], Awaitable[None]]] = [
    ask_model,
    ask_voice,
    embed,
    open_socket,
    fetch_weather,
    send_report,
    search,
    paint,
    fetch_page,
    ask_tools,
    fetch_token,
    open_bus,
]


async def hang_up(stream: trio.SocketStream) -> None:
    await stream.aclose()


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_client_reads_no_certificates_on_the_loop_and_not_twice(
    authorities: Path,
    readers: list[int],
    client: Callable[[int], Awaitable[None]],
) -> None:
    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(trio.serve_listeners, hang_up, [listener])
            port = listener.socket.getsockname()[1]
            for _ in range(2):
                with pytest.raises(GlyphoxaError):
                    await client(port)
            nursery.cancel_scope.cancel()
    assert len(readers) == 1
    assert readers[0] != threading.get_ident()


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_client_says_that_certificates_are_missing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    client: Callable[[int], Awaitable[None]],
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "lost.pem"))
    with pytest.raises(GlyphoxaError):
        await client(1)
