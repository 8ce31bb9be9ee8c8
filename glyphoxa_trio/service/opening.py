"""Open the service beside a runtime, in the same process."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import lone_errors
from glyphoxa_trio.config.server_entries import ServerFile
from glyphoxa_trio.observability import open_metrics
from glyphoxa_trio.runtime import Runtime
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.servers.http.listening import HttpConnections, open_listening

from .admission import ClientAdmission
from .api import Api
from .approval_desk import ApprovalDesk, WatchedTurns
from .backend import RuntimeBackend
from .connections import ServiceConnections
from .editing import ServerEditing
from .endpoints import ServiceEndpoint, application
from .gateway import NpcGateway
from .operating import OperatorApi
from .options import ServiceOptions, service_options
from .pages import Pages
from .probing import open_probes
from .reviewing import MemoryApi
from .runtime_api import RuntimeApi
from .watching import open_history

DRAIN: Final = 5.0
"""Seconds for turns that run when the service stops."""


@attrs.define(eq=False)
class Service:
    """A service that listens.

    ``url`` has no path; ``probes_url`` is "" without an address for probes. ``token``:
    the operator's, if one was made for this run.
    """

    url: str
    probes_url: str
    token: Secret | None
    _gateway: NpcGateway

    @property
    def connections(self) -> int:
        """The number of WebSockets that are open."""
        return self._gateway.connections

    async def drain(self, within: float = DRAIN) -> bool:
        """Accept no new utterances, and wait for those that run.

        Return False if some still ran after ``within`` seconds; they are interrupted
        when the block of the service is left.
        """
        return await self._gateway.utterances.drain(within)


@asynccontextmanager
async def open_service(
    runtime: Runtime,
    options: ServiceOptions | None = None,
    *,
    config: Path | None = None,
) -> AsyncGenerator[Service]:
    """Serve a runtime to other programs until the block is left.

        async with open_runtime("npcs.yaml") as runtime:
            async with open_service(runtime) as service:
                print(service.url, service.token.reveal())
                await trio.sleep_forever()

    Args:
      options: from `service_options`; None means http://127.0.0.1:8080.
      config: the file that the runtime was opened with, so that servers can be edited
        beside it; a reload of the runtime must read it again.

    Raises:
      CannotServe: the address is taken, or the certificate cannot be used.
    """
    chosen = service_options() if options is None else options
    admission = ClientAdmission(chosen.tokens)
    async with AsyncExitStack() as stack:
        stack.enter_context(lone_errors())
        nursery = await stack.enter_async_context(trio.open_nursery())
        stack.callback(nursery.cancel_scope.cancel, "the service is closed")
        history = stack.enter_context(open_history(runtime, nursery))
        desk = ApprovalDesk(runtime)
        nursery.start_soon(desk.run)
        watched = WatchedTurns(history, desk)
        backend = RuntimeBackend(runtime)
        gateway = NpcGateway(backend, admission, watched, chosen.limits)
        metrics = await stack.enter_async_context(open_metrics(runtime))
        file = None if config is None else ServerFile(config)
        pages = Pages(admission, not chosen.http.access.local)
        about = RuntimeApi(runtime, gateway, metrics)
        more = [
            *about.endpoints(),
            *OperatorApi(runtime, history).endpoints(),
            *ServerEditing(runtime, file).endpoints(),
            *MemoryApi(runtime).endpoints(),
            *pages.login_endpoints(),
        ]
        api = Api(gateway, more)
        probes = [about.metrics_for(None)]
        listening = open_listeners(chosen, api, pages, gateway, probes)
        url, probes_url = await stack.enter_async_context(listening)
        yield Service(url, probes_url, chosen.printed, gateway)


@asynccontextmanager
async def open_listeners(
    options: ServiceOptions,
    api: Api,
    pages: Pages,
    gateway: NpcGateway,
    probes: Sequence[ServiceEndpoint] = (),
) -> AsyncGenerator[tuple[str, str]]:
    """Listen until the block is left; yield the address, and that of probes.

    Args:
      probes: endpoints that are served at the address of probes, too.
    """
    async with AsyncExitStack() as stack:
        probes_url = ""
        if options.probes is not None:
            opening = open_probes(options.probes, [*api.probes(), *probes])
            probes_url = await stack.enter_async_context(opening)
        http = options.http
        endpoints = [*api.endpoints(), *pages.endpoints()]
        app = application(endpoints, gateway, http.access)
        both = ServiceConnections(
            HttpConnections(app, http.limits),
            gateway,
            http.access,
            http.limits.head_within,
        )
        url = await stack.enter_async_context(open_listening(both, http))
        yield url, probes_url
