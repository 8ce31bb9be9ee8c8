"""The tools for participants, actors and sessions: list, get, update, delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from glyphoxa_trio.tools.definition import CallContext, Tool

from ..changing import delete, update
from ..listing import MOST_PAGE, listed
from ..model import LISTS, Campaign, CampaignMember, Participant
from ..rules import member
from . import create, sessions
from .campaign import PAGING, limit
from .client_state import (
    CAMPAIGN,
    NOBODY,
    READ,
    Answer,
    Arguments,
    ClientState,
    Schema,
    identity,
    made,
    optional,
)


@attrs.frozen
class _MemberWords:
    """The words for one kind of member in the descriptions of its tools."""

    a: str
    more: str
    fields: Mapping[str, Schema]
    says: str
    loses: str


_WORDS: Final[Mapping[str, _MemberWords]] = {
    "participants": _MemberWords(
        "a participant",
        "the people at the table",
        {
            "display_name": create.DISPLAY_NAME,
            "role": create.ROLE,
            "controller": create.CONTROLLER,
        },
        "{display_name} is at the table.",
        " The actors that they control have no controller then.",
    ),
    "actors": _MemberWords(
        "an actor",
        "the characters of the story; controller is there if one was set",
        {"name": create.NAME, "kind": create.KIND, "notes": create.NOTES},
        "{name}: {notes}",
        "",
    ),
    "sessions": _MemberWords(
        "a session",
        "the evenings at the table; ended_at is there if it has ended",
        {"name": sessions.NAME},
        "{name}: {status}.",
        "",
    ),
}


def tools(desk: ClientState) -> list[Tool]:
    return [tool for plural in LISTS for tool in _tools(desk, plural, LISTS[plural])]


def _tools(desk: ClientState, plural: str, kind: type[CampaignMember]) -> list[Tool]:
    words, word = _WORDS[plural], kind.WORD
    id_ = f"{word}_id"
    # The context may have an id of these two.
    chosen = id_ in ("session_id", "participant_id")

    def meant(arguments: Arguments, call: CallContext) -> tuple[str, str]:
        campaign_id = desk.campaign_id(arguments, call)
        record_id = arguments.get(id_)
        if record_id is None and chosen:
            record_id = desk.of_context(id_, campaign_id, call)
        # An empty text is refused like any other wrong id.
        return campaign_id, "" if record_id is None else record_id

    async def page(arguments: Arguments, call: CallContext) -> Answer:
        found = await desk.campaigns.read(
            listed,
            kind,
            desk.campaign_id(arguments, call),
            cursor=arguments.get("cursor"),
            limit=limit(arguments),
            size=MOST_PAGE,
        )
        return found.as_json(plural)

    async def get(arguments: Arguments, call: CallContext) -> Answer:
        campaign_id, record_id = meant(arguments, call)
        return (
            await desk.campaigns.read(member, kind, campaign_id, record_id)
        ).as_json()

    async def change(arguments: Arguments, call: CallContext) -> Answer:
        campaign_id, record_id = meant(arguments, call)
        wanted = {field: arguments.get(field) for field in words.fields}
        changed = await desk.campaigns.write(
            update, kind, campaign_id, record_id, wanted
        )
        return changed.as_json()

    async def remove(arguments: Arguments, call: CallContext) -> Answer:
        campaign_id = desk.campaign_id(arguments, call)
        released = await desk.campaigns.write(delete, kind, campaign_id, arguments[id_])
        answer = {"campaign_id": campaign_id, "deleted": arguments[id_]}
        return answer | ({"released_actors": released} if kind is Participant else {})

    whose = identity(f"Id of the {word}.")
    given = {"campaign_id": CAMPAIGN, id_: whose}
    if chosen:
        left_out = f"Id of the {word}; left out, the one chosen by set_context."
        given[id_] = optional(identity(left_out))
    needed = () if chosen else (id_,)
    nobody = {
        "campaign_id": f"{Campaign.PREFIX}{NOBODY}",
        id_: f"{kind.PREFIX}{NOBODY}",
    }
    a_word = {"sessions": "Session", "actors": "Actor"}.get(plural, "Participant")
    return [
        made(
            f"{word}_list",
            f"List {plural}",
            f"The {plural} of a campaign: {words.more}. The oldest first, a page at a"
            " time: with next_cursor there are more.",
            page,
            {"campaign_id": CAMPAIGN, **PAGING},
            limits=READ,
            read_only=True,
        ),
        made(
            f"{word}_get",
            f"Look at {words.a}",
            f"{a_word} of a campaign, by id.",
            get,
            given,
            required=needed,
            limits=READ,
            read_only=True,
            says=words.says,
        ),
        made(
            f"{word}_update",
            f"Change {words.a}",
            f"Change {', '.join(words.fields)} of {words.a}. What you leave out stays"
            " as it is.",
            change,
            given | {name: optional(of) for name, of in words.fields.items()},
            required=needed,
            idempotent=True,
            destructive=True,
            says="It is noted.",
            example=nobody | {next(iter(words.fields)): "Nobody"},
        ),
        made(
            f"{word}_delete",
            f"Delete {words.a}",
            f"Delete {words.a} of a campaign. It cannot be undone.{words.loses}",
            remove,
            {"campaign_id": CAMPAIGN, id_: whose},
            required=(id_,),
            idempotent=True,
            destructive=True,
            says="It is gone.",
            example=nobody,
        ),
    ]
