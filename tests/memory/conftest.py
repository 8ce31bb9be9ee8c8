"""A store of each kind, with everything that the contract promises (`contract`)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.in_memory import InMemory

# Opens a store; opened again, the same data, as another process would see it.
OpenStore = Callable[[], AbstractAsyncContextManager[Memory]]


@pytest.fixture(params=["in_memory"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    assert request.param == "in_memory"
    first = InMemory()

    @asynccontextmanager
    async def opened() -> AsyncGenerator[Memory]:
        store = first.beside()
        try:
            yield store
        finally:
            store.die()

    return opened
