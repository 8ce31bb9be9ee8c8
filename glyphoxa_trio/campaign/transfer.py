"""Exporting a whole campaign as JSON, and importing it into a store.

A document that would be too large for the arguments of one call is split into several:
each begins where the one before ended. They are imported one by one, in their order.
Importing one twice does no harm.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import attrs

from . import checks, cursors
from .errors import AlreadyExists, InvalidArgument
from .model import (
    GM,
    LISTS,
    Campaign,
    CampaignMember,
    CampaignRecord,
    Character,
    CharacterKind,
    Controller,
    GameSession,
    GmMode,
    Participant,
    Role,
    SessionStatus,
)
from .rules import add, alone, find, join, member
from .stamps import Timestamp, is_time
from .store import Records

FORMAT: Final = "glyphoxa.campaign/1"
# Bytes of a document: small enough for a model to read and write again.
MOST_EXPORT: Final = 48 * 1024
_CHUNK: Final = 100


def exported(
    records: Records, campaign_id: str, cursor: str | None = None
) -> dict[str, Any]:
    """Return the campaign with everything in it, or a part of that.

    It is the first part, or the one after the cursor; ``next_cursor`` is there if there
    is more.

    Raises:
      NotFound: if there is no such campaign.
      InvalidArgument: if the text cannot be an id, or for a foreign cursor.
    """
    campaign = find(records, Campaign, campaign_id)
    document: dict[str, Any] = {"format": FORMAT, "campaign_id": campaign.id}
    size = 0
    if cursor is None:
        document["campaign"] = campaign.as_json()
        size = _size(document)
    at, after = divmod(cursors.read(f"export {campaign.id}", cursor), 2**60)
    if at >= len(LISTS):
        raise InvalidArgument("cursor is not from this export")
    document |= {word: [] for word in LISTS}
    for number_of_list, (word, kind) in enumerate(LISTS.items()):
        if number_of_list < at:
            continue
        while chunk := records.page(kind, campaign.id, after, _CHUNK):
            for number, record in chunk:
                written = record.as_json()
                added = _size(written)
                if size and size + added > MOST_EXPORT:
                    place = number_of_list * 2**60 + after
                    document["next_cursor"] = cursors.written(
                        f"export {campaign.id}", place
                    )
                    return document
                document[word].append(written)
                size += added
                after = number
        after = 0
    return document


def imported(
    records: Records, moment: Timestamp, document: Mapping[str, Any]
) -> dict[str, Any]:
    """Import an exported document: all of it, or nothing.

    Records that exist already with the same values stay.

    Returns how many records are new, and how many existed.

    Raises:
      InvalidArgument: for a wrong document; the message names the place.
      NotFound: for the second part of a campaign whose first was not imported.
      AlreadyExists: if another record with the same id exists.
      FailedPrecondition: if two sessions would be active.
    """
    if document.get("format") != FORMAT:
        raise InvalidArgument(f"document.format must be {FORMAT!r}")
    unknown = document.keys() - {"format", "campaign_id", "campaign", "next_cursor"}
    if unknown - LISTS.keys():
        raise InvalidArgument(
            f"document: unknown {', '.join(sorted(unknown - LISTS.keys()))}"
        )
    campaign_id = _text(document, "campaign_id", "document")
    new = {"campaigns": 0} | dict.fromkeys(LISTS, 0)
    there = 0
    if "campaign" in document:
        campaign = _campaign(document["campaign"], campaign_id)
        before = records.get(Campaign, campaign_id)
        if before is None:
            add(records, campaign)
            new["campaigns"] = 1
        else:
            counted = attrs.evolve(
                campaign,
                participant_count=before.participant_count,
                actor_count=before.actor_count,
            )
            there += _same(before, counted, "document.campaign")
    else:
        find(records, Campaign, campaign_id)
    for word, kind in LISTS.items():
        entries = document.get(word, [])
        if not isinstance(entries, list):
            raise InvalidArgument(f"document.{word} must be an array")
        for at, entry in enumerate(entries):
            place = f"document.{word}[{at}]"
            record = _member(kind, entry, campaign_id, place)
            known = records.get(kind, record.id)
            if known is not None:
                there += _same(known, record, place)
                continue
            if isinstance(record, Character) and record.controller not in (None, GM):
                member(records, Participant, campaign_id, str(record.controller))
            if (
                isinstance(record, GameSession)
                and record.status is SessionStatus.ACTIVE
            ):
                alone(records, campaign_id)
            join(records, record)
            new[word] += 1
    return {"campaign_id": campaign_id, "added": new, "already_there": there}


def _size(written: Mapping[str, Any]) -> int:
    return len(json.dumps(written, ensure_ascii=False).encode()) + 2


def _same(before: CampaignRecord, record: CampaignRecord, place: str) -> int:
    if before != record:
        raise AlreadyExists(f"{place}: there is another {record.WORD} {record.id}")
    return 1


def _campaign(entry: Any, campaign_id: str) -> Campaign:
    place = "document.campaign"
    fields = _fields(Campaign, entry, place)
    if fields.text("id") != campaign_id:
        raise InvalidArgument(f"{place}.id must be document.campaign_id")
    return Campaign(
        id=fields.id(Campaign),
        name=checks.name(f"{place}.name", fields.text("name")),
        gm_mode=checks.word(f"{place}.gm_mode", fields.text("gm_mode"), GmMode),
        theme_prompt=checks.bounded(
            f"{place}.theme_prompt", fields.text("theme_prompt")
        ),
        created_at=fields.time("created_at"),
        updated_at=fields.time("updated_at"),
    )


def _member(
    kind: type[CampaignMember], entry: Any, campaign_id: str, place: str
) -> CampaignMember:
    fields = _fields(kind, entry, place)
    if fields.text("campaign_id") != campaign_id:
        raise InvalidArgument(f"{place}.campaign_id must be document.campaign_id")
    if issubclass(kind, Participant):
        return Participant(
            id=fields.id(kind),
            campaign_id=campaign_id,
            display_name=checks.name(
                f"{place}.display_name", fields.text("display_name")
            ),
            role=checks.word(f"{place}.role", fields.text("role"), Role),
            controller=checks.word(
                f"{place}.controller", fields.text("controller"), Controller
            ),
            created_at=fields.time("created_at"),
            updated_at=fields.time("updated_at"),
        )
    if issubclass(kind, Character):
        return Character(
            id=fields.id(kind),
            campaign_id=campaign_id,
            name=checks.name(f"{place}.name", fields.text("name")),
            kind=checks.word(f"{place}.kind", fields.text("kind"), CharacterKind),
            notes=checks.bounded(f"{place}.notes", fields.text("notes")),
            controller=fields.text("controller") if "controller" in entry else None,
            created_at=fields.time("created_at"),
            updated_at=fields.time("updated_at"),
        )
    status = checks.word(f"{place}.status", fields.text("status"), SessionStatus)
    if (status is SessionStatus.ENDED) != ("ended_at" in entry):
        raise InvalidArgument(f"{place}: ended_at goes with the status ENDED")
    return GameSession(
        id=fields.id(kind),
        campaign_id=campaign_id,
        name=checks.bounded(f"{place}.name", fields.text("name"), checks.MOST_NAME),
        status=status,
        started_at=fields.time("started_at"),
        updated_at=fields.time("updated_at"),
        ended_at=fields.time("ended_at") if "ended_at" in entry else None,
    )


@attrs.frozen
class _Fields:
    """A record as the client wrote it, unchecked."""

    entry: Mapping[str, Any]
    place: str

    def text(self, name: str) -> str:
        return _text(self.entry, name, self.place)

    def id(self, kind: type[CampaignRecord]) -> str:
        text = checks.shaped(f"{self.place}.id", self.text("id"))
        if not text.startswith(kind.PREFIX):
            raise InvalidArgument(f"{self.place}.id must begin with {kind.PREFIX}")
        return text

    def time(self, name: str) -> str:
        text = self.text(name)
        if not is_time(text):
            raise InvalidArgument(
                f"{self.place}.{name} must be a time such as 2025-01-15T10:30:00Z"
            )
        return text


def _fields(kind: type[CampaignRecord], entry: Any, place: str) -> _Fields:
    if not isinstance(entry, dict):
        raise InvalidArgument(f"{place} must be an object")
    unknown = entry.keys() - {field.name for field in attrs.fields(kind)}
    if unknown:
        raise InvalidArgument(f"{place}: unknown {', '.join(sorted(unknown))}"[:300])
    return _Fields(entry, place)


def _text(entry: Mapping[str, Any], name: str, place: str) -> str:
    value = entry.get(name)
    if not isinstance(value, str):
        raise InvalidArgument(f"{place}.{name} must be a string")
    return value
