"""Texts of Foundry VTT as facts, and the links in them as relationships."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from glyphoxa_trio.memory.visibility import Reach

from .drafts import Drafts
from .html import Anchor, PlainPage

HIDDEN: Final = Reach(secret=True)
MENTIONS: Final = "mentions"

# @UUID[Actor.k3j]{Bo}, @JournalEntry[k3j]{Bo}, @Check[dex]{a check}
_ENRICHED: Final = re.compile(r"@(\w{1,40})\[([^\[\]]{0,400})\](?:\{([^{}]{0,400})\})?")
_ROLL: Final = re.compile(
    r"\[\[/?(?:\w{1,12} )?([^\[\]]{0,200})\]\](?:\{([^{}]{0,200})\})?"
)
_LINKED: Final = ("Actor", "JournalEntry", "JournalEntryPage", "Item", "UUID")


def opening(pages: Iterable[PlainPage]) -> str:
    """Return the open text of the pages, for a summary."""
    return " ".join(_bare(x.text) for y in pages for x in y.passages if not x.secret)


def tell(page: PlainPage, of: str, reach: Reach, where: str, drafts: Drafts) -> None:
    """Add the paragraphs of a page as facts, and its links as relationships."""
    if page.cut:
        drafts.skip(where, "its text is too long, and the rest of it is missing")
    hidden = reach if reach.secret else HIDDEN
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
