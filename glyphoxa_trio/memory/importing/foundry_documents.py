"""The documents of Foundry VTT: their class, and who may see them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from glyphoxa_trio.memory.knowledge import EntityKind

from .fields import list_of, mapping_of, text_of

OBSERVER: Final = 2  # the level of ownership from which a player can read a document
_INHERIT: Final = -1
KINDS: Final[Mapping[str, EntityKind]] = {
    "character": EntityKind.PLAYER,
    "npc": EntityKind.NPC,
    "vehicle": EntityKind.ITEM,
    "loot": EntityKind.ITEM,
    "group": EntityKind.FACTION,
    "party": EntityKind.FACTION,
}


def is_document(data: Any) -> bool:
    """Return True if it looks like a document of Foundry."""
    if not isinstance(data, Mapping):
        return False
    marks = ("pages", "items", "system", "data", "ownership", "permission", "_stats")
    return "name" in data and ("_id" in data or any(x in data for x in marks))


def unpacked(documents: Iterable[Any]) -> Iterator[Any]:
    """Yield each document, and instead of an adventure those that are in it."""
    for document in documents:
        inside = ("actors", "journal", "items", "scenes", "folders", "tables")
        given = mapping_of(document)
        if "journal" in given and any(isinstance(given.get(x), list) for x in inside):
            for word in inside:
                for one in list_of(given.get(word)):
                    named = {"actors": "Actor", "journal": "JournalEntry"}.get(word, "")
                    yield (
                        {"documentName": named, **one}
                        if named and isinstance(one, Mapping)
                        else one
                    )
        else:
            yield document


def sort_of(document: Mapping[str, Any]) -> str:
    """Return the class of a document, which its export does not always name."""
    named = document.get("documentName") or document.get("documentClass")
    if isinstance(named, str) and named:
        return named
    if "pages" in document or isinstance(document.get("content"), str):
        return "JournalEntry"
    for mark, sort in {
        "sorting": "Folder",
        "walls": "Scene",
        "results": "RollTable",
        "sounds": "Playlist",
        "command": "Macro",
        "prototypeToken": "Actor",
        "token": "Actor",
    }.items():
        if mark in document:
            return sort
    if "items" in document or text_of(document.get("type")) in KINDS:
        return "Actor"
    is_item = "type" in document and ("system" in document or "data" in document)
    return "Item" if is_item else ""


def level_of(document: Mapping[str, Any], above: int = 0) -> int:
    """Return what every player may do with a document, as Foundry numbers it."""
    given = document.get("ownership", document.get("permission"))
    level = mapping_of(given).get("default", _INHERIT if above else 0)
    if isinstance(level, bool) or not isinstance(level, int) or level == _INHERIT:
        return above
    return level
