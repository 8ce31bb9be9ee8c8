"""Documents of the campaign server, as its tool ``campaign_export`` gives them.

An actor is an NPC or a player's character. Its notes are the game master's: those of an
NPC are known to it alone, those of a player's character to no NPC. The campaign itself
is a secret piece of lore, with its theme. Sessions are not imported: they have no text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from glyphoxa_trio.memory.knowledge import EntityKind
from glyphoxa_trio.memory.visibility import Reach

from .drafts import Drafts
from .fields import list_of, mapping_of, name_of, text_of

FORMAT: Final = "glyphoxa.campaign/1"
_SECRET: Final = Reach(secret=True)


def is_export(data: Any) -> bool:
    """Return True if it is a document of the campaign server."""
    return mapping_of(data).get("format") == FORMAT


def read(document: Mapping[str, Any], drafts: Drafts) -> None:
    """Add a document to the drafts, and name what is skipped."""
    campaign = mapping_of(document.get("campaign"))
    if campaign:
        name = text_of(campaign.get("name"))
        theme = text_of(campaign.get("theme_prompt"))
        key = text_of(campaign.get("id")) or "campaign"
        if theme and drafts.entity(
            key, EntityKind.LORE, name, summary=theme, reach=_SECRET, where="campaign"
        ):
            drafts.fact(theme, [key], reach=_SECRET, where="campaign")
    players = {
        text_of(x.get("id")): name_of(x.get("display_name"))
        for x in map(mapping_of, list_of(document.get("participants")))
    }
    for number, actor in enumerate(list_of(document.get("actors"))):
        where = f"actor {number + 1}"
        if not isinstance(actor, Mapping):
            drafts.skip(where, "it is not an actor")
            continue
        _actor(actor, f"{where} {text_of(actor.get('name'))!r}", players, drafts)
    if number := len(list_of(document.get("sessions"))):
        drafts.skip("sessions", f"sessions are not imported: {number} of them")


def _actor(
    actor: Mapping[str, Any], where: str, players: Mapping[str, str], drafts: Drafts
) -> None:
    name, notes = name_of(actor.get("name")), text_of(actor.get("notes"))
    is_npc = text_of(actor.get("kind")).upper() != "PC"
    player = players.get(text_of(actor.get("controller")), "")
    key = text_of(actor.get("id")) or where
    if drafts.entity(
        key,
        EntityKind.NPC if is_npc else EntityKind.PLAYER,
        name,
        attributes={"player": player} if player else {},
        where=where,
    ):
        reach = Reach(frozenset({name}), secret=True) if is_npc else _SECRET
        drafts.fact(notes, [key], reach=reach, where=where)
