"""The semantic index in PostgreSQL: with pgvector, or else with arrays, which are slow
beyond some thousand chunks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

import attrs

from glyphoxa_trio.memory.contract import Chunk, FoundChunk
from glyphoxa_trio.memory.errors import QueryRefused
from glyphoxa_trio.memory.visibility import CampaignKey, Viewer

from .pool import PostgresPool
from .rows import (
    AUDIENCE,
    REACH,
    Connection,
    campaign_id,
    fit,
    reach_of,
    seen_by,
    viewing,
)

_CHUNK_LINES: Final = 12
_MOST: Final = 2**31  # rows
_CUTTING: Final = 0x676C796375747321  # the key of a lock: "glycuts!"
_CHUNK: Final = f"""
    campaign.name, campaign.tenant, x.id, x.text, x.evening, x.at,
    coalesce(x.fact, 0), array(
        select array[source.session, source.n::text] from source
        where source.chunk = x.id order by place
    ), {REACH}
"""
_JOINS: Final = f"join campaign on campaign.id = x.campaign {AUDIENCE}"
# The cosine, for each of the two types of vectors; 0 if one of them is nothing but 0.
_SIMILAR: Final = {
    True: "coalesce(nullif(1 - (vector <=> %(vector)s::vector), 'NaN'), 0)",
    False: """coalesce((
        select sum(a * b) / nullif(sqrt(sum(a * a)) * sqrt(sum(b * b)), 0)
        from unnest(vector, %(vector)s::double precision[]) as pairs (a, b)
    ), 0)""",
}
_LENGTH: Final = {True: "vector_dims(vector)", False: "cardinality(vector)"}
_TYPE: Final = {True: "vector", False: "double precision[]"}


@attrs.frozen(eq=False)
class PostgresIndex:
    """The `SemanticIndex` of a database. Its methods are described there.

    ``native``: pgvector is there.
    """

    pool: PostgresPool
    native: bool

    async def pending(
        self, model: str, *, limit: int = 64
    ) -> tuple[tuple[CampaignKey, Chunk], ...]:
        await self.pool.write(_cut)
        return await self.pool.read_one(_pending, model, max(0, min(limit, _MOST)))

    async def add(
        self, model: str, vectors: Sequence[tuple[int, Sequence[float]]]
    ) -> None:
        await self.pool.write(_add, self.native, model, vectors)

    async def search(
        self,
        campaign: CampaignKey,
        viewer: Viewer,
        model: str,
        vector: Sequence[float],
        *,
        limit: int = 10,
    ) -> tuple[FoundChunk, ...]:
        return await self.pool.read(
            _search,
            self.native,
            campaign,
            viewer,
            model,
            list(vector),
            max(0, min(limit, _MOST)),
        )

    async def progress(self, model: str) -> tuple[int, int]:
        await self.pool.write(_cut)
        return await self.pool.read_one(_progress, model)

    async def drop_other_models(self, model: str) -> None:
        await self.pool.write(_drop_others, model)


def _cut(connection: Connection) -> None:
    """Cut evenings that have ended, and accepted facts, into chunks."""
    connection.execute("select pg_advisory_xact_lock(%s)", (_CUTTING,))
    evenings = connection.execute(
        "select x.campaign, x.name from evening x where x.ended is not null"
        " and exists (select from line"
        "  where line.campaign = x.campaign and line.evening = x.name)"
        " and not exists (select from chunk"
        "  where chunk.campaign = x.campaign and chunk.evening = x.name) order by x.id"
    ).fetchall()
    for campaign, name in evenings:
        _cut_evening(connection, campaign, name)
    connection.execute(
        "insert into chunk (campaign, fact, at, text, audience, topics, secret)"
        " select campaign, id, at, text, audience, topics, secret from fact"
        " where standing = 'accepted'"
        " and not exists (select from chunk where chunk.fact = fact.id) order by id"
    )


def _cut_evening(connection: Connection, campaign: int, evening: str) -> None:
    rows = connection.execute(
        "select session.name, n, at, speaker, text, corrected,"
        " audience, topics, secret"
        " from line join session on session.id = line.session"
        " where line.campaign = %s and evening = %s order by session.id, n",
        (campaign, evening),
    ).fetchall()
    # Only neighbours that the same NPCs heard are in one chunk.
    for reach, same in itertools.groupby(rows, lambda x: x[6:]):
        lines = list(same)
        for first in range(0, len(lines), _CHUNK_LINES):
            some = lines[first : first + _CHUNK_LINES]
            text = "\n".join(f"{x[3]}: {x[5] or x[4]}" for x in some)
            made = connection.execute(
                "insert into chunk"
                " (campaign, evening, at, text, audience, topics, secret)"
                " values (%s, %s, %s, %s, %s, %s, %s) returning id",
                (campaign, evening, some[0][2], text, *reach),
            ).fetchone()
            assert made is not None
            connection.execute(
                "insert into source (chunk, campaign, session, n, place)"
                " select %s, %s, * from"
                " unnest(%s::text[], %s::bigint[]) with ordinality",
                (made[0], campaign, [x[0] for x in some], [x[1] for x in some]),
            )


def _pending(
    connection: Connection, model: str, limit: int
) -> tuple[tuple[CampaignKey, Chunk], ...]:
    rows = connection.execute(
        f"select {_CHUNK} from chunk x {_JOINS} where not exists ("
        "  select from embedding join model on model.id = embedding.model"
        "  where embedding.chunk = x.id and model.name = %s"
        ") order by x.id limit %s",
        (fit(model), limit),
    )
    return tuple((CampaignKey(*row[:2]), _chunk(*row[2:])) for row in rows)


def _chunk(
    id_: int,
    text: str,
    evening: str,
    at: float,
    fact: int,
    lines: list[list[str]],
    *reach: Any,
) -> Chunk:
    return Chunk(
        id=id_,
        text=text,
        evening=evening,
        at=at,
        fact=fact,
        lines=tuple((session, int(n)) for session, n in lines),
        reach=reach_of(*reach),
    )


def _add(
    connection: Connection,
    native: bool,
    model: str,
    vectors: Sequence[tuple[int, Sequence[float]]],
) -> None:
    if not vectors:
        return
    connection.execute(
        "insert into model (name) values (%s) on conflict do nothing", (fit(model),)
    )
    # Locked, so that all of its vectors have the same length.
    row = connection.execute(
        "select id from model where name = %s for update", (fit(model),)
    ).fetchone()
    assert row is not None
    sizes = {len(x) for _, x in vectors}
    if known := _length(connection, native, row[0]):
        sizes.add(known)
    if len(sizes) > 1:
        raise QueryRefused(f"the vectors of {model} differ in length: {sizes}")
    with connection.cursor() as cursor:
        cursor.executemany(
            "insert into embedding (model, chunk, vector)"
            f" select %s, id, %s::{_TYPE[native]} from chunk where id = %s"
            " for key share"
            " on conflict (model, chunk) do update set vector = excluded.vector",
            [
                (row[0], _written(native, vector), id_)
                for id_, vector in dict(vectors).items()
                if 0 < id_ < 2**63
            ],
        )


def _written(native: bool, vector: Sequence[float]) -> Any:
    numbers = [float(x) for x in vector]
    return str(numbers) if native else numbers


def _length(connection: Connection, native: bool, model: int) -> int:
    row = connection.execute(
        f"select {_LENGTH[native]} from embedding where model = %s limit 1", (model,)
    ).fetchone()
    return int(row[0]) if row else 0


def _search(
    connection: Connection,
    native: bool,
    key: CampaignKey,
    viewer: Viewer,
    model: str,
    vector: list[float],
    limit: int,
) -> tuple[FoundChunk, ...]:
    row = connection.execute(
        "select id from model where name = %s", (fit(model),)
    ).fetchone()
    known = _length(connection, native, row[0]) if row else 0
    if row is None or not known:
        return ()
    if known != len(vector):
        raise QueryRefused(f"a vector of {len(vector)} dimensions, not {known}")
    rows = connection.execute(
        f"""
        select best.score, {_CHUNK} from (
            select {_SIMILAR[native]} as score, x.id
            from embedding join chunk x on x.id = embedding.chunk
            where embedding.model = %(model)s and x.campaign = %(campaign)s
            and {seen_by(viewer)} order by score desc, x.id limit %(limit)s
        ) as best join chunk x on x.id = best.id {_JOINS}
        order by best.score desc, x.id
        """.encode(),
        {
            **viewing(campaign_id(connection, key), viewer),
            "model": row[0],
            "vector": _written(native, vector),
            "limit": limit,
        },
        prepare=False,
    )
    return tuple(FoundChunk(chunk=_chunk(*found[3:]), score=found[0]) for found in rows)


def _progress(connection: Connection, model: str) -> tuple[int, int]:
    row = connection.execute(
        "select (select count(*) from embedding"
        "  where model = (select id from model where name = %s)),"
        " (select count(*) from chunk)",
        (fit(model),),
    ).fetchone()
    assert row is not None
    return row[0], row[1]


def _drop_others(connection: Connection, model: str) -> None:
    connection.execute("delete from model where name <> %s", (fit(model),))
