"""The result of reading world data: entities, relationships, facts; and what is not."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import attrs

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.memory.knowledge import Entity, Fact, Relationship

MOST_BYTES: Final = 64 * 1024 * 1024  # of a file
MOST_ENTITIES: Final = 20_000  # of an import, of all its files together
MOST_FACTS: Final = 200_000
MOST_FILES: Final = 5_000


class ImportRefused(GlyphoxaError):
    """Files that cannot be imported; the message names the place. Nothing was."""


class ImportKind(StrEnum):
    """The kind of a file of world data.

    ``CAMPAIGN``: a campaign file of ours, in YAML, TOML or JSON. ``MEMORY``: an export
    of a memory. ``FOUNDRY``: documents of Foundry VTT. ``ROLL20``: the archive of a
    Roll20 campaign. ``SILLYTAVERN``: a lorebook or a card. ``CAMPAIGN_SERVER``: a
    document, or the file, of the campaign server.
    """

    CAMPAIGN = "campaign"
    MEMORY = "memory"
    FOUNDRY = "foundry"
    ROLL20 = "roll20"
    SILLYTAVERN = "sillytavern"
    CAMPAIGN_SERVER = "campaign-server"


@attrs.frozen
class Skipped:
    """An item of a file that was not imported, or not wholly, and the reason."""

    where: str
    why: str


@attrs.frozen(kw_only=True)
class Imported:
    """World data as the knowledge graph takes it.

    ``campaign`` is the name of the campaign that the files state; "" if they do not.
    ``notes``: what the game master should look at, such as a misspelt name of an NPC.
    """

    entities: tuple[Entity, ...] = ()
    relationships: tuple[Relationship, ...] = ()
    facts: tuple[Fact, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()
    campaign: str = ""
