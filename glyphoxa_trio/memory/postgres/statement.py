"""The one statement that appends entries to the journal, of one session or of several.

Each session is named with the number of the entry that the append follows, and is left
out if that is not its last one, or if its claim is not valid any more. A row
may give the claim back, and end an evening.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pydantic_core import PydanticSerializationError, to_json

_STATEMENT: Final = """
    with asked as (
        select * from jsonb_to_recordset($2::jsonb) as x(
            id bigint, epoch bigint, before bigint, upto bigint,
            newest double precision, older bigint,
            released boolean, evening text, ended double precision)
    ), free as (
        select id from session where id in (select id from asked) {lock}
    ), mine as (
        update session set last = upto, last_at = greatest(last_at, newest),
            holder = case when released then null else holder end,
            place = case when released then '' else place end
        from asked
        where session.id = asked.id and session.epoch = asked.epoch
            and holder = $1::bigint and last = before
            and session.id in (select id from free)
        returning session.id, campaign, session.epoch, older, asked.evening, asked.ended
    ), entries as (
        insert into entry (session, n, epoch, kind, at, npc, turn, data)
        select mine.id, x.n, epoch, x.kind, x.at, x.npc, x.turn, x.data
        from jsonb_to_recordset($3::jsonb) as x(
            id bigint, n bigint, kind text, at double precision, npc text, turn bigint,
            data text)
        join mine on mine.id = x.id
    ), lines as (
        insert into line (session, n, epoch, campaign, at, npc, turn, data, evening,
            speaker, player, addressee, text, corrected, seconds,
            audience, topics, secret, answers, words)
        select mine.id, x.n, epoch, campaign, x.at, x.npc, x.turn, x.data, x.evening,
            speaker, player, addressee, text, corrected, seconds,
            audience, topics, secret, answers,
            array_to_tsvector(words || ('@' || campaign))
        from jsonb_to_recordset($4::jsonb) as x(
            id bigint, n bigint, at double precision, npc text, turn bigint, data text,
            evening text, speaker text, player text, addressee text, text text,
            corrected text, seconds double precision,
            audience bigint, topics text[], secret boolean, answers text[],
            words text[])
        join mine on mine.id = x.id
        returning campaign, evening
    ), older as (
        delete from entry using mine where session = id and n <= older
    ), over as (
        update evening set ended = mine.ended from mine
        where evening.campaign = mine.campaign and name = mine.evening
            and evening.ended is null
    ), uncut as (
        update evening set whole = false from lines
        where evening.campaign = lines.campaign and name = lines.evening and whole
    )
    select id from mine
"""


# The rows of "sessions", "entries" and "lines", as the statement takes them.
AppendRows = Mapping[str, list[dict[str, Any]]]


def append_statement(*, waits: bool) -> str:
    """Return the statement, whose result is the ids of the sessions that it changed.

    ``waits``: for sessions that are locked, which are left out otherwise.
    """
    return _STATEMENT.format(lock="" if waits else "for update skip locked")


def parameters(holder: int, *appends: AppendRows) -> list[str]:
    """Return the parameters of the statement for appends to different sessions."""
    tables = ("sessions", "entries", "lines")
    return [
        str(holder),
        *(as_json([x for a in appends for x in a[t]]).decode() for t in tables),
    ]


def as_json(value: Any) -> bytes:
    """Return plain data as JSON.

    Raises:
      TypeError: it is not plain data.
    """
    try:  # four times as fast as the other
        return to_json(value, inf_nan_mode="constants")
    except PydanticSerializationError:  # half a surrogate pair, for instance
        return json.dumps(value).encode()
