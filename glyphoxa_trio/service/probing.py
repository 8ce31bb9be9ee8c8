"""The endpoints for whatever watches a program: its health, and its metrics."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from starlette.responses import Response

import trio

from glyphoxa_trio.observability.exposition import scraped
from glyphoxa_trio.servers.http.listening import HttpConnections, open_listening
from glyphoxa_trio.servers.http.options import HttpOptions

from .endpoints import (
    OpenDoor,
    ServiceEndpoint,
    ServiceRequest,
    application,
    json_response,
)
from .rights import Right

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

READY = "ready"


def health_endpoints(state: Callable[[], str]) -> list[ServiceEndpoint]:
    """Return the endpoints of health, which need nothing.

    Args:
      state: returns the answer of ``/readyz``, whose status is 503 unless it is
        ``ready``.
    """

    async def healthz(_: ServiceRequest) -> Response:
        return json_response({"status": "ok"})

    async def readyz(_: ServiceRequest) -> Response:
        now = state()
        return json_response({"status": now}, 200 if now == READY else 503)

    return [
        ServiceEndpoint(
            method="GET",
            path="/healthz",
            right=None,
            summary="Whether the process answers.",
            handler=healthz,
        ),
        ServiceEndpoint(
            method="GET",
            path="/readyz",
            right=None,
            summary="Whether turns are served; 503 while it stops.",
            handler=readyz,
        ),
    ]


def metrics_endpoint(
    registry: CollectorRegistry, right: Right | None
) -> ServiceEndpoint:
    """Return the endpoint of a registry's metrics, for clients with this right."""

    async def scrape(asked: ServiceRequest) -> Response:
        body, kind = await trio.to_thread.run_sync(
            scraped,
            registry,
            asked.headers.get("accept", ""),
            abandon_on_cancel=True,
        )
        return Response(body, media_type=kind)

    return ServiceEndpoint(
        method="GET",
        path="/metrics",
        right=right,
        summary="Metrics for Prometheus.",
        handler=scrape,
        answer="text/plain",
    )


@asynccontextmanager
async def open_probes(
    http: HttpOptions, endpoints: Sequence[ServiceEndpoint]
) -> AsyncGenerator[str]:
    """Serve endpoints that need no token until the block is left; yield the address.

    Raises:
      CannotServe: the address is taken.
    """
    app = application(endpoints, OpenDoor(), http.access)
    async with open_listening(HttpConnections(app, http.limits), http) as url:
        yield url
