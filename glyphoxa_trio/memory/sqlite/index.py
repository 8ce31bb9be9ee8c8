"""The semantic index in a memory file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import apsw
import attrs

from glyphoxa_trio.extras import require
from glyphoxa_trio.memory.contract import Chunk, FoundChunk
from glyphoxa_trio.memory.errors import QueryRefused
from glyphoxa_trio.memory.passages import in_passage, passages
from glyphoxa_trio.memory.visibility import CampaignKey, Viewer
from glyphoxa_trio.storage.pool import SqlitePool

from .audiences import plain, reach_of, sight_of
from .vectors import EXTRA, FEATURE, compared, extension_needed, packed

# Lines that are cut into passages in one transaction, so that others need not wait for
# it: some 10 ms.
_CUT: Final = 500
_DROPPED: Final = 200  # vectors that are removed in one
_MOST_FOUND: Final = 200


@attrs.frozen(eq=False)
class SqliteIndex:
    """A `SemanticIndex`. All methods but `progress` and `drop_other_models` raise
    `ExtraMissing` where sqlite-vec is not installed."""

    pool: SqlitePool

    async def pending(
        self, model: str, *, limit: int = 64
    ) -> tuple[tuple[CampaignKey, Chunk], ...]:
        require(FEATURE, EXTRA)
        if await self.pool.read(_is_uncut):
            await self.pool.write(_cut)
        return await self.pool.read(_pending, plain(model), limit)

    async def add(
        self, model: str, vectors: Sequence[tuple[int, Sequence[float]]]
    ) -> None:
        sizes = {len(vector) for _, vector in vectors}
        if len(sizes) > 1:
            raise QueryRefused(f"the vectors of {model} differ in length: {sizes}")
        rows = [(id_, packed(vector)) for id_, vector in vectors]
        if rows:
            await self.pool.write(_add, plain(model), sizes.pop(), rows)

    async def search(
        self,
        campaign: CampaignKey,
        viewer: Viewer,
        model: str,
        vector: Sequence[float],
        *,
        limit: int = 10,
    ) -> tuple[FoundChunk, ...]:
        full = packed(vector)
        most = min(max(limit, 0), _MOST_FOUND)
        return await self.pool.read(
            _search, campaign, viewer, plain(model), len(vector), full, most
        )

    async def progress(self, model: str) -> tuple[int, int]:
        return await self.pool.read(_progress, plain(model))

    async def drop_other_models(self, model: str) -> None:
        await self.pool.write(_disown, plain(model))
        # Many vectors take long to remove, so this goes on bit by bit, and later if it
        # is interrupted.
        while await self.pool.write(_drop_some):
            pass


def remove_chunks(connection: apsw.Connection, ids: Iterable[int]) -> int:
    """Remove chunks with their vectors, and return how many were there.

    Their lines, as far as they remain, are cut into chunks again. Needs no extension.
    """
    connection.execute(
        "delete from chunk where id in (select value from json_each(?))",
        (json.dumps(list(ids)),),
    )
    return connection.changes()


_UNCUT: Final = "from evening where ended is not null and not whole"


def _is_uncut(connection: apsw.Connection) -> bool:
    return bool(connection.execute(f"select exists(select 1 {_UNCUT})").get)


def _cut(connection: apsw.Connection) -> None:
    """Cut lines of ended evenings into passages: some, if there are many."""
    left = _CUT
    while left > 0:
        evening = connection.execute(f"select id {_UNCUT} order by id limit 1").get
        if evening is None:
            return
        for passage in passages(_lines(connection, evening), _heard, _said):
            _add_passage(connection, evening, passage)
            left -= len(passage)
            if left <= 0:
                break  # the evening is not whole
        else:
            connection.execute("update evening set whole = 1 where id = ?", (evening,))
            left -= 1


@attrs.frozen
class _Spoken:
    """A line; ``audience`` is None if it is in a chunk."""

    id: int
    audience: int | None
    at: float
    text: str


def _heard(line: _Spoken) -> int | None:
    return line.audience


def _said(line: _Spoken) -> str:
    return line.text


def _lines(connection: apsw.Connection, evening: int) -> Iterator[_Spoken]:
    rows = connection.execute(
        """
        select id, at, speaker, text, corrected,
            iif(exists(select 1 from source where line = line.id
                and chunk is not null), null, audience)
        from line where evening = ?1
            and campaign = (select campaign from evening where id = ?1)
            and audience in (select 0 union all select id from audience
                where campaign = (select campaign from evening where id = ?1))
        order by id
        """,
        (evening,),
    )
    for id_, at, speaker, text, corrected, audience in rows:
        yield _Spoken(id_, audience, at, in_passage(speaker, text, corrected))


def _add_passage(
    connection: apsw.Connection, evening: int, passage: list[_Spoken]
) -> None:
    first = passage[0]
    connection.execute(
        """
        insert into chunk (campaign, evening, audience, at, text)
        select campaign, id, ?, ?, ? from evening where id = ?
        """,
        (first.audience, first.at, "\n".join(map(_said, passage)), evening),
    )
    chunk = connection.last_insert_rowid()
    connection.executemany(
        "insert into source (line, chunk) values (?, ?)",
        ((line.id, chunk) for line in passage),
    )


_CHUNKS: Final = """
    select chunk.id, chunk.text, chunk.at, coalesce(chunk.fact, 0),
        coalesce(evening.name, ''), audience.members, chunk.topics, chunk.secret,
        campaign.tenant, campaign.name,
        (select json_group_array(json_array(session.name, entry.n) order by entry.id)
            from source join entry on entry.id = source.line
            join session on session.id = entry.session
            where source.chunk = chunk.id)
    from chunk join campaign on campaign.id = chunk.campaign
    join audience on audience.id = chunk.audience
    left join evening on evening.id = chunk.evening
"""


def _chunk(row: tuple[Any, ...]) -> tuple[CampaignKey, Chunk]:
    id_, text, at, fact, evening, members, topics, secret, tenant, name, lines = row
    return CampaignKey(name, tenant), Chunk(
        text=text,
        reach=reach_of(members, topics, secret),
        evening=evening,
        at=at,
        lines=tuple((session, n) for session, n in json.loads(lines)),
        fact=fact,
        id=id_,
    )


def _pending(
    connection: apsw.Connection, model: str, limit: int
) -> tuple[tuple[CampaignKey, Chunk], ...]:
    known, _, reached = _model(connection, model)
    rows = connection.execute(
        f"""{_CHUNKS} where chunk.id > ? and not exists(
            select 1 from vector where chunk = chunk.id and model = ?)
        order by chunk.id limit ?""",
        (reached, known, max(limit, 0)),
    )
    return tuple(map(_chunk, rows))


def _model(connection: apsw.Connection, name: str) -> tuple[int, int, int]:
    """Return the id, dimensions and ``reached`` of a model; zeros if it is new. Without
    vectors it has no dimensions."""
    sql = """
        select id, iif(exists(select 1 from vector where model = model.id),
            dimensions, 0), reached
        from model where name = ?
    """
    row: tuple[int, int, int] | None = connection.execute(sql, (name,)).get
    return row or (0, 0, 0)


def _check_size(name: str, known: int, given: int) -> None:
    if known and known != given:
        raise QueryRefused(
            f"the vectors of {name} have {known} dimensions, not {given}"
        )


def _add(
    connection: apsw.Connection,
    name: str,
    dimensions: int,
    vectors: list[tuple[int, bytes]],
) -> None:
    _, known, reached = _model(connection, name)
    _check_size(name, known, dimensions)
    model = connection.execute(
        """
        insert into model (name, dimensions) values (?, ?)
        on conflict (name) do update set dimensions = excluded.dimensions returning id
        """,
        (name, dimensions),
    ).get
    with extension_needed():
        connection.executemany(
            """
            insert into code (model, campaign, chunk, audience, topics, secret, bits)
            select ?, campaign, id, audience, topics, secret, vec_quantize_binary(?)
            from chunk where id = ?
            on conflict (model, campaign, chunk) do update set bits = excluded.bits
            """,
            ((model, full, id_) for id_, full in vectors),
        )
    connection.executemany(
        """
        insert into vector (model, chunk, full) select ?, id, ? from chunk where id = ?
        on conflict (model, chunk) do update set full = excluded.full
        """,
        ((model, full, id_) for id_, full in vectors),
    )
    connection.execute(
        """
        update model set reached = coalesce(
            (select id - 1 from chunk where id > ? and not exists(
                select 1 from vector where chunk = chunk.id and model = ?)
                order by id limit 1),
            (select max(id) from chunk), 0)
        where id = ?
        """,
        (reached, model, model),
    )


def _search(
    connection: apsw.Connection,
    key: CampaignKey,
    viewer: Viewer,
    name: str,
    dimensions: int,
    full: bytes,
    limit: int,
) -> tuple[FoundChunk, ...]:
    sight = sight_of(connection, key, viewer)
    model, known, _ = _model(connection, name)
    _check_size(name, known, dimensions)
    if sight is None or not known:
        return ()
    seen, values = sight.where()
    first = model, sight.campaign, *values
    with extension_needed():
        found = connection.execute(
            f"""
            with near as materialized (
                select chunk from code where model = ? and campaign = ? and {seen}
                order by vec_distance_hamming(
                    vec_bit(bits), vec_quantize_binary(?)) limit ?)
            -- A vector of zeros has no distance.
            select chunk, coalesce(vec_distance_cosine(full, ?), 1.0) as distance
            from near join vector using (chunk) where vector.model = ?
            order by distance, chunk limit ?
            """,
            (*first, full, compared(dimensions), full, model, limit),
        )
        near: list[tuple[int, float]] = list(found)
    rows = connection.execute(
        f"{_CHUNKS} where chunk.id in (select value from json_each(?))",
        (json.dumps([id_ for id_, _ in near]),),
    )
    chunks = {chunk.id: chunk for _, chunk in map(_chunk, rows)}
    return tuple(FoundChunk(chunk=chunks[id_], score=1.0 - x) for id_, x in near)


def _progress(connection: apsw.Connection, name: str) -> tuple[int, int]:
    found: tuple[int, int] = connection.execute(
        """
        select (select count(*) from vector
            where model = (select id from model where name = ?)),
            (select count(*) from chunk)
        """,
        (name,),
    ).get
    return found


def _disown(connection: apsw.Connection, name: str) -> None:
    connection.execute("update model set name = null where name <> ?", (name,))


def _drop_some(connection: apsw.Connection) -> bool:
    """Remove some vectors of models without a name; return False if none is left."""
    connection.execute(
        """
        delete from model where name is null
            and not exists(select 1 from vector where model = model.id)
            and not exists(select 1 from code where model = model.id)
        """
    )
    model = connection.execute("select id from model where name is null limit 1").get
    if model is None:
        return False
    connection.execute(
        """
        delete from code where model = ?1 and (campaign, chunk) in (
            select campaign, chunk from code where model = ?1 limit ?2)
        """,
        (model, _DROPPED),
    )
    connection.execute(
        """
        delete from vector where id in (
            select id from vector where model = ? limit ?)
        """,
        (model, _DROPPED),
    )
    return True
