"""The knowledge graph: entities, relationships between them, and facts. Frozen data.

    Entity(id="red-wyrm", kind=EntityKind.NPC, name="Red Wyrm", aliases=("the dragon",))
    Relationship(source="red-wyrm", type="lives_in", target="black-peak")
    Fact(text="The dragon fears silver.", about=("red-wyrm",))

Each has a `Reach` (who may know it) and a `Provenance` (how it is known).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import attrs

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
    """How something is known.

    ``AUTHORED``: the game master wrote it down. ``STATED``: it was said. ``INFERRED``:
    it follows from what was said. ``CLAIMED``: a player says so, and nobody knows
    whether it is true.
    """

    AUTHORED = "authored"
    STATED = "stated"
    INFERRED = "inferred"
    CLAIMED = "claimed"


class Standing(StrEnum):
    """Whether something counts as known.

    ``ACCEPTED``: NPCs may use it. ``CLAIMED``: they may use it as a player's claim.
    ``QUEUED``: it waits for the game master. ``REJECTED``: the game master said no.
    """

    ACCEPTED = "accepted"
    CLAIMED = "claimed"
    QUEUED = "queued"
    REJECTED = "rejected"


@attrs.frozen(kw_only=True)
class Provenance:
    """Where a piece of knowledge comes from.

    Args:
      basis: how it is known.
      at: when it became known, in Unix time; 0 if that is not known.
      evening: the id of the evening in which it was said; "" if in none.
      player: the stable id of the player who claims it; "" if none does.
      by: the name of that player, or of the NPC that remembered it, or of the file it
        was imported from.
      confidence: from 0 to 1.
      confirmed: the game master has confirmed it.
    """

    basis: Basis = Basis.AUTHORED
    at: float = 0.0
    evening: str = ""
    player: str = ""
    by: str = ""
    confidence: float = attrs.field(
        default=1.0,
        validator=[attrs.validators.ge(0.0), attrs.validators.le(1.0)],
    )
    confirmed: bool = False


AUTHORED: Final = Provenance(confirmed=True)


@attrs.frozen(kw_only=True)
class Entity:
    """A person, a place or a thing of the campaign.

    ``id`` is unique in the campaign, such as `slug` makes it of a name. ``summary`` is
    a sentence or two; ``attributes`` are plain data for JSON, such as ``{"race":
    "elf"}``.
    """

    id: str
    kind: EntityKind
    name: str
    aliases: tuple[str, ...] = ()
    summary: str = ""
    attributes: Mapping[str, Any] = attrs.field(factory=dict)
    reach: Reach = EVERYONE
    provenance: Provenance = AUTHORED


@attrs.frozen(kw_only=True)
class Relationship:
    """A directed, typed edge between two entities, named by their ids.

    There is at most one of a type between two entities. A viewer sees it only together
    with both of its ends.
    """

    source: str
    type: str
    target: str
    attributes: Mapping[str, Any] = attrs.field(factory=dict)
    reach: Reach = EVERYONE
    provenance: Provenance = AUTHORED


@attrs.frozen(kw_only=True)
class Fact:
    """A sentence that is known, or claimed.

    ``about``: the ids of entities. ``id`` is given by the store. ``lines``: the session
    and numbers of the lines that it was taken from.
    """

    text: str
    about: tuple[str, ...] = ()
    standing: Standing = Standing.ACCEPTED
    reach: Reach = EVERYONE
    provenance: Provenance = AUTHORED
    lines: tuple[tuple[str, int], ...] = ()
    id: int = 0


@attrs.frozen(kw_only=True)
class Neighbour:
    """An entity at the other end of a relationship, ``depth`` steps away."""

    relationship: Relationship
    entity: Entity
    depth: int = 1


@attrs.frozen(kw_only=True)
class Identity:
    """An identity snapshot: an entity, and what the viewer knows around it."""

    entity: Entity
    neighbours: tuple[Neighbour, ...] = ()
    facts: tuple[Fact, ...] = ()
    more: int = 0  # neighbours that were left out


_NOT_IN_SLUG: Final = re.compile(r"[^a-z0-9]+")


def slug(name: str) -> str:
    """Return an id for a name: "Greymantle the Sage" is "greymantle-the-sage".

    A name without Latin letters or digits keeps its own characters.
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    made = _NOT_IN_SLUG.sub("-", plain.casefold()).strip("-")
    return (made or "-".join(name.casefold().split()))[:MOST_NAME]
