"""The turns and the tools for operators; what is shown comes from the runtime."""

from __future__ import annotations

import json
from itertools import islice
from typing import Annotated, Any, Final

import attrs
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from glyphoxa_trio.control.status import plain
from glyphoxa_trio.control.tools_view import absences, view_of_tools
from glyphoxa_trio.errors import DeadlineExceeded
from glyphoxa_trio.host import UnknownTool
from glyphoxa_trio.runtime import Runtime
from glyphoxa_trio.runtime.looking import looked_at
from glyphoxa_trio.tools.consent import measured_unnamed
from glyphoxa_trio.tools.tier import Tier
from glyphoxa_trio.tools.usability import Usability

from . import protocol as p
from .endpoints import ServiceEndpoint, ServiceRequest, json_response
from .refusal import Refused
from .rights import Right
from .watching import TurnHistory, WatchedTurn

_CALIBRATION: Final = 120.0  # seconds


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TurnsQuery(BaseModel):
    """A part of the kept turns: of a session or an NPC, and older than a number."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    session: p.Name | None = None
    npc: p.Name | None = None
    before: Annotated[int, Field(ge=1)] | None = None
    limit: Annotated[int, Field(ge=1, le=300)] = 100


class ToolsQuery(BaseModel):
    """The tools as a turn of this NPC, or of this tier, would see them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    npc: p.Name | None = None
    tier: p.TierName | None = None


class ApproveBody(_Strict):
    """Approve a tool as it was ``seen``: the ``fingerprint`` that it was shown with."""

    seen: p.Text | None


class CalibrateBody(_Strict):
    """Measure tools: the named ones whatever they do, or else those that only read.

    A tool that is named is called with made-up arguments, unless some are configured.
    """

    tools: Annotated[list[p.Name], Field(max_length=500)] = Field(default_factory=list)


@attrs.define(eq=False)
class OperatorApi:
    """The answers about turns and tools.

    Args:
      tenant: only the turns of this owner's sessions; None is all.
    """

    _runtime: Runtime
    _history: TurnHistory
    _tenant: str | None = None
    _calibrating: bool = attrs.field(default=False, init=False)

    def endpoints(self) -> list[ServiceEndpoint]:
        """Return the endpoints."""
        return [
            ServiceEndpoint(
                method="GET",
                path="/api/turns",
                right=Right.READ,
                summary="The last turns, the latest first, a summary of each.",
                handler=self._turns,
                query=TurnsQuery,
            ),
            ServiceEndpoint(
                method="GET",
                path="/api/turns/{number}",
                right=Right.READ,
                summary="One turn with all its events.",
                handler=self._turn,
            ),
            ServiceEndpoint(
                method="GET",
                path="/api/turns/{number}/events.jsonl",
                right=Right.READ,
                summary="The events of one turn, a line each, to keep.",
                handler=self._download,
                answer="application/jsonl",
            ),
            ServiceEndpoint(
                method="GET",
                path="/api/tools",
                right=Right.READ,
                summary="The tools: tier, times, health, and why one is hidden.",
                handler=self._tools,
                query=ToolsQuery,
            ),
            ServiceEndpoint(
                method="GET",
                path="/api/tools/{tool}",
                right=Right.READ,
                summary="One tool: its text, its use for each NPC, and remedies.",
                handler=self._tool,
            ),
            ServiceEndpoint(
                method="POST",
                path="/api/tools/{tool}/approve",
                right=Right.OPERATE,
                summary="Approve a tool as it was seen.",
                handler=self._approve,
                body=ApproveBody,
            ),
            ServiceEndpoint(
                method="POST",
                path="/api/calibrate",
                right=Right.OPERATE,
                summary="Measure tools; a watch shows the progress.",
                handler=self._calibrate,
                body=CalibrateBody,
            ),
        ]

    # -- turns

    async def _turns(self, asked: ServiceRequest) -> Response:
        wanted: TurnsQuery = asked.asked(TurnsQuery)
        found = (
            turn.summary()
            for turn in self._history.turns()
            if self._tenant in (None, turn.id.session.tenant)
            and wanted.session in (None, turn.id.session.id)
            and wanted.npc in (None, turn.id.npc)
            and (wanted.before is None or turn.number < wanted.before)
        )
        return json_response({"turns": list(islice(found, wanted.limit))})

    async def _turn(self, asked: ServiceRequest) -> Response:
        return json_response(self._found(asked).plain())

    async def _download(self, asked: ServiceRequest) -> Response:
        turn = self._found(asked)
        lines = [json.dumps(seen.plain()) + "\n" for seen in turn.events]
        name = f'attachment; filename="turn-{turn.number}.jsonl"'
        response = Response("".join(lines), media_type="application/jsonl")
        response.headers["Content-Disposition"] = name
        response.headers["Cache-Control"] = "no-store"
        return response

    def _found(self, asked: ServiceRequest) -> WatchedTurn:
        number = asked.path["number"]
        turn = self._history.turn(int(number)) if number.isdecimal() else None
        if turn is None or self._tenant not in (None, turn.id.session.tenant):
            raise Refused(
                "not_found", f"turn {number} is not kept any more, or not yet"
            )
        return turn

    # -- tools

    async def _tools(self, asked: ServiceRequest) -> Response:
        wanted: ToolsQuery = asked.asked(ToolsQuery)
        tier = None if wanted.tier is None else Tier.parse(wanted.tier)
        view = await view_of_tools(self._runtime, tier=tier, npc=wanted.npc)
        found = view.as_json()
        definitions = {x.listing.key: x.listing.definition for x in view.tools}
        unapproved = {one.key: one for one in self._runtime.unapproved()}
        held = self._runtime.host.approvals.held
        for row in found["tools"]:
            key = row["tool"]
            definition = definitions[key]
            row["server"] = definition.group
            row["description"] = definition.description
            row["harmless"] = measured_unnamed(definition)
            row["waits_for_approval"] = key in unapproved or key in held
        found["measuring"] = self._calibrating
        found["warnings"] = absences(self._runtime)
        return json_response(found)

    async def _tool(self, asked: ServiceRequest) -> Response:
        found = self._looked(asked.path["tool"])
        key = found["tool"]
        judged = self._runtime.usability(granted=False)
        found["parameters"] = plain(found["parameters"])
        found["npcs"] = [_use_of(one) for one in judged if one.tool == key]
        return json_response(found)

    def _looked(self, tool: str) -> dict[str, Any]:
        try:
            return looked_at(self._runtime, tool)
        except UnknownTool as error:
            raise Refused("not_found", str(error)) from None

    async def _approve(self, asked: ServiceRequest) -> Response:
        body: ApproveBody = await asked.body(ApproveBody)
        key = self._looked(asked.path["tool"])["tool"]
        held = self._runtime.host.approve(key, seen=body.seen)
        return json_response({"tool": key, "was_held": held})

    async def _calibrate(self, asked: ServiceRequest) -> Response:
        body: CalibrateBody = await asked.body(CalibrateBody)
        host = self._runtime.host
        keys = [self._looked(name)["tool"] for name in body.tools]
        if self._calibrating:
            raise Refused("busy", "tools are measured already")
        if not keys:
            every = host.snapshot.listings
            keys = [x.key for x in every if measured_unnamed(x.definition)]
        self._calibrating = True
        try:
            measured = await host.calibrate(
                within=_CALIBRATION, keys=keys, harmless_only=not body.tools
            )
        except DeadlineExceeded:
            why = f"not done within {_CALIBRATION:g} s; what was measured counts"
            raise Refused("refused", why) from None
        finally:
            self._calibrating = False
        return json_response({"measured": [attrs.asdict(one) for one in measured]})


def _use_of(one: Usability) -> dict[str, Any]:
    """Return the use of a tool for an NPC, with what would change it."""
    return {
        "npc": one.npc,
        "use": str(one.use),
        "text": one.text,
        "remedies": [
            {
                "kind": str(remedy.kind),
                "text": remedy.text,
                "where": list(remedy.where),
                "value": plain(remedy.value),
            }
            for need in one.needs
            for remedy in need.remedies
        ],
    }
