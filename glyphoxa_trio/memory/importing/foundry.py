"""Documents of Foundry VTT: journals, actors and items, as the program exports them.

A journal with one page is one entity; with several, each page is one as well, and is
``part_of`` the journal. The kind is that of the journal's name, or its folder's, if
they tell one ("Locations"), else lore. Each paragraph is a fact.

What players may not observe is a secret of the game master; what an actor's document
says of an NPC is known to that NPC as well. Sections that a page hides are secret too.
Links between documents become relationships of the type ``mentions``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from glyphoxa_trio.memory.knowledge import EntityKind
from glyphoxa_trio.memory.visibility import EVERYONE, Reach

from .drafts import Drafts
from .fields import (
    MOST_ATTRIBUTES,
    at,
    attribute_of,
    kind_by_words,
    list_of,
    mapping_of,
    text_of,
)
from .html import Anchor, PlainPage, plain
from .prose import paragraphs

_SECRET: Final = Reach(secret=True)
_OBSERVER: Final = 2  # the level of ownership from which a player can read a document
_INHERIT: Final = -1
MENTIONS: Final = "mentions"
PART_OF: Final = "part_of"

# @UUID[Actor.k3j]{Bo}, @JournalEntry[k3j]{Bo}, @Check[dex]{a check}
_ENRICHED: Final = re.compile(r"@(\w{1,40})\[([^\[\]]{0,400})\](?:\{([^{}]{0,400})\})?")
_ROLL: Final = re.compile(
    r"\[\[/?(?:\w{1,12} )?([^\[\]]{0,200})\]\](?:\{([^{}]{0,200})\})?"
)
_LINKED: Final = ("Actor", "JournalEntry", "JournalEntryPage", "Item", "UUID")
_KINDS: Final[Mapping[str, EntityKind]] = {
    "character": EntityKind.PLAYER,
    "npc": EntityKind.NPC,
    "vehicle": EntityKind.ITEM,
    "loot": EntityKind.ITEM,
    "group": EntityKind.FACTION,
    "party": EntityKind.FACTION,
}
# Keys of an actor's details that are prose, wherever the game's system puts it.
_OPEN_PROSE: Final = ("public", "publicNotes", "blurb", "appearance")
_OWN_PROSE: Final = (
    *("value", "biography", "description", "privateNotes", "backstory", "notes"),
    *("details", "trait", "ideal", "bond", "flaw", "personality", "beliefs"),
    *("allies", "enemies"),
)


def is_document(data: Any) -> bool:
    """Return True if it looks like a document of Foundry."""
    if not isinstance(data, Mapping):
        return False
    marks = ("pages", "items", "system", "data", "ownership", "permission", "_stats")
    return "name" in data and ("_id" in data or any(x in data for x in marks))


def read(documents: Iterable[Any], drafts: Drafts) -> None:
    """Add documents to the drafts; what is of no use is named there as skipped."""
    found = list(_unpacked(documents))
    folders = {
        text_of(x.get("_id")): text_of(x.get("name"))
        for x in found
        if isinstance(x, Mapping) and _sort(x) == "Folder"
    }
    for number, document in enumerate(found):
        if not isinstance(document, Mapping):
            drafts.skip(f"document {number + 1}", "it is not a document")
            continue
        name = text_of(document.get("name")) or f"document {number + 1}"
        if document.get("$$deleted"):
            continue
        folder = folders.get(text_of(document.get("folder")), "")
        sort = _sort(document)
        where = f"{_WORDS.get(sort, 'document')} {name!r}"
        key = f"{sort}.{text_of(document.get('_id')) or f'{drafts.by}#{number}'}"
        try:
            match sort:
                case "JournalEntry":
                    _journal(document, key, where, folder, drafts)
                case "Actor":
                    _actor(document, key, where, drafts)
                case "Item":
                    _item(document, key, where, drafts)
                case "Folder":
                    pass
                case _:
                    why = _NOT_READ.get(sort, "its kind is not known")
                    drafts.skip(where, why)
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            # Exports of other programs have any shape: one item must not cost the rest.
            drafts.skip(where, f"it cannot be understood: {error}"[:300])


_WORDS: Final[Mapping[str, str]] = {
    "JournalEntry": "journal",
    "Actor": "actor",
    "Item": "item",
    "Scene": "scene",
    "RollTable": "table",
}
_NOT_READ: Final[Mapping[str, str]] = {
    "Scene": "scenes are not imported",
    "RollTable": "tables are not imported",
    "Playlist": "playlists are not imported",
    "Macro": "macros are not imported",
}


def _unpacked(documents: Iterable[Any]) -> Iterator[Any]:
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


def _sort(document: Mapping[str, Any]) -> str:
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
    if "items" in document or document.get("type") in _KINDS:
        return "Actor"
    is_item = "type" in document and ("system" in document or "data" in document)
    return "Item" if is_item else ""


def _level(document: Mapping[str, Any], above: int = 0) -> int:
    """Return what every player may do with a document, as Foundry numbers it."""
    given = document.get("ownership", document.get("permission"))
    level = mapping_of(given).get("default", _INHERIT if above else 0)
    if isinstance(level, bool) or not isinstance(level, int) or level == _INHERIT:
        return above
    return level


def _journal(
    entry: Mapping[str, Any], key: str, where: str, folder: str, drafts: Drafts
) -> None:
    name = text_of(entry.get("name"))
    level = _level(entry)
    pages = [x for x in list_of(entry.get("pages")) if isinstance(x, Mapping)]
    if not pages and isinstance(entry.get("content"), str):  # before version 10
        pages = [{"name": name, "type": "text", "text": {"content": entry["content"]}}]
    open_ = level >= _OBSERVER or any(_level(x, level) >= _OBSERVER for x in pages)
    kind = kind_by_words(folder, name) or EntityKind.LORE
    several = len(pages) > 1
    aliases = [text_of(x.get("name")) for x in pages] if not several else []
    texts = [_page(x, level, where, drafts) for x in pages]
    shown = "" if several else _opening(texts)
    reach = EVERYONE if open_ else _SECRET
    if not drafts.entity(
        key, kind, name, aliases=aliases, summary=shown, reach=reach, where=where
    ):
        return
    for page, text in zip(pages, texts, strict=True):
        of = key
        page_name = text_of(page.get("name"))
        page_reach = EVERYONE if _level(page, level) >= _OBSERVER else _SECRET
        if several:
            of = f"{key}.JournalEntryPage.{text_of(page.get('_id')) or page_name}"
            if not drafts.entity(
                of,
                kind,
                page_name,
                summary=_opening([text]),
                reach=page_reach,
                where=f"{where}, page {page_name!r}",
            ):
                of = key
            else:
                drafts.link(of, PART_OF, key, reach=page_reach, where=where)
        else:
            drafts.also(f"{key}.JournalEntryPage.{text_of(page.get('_id'))}", key)
        _tell(text, of, page_reach, where, drafts)


def _page(page: Mapping[str, Any], level: int, where: str, drafts: Drafts) -> PlainPage:
    name, sort = text_of(page.get("name")), page.get("type", "text")
    content = at(page, "text", "content")
    markdown = at(page, "text", "markdown")
    if isinstance(markdown, str) and not content:
        content = "".join(f"<p>{_escaped(x)}</p>" for x in paragraphs(markdown))
    if not isinstance(content, str) or not content.strip():
        if sort != "text":
            drafts.skip(
                f"{where}, page {name!r}", f"a page of the type {sort} has no text"
            )
        return PlainPage()
    return plain(content)


def _escaped(text: str) -> str:
    return text.lstrip("#> ").replace("&", "&amp;").replace("<", "&lt;")


def _opening(pages: Iterable[PlainPage]) -> str:
    """Return the open text of the pages, for a summary."""
    return " ".join(_bare(x.text) for y in pages for x in y.passages if not x.secret)


def _tell(page: PlainPage, of: str, reach: Reach, where: str, drafts: Drafts) -> None:
    """Add the paragraphs of a page as facts, and its links as relationships."""
    if page.cut:
        drafts.skip(where, "its text is too long, and the rest of it is missing")
    hidden = reach if reach.secret else _SECRET
    for passage in page.passages:
        reached = hidden if passage.secret else reach
        drafts.fact(_bare(passage.text), [of], reach=reached, where=where)
        for link in _ENRICHED.finditer(passage.text):
            if link[1] in _LINKED:
                target = _target(link[1], link[2])
                label = link[3] or ("" if link[1] == "UUID" else link[2])
                drafts.link(
                    of, MENTIONS, target, label=label, reach=reached, where=where
                )
    for anchor in page.anchors:
        if target := _anchored(anchor):
            reached = hidden if anchor.secret else reach
            drafts.link(
                of, MENTIONS, target, label=anchor.label, reach=reached, where=where
            )


def _bare(text: str) -> str:
    """Return a text with the words of its links in their place."""

    def words(found: re.Match[str]) -> str:
        if found[3] is not None:
            return found[3]
        return "" if found[1] == "UUID" else found[2]

    text = _ENRICHED.sub(words, text)
    return _ROLL.sub(lambda x: x[2] if x[2] is not None else x[1], text)


def _target(sort: str, inside: str) -> str:
    """Return the key of the document that a link leads to; pages are their journal's
    unless they are an entity of their own."""
    inside = inside.strip().split("#")[0]
    if sort != "UUID":
        return f"{sort}.{inside}"
    parts = inside.split(".")
    if parts[0] == "Compendium" and len(parts) >= 4:
        # Compendium.world.people.Actor.k3j; before version 11 without the class.
        return ".".join(parts[3:]) if len(parts) > 4 else parts[3]
    return inside


def _anchored(anchor: Anchor) -> str:
    given = anchor.attributes
    if uuid := given.get("data-uuid"):
        return _target("UUID", uuid)
    sort = given.get("data-type") or given.get("data-entity", "")
    if sort in _LINKED and given.get("data-id"):
        return _target(sort, given["data-id"])
    return ""


def _actor(actor: Mapping[str, Any], key: str, where: str, drafts: Drafts) -> None:
    name = " ".join(text_of(actor.get("name")).split())
    kind = _KINDS.get(text_of(actor.get("type")).casefold(), EntityKind.NPC)
    system = mapping_of(actor.get("system") or actor.get("data"))
    details = mapping_of(system.get("details"))
    open_ = _level(actor) >= _OBSERVER
    own = Reach.of(name) if kind is EntityKind.NPC else Reach()
    hidden = Reach(own.npcs, secret=True)
    reach = EVERYONE if open_ else hidden
    told, known = _prose(system, details)
    shown = [plain(x) for x in told]
    more = [plain(x) for x in known]
    if not drafts.entity(
        key,
        kind,
        name,
        summary=_opening([*shown, *(more if open_ or not shown else [])]),
        attributes=_attributes(system, details),
        reach=reach,
        where=where,
    ):
        return
    for page in shown:
        _tell(page, key, reach, where, drafts)
    for page in more:
        _tell(page, key, reach, where, drafts)
    carried = len(list_of(actor.get("items")))
    if carried:
        drafts.skip(where, f"the {carried} items that it carries are not imported")


def _prose(
    system: Mapping[str, Any], details: Mapping[str, Any]
) -> tuple[list[str], list[str]]:
    """Return the texts of an actor that are public, and the others."""
    told, known = list[str](), list[str]()
    places = [
        details,
        mapping_of(details.get("biography")),
        mapping_of(system.get("biography")),
    ]
    for place in places:
        for words, into in ((_OPEN_PROSE, told), (_OWN_PROSE, known)):
            for word in words:
                value = place.get(word)
                if isinstance(value, Mapping):
                    value = value.get("value") if word != "biography" else None
                if isinstance(value, str) and value.strip():
                    into.append(value)
    for word in ("description", "notes", "biography"):
        if isinstance(system.get(word), str) and system[word].strip():
            known.append(system[word])
    return list(dict.fromkeys(told)), [x for x in dict.fromkeys(known) if x not in told]


def _attributes(
    system: Mapping[str, Any], details: Mapping[str, Any]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    prose = {*_OPEN_PROSE, *_OWN_PROSE}
    for place in (details, mapping_of(system.get("traits"))):
        for name, value in place.items():
            if not isinstance(name, str) or name in prose or len(name) > 40:
                continue
            plain_value = attribute_of(value)
            if plain_value is not None and len(found) < MOST_ATTRIBUTES:
                found.setdefault(name, plain_value)
    return found


def _item(item: Mapping[str, Any], key: str, where: str, drafts: Drafts) -> None:
    system = mapping_of(item.get("system") or item.get("data"))
    described = at(system, "description", "value") or system.get("description")
    page = plain(described) if isinstance(described, str) else PlainPage()
    reach = EVERYONE if _level(item) >= _OBSERVER else _SECRET
    if drafts.entity(
        key,
        EntityKind.ITEM,
        text_of(item.get("name")),
        summary=_opening([page]),
        reach=reach,
        where=where,
    ):
        _tell(page, key, reach, where, drafts)
