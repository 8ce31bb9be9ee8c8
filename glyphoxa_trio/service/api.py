"""The answers of the service over HTTP: health, utterances, and descriptions."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from math import inf
from typing import Final

import attrs
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from glyphoxa_trio.units import seconds

from . import protocol as p
from .delivery import as_it_is
from .endpoints import (
    ServiceEndpoint,
    ServiceRequest,
    json_response,
)
from .event_stream import TurnResponse
from .gateway import NpcGateway
from .openapi import openapi_of
from .player_view import for_player
from .probing import health_endpoints
from .requests import spoken_by
from .rights import Right
from .schema import protocol_schema

_CHECKS: Final = 2  # checks of servers at once


class SayBody(BaseModel):
    """The body of an utterance over HTTP; see `protocol.SayRequest`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    text: p.Text
    speaker: p.Name = "player"
    tier: p.TierName | None = None
    remaining_ms: p.Milliseconds | None = None


@attrs.define(eq=False)
class Api:
    """The answers to requests over HTTP.

    Args:
      more: endpoints that others answer, and that are described here.
    """

    _gateway: NpcGateway
    _more: Sequence[ServiceEndpoint] = ()

    def probes(self) -> list[ServiceEndpoint]:
        """Return the endpoints for whatever watches the service; they need nothing."""
        return health_endpoints(lambda: self._gateway.utterances.state)

    def endpoints(self) -> list[ServiceEndpoint]:
        """Return all endpoints."""
        served = [
            *self.probes(),
            ServiceEndpoint(
                method="POST",
                path="/api/sessions/{session}/npcs/{npc}/say",
                right=Right.TALK,
                summary="Say something to an NPC; its turn's events are the answer.",
                handler=self._say,
                body=SayBody,
                session="session",
                answer="text/event-stream",
            ),
            ServiceEndpoint(
                method="DELETE",
                path="/api/sessions/{session}",
                right=Right.DIRECT,
                summary="End a session, and what runs in it.",
                handler=self._end,
                session="session",
            ),
            ServiceEndpoint(
                method="GET",
                path="/api/gateway.schema.json",
                right=None,
                summary="The JSON Schema of the messages at /ws.",
                handler=self._schema,
            ),
            *self._more,
        ]
        described = ServiceEndpoint(
            method="GET",
            path="/api/openapi.json",
            right=None,
            summary="This description.",
            handler=self._openapi,
        )
        return [*served, described]

    async def _say(self, asked: ServiceRequest) -> Response:
        assert asked.client is not None
        said = spoken_by(asked.client, await asked.body(SayBody))
        done = self._gateway.utterances.begin()
        try:
            turn = self._gateway.backend.turn(
                p.SayRequest(
                    type="say",
                    id="http",
                    session=asked.path["session"],
                    npc=asked.path["npc"],
                    **said.model_dump(),
                )
            )
            await turn.__aenter__()
        except BaseException:
            done()
            raise
        within = inf if said.remaining_ms is None else seconds(said.remaining_ms)
        view = as_it_is if asked.client.may(Right.READ) else for_player
        return TurnResponse(turn, view, within, done)

    async def _end(self, asked: ServiceRequest) -> Response:
        await self._gateway.backend.session(asked.path["session"]).end()
        return json_response({"ended": asked.path["session"]})

    async def _schema(self, _: ServiceRequest) -> Response:
        return json_response(protocol_schema())

    async def _openapi(self, _: ServiceRequest) -> Response:
        return json_response(openapi_of(self.endpoints(), version("glyphoxa-trio")))
