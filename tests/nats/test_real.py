"""A connection to a real nats-server, with the official client at the other end."""

from __future__ import annotations

import asyncio
import signal
import ssl
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import nats as official
import pytest
import trustme

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.nats import (
    NatsDisconnected,
    NatsOptions,
    NatsRefused,
    NatsUnreachable,
    NoResponders,
    OutgoingFull,
    PayloadTooLarge,
    open_nats,
    open_requests,
)
from glyphoxa_trio.secret import Secret

from .server import a_server, free_port

pytestmark = pytest.mark.border

FEW = 60.0


async def _official_echo(url: str, ready: Callable[[], None], seen: list[Any]) -> None:
    """Answer everything below ``judge`` with what came, headers included."""
    client = await official.connect(url)
    over = asyncio.Event()

    async def answer(message: Any) -> None:
        seen.append((message.subject, message.data, message.headers))
        if message.subject == "judge.stop":
            over.set()
        else:
            await client.publish(message.reply, message.data, headers=message.headers)

    await client.subscribe("judge.>", cb=answer)
    # Its own `flush` overtakes the subscription at times.
    for _ in range(100):
        with suppress(official.errors.NoRespondersError):
            await client.request("judge.ready", timeout=FEW)
            break
        await asyncio.sleep(0.01)
    ready()
    await over.wait()
    await client.close()


async def test_the_official_client_reads_what_we_write_and_we_what_it_writes() -> None:
    seen: list[Any] = []
    with a_server() as server, trio.fail_after(FEW):
        async with open_nats(server.url) as nats, trio.open_nursery() as nursery:
            ready = trio.Event()
            token = trio.lowlevel.current_trio_token()

            def tell() -> None:
                token.run_sync_soon(ready.set)

            def echo() -> None:
                asyncio.run(_official_echo(server.url, tell, seen))

            # A failure here must not wait for a thread that waits to be stopped.
            in_thread = partial(trio.to_thread.run_sync, abandon_on_cancel=True)
            nursery.start_soon(in_thread, echo)
            await ready.wait()
            with open_requests(nats) as requests:
                for payload in (b"", b"hello", b"\r\nPING\r\n", b"x" * 500_000):
                    reply = await requests.ask("judge.a", payload, within=FEW)
                    assert reply.payload == payload
                    assert not reply.headers
                    headers = {"Name": "value: of it", "Other": "1"}
                    reply = await requests.ask(
                        "judge.b.c", payload, within=FEW, headers=headers
                    )
                    assert (reply.payload, reply.headers) == (payload, headers)
                    assert seen[-2:] == [
                        ("judge.a", payload, None),
                        ("judge.b.c", payload, headers),
                    ]
            await nats.publish("judge.stop")


async def test_requests_subscriptions_and_what_is_too_large() -> None:
    with a_server() as server, trio.fail_after(FEW):
        async with open_nats(server.url) as nats, open_nats(server.url) as other:
            with open_requests(nats) as requests:
                with pytest.raises(NoResponders):
                    await requests.ask("w.1", within=FEW)
                async with other.subscribe("w.*", queue="q") as asked:
                    await other.flush(within=FEW)

                    async def answer() -> None:
                        async for message in asked:
                            for n in range(20):
                                await other.publish(message.reply, b"%d" % n)

                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(answer)
                        async with requests.stream("w.1", within=FEW) as replies:
                            got = [(await anext(replies)).payload for _ in range(20)]
                        assert got == [b"%d" % n for n in range(20)]
                        nursery.cancel_scope.cancel()
            with pytest.raises(PayloadTooLarge, match="takes 1048576"):
                await nats.publish("a", b"x" * (1024 * 1024 + 1))
            await nats.flush(within=FEW)
            assert nats.statistics().reconnections == 0


async def test_a_killed_server_is_known_at_once_and_found_again() -> None:
    with a_server() as server, trio.fail_after(FEW):
        async with open_nats(server.url) as nats, nats.subscribe("a") as messages:
            with open_requests(nats) as requests:
                await nats.flush(within=FEW)
                async with requests.stream("a", within=FEW) as replies:
                    server.kill()
                    with pytest.raises(NatsDisconnected):
                        await anext(replies)
            with pytest.raises(NatsDisconnected):
                await nats.publish("a")
            server.start()
            await nats.wait_connected(within=FEW)
            while messages._waiting:
                await anext(messages)
            await nats.publish("a", b"again")
            assert (await anext(messages)).payload == b"again"


async def test_a_stopped_server_is_noticed(mock_clock: MockClock) -> None:
    async def let_time_pass() -> None:
        while True:
            await wait_all_tasks_blocked(0.01)
            mock_clock.jump(0.1)

    async def ask() -> None:
        with open_requests(nats) as requests:
            with pytest.raises(NatsDisconnected, match="silent"):
                await requests.ask("a", within=inf)

    with a_server() as server:
        async with open_nats(server.url) as nats:
            server.freeze()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(let_time_pass)
                await ask()
                server.signal(signal.SIGCONT)
                await nats.wait_connected(within=inf)
                nursery.cancel_scope.cancel()
            await nats.flush(within=FEW)


async def test_a_server_that_reads_no_more_fails_a_flood() -> None:
    with a_server() as server, trio.fail_after(FEW):
        async with open_nats(server.url, options=NatsOptions(outgoing=2**20)) as nats:
            server.freeze()
            with pytest.raises(OutgoingFull):
                while True:
                    await nats.publish("a", b"x" * 50_000)
            server.signal(signal.SIGCONT)


async def test_a_subscriber_that_does_not_read_holds_nobody() -> None:
    with a_server() as server, trio.fail_after(FEW):
        async with open_nats(server.url) as nats, open_nats(server.url) as other:
            async with (
                nats.subscribe("a", capacity=10) as slow,
                nats.subscribe("b") as quick,
            ):
                await nats.flush(within=FEW)
                for _ in range(1000):
                    await other.publish("a", b"x" * 1000, within=FEW)
                await other.publish("b")
                await anext(quick)
                assert slow.dropped == 990
                assert nats.statistics().reconnections == 0


@pytest.mark.long
async def test_a_cluster_outlives_one_of_its_servers() -> None:
    ports = [free_port() for _ in range(3)]
    with ExitStack() as stack, trio.fail_after(2 * FEW):
        servers = [
            stack.enter_context(
                a_server(
                    "--cluster_name=test",
                    f"--cluster=nats://127.0.0.1:{own}",
                    f"--routes={','.join(f'nats://127.0.0.1:{x}' for x in ports)}",
                )
            )
            for own in ports
        ]
        by_port = {server.port: server for server in servers}
        async with open_nats(servers[0].url) as nats:
            while len(nats._servers._learned) < 2:  # INFO comes when they have met
                await nats.changed.changed()
            async with open_nats(servers[1].url) as other:
                async with other.subscribe("a") as messages:
                    await other.flush(within=FEW)
                    by_port[servers[0].port].kill()
                    await nats.changed.until(lambda: not nats.is_connected)
                    await nats.wait_connected(within=FEW)
                    at = nats.statistics().server
                    assert at != f"127.0.0.1:{servers[0].port}"
                    with trio.move_on_after(FEW):
                        while not messages._waiting:  # until the routes know
                            await nats.publish("a", b"after", within=1)
                            await trio.sleep(0.05)
                    assert (await anext(messages)).payload == b"after"


@pytest.mark.parametrize(
    ("host", "trusted", "error"),
    [
        ("localhost", True, None),
        ("localhost", False, "certificate is not valid"),
        pytest.param(
            *("127.0.0.1", True, "IP address mismatch"), marks=pytest.mark.long
        ),
    ],
)
async def test_tls_is_checked(
    tmp_path: Path, host: str, trusted: bool, error: str | None
) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    chain.write_bytes(b"".join(x.bytes() for x in certificate.cert_chain_pems))
    certificate.private_key_pem.write_to_path(str(key))
    options = (
        "--tls",
        f"--tlscert={chain}",
        f"--tlskey={key}",
        "--auth=hunter2hunter2",
    )
    context = ssl.create_default_context()
    authority.configure_trust(context)
    with a_server(*options) as server, trio.fail_after(FEW):
        opened = open_nats(
            f"tls://hunter2hunter2@{host}:{server.port}",
            tls=context if trusted else None,
            options=NatsOptions(open_within=5 if error else FEW),
        )
        if error is None:
            async with opened as nats:
                await nats.flush(within=FEW)
        else:
            with pytest.raises(NatsUnreachable, match=error):
                async with opened:
                    pass


async def test_a_wrong_token_is_refused() -> None:
    with a_server("--auth=right-token") as server, trio.fail_after(FEW):
        async with open_nats(server.url, token=Secret("right-token")) as nats:
            await nats.flush(within=FEW)
        for url, token in (
            (server.url, Secret("wrong-token")),
            (server.url.replace("//", "//wrong-token@"), None),
            (server.url, None),
        ):
            with pytest.raises(NatsRefused, match="Authorization Violation") as raised:
                async with open_nats(url, token=token):
                    pass
            assert "wrong-token" not in str(raised.value)


async def test_what_the_server_does_not_allow_is_said(tmp_path: Path) -> None:
    config = tmp_path / "nats.conf"
    config.write_text(
        "authorization { users = [{ user: me, password: secret-word,"
        ' permissions: { publish: ["ok", "_INBOX.>"], subscribe: ["ok", "_INBOX.>"] }'
        " }] }"
    )
    with a_server(config=config) as server, trio.fail_after(FEW):
        secret = Secret("secret-word")
        async with open_nats(server.url, user="me", password=secret) as nats:
            async with nats.subscribe("hidden") as messages:
                with pytest.raises(NatsRefused, match='Subscription to "hidden"'):
                    await anext(messages)
            with open_requests(nats) as requests:
                with pytest.raises(NatsRefused, match='Publish to "hidden"'):
                    await requests.ask("hidden", within=FEW)
            async with nats.subscribe("ok") as messages:
                await nats.publish("ok", b"fine")
                assert (await anext(messages)).payload == b"fine"


async def test_a_lame_duck_is_named_and_another_is_used_in_the_end() -> None:
    with a_server() as server, a_server() as other, trio.fail_after(FEW):
        async with open_nats(server.url, other.url) as nats:
            if nats.statistics().server != f"127.0.0.1:{server.port}":
                server, other = other, server  # the order is drawn at random
            server.signal(signal.SIGUSR2)
            await nats.changed.until(lambda: nats.statistics().lame_duck)
            server.kill()
            await nats.changed.until(
                lambda: nats.statistics().server == f"127.0.0.1:{other.port}"
            )
