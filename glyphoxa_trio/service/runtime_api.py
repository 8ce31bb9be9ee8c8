"""The answers of the service about its runtime: metrics, servers, sessions, reload."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

import attrs
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from glyphoxa_trio.control.status import plain, status_of
from glyphoxa_trio.mcp.server_check import ServerCheck
from glyphoxa_trio.observability import Metrics
from glyphoxa_trio.runtime import Runtime
from glyphoxa_trio.tools.naming import nearest

from .endpoints import (
    EmptyBody,
    ServiceEndpoint,
    ServiceRequest,
    error_response,
    json_response,
)
from .gateway import NpcGateway
from .probing import metrics_endpoint
from .refusal import Refused
from .rights import Right

_CHECKS: Final = 2  # checks of servers at once


class ReloadBody(BaseModel):
    """The body of a reload; ``now`` does not wait until no turn runs."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    now: bool = False


@attrs.frozen(eq=False)
class RuntimeOverview:
    """The answers that are the same wherever they are asked for.

    Args:
      tenant: only the sessions of this owner; None is all.
    """

    _runtime: Runtime
    _tenant: str | None = None

    def endpoints(self) -> list[ServiceEndpoint]:
        """Return the endpoints."""
        return [
            ServiceEndpoint(
                method="GET",
                path="/mcp/status",
                right=Right.READ,
                summary="The MCP servers: state, tools, restarts, last error.",
                handler=self._servers,
            ),
            ServiceEndpoint(
                method="GET",
                path="/api/npcs",
                right=Right.TALK,
                summary="The NPCs: name, and ceiling of their tier.",
                handler=self._npcs,
            ),
            ServiceEndpoint(
                method="GET",
                path="/api/sessions",
                right=Right.READ,
                summary="The sessions, the one used last first, and what they cost.",
                handler=self._sessions,
            ),
        ]

    async def _servers(self, _: ServiceRequest) -> Response:
        return json_response({"servers": status_of(self._runtime)["servers"]})

    async def _npcs(self, _: ServiceRequest) -> Response:
        npcs = [
            {"name": npc.name, "tier": str(npc.budget_tier)}
            for npc in self._runtime.npcs
        ]
        return json_response({"npcs": npcs})

    async def _sessions(self, _: ServiceRequest) -> Response:
        found = [
            {
                **plain(attrs.evolve(one, unused=0.0)),
                "unused_ms": round(one.unused * 1000),
            }
            for one in self._runtime.session_status()
            if self._tenant in (None, one.tenant)
        ]
        for one in found:
            del one["unused"]
        aside = self._runtime.set_aside
        return json_response({"sessions": found, "set_aside": aside})


@attrs.define(eq=False)
class RuntimeApi:
    """The answers about a runtime of this process."""

    _runtime: Runtime
    _gateway: NpcGateway
    _metrics: Metrics
    _checking: int = attrs.field(default=0, init=False)

    def endpoints(self) -> list[ServiceEndpoint]:
        """Return the endpoints; metrics are for clients that may read."""
        return [
            self.metrics_for(Right.READ),
            *RuntimeOverview(self._runtime).endpoints(),
            ServiceEndpoint(
                method="POST",
                path="/mcp/test/{server}",
                right=Right.READ,
                summary="Connect to a server and list its tools, in timed steps.",
                handler=self._check_server,
                body=EmptyBody,
            ),
            ServiceEndpoint(
                method="GET",
                path="/api/status",
                right=Right.READ,
                summary="Servers, NPCs, sessions, calls, models, costs and warnings.",
                handler=self._status,
            ),
            ServiceEndpoint(
                method="POST",
                path="/api/reload",
                right=Right.OPERATE,
                summary="Read the configuration again; the answer says what changed.",
                handler=self._reload,
                body=ReloadBody,
            ),
        ]

    def metrics_for(self, right: Right | None) -> ServiceEndpoint:
        """Return the endpoint of metrics, for clients with this right."""
        return metrics_endpoint(self._metrics.registry, right)

    async def _check_server(self, asked: ServiceRequest) -> Response:
        name = asked.path["server"]
        specs = {spec.name: spec for spec in self._runtime.config.mcp.servers}
        if name not in specs:
            near = nearest(name, list(specs))
            hint = f", did you mean {' or '.join(near)}?" if near else ""
            return error_response("not_found", f"no server {name!r}{hint}")
        if self._checking >= _CHECKS:
            raise Refused("too_many", f"{_CHECKS} servers are being checked already")
        self._checking += 1
        try:
            check = ServerCheck(specs[name])
            well = await check.run()
        finally:
            self._checking -= 1
        return json_response(check.as_json(ok=well))

    async def _status(self, _: ServiceRequest) -> Response:
        found = status_of(self._runtime)
        found["service"] = {
            "state": self._gateway.utterances.state.value,
            "version": version("glyphoxa-trio"),
            "sockets": self._gateway.connections,
        }
        return json_response(found)

    async def _reload(self, asked: ServiceRequest) -> Response:
        body = await asked.body(ReloadBody)
        return json_response(plain(await self._runtime.reload(now=body.now)))
