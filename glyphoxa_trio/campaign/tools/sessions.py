"""The tools for sessions: start, pause, resume, end."""

from __future__ import annotations

from glyphoxa_trio.tools.definition import CallContext, Tool

from ..changing import move_session
from ..model import SessionStatus
from ..rules import start_session
from .client_state import (
    CAMPAIGN,
    KEY,
    Answer,
    Arguments,
    ClientState,
    Work,
    identity,
    made,
    optional,
    text,
)

NAME = text("What it is called, such as Session 1: The Journey Begins.", 200)


def tools(desk: ClientState) -> list[Tool]:
    async def start(arguments: Arguments, call: CallContext) -> Answer:
        session = await desk.campaigns.write(
            start_session,
            desk.campaign_id(arguments, call),
            name=arguments.get("name") or "",
            key=arguments.get("idempotency_key"),
        )
        return session.as_json()

    def moving(to: SessionStatus) -> Work:
        async def move(arguments: Arguments, call: CallContext) -> Answer:
            campaign_id = desk.campaign_id(arguments, call)
            session_id = arguments.get("session_id")
            if session_id is None:
                session_id = desk.of_context("session_id", campaign_id, call)
            session = await desk.campaigns.write(
                move_session, campaign_id, session_id, to
            )
            return session.as_json()

        return move

    moves = [
        (
            "session_pause",
            "Pause a session",
            "Pause a session, so that it can be resumed, or another one started.",
            SessionStatus.PAUSED,
            "The session rests.",
        ),
        (
            "session_resume",
            "Resume a session",
            "Go on with a session that is paused. No other one may be active.",
            SessionStatus.ACTIVE,
            "The session goes on.",
        ),
        (
            "session_end",
            "End a session",
            "End a session for good. One that has ended stays as it is.",
            SessionStatus.ENDED,
            "The session is over.",
        ),
    ]
    return [
        made(
            "session_start",
            "Start a session",
            "Start a session of a campaign: an evening at the table. Only one of a"
            " campaign can be active; end or pause it before you start another.",
            start,
            {
                "campaign_id": CAMPAIGN,
                "name": optional(NAME),
                "idempotency_key": KEY,
            },
            says="The session begins.",
        ),
        *(
            made(
                tool,
                title,
                description,
                moving(to),
                {"campaign_id": CAMPAIGN, "session_id": optional(_SESSION)},
                destructive=to is SessionStatus.ENDED,
                says=says,
            )
            for tool, title, description, to, says in moves
        ),
    ]


_SESSION = identity(
    "Id of the session; left out, the one chosen by set_context, else the active one."
)
