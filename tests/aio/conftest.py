"""After each test: no thread, process, descriptor or handler more than before."""

from __future__ import annotations

import gc
import threading
from collections.abc import Generator

import pytest

from glyphoxa_trio.aio import Mode

from .support import LIMIT, Footprint


@pytest.fixture(params=["guest", "thread"])
def mode(request: pytest.FixtureRequest) -> Mode:
    found: Mode = request.param
    return found


@pytest.fixture(autouse=True)
def nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    # Trio keeps a thread that has nothing to do for ten seconds, for others.
    monkeypatch.setattr("trio._core._thread_cache.IDLE_TIMEOUT", 0.01)
    threads = set(threading.enumerate())
    before = Footprint.now()
    yield
    for thread in set(threading.enumerate()) - threads:
        thread.join(LIMIT)
    if Footprint.now().beyond(before) != Footprint():
        gc.collect()
        assert Footprint.now().beyond(before) == Footprint()
