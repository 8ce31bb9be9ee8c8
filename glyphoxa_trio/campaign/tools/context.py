"""The tools ``set_context`` and ``get_context``."""

from __future__ import annotations

from glyphoxa_trio.tools.definition import CallContext, Tool

from .. import uris
from ..context import checked
from .client_state import READ, Answer, Arguments, ClientState, identity, made, optional


def tools(desk: ClientState) -> list[Tool]:
    async def put(arguments: Arguments, call: CallContext) -> Answer:
        desk.contexts.require(call.session)
        context = await desk.campaigns.read(
            checked,
            arguments["campaign_id"],
            arguments.get("session_id"),
            arguments.get("participant_id"),
        )
        desk.contexts.put(call.session, context)
        desk.campaigns.changes.publish(uris.CONTEXT)
        return {"context": context.as_json()}

    async def get(arguments: Arguments, call: CallContext) -> Answer:
        return desk.contexts.as_json(call.session)

    return [
        made(
            "set_context",
            "Choose a campaign",
            "Choose the campaign that later calls mean when they leave out"
            " campaign_id, and in it a session and a participant. It replaces the"
            " choice before: what you leave out is not chosen any more. It holds for"
            " this connection only.",
            put,
            {
                "campaign_id": identity("Id of the campaign."),
                "session_id": optional(identity("Id of a session of this campaign.")),
                "participant_id": optional(
                    identity("Id of a participant of this campaign.")
                ),
            },
            required=("campaign_id",),
            limits=READ,
            says="The campaign is chosen.",
        ),
        made(
            "get_context",
            "The chosen campaign",
            "Which campaign, session and participant are chosen; null where none is.",
            get,
            {},
            limits=READ,
            read_only=True,
        ),
    ]
