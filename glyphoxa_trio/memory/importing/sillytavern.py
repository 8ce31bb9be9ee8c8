"""SillyTavern's lorebooks and cards: in JSON, and cards in pictures.

An entry of a lorebook becomes a fact for each of its paragraphs, found by its keys as
keywords; one that is constant is pinned. A card becomes an NPC, and what it says of the
NPC, its own lorebook included, is known to that NPC. An entry that is limited to some
characters is known to these. What this memory cannot express is reported.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from glyphoxa_trio.memory.errors import KnowledgeRefused
from glyphoxa_trio.memory.knowledge import MOST_NAME, EntityKind
from glyphoxa_trio.memory.visibility import EVERYONE, Reach
from glyphoxa_trio.tools.characters import harmless

from .data import ImportRefused
from .drafts import Drafts
from .fields import at, list_of, mapping_of, name_of, text_of
from .prose import paragraphs

PNG: Final = b"\x89PNG\r\n\x1a\n"
MOST_PINNED: Final = 12  # facts that a turn has room for
_CARDS: Final = (b"ccv3", b"chara")  # the newer one first
_CARD: Final = ("description", "personality", "scenario")
_CONFIGURED: Final = {
    "first_mes": "a greeting", "alternate_greetings": "greetings",
    "group_only_greetings": "greetings", "mes_example": "examples of its speech",
    "system_prompt": "a system prompt", "assets": "pictures and sounds",
    "post_history_instructions": "instructions", "creator_notes": "notes for people",
    "extensions": "settings of extensions",
}  # fmt: skip
# Of a card, what is taken over, or says nothing of the character.
_TAKEN: Final = frozenset(
    ("name", "nickname", "character_book", "data", "spec", "spec_version", *_CARD)
)
_MACRO: Final = re.compile(r"\{\{[^{}]{1,100}\}\}")
_REGEX: Final = re.compile(r"/.+/[a-z]*\Z", re.DOTALL)
_DECORATION: Final = re.compile(r"^@@.*$", re.MULTILINE)
# Settings of an entry that are not taken over, and what they mean if they are set.
_SETTINGS: Final = {
    "sticky": "how long it stays", "cooldown": "how long it pauses",
    "delay": "when it begins", "group": "its group",
    "vectorized": "a search by meaning",
    "automationId": "its automation", "case_sensitive": "the case of its keys",
    "caseSensitive": "the case of its keys", "triggers": "its triggers",
    "use_regex": "regular expressions",
}  # fmt: skip


def is_sillytavern(data: Any) -> bool:
    """Return True if it looks like a lorebook or a card."""
    given = mapping_of(data)
    if text_of(given.get("spec")).startswith(("chara_card", "lorebook")):
        return True
    if "name" in given and ("first_mes" in given or "mes_example" in given):
        return True
    entries = map(mapping_of, list_of(given.get("entries"))[:50])
    return any("content" in x and ("key" in x or "keys" in x) for x in entries)


def card_in(picture: bytes) -> str | None:
    """Return the JSON of the card in a PNG; None if there is none in it.

    Raises:
      ImportRefused: it cannot be read.
    """
    found: dict[bytes, bytes] = {}
    place = len(PNG)
    while place + 8 <= len(picture):
        size = int.from_bytes(picture[place : place + 4], "big")
        kind, begin = picture[place + 4 : place + 8], place + 8
        if kind == b"tEXt" and begin + size <= len(picture):
            keyword, _, value = picture[begin : begin + size].partition(b"\0")
            found.setdefault(keyword.lower(), value)
        place = begin + size + 4
    for keyword in _CARDS:
        if keyword in found:
            try:
                return base64.b64decode(found[keyword], validate=True).decode()
            except (binascii.Error, UnicodeDecodeError):
                raise ImportRefused(
                    f"its chunk {keyword.decode()} is no card in base64"
                ) from None
    return None


def read(data: Mapping[str, Any], drafts: Drafts) -> None:
    """Add a card, or a lorebook, to the drafts, and name what is skipped."""
    told = mapping_of(data.get("data")) or data
    if "entries" in told and "first_mes" not in told:
        _book(told, drafts, EVERYONE, "", ())
        return
    name = name_of(told.get("name"))
    nickname = name_of(told.get("nickname"))
    where = f"card {name!r}" if name else "card"
    aliases = [nickname] if nickname else []
    if not drafts.entity(name, EntityKind.NPC, name, aliases=aliases, where=where):
        return
    own = Reach.of(name)
    for field in _CARD:
        text = _plain(text_of(told.get(field)), name, f"{where}, {field}", drafts)
        for paragraph in paragraphs(text):
            drafts.fact(paragraph, [name], reach=own, where=where)
    for field, value in told.items():
        if value and field not in _TAKEN:
            what = _CONFIGURED.get(field)
            why = f"for the configuration: {what}" if what else "it has no place"
            drafts.skip(f"{where}, {field}", why)
    if (book := told.get("character_book")) is not None:
        _book(mapping_of(book), drafts, own, name, [name])


def _book(
    book: Mapping[str, Any],
    drafts: Drafts,
    reach: Reach,
    name: str,
    about: list[str] | tuple[()],
) -> None:
    pinned = 0
    if book.get("description"):
        drafts.skip("the description of the lorebook", "it is for people")
    if book.get("entries"):
        drafts.skip("all entries", "their order, depth and position do not count")
    for number, entry in enumerate(list_of(book.get("entries"))):
        where = f"entry {number + 1}"
        if not isinstance(entry, Mapping):
            drafts.skip(where, "it is not an entry")
            continue
        title = name_of(entry.get("comment") or entry.get("name"))
        where = f"{where} {title!r}" if title else where
        if entry.get("disable") is True or entry.get("enabled") is False:
            drafts.skip(where, "it is switched off")
            continue
        text = text_of(entry.get("content"))
        if _DECORATION.search(text):
            drafts.skip(where, "its decorators do not count")
            text = _DECORATION.sub("", text)
        parts = paragraphs(_plain(text, name, where, drafts))
        if not parts:
            drafts.skip(where, "it has no content")
            continue
        constant = entry.get("constant") is True
        keys = [*dict.fromkeys(_keys(entry, where, drafts))]
        if not keys and not constant:
            drafts.skip(where, "it has no keys: it is found by its own words")
        _settings(entry, where, drafts)
        try:
            for part in parts:
                drafts.fact(
                    part,
                    about,
                    reach=_reach(entry, where, drafts),
                    within=reach,
                    where=where,
                    pinned=constant,
                    keywords=keys,
                )
        except KnowledgeRefused as error:
            drafts.skip(where, f"it cannot be understood: {error}"[:300])
        pinned += len(parts) if constant else 0
        if constant and pinned > MOST_PINNED:
            drafts.skip(
                where,
                f"more than {MOST_PINNED} facts are pinned: a turn has no room for it",
            )


def _keys(entry: Mapping[str, Any], where: str, drafts: Drafts) -> Iterator[str]:
    given = entry.get("keys", entry.get("key"))
    given = given.split(",") if isinstance(given, str) else given
    for each in list_of(given):
        key = name_of(each)
        if _REGEX.match(key):
            drafts.skip(f"{where}, key {key!r}", "it is a regular expression")
        elif key:
            yield key
    second = entry.get("secondary_keys", entry.get("keysecondary"))
    if entry.get("selective") is not False and any(map(name_of, list_of(second))):
        drafts.skip(where, "its secondary keys do not count")


def _settings(entry: Mapping[str, Any], where: str, drafts: Drafts) -> None:
    settings = {**mapping_of(entry.get("extensions")), **entry}
    for field, what in _SETTINGS.items():
        if settings.get(field):
            drafts.skip(where, f"{what} does not count ({field})")
    chance = settings.get("probability")
    if settings.get("useProbability") is not False and chance not in (None, 100):
        drafts.skip(where, "its probability does not count: it is always found")


def _reach(entry: Mapping[str, Any], where: str, drafts: Drafts) -> Reach:
    """Return who may know an entry: it may be limited to some characters."""
    limit = mapping_of(
        entry.get("characterFilter") or at(entry, "extensions", "character_filter")
    )
    names = [x for x in map(name_of, list_of(limit.get("names"))) if x]
    if list_of(limit.get("tags")) or (names and limit.get("isExclude")):
        drafts.skip(where, "its filter of characters cannot be kept: it is a secret")
        return Reach(secret=True)
    return Reach.of(*names) if names else EVERYONE


def _plain(text: str, name: str, where: str, drafts: Drafts) -> str:
    """Return a text with names in place of the macros for them."""
    unknown: dict[str, None] = {}

    def said(found: re.Match[str]) -> str:
        macro = found[0][2:-2].strip().casefold()
        if macro == "user":
            return "the player"
        if macro == "char" and name:
            return name
        unknown[harmless(found[0])[:MOST_NAME]] = None
        return found[0]

    plain = _MACRO.sub(said, text)
    for macro in unknown:
        drafts.skip(where, f"{macro} stands in it as it is")
    return plain
