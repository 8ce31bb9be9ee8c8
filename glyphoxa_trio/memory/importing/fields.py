"""Careful readings of foreign data: each gives a value of the right type, or none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from glyphoxa_trio.memory.knowledge import MOST_NAME, EntityKind
from glyphoxa_trio.tools.characters import harmless

MOST_ATTRIBUTES: Final = 40
_MOST_VALUE: Final = 200  # characters of an attribute

_BY_HEADING: Final[Mapping[str, EntityKind]] = {
    word: kind
    for kind, words in {
        EntityKind.NPC: "npc npcs character characters people persons",
        EntityKind.LOCATION: (
            "location locations place places city cities town towns region regions"
            " dungeon dungeons map maps"
        ),
        EntityKind.FACTION: (
            "faction factions organization organizations organisation organisations"
            " guild guilds group groups"
        ),
        EntityKind.ITEM: "item items artifact artifacts treasure treasures equipment",
        EntityKind.QUEST: "quest quests mission missions hook hooks",
        EntityKind.EVENT: "event events history timeline",
        EntityKind.LORE: "lore legend legends rumor rumors rumour rumours",
    }.items()
    for word in words.split()
}


def text_of(value: Any) -> str:
    """Return a text, or a number as one; "" for anything else."""
    if isinstance(value, str):
        return value
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return str(value)[:_MOST_VALUE] if is_number else ""


def name_of(value: Any) -> str:
    """Return a name without characters that cannot be seen, in one line."""
    return " ".join(harmless(text_of(value)).split())[:MOST_NAME].rstrip()


def mapping_of(value: Any) -> Mapping[str, Any]:
    """Return a mapping, empty for anything else."""
    return value if isinstance(value, Mapping) else {}


def list_of(value: Any) -> list[Any]:
    """Return a list, or the values of a mapping; empty for anything else."""
    if isinstance(value, Mapping):
        return list(value.values())
    return value if isinstance(value, list) else []


def at(value: Any, *keys: str) -> Any:
    """Return what is below these keys; None if there is nothing."""
    for key in keys:
        value = mapping_of(value).get(key)
    return value


def unescaped(text: str) -> str:
    """Return a text that older exports have in percent encoding."""
    return unquote(text) if "<" not in text and "%3C" in text.upper() else text


def attribute_of(value: Any) -> str | int | float | bool | None:
    """Return a value that is short and plain, also one below ``value``; else None."""
    if isinstance(value, Mapping):
        value = value.get("value", value.get("name"))
    if isinstance(value, str):
        plain = " ".join(harmless(value).split())
        return plain if 0 < len(plain) <= _MOST_VALUE and "<" not in plain else None
    return value if isinstance(value, (bool, int, float)) else None


def kind_by_words(*headings: str) -> EntityKind | None:
    """Return the kind that a heading such as "Cities of the South" tells; or None."""
    for heading in headings:
        for word in heading.casefold().split():
            if (kind := _BY_HEADING.get(word.strip(".,:;()[]"))) is not None:
                return kind
    return None
