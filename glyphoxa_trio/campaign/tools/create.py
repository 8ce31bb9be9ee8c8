"""The tools that add participants and actors to a campaign."""

from __future__ import annotations

from glyphoxa_trio.tools.definition import CallContext, Tool

from ..changing import set_controller
from ..model import Campaign, Character, CharacterKind, Controller, Role
from ..rules import create_character, create_participant
from .client_state import (
    CAMPAIGN,
    KEY,
    NOBODY,
    Answer,
    Arguments,
    ClientState,
    identity,
    made,
    name,
    optional,
    text,
    words,
)

DISPLAY_NAME = name("What the others call them, such as Alice.")
ROLE = words("GM for who leads the game, else PLAYER.", Role)
CONTROLLER = words("Who decides for them: HUMAN or AI.", Controller)
NAME = name("What the actor is called, such as Thorin Ironforge.")
KIND = words("PC for a player's character, NPC for any other.", CharacterKind)
NOTES = text("What there is to know about the actor.")


def tools(desk: ClientState) -> list[Tool]:
    async def participant(arguments: Arguments, call: CallContext) -> Answer:
        created = await desk.campaigns.write(
            create_participant,
            desk.campaign_id(arguments, call),
            display_name=arguments["display_name"],
            role=arguments["role"],
            controller=_or(arguments.get("controller"), Controller.HUMAN),
            key=arguments.get("idempotency_key"),
        )
        return created.as_json()

    async def actor(arguments: Arguments, call: CallContext) -> Answer:
        created = await desk.campaigns.write(
            create_character,
            desk.campaign_id(arguments, call),
            name=arguments["name"],
            kind=arguments["kind"],
            notes=arguments.get("notes") or "",
            key=arguments.get("idempotency_key"),
        )
        return created.as_json()

    async def control(arguments: Arguments, call: CallContext) -> Answer:
        character = await desk.campaigns.write(
            set_controller,
            desk.campaign_id(arguments, call),
            arguments["actor_id"],
            arguments["controller"],
        )
        return {
            "campaign_id": character.campaign_id,
            "actor_id": character.id,
            "controller": character.controller,
        }

    return [
        made(
            "participant_create",
            "Add a participant",
            "Add a participant to a campaign: a player, or a GM.",
            participant,
            {
                "campaign_id": CAMPAIGN,
                "display_name": DISPLAY_NAME,
                "role": ROLE,
                "controller": optional(CONTROLLER | {"default": Controller.HUMAN}),
                "idempotency_key": KEY,
            },
            required=("display_name", "role"),
            says="{display_name} joins the table.",
        ),
        made(
            "actor_create",
            "Add an actor",
            "Add an actor to the story of a campaign: a player's character (PC) or"
            " another one (NPC).",
            actor,
            {
                "campaign_id": CAMPAIGN,
                "name": NAME,
                "kind": KIND,
                "notes": optional(NOTES),
                "idempotency_key": KEY,
            },
            required=("name", "kind"),
            says="{name} enters the story.",
        ),
        made(
            "actor_control_set",
            "Say who controls an actor",
            "Say who decides for an actor by default: the GM, or one participant of"
            " the campaign.",
            control,
            {
                "campaign_id": CAMPAIGN,
                "actor_id": identity("Id of the actor."),
                "controller": text("GM, or the id of a participant.", 64),
            },
            required=("actor_id", "controller"),
            idempotent=True,
            destructive=True,
            says="So be it.",
            example={
                "campaign_id": f"{Campaign.PREFIX}{NOBODY}",
                "actor_id": f"{Character.PREFIX}{NOBODY}",
                "controller": "GM",
            },
        ),
    ]


def _or(value: str | None, default: str) -> str:
    return default if value is None else value
