"""The tools for campaigns: create, list, get, update, delete."""

from __future__ import annotations

from glyphoxa_trio.tools.definition import CallContext, Tool

from ..changing import delete, update
from ..listing import DEFAULT_LIMIT, MOST_LIMIT, MOST_PAGE, listed
from ..model import Campaign, GmMode
from ..rules import create_campaign, find
from .client_state import (
    CAMPAIGN,
    KEY,
    NOBODY,
    READ,
    Answer,
    Arguments,
    ClientState,
    Schema,
    identity,
    made,
    name,
    optional,
    text,
    words,
)

PAGING: dict[str, Schema] = {
    "cursor": optional(
        text("next_cursor of the page before; left out, the first page.", 400)
    ),
    "limit": optional(
        {
            "type": "integer",
            "minimum": 1,
            "maximum": MOST_LIMIT,
            "default": DEFAULT_LIMIT,
            "description": "The largest number on a page.",
        }
    ),
}
_NAME = name("What it is called, such as The Lost Expedition.")
_MODE = words("Who leads the game: HUMAN, AI, or HYBRID for both.", GmMode)
_THEME = text("What the story is about, and its mood: a prompt for a storyteller.")


def limit(arguments: Arguments) -> int:
    given: int | None = arguments.get("limit")
    return DEFAULT_LIMIT if given is None else given


def tools(desk: ClientState) -> list[Tool]:
    campaigns = desk.campaigns

    async def create(arguments: Arguments, call: CallContext) -> Answer:
        campaign = await campaigns.write(
            create_campaign,
            name=arguments["name"],
            gm_mode=arguments["gm_mode"],
            theme_prompt=arguments.get("theme_prompt") or "",
            key=arguments.get("idempotency_key"),
        )
        return campaign.as_created()

    async def page(arguments: Arguments, call: CallContext) -> Answer:
        found = await campaigns.read(
            listed,
            Campaign,
            cursor=arguments.get("cursor"),
            limit=limit(arguments),
            size=MOST_PAGE,
        )
        return found.as_json("campaigns")

    async def get(arguments: Arguments, call: CallContext) -> Answer:
        campaign_id = desk.campaign_id(arguments, call)
        return (await campaigns.read(find, Campaign, campaign_id)).as_json()

    async def change(arguments: Arguments, call: CallContext) -> Answer:
        campaign_id = desk.campaign_id(arguments, call)
        campaign = await campaigns.write(
            update,
            Campaign,
            campaign_id,
            campaign_id,
            {
                field: arguments.get(field)
                for field in ("name", "gm_mode", "theme_prompt")
            },
        )
        return campaign.as_json()

    async def remove(arguments: Arguments, call: CallContext) -> Answer:
        campaign_id = arguments["campaign_id"]
        await campaigns.write(delete, Campaign, campaign_id, campaign_id)
        return {"deleted": campaign_id}

    nobody = {"campaign_id": f"{Campaign.PREFIX}{NOBODY}"}
    return [
        made(
            "campaign_create",
            "Create a campaign",
            "Create a campaign: a game that goes on over many sessions.",
            create,
            {
                "name": _NAME,
                "gm_mode": _MODE,
                "theme_prompt": optional(_THEME),
                "idempotency_key": KEY,
            },
            required=("name", "gm_mode"),
            says="The campaign {name} begins.",
        ),
        made(
            "campaign_list",
            "List campaigns",
            "The campaigns there are, the oldest first, a page at a time: with"
            " next_cursor there are more.",
            page,
            PAGING,
            limits=READ,
            read_only=True,
        ),
        made(
            "campaign_get",
            "Look at a campaign",
            "One campaign: its name, who leads it, its theme, and how many"
            " participants and actors it has.",
            get,
            {"campaign_id": CAMPAIGN},
            limits=READ,
            read_only=True,
            says="{name}, with {participant_count} at the table and {actor_count} in"
            " the story.",
        ),
        made(
            "campaign_update",
            "Change a campaign",
            "Change the name, the GM mode or the theme of a campaign. What you leave"
            " out stays as it is.",
            change,
            {
                "campaign_id": CAMPAIGN,
                "name": optional(_NAME),
                "gm_mode": optional(_MODE),
                "theme_prompt": optional(_THEME),
            },
            idempotent=True,
            destructive=True,
            says="It is noted for {name}.",
            example=nobody | {"gm_mode": "HUMAN"},
        ),
        made(
            "campaign_delete",
            "Delete a campaign",
            "Delete a campaign with all its participants, actors and sessions. It"
            " cannot be undone; campaign_export saves it first.",
            remove,
            {"campaign_id": identity("Id of the campaign; it must be given.")},
            required=("campaign_id",),
            idempotent=True,
            destructive=True,
            says="The campaign is gone.",
            example=nobody,
        ),
    ]
