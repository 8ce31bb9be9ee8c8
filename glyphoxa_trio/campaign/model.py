"""What there is: campaigns, participants, characters, sessions (F26 to F34).

Each knows how it is written as JSON, with the fields of seed 002 in its order. Times
are text, RFC 3339 in UTC with Z.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, Final, TypeVar

import attrs


class GmMode(StrEnum):
    """Who leads the game."""

    HUMAN = "HUMAN"
    AI = "AI"
    HYBRID = "HYBRID"


class Role(StrEnum):
    """What a participant is at the table."""

    GM = "GM"
    PLAYER = "PLAYER"


class Controller(StrEnum):
    """What makes the decisions of a participant."""

    HUMAN = "HUMAN"
    AI = "AI"


class CharacterKind(StrEnum):
    """Whether a character is a player's."""

    PC = "PC"
    NPC = "NPC"


class SessionStatus(StrEnum):
    """Where a session is. From ENDED nothing leads on."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    ENDED = "ENDED"


# The controller of a character that no participant has.
GM: Final = "GM"


@attrs.frozen(kw_only=True)
class CampaignRecord:
    """What all records have. ``WORD`` is what clients call one."""

    WORD: ClassVar[str]
    PREFIX: ClassVar[str]

    id: str

    @property
    def owner(self) -> str:
        """The campaign it belongs to; a campaign is its own."""
        return self.id

    def as_json(self) -> dict[str, Any]:
        return attrs.asdict(self)


@attrs.frozen(kw_only=True)
class CampaignMember(CampaignRecord):
    """What belongs to a campaign."""

    campaign_id: str

    @property
    def owner(self) -> str:
        return self.campaign_id


@attrs.frozen(kw_only=True)
class Campaign(CampaignRecord):
    """A game that goes on over many sessions."""

    WORD: ClassVar[str] = "campaign"
    PREFIX: ClassVar[str] = "camp_"

    name: str
    gm_mode: GmMode = attrs.field(converter=GmMode)
    participant_count: int = 0
    actor_count: int = 0
    theme_prompt: str = ""
    created_at: str
    updated_at: str

    def as_created(self) -> dict[str, Any]:
        """Without times, as `campaign_create` answers (F26)."""
        written = self.as_json()
        del written["created_at"], written["updated_at"]
        return written


@attrs.frozen(kw_only=True)
class Participant(CampaignMember):
    """Somebody at the table."""

    WORD: ClassVar[str] = "participant"
    PREFIX: ClassVar[str] = "part_"

    display_name: str
    role: Role = attrs.field(converter=Role)
    controller: Controller = attrs.field(converter=Controller)
    created_at: str
    updated_at: str


@attrs.frozen(kw_only=True)
class Character(CampaignMember):
    """A person of the story: an actor, as clients call it.

    ``controller`` is `GM`, the id of a participant, or None if nobody was named.
    """

    WORD: ClassVar[str] = "actor"
    PREFIX: ClassVar[str] = "actor_"

    name: str
    kind: CharacterKind = attrs.field(converter=CharacterKind)
    notes: str = ""
    controller: str | None = None
    created_at: str
    updated_at: str

    def as_json(self) -> dict[str, Any]:
        """``controller`` only if there is one: the seed's records do not have it."""
        return _without(attrs.asdict(self), "controller")


@attrs.frozen(kw_only=True)
class GameSession(CampaignMember):
    """One evening at the table."""

    WORD: ClassVar[str] = "session"
    PREFIX: ClassVar[str] = "sess_"

    name: str
    status: SessionStatus = attrs.field(converter=SessionStatus)
    started_at: str
    updated_at: str
    ended_at: str | None = None

    def as_json(self) -> dict[str, Any]:
        """``ended_at`` only if it has ended (F49)."""
        return _without(attrs.asdict(self), "ended_at")


R = TypeVar("R", bound=CampaignRecord)
M = TypeVar("M", bound=CampaignMember)

# What a campaign has, by the word that clients know it by.
LISTS: Final[Mapping[str, type[CampaignMember]]] = {
    "participants": Participant,
    "actors": Character,
    "sessions": GameSession,
}


def _without(written: dict[str, Any], optional: str) -> dict[str, Any]:
    if written[optional] is None:
        del written[optional]
    return written
