"""Documents of Foundry VTT: journals, actors and items, as the program exports them.

A journal with one page is one entity; with several, each page is one as well, and is
``part_of`` the journal. The kind is that of the journal's name, or its folder's, if
they tell one ("Locations"), else lore. Each paragraph is a fact.

What players may not observe is a secret of the game master; what an actor's document
says of an NPC is known to that NPC as well. Sections that a page hides are secret too.
Links between documents become relationships of the type ``mentions``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from glyphoxa_trio.memory.errors import KnowledgeRefused
from glyphoxa_trio.memory.knowledge import EntityKind
from glyphoxa_trio.memory.visibility import EVERYONE, Reach
from glyphoxa_trio.units import many

from .drafts import Drafts
from .fields import (
    MOST_ATTRIBUTES,
    at,
    attribute_of,
    kind_by_words,
    list_of,
    mapping_of,
    name_of,
    text_of,
)
from .foundry_documents import KINDS, OBSERVER, level_of, sort_of, unpacked
from .foundry_text import HIDDEN, Names, opening, tell
from .html import PlainPage, from_markdown, plain

PART_OF: Final = "part_of"
_MARKDOWN: Final = 2  # the format of a page
_DESCRIBED: Final = ("description", "desc", "details", "notes", "biography", "text")

# Keys of an actor's details that are prose, wherever the game's system puts it.
_OPEN_PROSE: Final = ("public", "publicNotes", "blurb", "appearance")
_OWN_PROSE: Final = (
    *("value", "biography", "description", "privateNotes", "backstory", "notes"),
    *("details", "trait", "ideal", "bond", "flaw", "personality", "beliefs"),
    *("allies", "enemies"),
)


def read(documents: Iterable[Any], drafts: Drafts) -> None:
    """Add documents to the drafts; what is of no use is named there as skipped."""
    found = list(unpacked(documents))
    folders = {
        text_of(x.get("_id")): text_of(x.get("name"))
        for x in found
        if isinstance(x, Mapping) and sort_of(x) == "Folder"
    }
    names = _names(found)
    for number, document in enumerate(found):
        if not isinstance(document, Mapping):
            drafts.skip(f"document {number + 1}", "it is not a document")
            continue
        name = text_of(document.get("name")) or f"document {number + 1}"
        if document.get("$$deleted"):
            continue
        folder = folders.get(text_of(document.get("folder")), "")
        sort = sort_of(document)
        where = f"{_WORDS.get(sort, 'document')} {name!r}"
        key = f"{sort}.{text_of(document.get('_id')) or f'{drafts.by}#{number}'}"
        try:
            match sort:
                case "JournalEntry":
                    _journal(document, key, where, folder, drafts, names)
                case "Actor":
                    _actor(document, key, where, drafts, names)
                case "Item":
                    _item(document, key, where, drafts, names)
                case "Folder":
                    pass
                case _:
                    why = _NOT_READ.get(sort, "its kind is not known")
                    drafts.skip(where, why)
        except (ValueError, TypeError, KnowledgeRefused) as error:
            # Exports of other programs have any shape: one item must not cost the rest.
            drafts.skip(where, f"it cannot be understood: {error}"[:300])


_WORDS: Final[Mapping[str, str]] = {
    "JournalEntry": "journal",
    "Actor": "actor",
    "Item": "item",
    "Scene": "scene",
    "RollTable": "table",
    "Playlist": "playlist",
    "Macro": "macro",
    "Cards": "cards",
}
_NOT_READ: Final[Mapping[str, str]] = {
    "Scene": "scenes are not imported",
    "RollTable": "tables are not imported",
    "Playlist": "playlists are not imported",
    "Macro": "macros are not imported",
    "Cards": "cards are not imported",
    "Combat": "combats are not imported",
}


def _journal(
    entry: Mapping[str, Any],
    key: str,
    where: str,
    folder: str,
    drafts: Drafts,
    names: Names,
) -> None:
    name = text_of(entry.get("name"))
    level = level_of(entry)
    pages = [x for x in list_of(entry.get("pages")) if isinstance(x, Mapping)]
    if not pages and isinstance(entry.get("content"), str):  # before version 10
        pages = [{"name": name, "type": "text", "text": {"content": entry["content"]}}]
    open_ = level >= OBSERVER or any(level_of(x, level) >= OBSERVER for x in pages)
    kind = kind_by_words(folder, name) or EntityKind.LORE
    read_ = [(x, _page(x, where, drafts)) for x in pages]
    kept = [(x, text) for x, text in read_ if text is not None]
    texts = [text for _, text in kept]
    several = len(kept) > 1
    aliases = [] if several else [text_of(x.get("name")) for x, _ in kept]
    shown = "" if several else opening(texts, key, names)
    reach = EVERYONE if open_ else HIDDEN
    if not drafts.entity(
        key, kind, name, aliases=aliases, summary=shown, reach=reach, where=where
    ):
        return
    for page, text in kept:
        of = key
        page_name = text_of(page.get("name"))
        page_reach = EVERYONE if level_of(page, level) >= OBSERVER else HIDDEN
        if several:
            of = f"{key}.JournalEntryPage.{text_of(page.get('_id')) or page_name}"
            if not drafts.entity(
                of,
                kind,
                page_name,
                summary=opening([text], key, names),
                reach=page_reach,
                where=f"{where}, page {page_name!r}",
            ):
                of = key
            else:
                drafts.link(of, PART_OF, key, reach=page_reach, where=where)
        else:
            drafts.also(f"{key}.JournalEntryPage.{text_of(page.get('_id'))}", key)
        tell(text, of, page_reach, where, drafts, names)


def _page(page: Mapping[str, Any], where: str, drafts: Drafts) -> PlainPage | None:
    """Return the text of a page; None if it is of another type, and has none."""
    name, sort = text_of(page.get("name")), page.get("type", "text")
    content = text_of(at(page, "text", "content"))
    markdown = text_of(at(page, "text", "markdown"))
    if at(page, "text", "format") == _MARKDOWN and "<" not in content:
        markdown = markdown or content
    told = plain(content)
    if markdown.strip() and (not told.passages or "<" not in content):
        told = plain(from_markdown(markdown))
    if not told.passages:
        told = plain(text_of(at(page, "image", "caption")))
    if told.passages:
        return told
    if sort == "text":
        return PlainPage()
    drafts.skip(f"{where}, page {name!r}", f"a page of the type {sort} has no text")
    return None


def _actor(
    actor: Mapping[str, Any], key: str, where: str, drafts: Drafts, names: Names
) -> None:
    name = name_of(actor.get("name"))
    kind = KINDS.get(text_of(actor.get("type")).casefold(), EntityKind.NPC)
    system = mapping_of(actor.get("system") or actor.get("data"))
    details = mapping_of(system.get("details"))
    open_ = level_of(actor) >= OBSERVER
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
        summary=opening([*shown, *(more if open_ or not shown else [])], key, names),
        attributes=_attributes(system, details),
        reach=reach,
        where=where,
    ):
        return
    for page in shown:
        tell(page, key, reach, where, drafts, names)
    for page in more:
        tell(page, key, reach, where, drafts, names)
    carried = len(list_of(actor.get("items")))
    if carried:
        drafts.skip(where, f"it carries {many(carried, 'item')}, not imported")


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


def _item(
    item: Mapping[str, Any], key: str, where: str, drafts: Drafts, names: Names
) -> None:
    system = mapping_of(item.get("system") or item.get("data"))
    told, hidden = _descriptions(system)
    unknown = system.get("identified") is False or (
        at(system, "identification", "status") == "unidentified"
    )
    is_open = level_of(item) >= OBSERVER and not unknown
    reach = EVERYONE if is_open else HIDDEN
    if drafts.entity(
        key,
        EntityKind.ITEM,
        text_of(item.get("name")),
        summary=opening(told, key, names),
        reach=reach,
        where=where,
    ):
        for page in told:
            tell(page, key, reach, where, drafts, names)
        for page in hidden:
            tell(page, key, HIDDEN, where, drafts, names)


def _descriptions(system: Mapping[str, Any]) -> tuple[list[PlainPage], list[PlainPage]]:
    """Return the texts of an item, wherever its system has them, and hidden ones."""
    told, hidden = dict[str, None](), dict[str, None]()
    for word in _DESCRIBED:
        value = system.get(word)
        given = value if isinstance(value, Mapping) else {"value": value}
        for name, text in given.items():
            if isinstance(text, str) and text.strip():
                if str(name).casefold().startswith(("gm", "private", "secret")):
                    hidden[text] = None
                elif name in _DESCRIBED or name in ("value", "public", "full", "long"):
                    told[text] = None
    return [plain(x) for x in told], [plain(x) for x in hidden if x not in told]


def _names(found: Iterable[Any]) -> Names:
    """Return the names of documents and of their pages."""
    names: dict[str, tuple[str, bool]] = {}
    for document in map(mapping_of, found):
        key = f"{sort_of(document)}.{text_of(document.get('_id'))}"
        level = level_of(document)
        names[key] = name_of(document.get("name")), level >= OBSERVER
        for page in map(mapping_of, list_of(document.get("pages"))):
            id_ = f"{key}.JournalEntryPage.{text_of(page.get('_id'))}"
            seen = level_of(page, level) >= OBSERVER
            names[id_] = name_of(page.get("name")), seen
    return names
