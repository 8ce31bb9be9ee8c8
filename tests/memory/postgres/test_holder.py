"""The lock by which a process is known to live, whatever its connection does."""

from __future__ import annotations

import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, cast

import attrs
import psycopg
import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio.memory.errors import MemoryUnusable
from glyphoxa_trio.memory.postgres.holder import living

ERRORS = [OSError, psycopg.OperationalError, MemoryUnusable, ValueError, RuntimeError]


@attrs.define(eq=False)
class Breakable:
    """A database whose connections break as told: once, at this point."""

    error: type[Exception]
    at: str
    connections: int = 0
    broken: int = 0

    def breaks(self, at: str) -> None:
        if at == self.at and self.connections <= 1 + (at == "connect"):
            self.broken += 1
            raise self.error("it breaks")

    def connected(self) -> Any:
        self.connections += 1
        if self.connections > 1:
            self.breaks("connect")
        return BreakableConnection(self)

    @contextmanager
    def translated(self) -> Generator[None]:
        yield


@attrs.define(eq=False)
class BreakableConnection:
    database: Breakable
    pair: tuple[socket.socket, socket.socket] = attrs.field(factory=socket.socketpair)
    asked: int = 0

    def execute(self, sql: str, *_: object) -> None:
        if sql == "select":  # the look whether it still lives
            self.asked += 1
            self.database.breaks("look")
            first = self.asked == self.database.connections == 1
            if first and self.database.at in ("connect", "close"):
                raise psycopg.OperationalError("it is lost")
        if "unlock" in sql:
            self.database.breaks("unlock")

    def fileno(self) -> int:
        self.database.breaks("fileno")
        return self.pair[0].fileno()

    def close(self) -> None:
        for end in self.pair:
            end.close()
        self.database.breaks("close")


async def at_once(work: Callable[..., Any], *arguments: Any, **_: Any) -> Any:
    await trio.lowlevel.checkpoint()
    return work(*arguments)


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("at", ["fileno", "look", "connect", "close", "unlock"])
async def test_a_database_that_breaks_in_any_way_ends_no_program(
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    error: type[Exception],
    at: str,
) -> None:
    # A virtual clock does not wait for threads.
    monkeypatch.setattr(trio.to_thread, "run_sync", at_once)
    database = Breakable(error, at)
    async with living(cast(Any, database)) as holder:
        first = holder.connection
        await trio.sleep(60)
        assert (holder.connection is first) is (at == "unlock")
        assert holder.settled
    assert database.broken


def test_the_cases_are_real() -> None:
    """What is not caught in a task of trio's own ends the run."""

    async def main(fails: Callable[[], None]) -> None:
        async def task() -> None:
            fails()

        trio.lowlevel.spawn_system_task(task)
        await trio.sleep(1)

    def fails() -> None:
        raise ValueError

    with pytest.raises(trio.TrioInternalError):
        trio.run(main, fails, clock=MockClock(autojump_threshold=0))
