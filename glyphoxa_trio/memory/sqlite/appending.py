"""Writing entries into a memory file, inside of a transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

import apsw
import attrs
import outcome
from pydantic_core import PydanticSerializationError, to_json

import trio

from glyphoxa_trio.memory.entries import (
    Claim,
    Entry,
    EntryKind,
    Line,
    last_key,
    unwritten,
)
from glyphoxa_trio.memory.errors import Fenced

from .audiences import audience_row, plain
from .line_words import add_words

_SNAPSHOT: Final = EntryKind.SNAPSHOT.value

_RESERVE: Final = """
    update session set last = last + ?, last_at = max(last_at, ?)
    where id = ? and epoch = ? and holder <> ''
    returning last, campaign
"""
_ADD: Final = """
    insert into entry (session, n, epoch, kind, at, npc, turn, data)
    values (?, ?, ?, ?, ?, ?, ?, ?)
"""
_ADD_LINE: Final = """
    insert into line (id, session, campaign, evening, audience, at, speaker, player,
        addressee, text, corrected, seconds, answers)
    values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_REPLACED: Final = "delete from entry where session = ? and kind <> 'line' and n < ?"
_EVENING: Final = "select id from evening where campaign = ? and name = ?"
# A line that was added is in no chunk yet.
_NOT_WHOLE: Final = "update evening set whole = 0 where id = ? and whole"

# The ids of audiences, by campaign and NPCs, and of evenings, by campaign and name.
# Rows of both tables are never removed.
RowIds = dict[tuple[int, frozenset[str] | str | None], int]


@attrs.define(eq=False)
class ClaimedRow:
    """The id of a session that this process has claimed, and the key of the last job
    that it has written (`Entry.key`)."""

    id: int
    written: int = 0


@attrs.define(eq=False)
class Append:
    """Entries of one session that are to be written, and how that ended.

    ``key`` is that of the last job among them. ``turn`` is set when that has ended, or
    when this one is to write what waits.
    """

    claim: Claim
    row: ClaimedRow
    key: int
    last_at: float
    rows: list[tuple[str, float, str, int, str, Line | None]]
    ended: outcome.Outcome[int] | None = None
    turn: trio.Event = attrs.field(factory=trio.Event)

    @classmethod
    def of(cls, claim: Claim, entries: Sequence[Entry]) -> Self:
        """Return entries as they are written.

        Raises:
          TypeError: the data of one is not plain data for JSON.
        """
        # A claim of another process has none, and is refused when it is written.
        row = claim.row if isinstance(claim.row, ClaimedRow) else ClaimedRow(0)
        entries = unwritten(entries, row.written)
        return cls(
            claim,
            row,
            last_key(entries),
            max((x.at for x in entries), default=0.0),
            [
                (x.kind.value, x.at, x.npc, x.turn, _json(x.data), x.line)
                for x in entries
            ],
        )

    def end(self, ended: outcome.Outcome[int]) -> None:
        """Record the number of the last entry, or why none was written."""
        self.ended = ended
        if isinstance(ended, outcome.Value):
            self.row.written = max(self.row.written, self.key)
        self.turn.set()


def append_all(
    connection: apsw.Connection, several: Sequence[Append], known: RowIds
) -> tuple[list[outcome.Outcome[int]], RowIds]:
    """Write all of these, except those whose claim is not valid any more.

    Returns how each ended: with the number of its last entry, or with `Fenced`; and the
    ids that were not known, which hold once the transaction is committed.
    """
    writer = _Writer(connection, known)
    ends: list[outcome.Outcome[int]] = []
    for one in several:
        try:
            ends.append(outcome.Value(writer.append(one)))
        except Fenced as error:
            ends.append(outcome.Error(error))
    for evening in writer.evenings:
        connection.execute(_NOT_WHOLE, (evening,))
    return ends, writer.found


def fenced(claim: Claim) -> Fenced:
    """Return the error that says that a claim is not valid any more."""
    return Fenced(f"the session {claim.session} was taken over")


def _json(data: Mapping[str, Any]) -> str:
    try:  # four times as fast as the other
        return to_json(data, inf_nan_mode="constants").decode()
    except PydanticSerializationError:  # half a surrogate pair, for instance
        return json.dumps(dict(data), separators=(",", ":"))


@attrs.define(eq=False)
class _Writer:
    """Writes entries in one transaction."""

    connection: apsw.Connection
    known: RowIds
    found: RowIds = attrs.field(factory=dict)
    evenings: set[int] = attrs.field(factory=set)  # that got lines

    def append(self, one: Append) -> int:
        claim, rows, execute = one.claim, one.rows, self.connection.execute
        session = one.row.id
        reserved = execute(_RESERVE, (len(rows), one.last_at, session, claim.epoch)).get
        if reserved is None:
            raise fenced(claim)
        last, campaign = reserved
        snapshot, n = 0, last - len(rows)
        for kind, at, npc, turn, data, line in rows:
            n += 1
            execute(_ADD, (session, n, claim.epoch, kind, at, plain(npc), turn, data))
            if line is not None:
                self.add_line(session, campaign, at, line)
            elif kind == _SNAPSHOT:
                snapshot = n
        if snapshot:
            execute(_REPLACED, (session, snapshot))
        return int(last)

    def add_line(self, session: int, campaign: int, at: float, line: Line) -> None:
        id_ = self.connection.last_insert_rowid()
        audience = self.audience(campaign, line.reach.npcs)
        evening = self.evening(campaign, line.evening) if line.evening else None
        text, corrected = plain(line.text), plain(line.corrected)
        self.connection.execute(
            _ADD_LINE,
            (
                id_,
                session,
                campaign,
                evening,
                audience,
                at,
                plain(line.speaker),
                plain(line.player),
                plain(line.to),
                text,
                corrected,
                line.seconds,
                json.dumps(line.answers) if line.answers else "",
            ),
        )
        if evening is not None:
            self.evenings.add(evening)
        add_words(
            self.connection,
            line=id_,
            campaign=campaign,
            audience=audience,
            text=text,
            corrected=corrected,
        )

    def audience(self, campaign: int, npcs: frozenset[str] | None) -> int:
        key = campaign, npcs
        id_ = self.known.get(key) or self.found.get(key)
        if id_ is None:
            id_ = self.found[key] = audience_row(self.connection, campaign, npcs)
        return id_

    def evening(self, campaign: int, name: str) -> int | None:
        """Return the id of an evening; None if there is none of that name."""
        key = campaign, name
        id_ = self.known.get(key) or self.found.get(key)
        if id_ is None:
            id_ = self.connection.execute(_EVENING, (campaign, plain(name))).get
            if id_ is not None:
                self.found[key] = id_
        return id_
