"""A store of each kind, with everything that the contract promises (`contract`)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.in_memory import InMemory
from glyphoxa_trio.memory.postgres import open_postgres
from glyphoxa_trio.memory.sqlite.store import open_sqlite

from .postgres.server import Server, the_server

# Opens a store; opened again, the same data, as another process would see it.
OpenStore = Callable[[], AbstractAsyncContextManager[Memory]]


@pytest.fixture(scope="session")
def postgres_server() -> Generator[Server]:
    with the_server() as server:
        yield server


@pytest.fixture
def database(postgres_server: Server) -> Generator[str]:
    """The address of a new, empty database of PostgreSQL."""
    with postgres_server.database() as address:
        yield address


@pytest.fixture(
    params=["in_memory", "sqlite", pytest.param("postgres", marks=pytest.mark.border)]
)
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    if request.param == "postgres":
        address: str = request.getfixturevalue("database")
        return lambda: open_postgres(address)
    if request.param == "sqlite":
        path = tmp_path / "memory.db"
        return lambda: open_sqlite(path)
    first = InMemory()

    @asynccontextmanager
    async def opened() -> AsyncGenerator[Memory]:
        store = first.beside()
        try:
            yield store
        finally:
            store.die()

    return opened
