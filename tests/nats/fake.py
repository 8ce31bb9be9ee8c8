"""A NATS server in memory, of the dumbest kind, for tests on virtual time.

It knows no wildcards but a last ``*``. A test reaches into it: it falls silent, hangs
up, or says something of its own.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import attrs

import trio
from trio.testing import memory_stream_pair

from glyphoxa_trio.actors import lone_errors
from glyphoxa_trio.nats import NatsLink, NatsOptions, open_nats
from glyphoxa_trio.nats.options import OPTIONS

URL = "nats://fake:1"
INFO = {"server_name": "fake", "max_payload": 1000, "headers": True}


@attrs.define(eq=False)
class Peer:
    """One client, as the server sees it."""

    stream: trio.abc.Stream
    subscriptions: dict[int, tuple[str, str]] = attrs.field(factory=dict)
    options: dict[str, Any] = attrs.field(factory=dict)
    silent: bool = False
    pings: int = 0
    _sends: trio.Lock = attrs.field(factory=trio.Lock)

    async def send(self, data: bytes) -> None:
        if not self.silent:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                async with self._sends:
                    await self.stream.send_all(data)


@attrs.define(eq=False)
class FakeServer:
    """Servers under any address, which share their clients as a cluster does."""

    nursery: trio.Nursery
    info: dict[str, Any] = attrs.field(factory=lambda: dict(INFO))
    down: set[str] = attrs.field(factory=set)  # hosts
    token: str | None = None
    greeting: bytes | None = None  # instead of INFO
    peers: list[Peer] = attrs.field(factory=list)
    dialled: list[tuple[float, str]] = attrs.field(factory=list)

    async def dial(self, host: str, port: int) -> trio.abc.Stream:
        self.dialled.append((trio.current_time(), host))
        await trio.lowlevel.checkpoint()
        if host in self.down:
            raise OSError("nothing there")
        client, ours = memory_stream_pair()
        peer = Peer(ours)
        self.nursery.start_soon(self._serve, peer)
        return client

    async def hang_up(self, say: bytes = b"") -> None:
        """End all connections, and wait until the clients know."""
        for peer in [*self.peers]:
            if say:
                await peer.send(say)
            await peer.stream.aclose()
        self.peers.clear()
        await trio.testing.wait_all_tasks_blocked()

    async def publish(self, subject: str, payload: bytes, reply: str = "") -> int:
        """Deliver to all; return the number of those who got it."""
        got, chosen = 0, set[tuple[str, str]]()
        for peer in [*self.peers]:
            for sid, (pattern, queue) in [*peer.subscriptions.items()]:
                begin = pattern.removesuffix("*")
                covered = (
                    subject.startswith(begin)
                    if begin != pattern
                    else (subject == pattern)
                )
                if not covered or (queue and (pattern, queue) in chosen):
                    continue
                chosen.add((pattern, queue))
                names = f"{subject} {sid} {reply}".strip().encode()
                await peer.send(b"MSG %b %d\r\n%b\r\n" % (names, len(payload), payload))
                got += 1
        return got

    async def _serve(self, peer: Peer) -> None:
        greeting = b"INFO %b\r\n" % json.dumps(self.info).encode()
        await peer.send(greeting if self.greeting is None else self.greeting)
        buffer = b""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for data in peer.stream:
                buffer += data
                while b"\r\n" in buffer:
                    line, _, rest = buffer.partition(b"\r\n")
                    word, *words = line.decode().split(" ", 1)
                    if word in ("PUB", "HPUB"):
                        size = int(words[0].split()[-1])
                        if len(rest) < size + 2:
                            break
                        await self._published(peer, words[0].split(), rest[:size])
                        rest = rest[size + 2 :]
                    else:
                        await self._command(peer, word, words[0] if words else "")
                    buffer = rest
        if peer in self.peers:
            self.peers.remove(peer)
        await trio.aclose_forcefully(peer.stream)

    async def _command(self, peer: Peer, word: str, rest: str) -> None:
        match word, rest.split():
            case "CONNECT", _:
                peer.options = json.loads(rest)
                if self.token not in (None, peer.options.get("auth_token")):
                    await peer.send(b"-ERR 'Authorization Violation'\r\n")
                    await peer.stream.aclose()
                else:
                    self.peers.append(peer)
            case "PING", _:
                peer.pings += 1
                await peer.send(b"PONG\r\n")
            case "SUB", [pattern, queue, sid]:
                peer.subscriptions[int(sid)] = (pattern, queue)
            case "SUB", [pattern, sid]:
                peer.subscriptions[int(sid)] = (pattern, "")
            case "UNSUB", [sid]:
                del peer.subscriptions[int(sid)]
            case "PONG", _:
                pass
            case _:
                raise AssertionError(f"{word} {rest}")

    async def _published(self, peer: Peer, words: list[str], payload: bytes) -> None:
        reply = words[1] if len(words) == 3 else ""
        if not await self.publish(words[0], payload, reply) and reply:
            head = b"NATS/1.0 503\r\n\r\n"
            prefix = reply.rpartition(".")[0]
            for sid, (pattern, _) in peer.subscriptions.items():
                if pattern == f"{prefix}.*":
                    sizes = b"%d %d" % (len(head), len(head))
                    names = f"{reply} {sid}".encode()
                    await peer.send(b"HMSG %b %b\r\n%b\r\n" % (names, sizes, head))


@asynccontextmanager
async def linked(
    *urls: str, options: NatsOptions = OPTIONS, **more: Any
) -> AsyncGenerator[tuple[FakeServer, NatsLink]]:
    """A server, and a connection to it."""
    with lone_errors():
        async with trio.open_nursery() as nursery:
            server = FakeServer(nursery)
            opened = partial(open_nats, *(urls or (URL,)), dial=server.dial)
            async with opened(options=options, **more) as nats:
                yield server, nats
            nursery.cancel_scope.cancel()
