"""Work in worker threads: who waits for whom, and what becomes of who leaves.

Real threads, told by events when to go on; an absolute limit around each test.
"""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

import trio

from glyphoxa_trio.campaign.campaigns import Campaigns
from glyphoxa_trio.campaign.lanes import FileStore, open_store
from glyphoxa_trio.campaign.listing import listed
from glyphoxa_trio.campaign.model import Campaign
from glyphoxa_trio.campaign.rules import create_campaign
from glyphoxa_trio.campaign.sqlite import SqliteFile
from glyphoxa_trio.campaign.stamps import Timestamp
from glyphoxa_trio.campaign.store import Records
from glyphoxa_trio.storage.errors import StorageError

LIMIT = 30.0
MOMENT = Timestamp(1e9, "2001-09-09T01:46:40Z", lambda prefix: f"{prefix}new")
FOR_EVER = """
    with recursive n (x) as (select 1 union all select x + 1 from n)
    select count(*) from n
"""


def add(records: Records, name: str = "C") -> None:
    moment = Timestamp(MOMENT.seconds, MOMENT.text, lambda prefix: f"{prefix}{name}")
    create_campaign(records, moment, name=name, gm_mode="AI")


async def names(store: FileStore) -> list[str]:
    found = await store.read(partial(listed, kind=Campaign, size=10**6))
    return [record["name"] for record in found.records]


async def test_a_read_does_not_wait_for_a_write(tmp_path: Path) -> None:
    go_on = threading.Event()

    def slow(records: Records, began: trio.Event) -> None:
        add(records)
        trio.from_thread.run_sync(began.set)
        go_on.wait(LIMIT)

    with trio.fail_after(LIMIT):
        async with open_store(tmp_path / "c.db") as store, trio.open_nursery() as n:
            began = trio.Event()
            n.start_soon(store.write, partial(slow, began=began))
            await began.wait()
            assert await names(store) == []
            go_on.set()
        async with open_store(tmp_path / "c.db") as store:
            assert await names(store) == ["C"]


@pytest.mark.parametrize("in_memory", [True, False])
async def test_who_leaves_before_its_turn_changes_nothing(
    in_memory: bool, tmp_path: Path
) -> None:
    go_on = threading.Event()

    def slow(records: Records, began: trio.Event) -> None:
        add(records, "first")
        trio.from_thread.run_sync(began.set)
        go_on.wait(LIMIT)

    with trio.fail_after(LIMIT):
        path = None if in_memory else tmp_path / "c.db"
        async with open_store(path) as store:
            async with trio.open_nursery() as nursery:
                began = trio.Event()
                nursery.start_soon(store.write, partial(slow, began=began))
                await began.wait()
                with trio.CancelScope() as scope:
                    scope.cancel()
                    await store.write(partial(add, name="gone"))
                assert scope.cancelled_caught
                go_on.set()
            await store.write(partial(add, name="last"))
            assert await names(store) == ["first", "last"]


async def test_who_leaves_halfway_is_undone_and_the_next_one_goes_on(
    tmp_path: Path,
) -> None:
    ended = threading.Event()

    def endless(records: Any, left: trio.Event) -> None:
        add(records, "undone")
        trio.from_thread.run_sync(left.set)
        try:
            records._connection.execute(FOR_EVER).fetchall()
        finally:
            ended.set()

    async def leave(scope: trio.CancelScope, when: trio.Event) -> None:
        await when.wait()
        scope.cancel()

    with trio.fail_after(LIMIT):
        async with open_store(tmp_path / "c.db") as store:
            async with trio.open_nursery() as nursery:
                when = trio.Event()
                with trio.CancelScope() as scope:
                    nursery.start_soon(leave, scope, when)
                    await store.write(partial(endless, left=when))
                assert scope.cancelled_caught
            await store.write(partial(add, name="next"))
            assert ended.is_set()
            assert await names(store) == ["next"]


async def test_who_leaves_while_another_program_writes_changes_nothing_later(
    tmp_path: Path,
) -> None:
    with trio.fail_after(LIMIT):
        async with open_store(tmp_path / "c.db") as store:
            theirs = apsw.Connection(str(tmp_path / "c.db"))
            theirs.execute("begin immediate")

            def waits(file: SqliteFile, began: trio.Event) -> None:
                trio.from_thread.run_sync(began.set)
                file.write(partial(add, name="late"))

            async with trio.open_nursery() as nursery:
                began = trio.Event()
                nursery.start_soon(store._writing.run, partial(waits, began=began))
                await began.wait()
                nursery.cancel_scope.cancel()
            theirs.execute("rollback")
            theirs.close()
            await store.write(partial(add, name="next"))
            assert await names(store) == ["next"]


async def test_many_at_once_are_all_done(tmp_path: Path) -> None:
    with trio.fail_after(LIMIT):
        async with open_store(tmp_path / "c.db") as store:
            campaigns = Campaigns(store)
            made: list[str] = []

            async def create(n: int) -> None:
                campaign = await campaigns.write(
                    create_campaign, name=f"C{n}", gm_mode="AI"
                )
                made.append(campaign.id)

            async with trio.open_nursery() as nursery:
                for n in range(60):
                    nursery.start_soon(create, n)
            assert len(set(made)) == 60
            assert sorted(await names(store)) == sorted(f"C{n}" for n in range(60))


async def test_a_file_that_cannot_be_opened_is_an_error_that_names_it(
    tmp_path: Path,
) -> None:
    with pytest.raises(StorageError, match=str(tmp_path)):
        async with open_store(tmp_path):
            pass
