"""The listener for the audio of a worker's NPCs.

    async with serve(runtime, nats) as worker:
        async with open_media(worker, media_options("127.0.0.1:9000")):
            await worker.drained()

It speaks the protocol of the service, by the service's own gateway, but for one NPC of
one session in each connection: the one that its token is for.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    contextmanager,
)
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs

import trio

from glyphoxa_trio.npc import Npc, Turn, Voice
from glyphoxa_trio.runtime import Session
from glyphoxa_trio.servers.http.limits import LOCAL_HOSTS, Access, Limits
from glyphoxa_trio.servers.http.listening import HttpConnections, open_listening
from glyphoxa_trio.servers.http.options import (
    REMOTE_RATE,
    HttpOptions,
    bracketed,
    is_loopback,
    origin_name,
    parse_address,
)
from glyphoxa_trio.service import ClientRole
from glyphoxa_trio.service import protocol as p
from glyphoxa_trio.service.admission import ClientAdmission
from glyphoxa_trio.service.backend import (
    NpcBackend,
    ServedScene,
    Utterance,
    tier_name,
    turn_of,
)
from glyphoxa_trio.service.connections import PATH, ServiceConnections
from glyphoxa_trio.service.endpoints import application
from glyphoxa_trio.service.gateway import NpcGateway
from glyphoxa_trio.service.limits import ServiceLimits
from glyphoxa_trio.service.refusal import Refused
from glyphoxa_trio.service.rights import ServiceClient, TokenRefused

from .media import MediaDesk, MediaGrant, NoMedia
from .worker import ClusterWorker

_CONNECTIONS = 4096


@attrs.frozen(kw_only=True)
class MediaOptions:
    """The options of `open_media`. ``url``: what clients are told; None is the address
    that is listened at."""

    http: HttpOptions
    url: str | None = None
    limits: ServiceLimits = attrs.field(factory=ServiceLimits)


def media_options(
    media: str,
    *,
    media_url: str | None = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    behind_proxy: bool = False,
    allow_origins: Sequence[str] = (),
) -> MediaOptions:
    """Return the options, checked, by the names of ``glyphoxa cluster worker``.

    Args:
      media: where to listen, ``HOST:PORT``; port 0 is any free one.
      media_url: the address by which clients reach it, ``ws://`` or ``wss://``, if it
        is another one.
      behind_proxy: a proxy in front of it does TLS.
      allow_origins: the pages that may connect, if it is not one of this machine.

    Raises:
      ValueError: for a bad option; the message names it. An address that other machines
        reach needs TLS, by itself or by a proxy.
    """
    host, port = parse_address(media, "--media")
    local = is_loopback(host) and not behind_proxy
    if (tls_cert is None) != (tls_key is None):
        raise ValueError("--tls-cert and --tls-key: one needs the other")
    if not local and tls_cert is None and not behind_proxy:
        raise ValueError(
            f"--media {host}: other machines reach it: that needs --tls-cert and"
            " --tls-key, or --behind-proxy if a proxy in front of it does TLS"
        )
    if media_url is None and (behind_proxy or host in ("0.0.0.0", "::")):
        raise ValueError(
            f"--media {host}: say by --media-url which address clients are told"
        )
    own = LOCAL_HOSTS if local else frozenset()
    hosts = own | {bracketed(host).lower(), *_host_of(media_url)}
    return MediaOptions(
        http=HttpOptions(
            host=host,
            port=port,
            remote=not is_loopback(host),
            access=Access(
                hosts=hosts,
                origins=frozenset(origin_name(x) for x in allow_origins),
                local=local,
            ),
            limits=Limits(connections=_CONNECTIONS),
            certificate=tls_cert,
            key=tls_key,
            option="--media",
        ),
        url=media_url,
        limits=ServiceLimits(rate=None if local else REMOTE_RATE),
    )


def _host_of(url: str | None) -> tuple[str, ...]:
    if url is None:
        return ()
    found = urlsplit(url)
    plain = not (found.query or found.fragment or found.username or found.password)
    if found.scheme not in ("ws", "wss") or not found.hostname or not plain:
        raise ValueError(
            f"--media-url {url[:100]!r}: write wss://HOST:PORT, without user and query"
        )
    return (bracketed(found.hostname),)


@asynccontextmanager
async def open_media(
    worker: ClusterWorker, options: MediaOptions
) -> AsyncGenerator[str]:
    """Serve the audio of a worker's NPCs until the block is left.

    Yield the address that clients are told.

    Raises:
      CannotServe: the address is taken, or the certificate cannot be used.
    """
    http, desk = options.http, worker.media
    gateway = NpcGateway(
        MediaBackend(worker),
        ClientAdmission(MediaTokenCheck(desk)),
        None,
        options.limits,
    )
    app = application((), gateway, http.access)
    serving = ServiceConnections(
        HttpConnections(app, http.limits), gateway, http.access, http.limits.head_within
    )
    async with open_listening(serving, http) as listening:
        url = options.url or listening.replace("http", "ws", 1)
        if not urlsplit(url).path.strip("/"):
            url = url.rstrip("/") + PATH
        with desk.at(url):
            yield url


@attrs.frozen(kw_only=True)
class MediaClient(ServiceClient):
    """A client that has shown a token of this worker: a player, and no more."""

    grant: MediaGrant


@attrs.frozen(eq=False)
class MediaTokenCheck:
    """The tokens of a worker, for the gateway of the service."""

    _desk: MediaDesk

    def client_of(self, shown: str | None) -> ServiceClient | None:
        if shown is None:
            return None
        try:
            grant = self._desk.admit(shown, trio.current_time())
        except NoMedia as error:
            raise TokenRefused(str(error)) from None
        if grant is None:
            return None
        name = f"{grant.key} {grant.epoch} {grant.npc}"
        return MediaClient(
            role=ClientRole.PLAYER,
            session=grant.key.id,
            name=name,
            speaker=grant.speaker,
            grant=grant,
        )


@attrs.frozen(eq=False)
class MediaBackend:
    """The NPC of a token. Without one, as it begins, there is none."""

    _worker: ClusterWorker
    _grant: MediaGrant | None = None

    @contextmanager
    def serving(
        self, client: ServiceClient, leave: Callable[[str], None]
    ) -> Generator[NpcBackend]:
        assert isinstance(client, MediaClient)
        with self._worker.media.opened(client.grant, leave):
            yield attrs.evolve(self, grant=client.grant)

    def session(self, name: str) -> GrantedSession:
        grant = self._grant
        assert grant is not None
        self._worker.media.check(grant)
        session = self._worker.session(grant.key)
        assert session is not None  # it is held in that epoch
        return GrantedSession(session, grant.npc)

    async def join(self, request: p.JoinRequest) -> list[p.NpcInfo]:
        session = self.session(request.session)
        npc = session.npc(session.allowed)
        return [p.NpcInfo(name=npc.name, tier=tier_name(npc.config.budget_tier))]

    def turn(self, request: Utterance) -> Turn:
        session = self.session(request.session)
        npc = self._npc_of(request.npc, session)
        if why := self._worker.refusal(session.tenant):
            raise Refused("too_many", why)
        return turn_of(npc, request)

    def voice(self, request: p.ListenRequest) -> AbstractAsyncContextManager[Voice]:
        npc = self._npc_of(request.npc, self.session(request.session))
        return npc.voice(speaker=request.speaker, rate=request.rate)

    async def media(
        self, request: p.MediaRequest, speaker: str | None
    ) -> dict[str, Any]:
        raise Refused("refused", "audio is on this very connection: send listen")

    async def learn(self, request: p.LearnRequest) -> dict[str, Any]:
        raise Refused("refused", "this connection is for voices alone")

    def _npc_of(self, name: str | None, session: GrantedSession) -> Npc:
        if name is None:
            session.scene()
        return session.npc(name or "")


@attrs.frozen(eq=False)
class GrantedSession:
    """A session of which one NPC may be used."""

    _session: Session
    allowed: str

    @property
    def tenant(self) -> str:
        return self._session.tenant

    def npc(self, name: str) -> Npc:
        npc = self._session.npc(name)
        if npc.name != self.allowed:
            raise Refused("forbidden", f"this token is for {self.allowed} alone")
        return npc

    def scene(self, *npcs: str) -> ServedScene:
        raise Refused("forbidden", f"this token is for {self.allowed} alone: name it")

    async def interrupt(self, *, speaker: str | None = None) -> bool:
        return await self.npc(self.allowed).interrupt(speaker=speaker)

    async def end(self) -> None:
        raise Refused("forbidden", "this token is for one NPC, and not for its session")
