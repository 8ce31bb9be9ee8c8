"""Texts of Foundry VTT as facts, and the links in them as relationships."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from glyphoxa_trio.memory.visibility import Reach

from .drafts import Drafts
from .html import Anchor, PlainPage

HIDDEN: Final = Reach(secret=True)
MENTIONS: Final = "mentions"

# Names of documents by their keys, for links without words of their own; and True for
# those that players may know.
Names = Mapping[str, tuple[str, bool]]

# Where @UUID[Actor.k3j]{Bo}, &Reference[prone] and [[/r 2d6[fire]]]{burns} begin.
_BEGINS: Final = re.compile(r"[@&](\w{1,40})\[|\[\[")
_MOST_INSIDE: Final = 1000  # characters
_DEEPEST: Final = 8  # brackets within brackets
_LINKED: Final = (
    "Actor",
    "JournalEntry",
    "JournalEntryPage",
    "Item",
    "UUID",
    "Embed",
    "Compendium",
)
_DOCUMENTS: Final = (
    *_LINKED,
    *("Scene", "RollTable", "Macro", "Playlist", "PlaylistSound", "Cards", "Folder"),
)
_CHECKS: Final = {"check": "check", "skill": "check", "tool": "check", "save": "save"}
_FLAVOUR: Final = re.compile(r"\[([^\[\]]*)\]")
_SAID_NOT: Final = frozenset(("average", "extended", "basic", "showdc", "secret"))
_IS_DC: Final = re.compile(r"(?:dc[:=])?(\d{1,3})", re.IGNORECASE)


@attrs.frozen
class Enriched:
    """A part of a text that Foundry shows as something else.

    ``label`` is None if it has no words of its own. ``sort`` is "" for a roll.
    """

    sort: str
    inside: str
    label: str | None
    begin: int
    end: int

    def words(self, of: str, names: Names, *, secret: bool) -> str:
        """Return what is read in its place.

        Args:
          of: the key of the document that has it.
          secret: it may name what players do not know.
        """
        if self.label is not None:
            return self.label
        if self.sort in _DOCUMENTS:
            target = target_of(self.sort, self.inside, of)
            name, is_open = names.get(target, ("", False))
            if name:
                return name if is_open or secret else ""
            by_name = "." not in self.inside and self.sort not in ("UUID", "Embed")
            return self.inside if by_name else ""
        if not self.sort:
            return _of_command(self.inside)
        sort = self.sort.casefold()
        if sort in _CHECKS:
            return _of_check(sort, re.split(r"[|\s]+", self.inside))
        if sort == "damage":
            return _formula(self.inside.split("|")[0])
        if sort == "template":
            given = dict(x.partition(":")[::2] for x in self.inside.split("|"))
            shape, feet = given.get("type", self.inside), given.get("distance")
            return f"{feet}-foot {shape}" if feet else shape
        return "" if sort == "localize" else self.inside


def enriched(text: str) -> Iterator[Enriched]:
    """Yield the enriched parts of a text; brackets within brackets belong to them."""
    at = 0
    while found := _BEGINS.search(text, at):
        begin = found.start()
        opens = found.end() - (1 if found[1] else 2)
        end = _closed(text, opens, "[]")
        at = found.end()
        if end is None or (not found[1] and text[end - 2 : end] != "]]"):
            continue
        inside = text[found.end() : end - (1 if found[1] else 2)]
        label, at = None, end
        if text[end : end + 1] == "{" and (after := _closed(text, end, "{}")):
            label, at = text[end + 1 : after - 1].strip(), after
        yield Enriched(found[1] or "", inside.strip(), label or None, begin, at)


def _closed(text: str, at: int, pair: str) -> int | None:
    """Return the end of what a bracket at this place opens; None if it stays open."""
    depth = 0
    for n in range(at, min(len(text), at + _MOST_INSIDE)):
        if text[n] == pair[0]:
            depth += 1
            if depth > _DEEPEST:
                return None
        elif text[n] == pair[1]:
            depth -= 1
            if not depth:
                return n + 1
    return None


def _formula(text: str) -> str:
    """Return "2d6 fire, 1d4 cold" of "2d6[fire],1d4[cold] # a comment"."""
    plain = _FLAVOUR.sub(r" \1", text.split("#")[0])
    return ", ".join(" ".join(x.split()) for x in plain.split(",") if x.strip())


def _of_command(inside: str) -> str:
    """Return the words of "/check dex 15", or of "/r 2d6"."""
    command, _, rest = inside.partition(" ")
    if not inside.startswith("/"):
        return "" if command == "lookup" else _formula(inside)
    command = command[1:].casefold()
    if command in _CHECKS:
        return _of_check(command, rest.split())
    if command in ("damage", "heal"):
        told = [x.partition("=")[2] or x for x in rest.split()]
        told = [x for x in told if x.casefold() not in _SAID_NOT]
        return _formula(" ".join(told))
    return _formula(rest)


def _of_check(sort: str, given: Sequence[str]) -> str:
    """Return "DC 15 dex save" of the parts of a check."""
    dc, kinds = "", []
    for one in given:
        key, _, value = one.replace("=", ":").partition(":")
        if number := _IS_DC.fullmatch(one.strip()):
            dc = f"DC {number[1]} "
        elif not value and key.casefold() not in _SAID_NOT:
            kinds.append(key)
        elif key.casefold() in ("type", "ability", "skill", "tool"):
            kinds.append(value)
    saves = {"fortitude", "reflex", "will"}.intersection(kinds)
    noun = "save" if saves else _CHECKS[sort]
    return f"{dc}{' '.join(x for x in kinds if x)} {noun}"


def opening(pages: Iterable[PlainPage], of: str, names: Names) -> str:
    """Return the open text of the pages, for a summary."""
    return " ".join(
        bare(x.text, of, names, secret=False)
        for y in pages
        for x in y.passages
        if not x.secret
    )


def tell(
    page: PlainPage, of: str, reach: Reach, where: str, drafts: Drafts, names: Names
) -> None:
    """Add the paragraphs of a page as facts, and its links as relationships."""
    if page.cut:
        drafts.skip(where, "its text is too long, and the rest of it is missing")
    hidden = reach if reach.secret else HIDDEN
    for passage in page.passages:
        reached = hidden if passage.secret else reach
        text = bare(passage.text, of, names, secret=reached.secret)
        drafts.fact(text, [of], reach=reached, where=where)
        for link in enriched(passage.text):
            if link.sort in _LINKED:
                target = target_of(link.sort, link.inside, of)
                label = link.label or link.words(of, names, secret=True)
                if not label:
                    unknown = f"a link has no words, and {target!r} is not in this file"
                    drafts.skip(where, unknown)
                drafts.link(
                    of, MENTIONS, target, label=label, reach=reached, where=where
                )
    for anchor in page.anchors:
        if target := _anchored(anchor, of):
            reached = hidden if anchor.secret else reach
            drafts.link(
                of, MENTIONS, target, label=anchor.label, reach=reached, where=where
            )


def bare(text: str, of: str, names: Names, *, secret: bool) -> str:
    """Return a text with the words of its links and rolls in their place."""
    parts, at = [], 0
    for one in enriched(text):
        parts += [text[at : one.begin], one.words(of, names, secret=secret)]
        at = one.end
    return " ".join("".join([*parts, text[at:]]).split())


def target_of(sort: str, inside: str, of: str) -> str:
    """Return the key of the document that a link leads to.

    ``of`` is the key of the document with the link: one that begins with a full stop
    leads to a page beside it, or to a part of it.
    """
    words = inside.strip().split("#")[0].split()
    if sort == "Embed" and words:
        named = [x.partition("=")[2] for x in words if x.startswith("uuid=")]
        words = [x.strip("\"'") for x in named] or words[:1]
        sort = "UUID"
    inside = " ".join(words)
    if inside.startswith("."):
        parts = inside.strip(".").split(".")
        beside = "" if len(parts) > 1 else "JournalEntryPage."
        return f"{'.'.join(of.split('.')[:2])}.{beside}{'.'.join(parts)}"
    if sort not in ("UUID", "Compendium"):
        return f"{sort}.{inside}"
    parts = inside.removeprefix("Compendium.").split(".")
    if (sort == "Compendium" or inside.startswith("Compendium.")) and len(parts) >= 3:
        # Compendium.world.people.Actor.k3j; before version 11 without the class.
        return ".".join(parts[2:])
    return inside


def _anchored(anchor: Anchor, of: str) -> str:
    given = anchor.attributes
    if uuid := given.get("data-uuid"):
        return target_of("UUID", uuid, of)
    sort = given.get("data-type") or given.get("data-entity", "")
    if sort in _LINKED and given.get("data-id"):
        return target_of(sort, given["data-id"], of)
    return ""
