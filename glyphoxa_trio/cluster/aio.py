"""The client of a cluster for asyncio programs.

from glyphoxa_trio.cluster import aio

async def main() -> None:
    async with aio.connect("nats://127.0.0.1:4222") as runtime:
        async with runtime.session("table-42").npc("Bartok").say("Hi!") as turn:
            async for event in turn:
                ...

asyncio.run(main())
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import attrs

from glyphoxa_trio.aio import Mode, Turn
from glyphoxa_trio.aio.block import Block
from glyphoxa_trio.aio.bridge import LoopBridge
from glyphoxa_trio.nats import open_nats
from glyphoxa_trio.npc.arguments import check_session
from glyphoxa_trio.npc.identity import DEFAULT, SessionKey
from glyphoxa_trio.secret import Secret

from . import remote
from .client import ClusterClient
from .messages import AskMessage, BeatMessage, ListedMessage, SayMessage
from .remote_session import RemoteNpc, RemoteScene, RemoteSession


def connect(
    *urls: str,
    mode: Mode = "guest",
    user: str | None = None,
    password: Secret | None = None,
    token: Secret | None = None,
    tls: ssl.SSLContext | None = None,
    deployment: str = "default",
    tenant: str = "",
    wait_for_workers: float = 2.0,
) -> AbstractAsyncContextManager[AioRemoteRuntime]:
    """Speak with the workers of a deployment, until the block is left.

    The arguments are those of `nats.open_nats` and `cluster.connect`; ``mode`` is that
    of `aio.open_runtime`.

    Raises:
      InvalidMessage: the deployment's name cannot be used.
      NatsError: no server answers, or one refuses the credentials.
      NotOnAsyncio: if it is entered from trio, which has `cluster.connect`.
    """

    @asynccontextmanager
    async def opened() -> AsyncGenerator[remote.RemoteRuntime]:
        async with (
            open_nats(
                *urls, user=user, password=password, token=token, tls=tls
            ) as nats,
            remote.connect(
                nats,
                deployment=deployment,
                tenant=tenant,
                wait_for_workers=wait_for_workers,
            ) as runtime,
        ):
            yield runtime

    return Block(mode, lambda _: opened(), AioRemoteRuntime)


@attrs.frozen(eq=False)
class _LoopLink:
    """The way to the workers, across the bridge."""

    bridge: LoopBridge
    client: ClusterClient

    async def ask(self, ask: AskMessage) -> Any:
        return await self.bridge.ask(partial(self.client.ask, ask))

    def turn(self, say: SayMessage) -> Turn:
        to = (say.key, say.npc, *(say.scene or ()))
        return Turn(self.bridge, partial(self.client.turn, say), to)


@attrs.frozen(eq=False, repr=False)
class AioRemoteRuntime:
    """The sessions of a deployment, as `cluster.RemoteRuntime`. Made by `connect`.

    What needs trio's side is a coroutine here.
    """

    _bridge: LoopBridge
    _native: remote.RemoteRuntime

    @property
    def tenant(self) -> str:
        """The owner of all sessions of this client."""
        return self._native.tenant

    @property
    def connected(self) -> bool:
        """True while the bus answers."""
        return self._native.connected

    def session(self, id: str = DEFAULT) -> RemoteSession[Turn]:  # noqa: A002
        """Return the session of that id, wherever it is. It begins when it is used."""
        check_session(id, self.tenant)
        link = _LoopLink(self._bridge, self._native._client)
        return RemoteSession(link, SessionKey(id, self.tenant))

    def npc(self, name: str) -> RemoteNpc[Turn]:
        """Return an NPC of the session ``default``."""
        return self.session().npc(name)

    def scene(self, *npcs: str) -> RemoteScene[Turn]:
        """Return a scene of the session ``default``."""
        return self.session().scene(*npcs)

    async def workers(self) -> tuple[BeatMessage, ...]:
        """Return the last beats of the workers that live, by name."""

        async def look() -> tuple[BeatMessage, ...]:
            return self._native.workers

        return await self._bridge.ask(look)

    async def owner(self, session: str = DEFAULT) -> tuple[str, int] | None:
        """Return the worker that has a session, and its epoch, as far as this client
        has learnt that."""

        async def look() -> tuple[str, int] | None:
            return self._native.owner(session)

        return await self._bridge.ask(look)

    async def sessions(
        self,
        id: str | None = None,  # noqa: A002
        *,
        tenant: str | None = None,
        most: int = 250,
    ) -> tuple[ListedMessage, ...]:
        """Ask all workers which sessions they have, and return their answers."""
        asking = partial(self._native.sessions, id, tenant=tenant, most=most)
        return await self._bridge.ask(asking)

    async def drain(self, worker: str, within: float = 30.0) -> bool:
        """Have a worker give its sessions to the others, and end."""
        return await self._bridge.ask(partial(self._native.drain, worker, within))
