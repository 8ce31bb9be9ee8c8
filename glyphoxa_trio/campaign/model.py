"""The records: campaigns, participants, characters, sessions.

Each can write itself as JSON, with the fields of the original design in its order.
Times are text, RFC 3339 in UTC with Z.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, Final, TypeVar

import attrs


class GmMode(StrEnum):
    """The leader of the game: a person, the AI, or both."""

    HUMAN = "HUMAN"
    AI = "AI"
    HYBRID = "HYBRID"


class Role(StrEnum):
    """The role of a participant at the table."""

    GM = "GM"
    PLAYER = "PLAYER"


class Controller(StrEnum):
    """The kind of player that decides for a participant."""

    HUMAN = "HUMAN"
    AI = "AI"


class CharacterKind(StrEnum):
    """The kind of a character: a player's, or not."""

    PC = "PC"
    NPC = "NPC"


class SessionStatus(StrEnum):
    """The status of a session. ENDED is final."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    ENDED = "ENDED"


# The controller of a character that belongs to no participant.
GM: Final = "GM"


@attrs.frozen(kw_only=True)
class CampaignRecord:
    """The base of all records. ``WORD`` is the name that clients use for one."""

    WORD: ClassVar[str]
    PREFIX: ClassVar[str]

    id: str

    @property
    def owner(self) -> str:
        """The id of the campaign it belongs to; a campaign belongs to itself."""
        return self.id

    def as_json(self) -> dict[str, Any]:
        return attrs.asdict(self)


@attrs.frozen(kw_only=True)
class CampaignMember(CampaignRecord):
    """A record that belongs to a campaign."""

    campaign_id: str

    @property
    def owner(self) -> str:
        return self.campaign_id


@attrs.frozen(kw_only=True)
class Campaign(CampaignRecord):
    """A game over many sessions."""

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
        """Return it as `campaign_create` answers it: without times."""
        written = self.as_json()
        del written["created_at"], written["updated_at"]
        return written


@attrs.frozen(kw_only=True)
class Participant(CampaignMember):
    """A person or an AI at the table."""

    WORD: ClassVar[str] = "participant"
    PREFIX: ClassVar[str] = "part_"

    display_name: str
    role: Role = attrs.field(converter=Role)
    controller: Controller = attrs.field(converter=Controller)
    created_at: str
    updated_at: str


@attrs.frozen(kw_only=True)
class Character(CampaignMember):
    """A character of the story, which clients call an actor.

    ``controller`` is `GM`, the id of a participant, or None if none was set.
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
        """Return it as JSON; ``controller`` is left out if None, as in the original
        design."""
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
        """Return it as JSON; ``ended_at`` is left out until the session has ended."""
        return _without(attrs.asdict(self), "ended_at")


R = TypeVar("R", bound=CampaignRecord)
M = TypeVar("M", bound=CampaignMember)

# The members of a campaign, by the names of their lists.
LISTS: Final[Mapping[str, type[CampaignMember]]] = {
    "participants": Participant,
    "actors": Character,
    "sessions": GameSession,
}


def _without(written: dict[str, Any], optional: str) -> dict[str, Any]:
    if written[optional] is None:
        del written[optional]
    return written
