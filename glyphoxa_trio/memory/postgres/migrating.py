"""Bring a database to the layout of `schema`, or refuse it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

import psycopg
from psycopg import errors, sql

from glyphoxa_trio.memory.errors import MemoryUnusable

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
