"""A tenth of `make chaos`, and tests of what judges it."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

import trio
import trio.testing

from glyphoxa_trio.memory.entries import Claim, Entry, EntryKind
from glyphoxa_trio.memory.errors import MemoryUnavailable
from glyphoxa_trio.memory.postgres import open_postgres
from glyphoxa_trio.memory.visibility import CampaignKey

from ..memory.postgres import server as postgres
from ..nats import server as nats
from .chaos.judge import Judge
from .chaos.links import Fault, Link, open_link
from .chaos.run import NoServer, run
from .chaos.tables import Table, Tally


@pytest.mark.long
def test_a_tenth_of_the_chaos_breaks_nothing() -> None:
    seed = random.randrange(10_000)
    try:
        report = run(20, seed)
    except NoServer as missing:
        required = os.environ.get(nats.VARIABLE), os.environ.get(postgres.VARIABLE)
        if "required" in required:
            raise
        pytest.skip(str(missing))
    assert report.is_well, "\n".join([f"--seed {seed}", *report.lines()])
    assert sum(n for x, n in report.done.items() if x.startswith("kill -9")) == 20
    assert report.acknowledged > 20


# -- links


@asynccontextmanager
async def a_way() -> AsyncIterator[tuple[Link, trio.SocketStream, trio.SocketStream]]:
    """Provide a link, and the two ends of a connection over it."""
    send, receive = trio.open_memory_channel[trio.SocketStream](1)
    async with trio.open_nursery() as nursery:

        async def serve(stream: trio.SocketStream) -> None:
            await send.send(stream)
            await trio.sleep_forever()

        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        port = listener.socket.getsockname()[1]
        dial = partial(trio.open_tcp_stream, "127.0.0.1", port)
        link = await open_link(nursery, "a link", dial)
        near = await trio.open_tcp_stream("127.0.0.1", link.port)
        with trio.fail_after(10):
            far = await receive.receive()
            async with near:
                yield link, near, far
        nursery.cancel_scope.cancel()


@pytest.mark.border
async def test_a_link_passes_on_what_is_sent_and_can_be_cut() -> None:
    async with a_way() as (link, near, far):
        await near.send_all(b"hail")
        assert await far.receive_some() == b"hail"
        await far.send_all(b"well met")
        assert await near.receive_some() == b"well met"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(link.suffer, Fault.CUT, 0.1)
            assert await ended(near)
            again = await trio.open_tcp_stream("127.0.0.1", link.port)
            assert await ended(again)
            await again.aclose()
        assert link.is_whole


@pytest.mark.border
async def test_a_link_passes_on_half_of_a_piece_and_ends() -> None:
    async with a_way() as (link, near, far), trio.open_nursery() as nursery:
        nursery.start_soon(link.suffer, Fault.HALVE, 0.1)
        await trio.testing.wait_all_tasks_blocked(0.01)
        await near.send_all(b"abcdef")
        assert await far.receive_some() == b"abc"
        assert await ended(near)


@pytest.mark.border
async def test_a_link_is_held_one_way() -> None:
    async with a_way() as (link, near, far), trio.open_nursery() as nursery:
        nursery.start_soon(link.suffer, Fault.HOLD_TO, 0.2)
        await trio.testing.wait_all_tasks_blocked(0.01)
        await near.send_all(b"late")
        await far.send_all(b"at once")
        assert await near.receive_some() == b"at once"
        assert not link.is_whole
        assert await far.receive_some() == b"late"
        assert link.is_whole


async def ended(stream: trio.SocketStream) -> bool:
    try:
        return await stream.receive_some() == b""
    except trio.BrokenResourceError:
        return True


# -- judges


def judged(*answers: str, kept: set[int]) -> Tally:
    """Return what is said of answers to the utterances 1, 2 and so on."""
    runtime: Any = None
    table = Table("a", runtime, Tally(), random.Random(1), kept=kept)
    for number, answer in enumerate(answers, 1):
        before = frozenset(x for x in kept if x < number)
        table._judge(f"a/{number}", number, before, answer)
    return table.tally


def test_an_answer_shows_what_is_missing() -> None:
    well = judged("Heard 1.", "Story. Heard 1 2.", "Paid. 1 2 3.", kept={1, 2})
    assert (well.lost, well.again, well.wrong_ends) == ({}, {}, [])
    assert well.unkept == 1
    # What was not acknowledged may be missing.
    assert judged("Heard 1.", "Heard 2.", kept={2}).lost == {}
    assert [*judged("Heard 1.", "Heard 2.", kept={1}).lost] == ["a #1"]
    assert [*judged("Heard 1.", "Heard 1 1 2.", kept={1}).again] == ["a #1"]
    assert len(judged("Heard 1.", "Heard 1.", kept={1}).wrong_ends) == 1
    assert len(judged("Hm?", kept={1}).wrong_ends) == 1
    # A model is told no more than so many, the last ones.
    full = " ".join(map(str, range(2, 43)))
    assert judged(*["Heard 1."] * 41, f"Heard {full}.", kept={1}).lost == {}


@pytest.mark.long
@pytest.mark.border
async def test_a_second_writer_is_seen(tmp_path: Path) -> None:
    with postgres.the_server() as server, server.database() as address:
        judge = Judge(address, tmp_path / "ledger")
        async with open_postgres(address) as memory:
            await trio.to_thread.run_sync(judge.begin)
            claim = await memory.journal.claim("", "a", CampaignKey("a"))
            await write(memory, claim, 1)
            claim = await memory.journal.claim("", "a", CampaignKey("a"))
            await write(memory, claim, 2)
            assert judge.second_writers() == []
            assert judge.written() == {("a", 1): 1, ("a", 2): 1}
            story = [x.split(maxsplit=1)[1] for x in judge.story("a", 2)]
            assert story[1:4:2] == [
                f"entry {n} of epoch {n}: turn #{n}" for n in (1, 2)
            ]
            assert story[2].startswith("epoch 2 is held by ")
            judge.fill_disk(True)
            with pytest.raises(MemoryUnavailable):
                await write(memory, claim, 3)
            judge.fill_disk(False)
            assert judge.written()["a", 3] == 0
            # Writes that no fence has stopped.
            with psycopg.connect(address) as connection:
                connection.execute(
                    "insert into glyphoxa.entry select session, 7, 1, kind, at, npc, 3,"
                    " data from glyphoxa.entry limit 1"
                )
                connection.execute(
                    "insert into glyphoxa.entry select session, 8, 2, kind, at, npc, 2,"
                    " data from glyphoxa.entry where turn = 2"
                )
                connection.execute("update glyphoxa.session set holder = 1")
            assert len(judge.second_writers()) == 4, judge.second_writers()


async def write(memory: Any, claim: Claim, number: int) -> None:
    data = {"exchanges": [{"text": f"hail #{number}"}]}
    entry = Entry(kind=EntryKind.TURN, at=1.0, npc="Bo", turn=number, data=data)
    await memory.journal.append(claim, [entry])
