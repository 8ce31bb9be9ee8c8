"""The knowledge graph: entities, relationships between them, and facts. Frozen data.

    Entity(id="red-wyrm", kind=EntityKind.NPC, name="Red Wyrm", aliases=("the dragon",))
    Relationship(source="red-wyrm", type="lives_in", target="black-peak")
    Fact(text="The dragon fears silver.", about=("red-wyrm",))

Each has a `Reach` (who may know it) and a `Provenance` (how it is known). Making one
with a field that no store keeps raises `KnowledgeRefused`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import attrs

from . import checks
from .visibility import EVERYONE, Reach

MOST_NAME: Final = 200  # characters of a name or an id
MOST_TEXT: Final = 4000  # characters of a fact or a summary


class EntityKind(StrEnum):
    """The kind of an entity."""

    NPC = "npc"
    PLAYER = "player"
    LOCATION = "location"
    ITEM = "item"
    FACTION = "faction"
    EVENT = "event"
    QUEST = "quest"
    LORE = "lore"
    CONCEPT = "concept"


class Basis(StrEnum):
    """The way in which something is known.

    ``AUTHORED``: the game master wrote it down. ``STATED``: it was said. ``INFERRED``:
    it follows from what was said. ``CLAIMED``: a player says so, and nobody knows
    whether it is true.
    """

    AUTHORED = "authored"
    STATED = "stated"
    INFERRED = "inferred"
    CLAIMED = "claimed"


class Standing(StrEnum):
    """The standing of a fact: known, or not yet.

    ``ACCEPTED``: NPCs may use it. ``CLAIMED``: they may use it as a player's claim.
    ``QUEUED``: it waits for the game master. ``REJECTED``: the game master said no.
    """

    ACCEPTED = "accepted"
    CLAIMED = "claimed"
    QUEUED = "queued"
    REJECTED = "rejected"


def _kind(value: EntityKind | str) -> EntityKind:
    return checks.one_of(EntityKind, "kind", value)


def _basis(value: Basis | str) -> Basis:
    return checks.one_of(Basis, "basis", value)


def _standing(value: Standing | str) -> Standing:
    return checks.one_of(Standing, "standing", value)


_ID: Final = checks.text_of(MOST_NAME)
_NAME_OR_NONE: Final = checks.text_of(MOST_NAME, optional=True)


@attrs.frozen(kw_only=True)
class Provenance:
    """The origin of a piece of knowledge.

    Args:
      basis: how it is known.
      at: when it became known, in Unix time; 0 if that is not known.
      evening: the id of the evening in which it was said; "" if in none.
      player: the stable id of the player who claims it, or to whom an NPC was listening
        when it was told to remember it: it is forgotten with that player; "" if there
        is none.
      by: the name of that player, or of the NPC that remembered it, or of the file it
        was imported from.
      confidence: from 0 to 1.
      confirmed: the game master has confirmed it.
    """

    basis: Basis = attrs.field(default=Basis.AUTHORED, converter=_basis)
    at: float = attrs.field(default=0.0, validator=checks.moment)
    evening: str = attrs.field(default="", validator=_NAME_OR_NONE)
    player: str = attrs.field(default="", validator=_NAME_OR_NONE)
    by: str = attrs.field(default="", validator=_NAME_OR_NONE)
    confidence: float = attrs.field(default=1.0, validator=checks.confidence)
    confirmed: bool = False


AUTHORED: Final = Provenance(confirmed=True)


@attrs.frozen(kw_only=True)
class Entity:
    """A person, a place or a thing of the campaign.

    ``id`` is unique in the campaign, such as `slug` makes it of a name. ``summary`` is
    a sentence or two; ``attributes`` are plain data for JSON, such as ``{"race":
    "elf"}``, at most 16 KiB.
    """

    id: str = attrs.field(validator=_ID)
    kind: EntityKind = attrs.field(converter=_kind)
    name: str = attrs.field(validator=checks.text_of(MOST_NAME))
    aliases: tuple[str, ...] = attrs.field(
        default=(), converter=checks.texts, validator=checks.texts_of(MOST_NAME)
    )
    summary: str = attrs.field(
        default="", validator=checks.text_of(MOST_TEXT, optional=True)
    )
    attributes: Mapping[str, Any] = attrs.field(
        factory=dict, validator=checks.attributes
    )
    reach: Reach = EVERYONE
    provenance: Provenance = AUTHORED


@attrs.frozen(kw_only=True)
class Relationship:
    """A directed, typed edge between two entities, named by their ids.

    There is at most one of a type between two entities. A viewer sees it only together
    with both of its ends.
    """

    source: str = attrs.field(validator=_ID)
    type: str = attrs.field(validator=_ID)
    target: str = attrs.field(validator=_ID)
    attributes: Mapping[str, Any] = attrs.field(
        factory=dict, validator=checks.attributes
    )
    reach: Reach = EVERYONE
    provenance: Provenance = AUTHORED


@attrs.frozen(kw_only=True)
class Fact:
    """A sentence that is known, or claimed.

    ``about``: the ids of entities. ``id`` is given by the store. ``lines``: the session
    and number of each line that it was taken from, in order. A viewer finds in both
    only what the viewer may see. ``pinned``: it is told in every turn of an NPC that
    may know it. ``keywords``: other words by which it is found.
    """

    text: str = attrs.field(validator=checks.text_of(MOST_TEXT))
    about: tuple[str, ...] = attrs.field(
        default=(), converter=checks.texts, validator=checks.texts_of(MOST_NAME)
    )
    standing: Standing = attrs.field(default=Standing.ACCEPTED, converter=_standing)
    reach: Reach = EVERYONE
    provenance: Provenance = AUTHORED
    lines: tuple[tuple[str, int], ...] = attrs.field(
        default=(), converter=checks.lines, validator=checks.line_numbers
    )
    pinned: bool = attrs.field(
        default=False, validator=attrs.validators.instance_of(bool)
    )
    keywords: tuple[str, ...] = attrs.field(
        default=(), converter=checks.texts, validator=checks.texts_of(MOST_NAME)
    )
    id: int = 0


@attrs.frozen(kw_only=True)
class Neighbour:
    """An entity at the other end of a relationship, ``depth`` steps away."""

    relationship: Relationship
    entity: Entity
    depth: int = 1


@attrs.frozen(kw_only=True)
class Identity:
    """An identity snapshot: an entity, and what the viewer knows around it.

    ``neighbours`` are sorted by depth; inside of one, first those at the targets of
    relationships, then those at the sources; then by the entity that they were reached
    from, and by type. ``more``: there are neighbours that were left out.
    """

    entity: Entity
    neighbours: tuple[Neighbour, ...] = ()
    facts: tuple[Fact, ...] = ()
    more: bool = False


def found_by(fact: Fact) -> str:
    """Return the text in whose words a fact is found."""
    return " ".join((fact.text, *fact.keywords))


def is_that_fact(new: Fact, known: Fact) -> bool:
    """Return True if a new fact without an id is one that the store has already.

    It has the same text and reach, and the same standing; or the game master has judged
    about it, and the new one is not the game master's.
    """
    if (new.text, new.reach) != (known.text, known.reach):
        return False
    judged = known.provenance.confirmed and not new.provenance.confirmed
    return judged or new.standing is known.standing


_NOT_IN_SLUG: Final = re.compile(r"[^a-z0-9]+")


def slug(name: str) -> str:
    """Return an id for a name: "Greymantle the Sage" is "greymantle-the-sage".

    A name without Latin letters or digits keeps its own characters.
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    made = _NOT_IN_SLUG.sub("-", plain.casefold()).strip("-")
    return (made or "-".join(name.casefold().split()))[:MOST_NAME]
