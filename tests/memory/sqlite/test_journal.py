"""How appends of several tasks share a commit of a memory file, and who writes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import attrs
import outcome
import pytest

import trio
from trio.testing import wait_all_tasks_blocked

from glyphoxa_trio.memory.entries import Claim, Entry, EntryKind, Holder
from glyphoxa_trio.memory.errors import MemoryUnavailable
from glyphoxa_trio.memory.sqlite.appending import Append
from glyphoxa_trio.memory.sqlite.journal import SqliteJournal
from glyphoxa_trio.memory.visibility import CampaignKey

CLAIM = Claim(
    tenant="", session="table", campaign=CampaignKey("barrow"), epoch=1, known=False
)


@attrs.define(eq=False)
class SlowPool:
    """A pool whose writes take until they are let go."""

    path: Path = Path("memory.db")
    go: trio.Event = attrs.field(factory=trio.Event)
    commits: list[list[float]] = attrs.field(factory=list)
    fails: BaseException | None = None

    async def write(
        self, work: object, several: Sequence[Append], known: object
    ) -> tuple[list[outcome.Outcome[int]], dict[Any, int]]:
        await self.go.wait()
        if self.fails is not None:
            raise self.fails
        self.commits.append([x.last_at for x in several])
        return [outcome.Value(1) for _ in several], {}


def journal_on(pool: SlowPool) -> SqliteJournal:
    return SqliteJournal(cast(Any, pool), Holder(id="h", where="here"))


def entry(at: float) -> list[Entry]:
    return [Entry(kind=EntryKind.TURN, at=at)]


async def test_what_waits_meanwhile_is_one_commit() -> None:
    pool = SlowPool()
    journal = journal_on(pool)
    async with trio.open_nursery() as nursery:
        for at in range(100):
            nursery.start_soon(journal.append, CLAIM, entry(at))
            await wait_all_tasks_blocked()
        pool.go.set()
    assert [len(x) for x in pool.commits] == [1, 64, 35]
    assert [x for several in pool.commits for x in several] == list(range(100))


async def test_an_append_that_is_cancelled_before_its_commit_is_not_made() -> None:
    pool = SlowPool()
    journal = journal_on(pool)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.append, CLAIM, entry(1))
        await wait_all_tasks_blocked()
        with trio.move_on_after(0.01) as scope:
            await journal.append(CLAIM, entry(2))
        assert scope.cancelled_caught
        pool.go.set()
    with trio.fail_after(30):
        await journal.append(CLAIM, entry(3))
    assert pool.commits == [[1], [3]]


@pytest.mark.parametrize("_", range(20))  # tasks run in a random order
async def test_the_others_are_written_if_the_next_writer_is_cancelled(_: int) -> None:
    pool = SlowPool()
    journal = journal_on(pool)
    scope = trio.CancelScope()

    async def cancelled() -> None:
        with scope:
            await journal.append(CLAIM, entry(2))

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            for task in (journal.append, cancelled, journal.append):
                args = () if task is cancelled else (CLAIM, entry(1))
                nursery.start_soon(task, *args)
                await wait_all_tasks_blocked()
            scope.cancel()
            pool.go.set()
    assert [1.0] in pool.commits
    assert sum(len(x) for x in pool.commits) >= 2


async def test_nobody_waits_for_ever_when_the_program_is_interrupted() -> None:
    pool = SlowPool(fails=KeyboardInterrupt())
    journal = journal_on(pool)
    pool.go.set()
    ends: list[type[BaseException]] = []

    async def append(at: float) -> None:
        try:
            await journal.append(CLAIM, entry(at))
        except BaseException as error:
            ends.append(type(error))

    # Two have come before anybody writes.
    journal._waiting.append(waits := Append.of(CLAIM, entry(1)))
    await append(2)
    assert ends == [KeyboardInterrupt]
    assert waits.turn.is_set()
    assert waits.ended is not None
    with pytest.raises(MemoryUnavailable, match=r"memory\.db"):
        waits.ended.unwrap()
