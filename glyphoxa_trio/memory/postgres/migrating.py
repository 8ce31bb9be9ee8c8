"""Bring a database to the layout of `schema`, or refuse it.

Words that an older version made are written anew in steps, behind the turns.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

import psycopg
from psycopg import errors, sql

from glyphoxa_trio.memory.errors import MemoryUnusable
from glyphoxa_trio.memory.rebuilding import ROWS
from glyphoxa_trio.memory.words import folded

from .rows import index_words
from .schema import MIGRATIONS, NAME

# The key of the advisory lock of whoever migrates: "glymigra".
_MIGRATING: Final = 0x676C796D69677261


def migrate(connection: psycopg.Connection[Any]) -> str:
    """Bring the database to this layout; return the schemas that it is used with.

    Called within a transaction: everything is done, or nothing.

    Raises:
      MemoryUnusable: it is of a newer version, or of another program.
    """
    if connection.info.parameter_status("server_encoding") != "UTF8":
        raise MemoryUnusable("the database has to be of the encoding UTF8")
    connection.execute("select pg_advisory_xact_lock(%s)", (_MIGRATING,))
    version = version_of(connection)
    if version > len(MIGRATIONS):
        raise MemoryUnusable(
            f"the memory is of the newer version {version} (this program knows"
            f" {len(MIGRATIONS)}); update Glyphoxa"
        )
    if version == len(MIGRATIONS):
        schemas = _schemas(connection)
        connection.execute(f"set local search_path = {schemas}")
        return schemas
    if not version:
        connection.execute(f"create schema {NAME}")
        connection.execute(f"create table {NAME}.version (version integer not null)")
        connection.execute(f"insert into {NAME}.version values (0)")
        _extend(connection)
    schemas = _schemas(connection)
    connection.execute(f"set local search_path = {schemas}")
    there = connection.execute("select to_regtype('vector') is not null").fetchone()
    vector = "vector" if there == (True,) else "double precision[]"
    for statements in MIGRATIONS[version:]:
        connection.execute(statements.replace("{vector}", vector).encode())
    connection.execute("update version set version = %s", (len(MIGRATIONS),))
    return schemas


def version_of(connection: psycopg.Connection[Any]) -> int:
    """Return the version of the layout; 0 if there is none."""
    there = connection.execute(
        "select to_regnamespace(%s) is not null, to_regclass(%s) is not null",
        (NAME, f"{NAME}.version"),
    ).fetchone()
    if there == (False, False):
        return 0
    if there == (True, True):
        with suppress(errors.UndefinedColumn, errors.DatatypeMismatch):
            row = connection.execute(f"select version from {NAME}.version").fetchone()
            if row is not None and isinstance(row[0], int):
                return row[0]
    raise MemoryUnusable(f"its schema {NAME} is of another program")


def _extend(connection: psycopg.Connection[Any]) -> None:
    """Make the type of vectors, where this user of the database may."""
    with suppress(psycopg.DatabaseError), connection.transaction():
        connection.execute("create extension if not exists vector")


def has_vectors(connection: psycopg.Connection[Any]) -> bool:
    """Return True if vectors are of pgvector's type; else they are arrays."""
    row = connection.execute(
        "select format_type(atttypid, null) from pg_attribute"
        " where attrelid = to_regclass(%s) and attname = 'vector'",
        (f"{NAME}.embedding",),
    ).fetchone()
    return row is not None and row[0].endswith("vector")


def _schemas(connection: psycopg.Connection[Any]) -> str:
    """Return this schema, and that of pgvector if there is one."""
    row = connection.execute(
        "select nspname from pg_extension e join pg_namespace n on n.oid ="
        " extnamespace where extname = 'vector'"
    ).fetchone()
    other = f", {sql.Identifier(row[0]).as_string()}" if row else ""
    return f"{NAME}{other}"


def is_stale(connection: psycopg.Connection[Any]) -> bool:
    """Return True if an older version wrote words that are to be written anew."""
    return connection.execute("select from stale_words").fetchone() is not None


def rebuild(connection: psycopg.Connection[Any]) -> bool:
    """Write the words of some rows anew, the newest first; return False at the end.

    If another process does that now, this one leaves it to it.
    """
    stale = connection.execute(
        # Names first: without them, nothing is known of what is said.
        "select what, upto, n from stale_words"
        " order by what <> 'name', what <> 'fact' limit 1 for update skip locked"
    ).fetchone()
    if stale is None:
        return is_stale(connection)
    what, *upto = stale
    reached = _REBUILD[what](connection, *upto)
    if reached is None:
        connection.execute("delete from stale_words where what = %s", (what,))
    else:
        connection.execute(
            "update stale_words set upto = %s, n = %s where what = %s", (*reached, what)
        )
    return True


_Reached = tuple[int, int] | None


def _names(connection: psycopg.Connection[Any], upto: int, n: int) -> _Reached:
    rows = connection.execute(
        "select entity, place, name.name from name where entity in ("
        f" select id from entity where id <= %s order by id desc limit {ROWS})"
        # Who changes one meanwhile waits, and makes its words after us.
        " order by entity desc for update of name",
        (upto,),
    ).fetchall()
    if not rows:
        return None
    entities, places, names = zip(*rows, strict=True)
    connection.execute(
        "with new as (select * from unnest(%s::bigint[], %s::int[], %s::text[])"
        "  as given (entity, place, folded)"
        "), named as ("
        "  update name set folded = new.folded,"
        "  words = string_to_array(new.folded, ' ') from new"
        "  where name.entity = new.entity and name.place = new.place"
        ") update entity set folded = new.folded from new"
        " where entity.id = new.entity and new.place = 0",
        (list(entities), list(places), [folded(x) for x in names]),
    )
    return entities[-1] - 1, n


def _facts(connection: psycopg.Connection[Any], upto: int, n: int) -> _Reached:
    rows = connection.execute(
        "select id, text || ' ' || array_to_string(keywords, ' ')"
        " from fact where id <= %s"
        f" order by id desc limit {ROWS}"
        " for update",
        (upto,),
    ).fetchall()
    for id_, text in rows:
        if not text.isascii():  # those have the same words as ever
            connection.execute(
                "update fact set words = array_to_tsvector(%s::text[]) where id = %s",
                (index_words(text), id_),
            )
    return (rows[-1][0] - 1, n) if rows else None


def _lines(connection: psycopg.Connection[Any], upto: int, n: int) -> _Reached:
    rows = connection.execute(
        "select session, n, text, corrected from line where (session, n) <= (%s, %s)"
        f" order by session desc, n desc limit {ROWS}",
        (upto, n),
    ).fetchall()
    for session, number, text, corrected in rows:
        if not (text.isascii() and corrected.isascii()):
            connection.execute(
                "update line set words = array_to_tsvector("
                " %s::text[] || ('@' || campaign)) where session = %s and n = %s",
                (index_words(text, corrected), session, number),
            )
    return (rows[-1][0], rows[-1][1] - 1) if rows else None


_REBUILD: Final = {"name": _names, "fact": _facts, "line": _lines}
