"""The gateway of the service in front of a cluster: WebSockets, and HTTP.

    async with open_nats(url) as nats, connect(nats) as runtime:
        async with open_gateway(runtime, options) as service:
            await trio.sleep_forever()

It keeps nothing: any number of them may stand in front of the workers, and a client may
connect to another one at any time. Clients notice no difference to `glyphoxa run`, but
that voices are at the worker that has the session, and that operators see what the
workers have and change nothing there.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    nullcontext,
)
from typing import Any, Final

import attrs

from glyphoxa_trio.npc import Turn, Voice
from glyphoxa_trio.observability.metrics import new_registry
from glyphoxa_trio.service import Right, Service, ServiceOptions, service_options
from glyphoxa_trio.service import protocol as p
from glyphoxa_trio.service.admission import ClientAdmission, SharedLogins
from glyphoxa_trio.service.api import Api
from glyphoxa_trio.service.backend import NpcBackend, Utterance, tier_name
from glyphoxa_trio.service.gateway import NpcGateway
from glyphoxa_trio.service.opening import open_listeners
from glyphoxa_trio.service.pages import Pages
from glyphoxa_trio.service.probing import metrics_endpoint
from glyphoxa_trio.service.refusal import Refused
from glyphoxa_trio.service.rights import ServiceClient
from glyphoxa_trio.tools.tier import Tier
from glyphoxa_trio.units import seconds

from .monitoring import show_gateway
from .operating import ClusterOperatorApi, ClusterTurnWatch
from .remote import RemoteRuntime
from .remote_session import RemoteSession

LONGEST: Final = 300.0
"""Seconds for a turn whose client has set no time."""


@asynccontextmanager
async def open_gateway(
    runtime: RemoteRuntime, options: ServiceOptions | None = None
) -> AsyncGenerator[Service]:
    """Serve the NPCs of a cluster to other programs until the block is left.

    Args:
      options: from `service_options`; None means http://127.0.0.1:8080.

    Raises:
      CannotServe: the address is taken, or the certificate cannot be used.
    """
    chosen = service_options() if options is None else options
    admission = ClientAdmission(chosen.tokens, SharedLogins(chosen.tokens))
    watched = ClusterTurnWatch(runtime)
    gateway = NpcGateway(ClusterBackend(runtime), admission, watched, chosen.limits)
    pages = Pages(admission, not chosen.http.access.local)
    registry = await new_registry(process=True)
    more = [
        *pages.login_endpoints(),
        *ClusterOperatorApi(runtime, gateway).endpoints(),
        metrics_endpoint(registry, Right.READ),
    ]
    probes = [metrics_endpoint(registry, None)]
    api = Api(gateway, more)
    with show_gateway(runtime, gateway, registry):
        listening = open_listeners(chosen, api, pages, gateway, probes)
        async with listening as (url, probes_url):
            yield Service(url, probes_url, chosen.printed, gateway)


@attrs.frozen(eq=False)
class ClusterBackend:
    """The NPCs of a cluster."""

    _runtime: RemoteRuntime

    def serving(
        self, client: ServiceClient, leave: Callable[[str], None]
    ) -> AbstractContextManager[NpcBackend]:
        return nullcontext(self)

    def session(self, name: str) -> RemoteSession[Turn]:
        return self._runtime.session(name)

    async def join(self, request: p.JoinRequest) -> list[p.NpcInfo]:
        session = self.session(request.session)
        if request.campaign or request.players or request.variables:
            await session.join(
                campaign=request.campaign,
                players=request.players or None,
                variables=request.variables or None,
            )
        npcs = await session.npcs()
        return [p.NpcInfo(name=x, tier=tier_name(y)) for x, y in npcs.items()]

    def turn(self, request: Utterance) -> Turn:
        session, speaker = self.session(request.session), request.speaker
        match request:
            case p.GreetRequest(npc=name):
                return session.npc(name).greet(speaker=speaker, within=LONGEST)
            case p.SpeakAsRequest(npc=name, text=text):
                npc = session.npc(name)
                return npc.speak_as(text, speaker=speaker, within=LONGEST)
        ms, text = request.remaining_ms, request.text
        within = LONGEST if ms is None else seconds(ms)
        tier = None if request.tier is None else Tier.parse(request.tier)
        if request.npc is not None:
            return session.npc(request.npc).say(
                text, speaker=speaker, tier=tier, within=within, events="all"
            )
        return session.scene(*request.scene).say(
            text,
            speaker=speaker,
            tier=tier,
            to=request.to,
            within=within,
            events="all",
        )

    def voice(self, request: p.ListenRequest) -> AbstractAsyncContextManager[Voice]:
        why = (
            "audio is at the worker that has the session: send media, and connect there"
        )
        raise Refused("refused", why)

    async def media(
        self, request: p.MediaRequest, speaker: str | None
    ) -> dict[str, Any]:
        npc = self.session(request.session).npc(request.npc)
        media = await npc.media(speaker=speaker)
        shown = media.token.reveal()
        return {"url": media.url, "token": shown, "within_ms": media.within * 1000}

    async def learn(self, request: p.LearnRequest) -> dict[str, Any]:
        why = "the gateway has no memory: use glyphoxa memory import with the workers'"
        raise Refused("refused", why)
