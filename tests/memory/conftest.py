"""A store of each kind, with everything that the contract promises (`contract`)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.in_memory import InMemory
from glyphoxa_trio.memory.sqlite.store import open_sqlite

# Opens a store; opened again, the same data, as another process would see it.
OpenStore = Callable[[], AbstractAsyncContextManager[Memory]]


@pytest.fixture(params=["in_memory", "sqlite"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
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
