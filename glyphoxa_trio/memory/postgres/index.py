"""The semantic index in PostgreSQL: with pgvector, or else with arrays, which are slow
beyond some thousand chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs

from glyphoxa_trio.memory.contract import Chunk, FoundChunk
from glyphoxa_trio.memory.errors import QueryRefused
from glyphoxa_trio.memory.similarity import unit
from glyphoxa_trio.memory.visibility import CampaignKey, Viewer

from .cutting import cut
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

_MOST_DIMENSIONS: Final = 16_000  # of pgvector
_MOST: Final = 2**31  # rows
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
        await self.pool.write(cut)
        return await self.pool.read_one(_pending, model, max(0, min(limit, _MOST)))

    async def add(
        self, model: str, vectors: Sequence[tuple[int, Sequence[float]]]
    ) -> None:
        written = [(id_, len(x), _written(self.native, x)) for id_, x in vectors]
        if written:
            await self.pool.write(_add, self.native, model, written)

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
            len(vector),
            _written(self.native, vector),
            max(0, min(limit, _MOST)),
        )

    async def progress(self, model: str) -> tuple[int, int]:
        await self.pool.write(cut)
        return await self.pool.read_one(_progress, model)

    async def drop_other_models(self, model: str) -> None:
        await self.pool.write(_drop_others, model)


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
    vectors: list[tuple[int, int, Any]],
) -> None:
    connection.execute(
        "insert into model (name) values (%s) on conflict do nothing", (fit(model),)
    )
    # Locked, so that all of its vectors have the same length.
    row = connection.execute(
        "select id from model where name = %s for update", (fit(model),)
    ).fetchone()
    assert row is not None
    sizes = {size for _, size, _ in vectors}
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
            [(row[0], vector, id_) for id_, _, vector in vectors if 0 < id_ < 2**63],
        )


def _written(native: bool, vector: Sequence[float]) -> Any:
    if native and len(vector) > _MOST_DIMENSIONS:
        raise QueryRefused(
            f"a vector has {len(vector)} dimensions, and at most {_MOST_DIMENSIONS}"
            " have room here"
        )
    numbers = unit(vector)
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
    size: int,
    vector: Any,
    limit: int,
) -> tuple[FoundChunk, ...]:
    row = connection.execute(
        "select id from model where name = %s", (fit(model),)
    ).fetchone()
    known = _length(connection, native, row[0]) if row else 0
    if row is None or not known:
        return ()
    if known != size:
        raise QueryRefused(
            f"the vectors of {model} have {known} dimensions, not {size}"
        )
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
            "vector": vector,
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
