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


# The parts of an adventure, and the folders of a pack that was unpacked.
_SORTS: Final[Mapping[str, str]] = {
    "actors": "Actor",
    "journal": "JournalEntry",
    "items": "Item",
    "scenes": "Scene",
    "folders": "Folder",
    "tables": "RollTable",
    "playlists": "Playlist",
    "macros": "Macro",
    "cards": "Cards",
    "combats": "Combat",
}


def unpacked(documents: Iterable[Any]) -> Iterator[Any]:
    """Yield each document, and instead of an adventure those that are in it."""
    for document in documents:
        given = mapping_of(document)
        if "journal" in given and any(isinstance(given.get(x), list) for x in _SORTS):
            if text_of(given.get("description")).strip():
                yield {
                    "documentName": "JournalEntry",
                    "_id": given.get("_id"),
                    "name": given.get("name"),
                    "content": given["description"],
                }
            for word, named in _SORTS.items():
                for one in list_of(given.get(word)):
                    is_one = isinstance(one, Mapping)
                    yield {"documentName": named, **one} if is_one else one
        else:
            yield document


def sort_of(document: Mapping[str, Any]) -> str:
    """Return the class of a document, which its export does not always name."""
    named = document.get("documentName") or document.get("documentClass")
    if isinstance(named, str) and named:
        return named
    # "!actors!k3j", as the packs of newer versions have it.
    key = text_of(document.get("_key")).split("!")
    if len(key) > 2 and key[1] in _SORTS:
        return _SORTS[key[1]]
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
        "items": "Actor",
    }.items():
        if mark in document:
            return sort
    system = mapping_of(document.get("system") or document.get("data"))
    # "loot" is a type of both; only an item is described as a whole.
    if text_of(document.get("type")) in KINDS and "description" not in system:
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
