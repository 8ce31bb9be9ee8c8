"""The entries of a journal: what happened in a session, in the order it happened.

A session's entries are numbered from 1, over all of its NPCs. One process at a time
writes to a session: it has claimed it, and each claim has a higher epoch than the one
before. Frozen data; ``data`` is plain data for JSON, whose shape is the writer's.

Times are Unix time in seconds, since a journal outlives its process's clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import attrs

from .visibility import CampaignKey, Reach


class EntryKind(StrEnum):
    """The kind of an entry.

    ``LINE``: words that were said. ``TURN``: an NPC's turn as it was delivered, and the
    NPC's state after it. ``EFFECT``: a call with side effects is about to begin.
    ``HEARD``: a correction of an NPC's last turn, of which more or less was heard.
    ``STATE``: the session as it was changed between turns, without its turns.
    ``SNAPSHOT``: the whole session, which replaces all entries before it but lines.
    """

    LINE = "line"
    TURN = "turn"
    EFFECT = "effect"
    HEARD = "heard"
    STATE = "state"
    SNAPSHOT = "snapshot"


# NUL and halves of surrogate pairs, which a database has no place for.
_UNFIT: Final = re.compile("[\0\ud800-\udfff]")


def fit(text: str) -> str:
    """Return a text as every store can hold it: with U+FFFD for NUL and for half a
    surrogate pair."""
    return _UNFIT.sub("\ufffd", text)


def _players(ids: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(fit(x) for x in ids if x))


def check_heard(reach: Reach) -> None:
    """Check the reach of a line, or of a summary of lines.

    Raises:
      ValueError: it has topics, or is a secret.
    """
    if reach.topics or reach.secret:
        raise ValueError("who heard a line are NPCs, without topics and secrets")


@attrs.frozen(kw_only=True)
class Line:
    """Words that were said, verbatim, but for NUL and half a surrogate pair (`fit`).

    Args:
      text: the words, as far as they were delivered.
      speaker: the name of the player or NPC who said them.
      player: the stable id of that player; "" if an NPC said them.
      to: the name of the addressed NPC, or player; "" if they were said to all.
      reach: who heard them; without topics, and no secret.
      corrected: the words with recognised names put right; "" if nothing was wrong.
      seconds: how long they took to say; 0 if that is not known.
      evening: the id of the evening in which they were said.
      answers: the stable ids of the players whose words they answer, and may repeat:
        they are forgotten with each of these players.
    """

    text: str = attrs.field(converter=fit)
    speaker: str = attrs.field(converter=fit)
    player: str = attrs.field(default="", converter=fit)
    to: str = attrs.field(default="", converter=fit)
    reach: Reach = attrs.field()
    corrected: str = attrs.field(default="", converter=fit)
    seconds: float = 0.0
    evening: str = attrs.field(default="", converter=fit)
    answers: tuple[str, ...] = attrs.field(default=(), converter=_players)

    @reach.validator
    def _heard(self, _: Any, reach: Reach) -> None:
        check_heard(reach)


@attrs.frozen(kw_only=True)
class Entry:
    """One entry to be written. ``line`` is there if it is of the kind `EntryKind.LINE`.

    ``npc`` and ``turn`` name the turn that it belongs to, if it belongs to one.
    ``key`` is that of the first entry of a job, which may be appended again since the
    end of an attempt is not known: later jobs of a claim have higher ones; 0 is none.
    """

    kind: EntryKind
    at: float
    npc: str = ""
    turn: int = 0
    data: Mapping[str, Any] = attrs.field(factory=dict)
    line: Line | None = None
    key: int = attrs.field(default=0, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if (self.line is None) is (self.kind is EntryKind.LINE):
            raise ValueError("an entry of the kind line, and no other, has a line")


def last_key(entries: Iterable[Entry]) -> int:
    """Return the highest key of entries; 0 if none has one."""
    return max((x.key for x in entries), default=0)


def unwritten(entries: Sequence[Entry], written: int) -> tuple[Entry, ...]:
    """Return entries without those of jobs with keys up to ``written``."""
    found, key = list[Entry](), 0
    for entry in entries:
        key = entry.key or key
        if not 0 < key <= written:
            found.append(entry)
    return tuple(found)


@attrs.frozen(kw_only=True)
class KeptEntry:
    """An entry as it was written: with its number in the session, and its epoch."""

    n: int
    epoch: int
    entry: Entry


@attrs.frozen(kw_only=True)
class Holder:
    """A process that may claim sessions.

    ``id`` is unique; ``where`` says for people which process that is, such as "process
    4711 on tower".
    """

    id: str
    where: str


@attrs.frozen(kw_only=True)
class Claim:
    """The right to write to a session, until a claim with a higher epoch is made.

    ``known``: the session has entries of before. ``row`` is the store's own key.
    """

    tenant: str
    session: str
    campaign: CampaignKey
    epoch: int
    known: bool
    row: Any = attrs.field(default=None, eq=False, repr=False)


@attrs.frozen(kw_only=True)
class SessionRow:
    """A session that a journal knows: for lists.

    ``holder`` says which process has it open; "" if none has. ``lines`` counts the
    lines of all its evenings. ``ended``: it has ended, and only its lines are left.
    """

    tenant: str
    session: str
    campaign: str
    holder: str = ""
    lines: int = 0
    last_at: float = 0.0
    ended: bool = False


@attrs.frozen(kw_only=True)
class Evening:
    """A session from its begin, or its restore, to its end or to half an idle hour.

    ``id`` is unique in its campaign and readable, such as "table-42-2026-11-24".
    ``ended`` is None while it goes on. ``summary`` is "" until one was written, and
    for viewers that ``reach`` leaves out.
    """

    id: str
    session: str
    began: float
    ended: float | None = None
    summary: str = ""
    reach: Reach | None = None


# Half an hour without a word ends an evening.
IDLE: Final = 1800.0
