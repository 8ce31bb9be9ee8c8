"""Creating records of campaigns, over the records of one transaction. No I/O.

`changing` has the operations on existing records. Everything is checked here, for every
caller. A refusal changes nothing, since it is raised and ends the transaction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Final

import attrs

from glyphoxa_trio.tools.arguments import canonical

from . import checks
from .errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound
from .model import (
    Campaign,
    CampaignMember,
    CampaignRecord,
    Character,
    CharacterKind,
    Controller,
    GameSession,
    GmMode,
    M,
    Participant,
    R,
    Role,
    SessionStatus,
)
from .stamps import Timestamp
from .store import IdempotentResult, Records

# Seconds for which an idempotency key is remembered.
KEY_EXPIRY: Final = 24 * 3600.0

_COUNTERS: Final[Mapping[type[CampaignRecord], str]] = {
    Participant: "participant_count",
    Character: "actor_count",
}


def find(records: Records, kind: type[R], record_id: str) -> R:
    """Return the record with an id.

    Raises:
      InvalidArgument: if the text cannot be an id.
      NotFound: if no record has it.
    """
    record = records.get(kind, checks.identifier(kind, record_id))
    if record is None:
        raise NotFound(f"{kind.WORD} {record_id} does not exist")
    return record


def member(records: Records, kind: type[M], campaign_id: str, record_id: str) -> M:
    """Return a record that must belong to a campaign.

    Raises:
      NotFound: if the campaign or the record does not exist.
      InvalidArgument: if it belongs to another campaign, or the text cannot be an id.
    """
    find(records, Campaign, campaign_id)
    record = find(records, kind, record_id)
    if record.campaign_id != campaign_id:
        raise InvalidArgument(
            f"{kind.WORD} {record_id} does not belong to campaign {campaign_id}"
        )
    return record


# Creating


def create_campaign(
    records: Records,
    moment: Timestamp,
    *,
    name: str,
    gm_mode: str,
    theme_prompt: str = "",
    key: str | None = None,
) -> Campaign:
    campaign = Campaign(
        id=moment.new_id(Campaign.PREFIX),
        name=checks.name("name", name),
        gm_mode=checks.word("gm_mode", gm_mode, GmMode),
        theme_prompt=checks.bounded("theme_prompt", theme_prompt),
        created_at=moment.text,
        updated_at=moment.text,
    )
    return _once(records, moment, key, campaign, lambda: add(records, campaign))


def create_participant(
    records: Records,
    moment: Timestamp,
    campaign_id: str,
    *,
    display_name: str,
    role: str,
    controller: str = Controller.HUMAN,
    key: str | None = None,
) -> Participant:
    participant = Participant(
        id=moment.new_id(Participant.PREFIX),
        campaign_id=checks.identifier(Campaign, campaign_id),
        display_name=checks.name("display_name", display_name),
        role=checks.word("role", role, Role),
        controller=checks.word("controller", controller, Controller),
        created_at=moment.text,
        updated_at=moment.text,
    )
    return _once(records, moment, key, participant, lambda: join(records, participant))


def create_character(
    records: Records,
    moment: Timestamp,
    campaign_id: str,
    *,
    name: str,
    kind: str,
    notes: str = "",
    key: str | None = None,
) -> Character:
    character = Character(
        id=moment.new_id(Character.PREFIX),
        campaign_id=checks.identifier(Campaign, campaign_id),
        name=checks.name("name", name),
        kind=checks.word("kind", kind, CharacterKind),
        notes=checks.bounded("notes", notes).strip(),
        created_at=moment.text,
        updated_at=moment.text,
    )
    return _once(records, moment, key, character, lambda: join(records, character))


def start_session(
    records: Records,
    moment: Timestamp,
    campaign_id: str,
    *,
    name: str = "",
    key: str | None = None,
) -> GameSession:
    """Start a session; at most one session of a campaign may be active.

    Raises:
      FailedPrecondition: if another session is active; the message names it.
    """
    session = GameSession(
        id=moment.new_id(GameSession.PREFIX),
        campaign_id=checks.identifier(Campaign, campaign_id),
        name=checks.bounded("name", name, checks.MOST_NAME).strip(),
        status=SessionStatus.ACTIVE,
        started_at=moment.text,
        updated_at=moment.text,
    )

    def start() -> GameSession:
        find(records, Campaign, campaign_id)
        alone(records, campaign_id)
        return add(records, session)

    return _once(records, moment, key, session, start)


# Helpers


def _once(
    records: Records,
    moment: Timestamp,
    key: str | None,
    wanted: R,
    create: Callable[[], R],
) -> R:
    """Return a new record, or the one that was created under the same key before.

    Raises:
      AlreadyExists: if the key was used with other arguments.
      FailedPrecondition: if the record created with it has been deleted.
    """
    if key is None:
        return create()
    # The values that the caller chose, without the id and the times.
    given = attrs.asdict(wanted)
    chosen = {
        field: value
        for field, value in given.items()
        if field != "id" and not field.endswith("_at")
    }
    text = canonical({"kind": wanted.WORD, **chosen})
    digest = hashlib.sha256(text.encode()).hexdigest()
    since = moment.seconds - KEY_EXPIRY
    kept = records.kept(checks.key(key), since)
    if kept is None:
        record = create()
        records.keep(key, IdempotentResult(digest, record.id), moment.seconds, since)
        return record
    if kept.arguments != digest:
        raise AlreadyExists("idempotency_key was used with other arguments")
    before = records.get(type(wanted), kept.record_id)
    if before is None:
        raise FailedPrecondition(
            f"{wanted.WORD} {kept.record_id}, made with this idempotency_key, was"
            " deleted"
        )
    return before


def add(records: Records, record: R) -> R:
    records.add(record)
    return record


def join(records: Records, record: M) -> M:
    count(records, record, +1)
    added: M = add(records, record)
    return added


def count(records: Records, record: CampaignMember, more: int) -> None:
    """Adjust the campaign's count of members; raise `NotFound` if it does not exist."""
    campaign = find(records, Campaign, record.campaign_id)
    counter = _COUNTERS.get(type(record))
    if counter is not None:
        count = getattr(campaign, counter) + more
        records.replace(attrs.evolve(campaign, **{counter: count}))


def alone(records: Records, campaign_id: str) -> None:
    active = records.active_session(campaign_id)
    if active is not None:
        raise FailedPrecondition(
            f"the campaign has an active session: {active.id}; end or pause it first"
        )
