"""A client of a cluster in an asyncio program."""

from __future__ import annotations

import asyncio
import inspect
from functools import partial

import pytest

import trio

from glyphoxa_trio import cluster
from glyphoxa_trio.aio import Mode
from glyphoxa_trio.cluster import ClusterRefused, aio
from glyphoxa_trio.npc import Sentence
from glyphoxa_trio.npc.events import TurnEnd

from ..nats.server import RealServer
from .test_cluster import bus, database, postgres, worker

__all__ = ["bus", "database", "postgres"]


def test_it_has_what_a_client_in_trio_has() -> None:
    native = {x for x in vars(cluster.RemoteRuntime) if not x.startswith("_")}
    # What is for a gateway is in trio alone.
    assert native - set(dir(aio.AioRemoteRuntime)) == {"counts", "looks", "watch"}
    for name in ("session", "npc", "scene", "sessions", "drain", "owner"):
        assert list(
            inspect.signature(getattr(aio.AioRemoteRuntime, name)).parameters
        ) == list(inspect.signature(getattr(cluster.RemoteRuntime, name)).parameters)


async def speak(url: str, mode: Mode) -> None:
    async with aio.connect(url, mode=mode) as runtime:
        assert len(await runtime.workers()) == 1
        bo = runtime.session("table").npc("Bo")
        await bo.overhear("Ann", "The king is dead.")
        async with bo.say("hail", within=10) as turn:
            heard = [x.text async for x in turn if isinstance(x, Sentence)]
        assert heard[0] == "You said: hail."
        async with bo.say("hang") as turn:
            await anext(turn)
            assert await bo.interrupt() is True
            done = await turn.finish()
        assert done.end is TurnEnd.INTERRUPTED
        assert isinstance(done.kept, bool)
        scene = runtime.session("table").scene()
        async with scene.say("and now", to="Bo") as turn:
            assert "king is dead" in (await turn.finish()).text
        with pytest.raises(ClusterRefused, match="no NPC"):
            async with runtime.npc("Zed").say("hail"):
                pass
        with pytest.raises(ClusterRefused, match="no NPC"):
            await runtime.npc("Zed").interrupt()
        owner = await runtime.owner("table")
        assert owner is not None
        (listed,) = await runtime.sessions("table")
        assert listed.worker == owner[0]
        asking = asyncio.create_task(bo.say("hang").__aenter__())
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking


@pytest.mark.border
@pytest.mark.parametrize("mode", ["guest", "thread"])
async def test_an_asyncio_program_speaks(
    bus: RealServer, database: str, mode: Mode
) -> None:
    async with worker(bus, database):
        with trio.fail_after(60):
            await trio.to_thread.run_sync(
                partial(asyncio.run, speak(bus.url, mode)), abandon_on_cancel=True
            )
