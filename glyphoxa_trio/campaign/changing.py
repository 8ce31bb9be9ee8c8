"""Changing and deleting existing records, over one transaction, as in `rules`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from . import checks
from .errors import FailedPrecondition, InvalidArgument
from .model import (
    GM,
    Campaign,
    CampaignMember,
    CampaignRecord,
    Character,
    CharacterKind,
    Controller,
    GameSession,
    GmMode,
    Participant,
    R,
    Role,
    SessionStatus,
)
from .rules import alone, count, find, member
from .stamps import Timestamp
from .store import Records


def update(
    records: Records,
    moment: Timestamp,
    kind: type[R],
    campaign_id: str,
    record_id: str,
    wanted: Mapping[str, str | None],
) -> R:
    """Return the record with new values, stored; None leaves a value as it is.

    Raises:
      InvalidArgument: if no value is to be changed.
    """
    given = {field: text for field, text in wanted.items() if text is not None}
    if not given:
        raise InvalidArgument(f"nothing to change: give {', '.join(wanted)}")
    values = {field: _CHECKS[kind, field](text) for field, text in given.items()}
    record = _of(records, kind, campaign_id, record_id)
    return _replace(records, moment, record, **values)


def set_controller(
    records: Records,
    moment: Timestamp,
    campaign_id: str,
    record_id: str,
    controller: str,
) -> Character:
    """Set the default controller of a character: the GM, or one participant.

    Raises:
      NotFound, InvalidArgument: as `member` does, for the participant too.
    """
    character = member(records, Character, campaign_id, record_id)
    wanted = controller.strip()
    if wanted.upper() == GM:
        wanted = GM
    else:
        if not wanted:
            raise InvalidArgument("controller must be GM or the id of a participant")
        checks.shaped("controller", wanted)
        member(records, Participant, campaign_id, wanted)
    return _replace(records, moment, character, controller=wanted)


def move_session(
    records: Records,
    moment: Timestamp,
    campaign_id: str,
    record_id: str | None,
    to: SessionStatus,
) -> GameSession:
    """Pause, resume or end a session; if it has that status already, it stays as it is.

    Args:
      record_id: None means the active session.

    Raises:
      FailedPrecondition: if none is active, if it has ended, or if another session is
        active already.
    """
    find(records, Campaign, campaign_id)
    if record_id is None:
        session = records.active_session(campaign_id)
        if session is None:
            raise FailedPrecondition(
                "the campaign has no active session: give session_id, or start one"
            )
    else:
        session = member(records, GameSession, campaign_id, record_id)
    if session.status is to:
        return session
    if session.status is SessionStatus.ENDED:
        raise FailedPrecondition(f"session {session.id} has ended")
    if to is SessionStatus.ACTIVE:
        alone(records, campaign_id)
    ended = moment.text if to is SessionStatus.ENDED else None
    return _replace(
        records,
        moment,
        session,
        status=to,
        ended_at=ended and max(ended, session.updated_at),
    )


def delete(
    records: Records, moment: Timestamp, kind: type[R], campaign_id: str, record_id: str
) -> int:
    """Remove a record; a campaign is removed with everything in it.

    Returns the number of characters that lost their controller by it.
    """
    record = _of(records, kind, campaign_id, record_id)
    released = 0
    if isinstance(record, Participant):
        released = records.release(record, moment.text)
    records.remove(record)
    if isinstance(record, CampaignMember):
        count(records, record, -1)
    return released


# Helpers


def _of(records: Records, kind: type[R], campaign_id: str, record_id: str) -> R:
    if issubclass(kind, CampaignMember):
        return member(records, kind, campaign_id, record_id)
    return find(records, kind, record_id)


def _replace(records: Records, moment: Timestamp, record: R, **values: Any) -> R:
    if attrs.evolve(record, **values) == record:
        return record
    # If the clock was set back, the record must not become older.
    values["updated_at"] = max(moment.text, record.as_json()["updated_at"])
    changed = attrs.evolve(record, **values)
    records.replace(changed)
    return changed


def _words(field: str, words: Any) -> Callable[[str], Any]:
    return lambda text: checks.word(field, text, words)


def _named(field: str) -> Callable[[str], str]:
    return lambda text: checks.name(field, text)


_CHECKS: Final[Mapping[tuple[type[CampaignRecord], str], Callable[[str], Any]]] = {
    (Campaign, "name"): _named("name"),
    (Campaign, "gm_mode"): _words("gm_mode", GmMode),
    (Campaign, "theme_prompt"): lambda text: checks.bounded("theme_prompt", text),
    (Participant, "display_name"): _named("display_name"),
    (Participant, "role"): _words("role", Role),
    (Participant, "controller"): _words("controller", Controller),
    (Character, "name"): _named("name"),
    (Character, "kind"): _words("kind", CharacterKind),
    (Character, "notes"): lambda text: checks.bounded("notes", text).strip(),
    (GameSession, "name"): lambda text: checks.bounded(
        "name", text, checks.MOST_NAME
    ).strip(),
}
