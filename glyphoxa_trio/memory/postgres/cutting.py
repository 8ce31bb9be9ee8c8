"""Cut evenings that have ended, and accepted facts, into chunks of PostgreSQL."""

from __future__ import annotations

from typing import Any, Final

import attrs

from glyphoxa_trio.memory.passages import in_passage, passages

from .rows import (
    Connection,
)

_LINES: Final = 2000  # that are cut at once
_CUTTING: Final = 0x676C796375747321  # the key of a lock: "glycuts!"


def cut(connection: Connection) -> None:
    """Cut evenings that have ended, and accepted facts, into chunks."""
    connection.execute("select pg_advisory_xact_lock(%s)", (_CUTTING,))
    connection.execute(
        "insert into chunk (campaign, fact, at, text, audience, topics, secret)"
        " select campaign, id, at, text, audience, topics, secret from fact"
        " where standing = 'accepted'"
        " and not exists (select from chunk where chunk.fact = fact.id) order by id"
    )
    left = _LINES
    while left > 0:
        # Locked, since an append makes it incomplete again.
        evening = connection.execute(
            "select id, campaign, name from evening"
            " where ended is not null and not whole order by id limit 1 for update"
        ).fetchone()
        if evening is None:
            return
        connection.execute("update evening set whole = true where id = %s", evening[:1])
        left -= _cut_evening(connection, *evening[1:]) + 1


@attrs.frozen
class _Said:
    """A line; ``reach`` are its columns, and None if it is in a chunk."""

    session: str
    n: int
    at: float
    text: str
    reach: tuple[Any, ...] | None


def _cut_evening(connection: Connection, campaign: int, evening: str) -> int:
    """Cut an evening into chunks, and return how many lines it has."""
    rows = connection.execute(
        "select session.name, n, at, speaker, text, corrected, exists ("
        "  select from source where source.campaign = line.campaign"
        "  and source.session = session.name and source.n = line.n"
        "  and chunk is not null), audience, topics, secret"
        " from line join session on session.id = line.session"
        " where line.campaign = %s and evening = %s order by session.id, n",
        (campaign, evening),
    )
    lines = [
        _Said(
            session,
            n,
            at,
            in_passage(*said),
            None if known else (x[0], tuple(x[1]), x[2]),
        )
        for session, n, at, *said, known, x in (
            (*row[:6], row[6], row[7:]) for row in rows
        )
    ]
    for some in passages(lines, lambda x: x.reach, lambda x: x.text):
        audience, topics, secret = some[0].reach or (0, (), True)
        made = connection.execute(
            "insert into chunk (campaign, evening, at, text, audience, topics, secret)"
            " values (%s, %s, %s, %s, %s, %s, %s) returning id",
            (
                *(campaign, evening, some[0].at),
                "\n".join(x.text for x in some),
                *(audience, list(topics), secret),
            ),
        ).fetchone()
        assert made is not None
        connection.execute(
            "insert into source (chunk, campaign, session, n, place)"
            " select %s, %s, * from unnest(%s::text[], %s::bigint[]) with ordinality",
            (made[0], campaign, [x.session for x in some], [x.n for x in some]),
        )
    return len(lines)
