"""The archive of a Roll20 campaign: its handouts and characters.

A handout is an entity, of the kind that one of its tags names, or lore; a character is
a player's if a player controls it, else an NPC. Each paragraph of the notes or the
biography is a fact. What is not in the journals of all players is a secret of the game
master, and known to the NPC that it is about; ``gmnotes`` are for the game master
alone.
Links between them become relationships of the type ``mentions``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from glyphoxa_trio.memory.errors import KnowledgeRefused
from glyphoxa_trio.memory.knowledge import EntityKind
from glyphoxa_trio.memory.visibility import EVERYONE, Reach

from .drafts import Drafts
from .fields import (
    MOST_ATTRIBUTES,
    attribute_of,
    kind_by_words,
    list_of,
    mapping_of,
    name_of,
    text_of,
    unescaped,
)
from .foundry_text import MENTIONS, bare
from .html import plain

_SECRET: Final = Reach(secret=True)
_LISTS: Final = {"handouts": "handout", "characters": "character"}
_LINK: Final = re.compile(r"roll20\.net/(handout|character)/([\w-]{1,64})")
_WRITTEN_LINK: Final = re.compile(r"\[([^\[\]]{1,200})\]\((https?://[^()\s]{1,300})\)")
# Attributes of a sheet that say who somebody is; it has hundreds of others.
_TELLING: Final = (
    "race class level alignment age gender background deity occupation homeland"
    " title pronouns species ancestry npc_type npc_challenge npc_name type size faction"
)
_OTHER: Final = {
    "maps": "maps", "pages": "maps", "macros": "macros", "jukebox": "music",
    "playlist": "music", "decks": "decks", "tables": "tables",
}  # fmt: skip


def is_archive(data: Any) -> bool:
    """Return True if it looks like the archive of a campaign."""
    given = mapping_of(data)
    return any(isinstance(given.get(x), (list, dict)) for x in _LISTS)


def read(archive: Mapping[str, Any], drafts: Drafts) -> None:
    """Add the handouts and characters to the drafts, and name what is skipped."""
    for word, sort in _LISTS.items():
        for number, item in enumerate(list_of(archive.get(word))):
            where = f"{sort} {number + 1}"
            if not isinstance(item, Mapping):
                drafts.skip(where, f"it is not a {sort}")
                continue
            name = text_of(item.get("name"))
            where = f"{sort} {name!r}" if name else where
            key = f"{sort}/{text_of(item.get('id') or item.get('_id')) or name}"
            try:
                _item(item, sort, key, where, drafts)
            except (ValueError, TypeError, KnowledgeRefused) as error:
                drafts.skip(where, f"it cannot be understood: {error}"[:300])
    for word, said in _OTHER.items():
        if number := len(list_of(archive.get(word))):
            drafts.skip(word, f"{said} are not imported: {number} of them")


def _item(
    item: Mapping[str, Any], sort: str, key: str, where: str, drafts: Drafts
) -> None:
    name = name_of(item.get("name"))
    kind = _kind(item, sort)
    own = Reach.of(name) if kind is EntityKind.NPC else Reach()
    journals = item.get("inplayerjournals")
    given = journals if isinstance(journals, list) else [journals]
    open_ = any("all" in re.split(r"[,\s]+", text_of(x)) for x in given)
    reach = EVERYONE if open_ else Reach(own.npcs, secret=True)
    told = _html(item.get("notes")) or _html(item.get("bio"))
    pages = [
        (plain(told), reach),
        (plain(_html(item.get("gmnotes"))), _SECRET),
    ]
    if not drafts.entity(
        key,
        kind,
        name,
        summary=" ".join(_bare(x.text) for x in pages[0][0].passages if not x.secret),
        attributes=_attributes(item),
        reach=reach,
        where=where,
    ):
        return
    for page, reached in pages:
        if page.cut:
            drafts.skip(where, "its text is too long, and the rest of it is missing")
        for passage in page.passages:
            drafts.fact(_bare(passage.text), [key], reach=reached, where=where)
            for link in _WRITTEN_LINK.finditer(passage.text):
                _link(key, link[2], link[1], reached, where, drafts)
        for anchor in page.anchors:
            href = anchor.attributes.get("href", "")
            _link(key, href, anchor.label, reached, where, drafts)


def _kind(item: Mapping[str, Any], sort: str) -> EntityKind:
    if sort == "character":
        controlled = text_of(item.get("controlledby")).strip()
        return EntityKind.PLAYER if controlled else EntityKind.NPC
    tags = item.get("tags")
    if isinstance(tags, str) and tags.startswith("["):
        try:
            tags = json.loads(tags)
        except (ValueError, RecursionError):
            tags = None
    said = [x for x in list_of(tags) if isinstance(x, str)]
    return kind_by_words(*said) or EntityKind.LORE


def _html(value: Any) -> str:
    """Return a text of the archive, in which an empty one may be anything."""
    text = unescaped(text_of(value))
    return "" if text in ("null", "undefined", "false") else text


def _link(
    key: str, address: str, label: str, reach: Reach, where: str, drafts: Drafts
) -> None:
    if found := _LINK.search(address):
        target = f"{found[1]}/{found[2]}"
        drafts.link(key, MENTIONS, target, label=label, reach=reach, where=where)


def _bare(text: str) -> str:
    """Return a text with the words of its links and rolls in their place."""
    text = _WRITTEN_LINK.sub(lambda found: found[1], text)
    return bare(text, "", {}, secret=False) if "[[" in text else text


def _attributes(item: Mapping[str, Any]) -> dict[str, Any]:
    given = item.get("attributes", item.get("attribs"))
    found: dict[str, Any] = {}
    for one in list_of(given):
        name = text_of(mapping_of(one).get("name"))
        value = attribute_of(mapping_of(one).get("current"))
        if name.casefold() in _TELLING.split() and value is not None:
            found[name.casefold()] = value
        if len(found) == MOST_ATTRIBUTES:
            break
    return found
