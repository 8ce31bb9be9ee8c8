"""A server that fails, and its copy that lacks what was committed last: real ones."""

from __future__ import annotations

import signal
from collections.abc import Generator

import psycopg
import pytest

import trio

from glyphoxa_trio.memory.entries import Claim, Entry, EntryKind
from glyphoxa_trio.memory.errors import Fenced
from glyphoxa_trio.memory.postgres import journal, open_postgres
from glyphoxa_trio.memory.visibility import CampaignKey

from .server import Server, a_server, a_standby

pytestmark = pytest.mark.border

LIMIT = 60.0
BARROW = CampaignKey("barrow")


@pytest.fixture
def primary() -> Generator[Server]:
    with a_server() as server:
        if server is None:
            pytest.skip("PostgreSQL is not installed")
        yield server


async def claimed(address: str, times: int = 1) -> Claim:
    """Claim a session so many times, each time by a process of its own, which dies."""
    for _ in range(times):
        async with open_postgres(address) as store:
            claim = await store.journal.claim("", "table", BARROW)
    return claim


async def follows(standby: Server, epoch: int) -> None:
    """Wait until the copy has a claim."""
    with trio.fail_after(LIMIT):
        while True:
            with psycopg.connect(standby.address) as connection:
                row = connection.execute(
                    "select epoch from glyphoxa.session"
                ).fetchone()
            if row == (epoch,):
                return
            await trio.sleep(0.02)


def fails_over(primary: Server, standby: Server) -> None:
    """Kill a server, and promote its copy, which was stopped for a while before."""
    primary.stop(signal.SIGQUIT)
    standby.start()
    standby.execute("select pg_promote()")


@pytest.mark.long
async def test_no_epoch_is_given_twice_by_a_server_that_lacks_the_last_claims(
    primary: Server,
) -> None:
    first = await claimed(primary.address)
    with a_standby(primary) as second:
        await follows(second, first.epoch)
        second.stop()
        lost = await claimed(primary.address, times=5)
        assert (first.epoch, lost.epoch) == (1, 6)
        fails_over(primary, second)
        async with open_postgres(second.address) as store:
            after = await store.journal.claim("", "table", BARROW)
            assert lost.epoch < after.epoch < 2**53
            turn = Entry(kind=EntryKind.TURN, at=1.0)
            await store.journal.append(after, [turn])
            with pytest.raises(Fenced):
                await store.journal.append(lost, [turn])
        assert (await claimed(second.address)).epoch == after.epoch + 1

        # And once more, with claims of this timeline that are lost.
        with a_standby(second) as third:
            third.stop()
            lost = await claimed(second.address, times=3)
            fails_over(second, third)
            again = await claimed(third.address)
            assert lost.epoch < again.epoch < 2**53


async def test_a_server_that_does_not_tell_its_timeline_counts_on(
    primary: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_EPOCHS", "no_such_function()")
    assert (await claimed(primary.address, times=2)).epoch == 2
