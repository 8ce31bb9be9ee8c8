"""Servers of MCP are told the epoch of a session's claim, and can refuse a former
owner: real processes of the example, a real nats-server and a real PostgreSQL."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio import open_runtime
from glyphoxa_trio.cluster import ClusterWorker, serve
from glyphoxa_trio.config import Config, McpConfig, ServerSpec
from glyphoxa_trio.memory.in_memory import InMemory
from glyphoxa_trio.memory.postgres import open_postgres
from glyphoxa_trio.nats import open_nats
from glyphoxa_trio.npc import Npc, ToolFinished
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.runtime import Runtime
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.decorate import tool
from glyphoxa_trio.tools.definition import CallContext, SessionClaim

from ..nats.server import RealServer
from ..npc.support import ScriptedLLM, call
from ..runtime.test_snapshots import with_room
from ..runtime.test_turn_keeper import silent
from .test_cluster import LIMIT, bus, client, database, postgres, said

__all__ = ["bus", "database", "postgres"]

ROOT = Path(__file__).parents[2]
PURSE = ROOT / "docs" / "examples" / "servers" / "purse.py"


def spending(request: LLMRequest) -> list[Any]:
    last = request.messages[-1]
    if last.role == "tool":
        return [f"It says {last.content}."]
    return [call("purse.spend", '{"price": 10}')]


def with_purse(file: Path) -> Config:
    config = silent(with_room(1000))
    command = (sys.executable, str(PURSE), str(file))
    npcs = tuple(attrs.evolve(x, tools=("*", "purse.spend")) for x in config.npcs)
    env = {"PYTHONPATH": Secret(str(ROOT))}  # this package, wherever it is installed
    spec = ServerSpec(name="purse", command=command, env=env)
    mcp = McpConfig(servers=(spec,), remember=False)
    return attrs.evolve(config, npcs=npcs, mcp=mcp)


@asynccontextmanager
async def worker(
    bus: RealServer, database: str, file: Path
) -> AsyncGenerator[tuple[Runtime, ClusterWorker]]:
    async with (
        open_postgres(database) as store,
        open_runtime(
            with_purse(file), llm=ScriptedLLM(spending), memory=store
        ) as runtime,
        open_nats(bus.url) as nats,
    ):
        assert await runtime.wait_ready(within=LIMIT)
        async with serve(runtime, nats) as worker:
            yield runtime, worker


def kept(file: Path) -> list[tuple[str, int, int]]:
    with sqlite3.connect(file) as database:
        return database.execute("select session, epoch, coins from purse").fetchall()


@pytest.mark.border  # its servers start for seconds
async def test_a_session_that_is_taken_over_has_a_higher_epoch_at_its_server(
    bus: RealServer, database: str, tmp_path: Path
) -> None:
    file = tmp_path / "purses.db"
    async with client(bus) as runtime, worker(bus, database, file) as (first, one):
        done = await said(runtime, "pay")
        assert "90" in done.text, done
        ((session, epoch, coins),) = kept(file)
        assert runtime.owner("table") == (one.name, epoch)
        assert coins == 90

        # It does not know yet that another process has taken the session.
        async with open_postgres(database) as thief:
            claim = await thief.journal.claim(
                "", "table", first.campaign_of("table"), steal_from=epoch
            )
            taken = SessionClaim.of("", "table", claim.epoch)
            assert taken is not None
            assert taken.session == session
            spend = first.host.snapshot.find("purse.spend")
            assert spend is not None
            handler: Any = spend.tool.handler
            told = await handler({"price": 5}, CallContext(claim=taken))
            assert not told.is_error
            assert kept(file)[0] == (session, claim.epoch, 85)
            own = await handler(
                {"price": 50}, CallContext(claim=SessionClaim(session, epoch))
            )
            assert own.is_error
            assert "another process" in own.text[0]
            assert kept(file)[0] == (session, claim.epoch, 85)


@pytest.mark.long
async def test_the_owner_that_takes_over_tells_its_own_epoch(
    bus: RealServer, database: str, tmp_path: Path
) -> None:
    file = tmp_path / "purses.db"
    async with client(bus) as runtime:
        async with worker(bus, database, file):
            await said(runtime, "pay")
            first = kept(file)
        async with worker(bus, database, file):
            assert "80" in (await said(runtime, "pay")).text
    (before,), (after,) = first, kept(file)
    assert after[0] == before[0]
    assert after[1] > before[1]
    owner = runtime.owner("table")
    assert owner is not None
    assert after[1] == owner[1]


async def spends(npc: Npc) -> str:
    async with npc.say("pay") as turn:
        ends = [x async for x in turn if isinstance(x, ToolFinished)]
    return ends[0].outcome.status


@pytest.mark.long
async def test_sessions_without_a_claim_name_none(tmp_path: Path) -> None:
    file = tmp_path / "purses.db"
    with trio.fail_after(LIMIT):
        config = with_purse(file)
        llm = ScriptedLLM(spending)
        async with open_runtime(config, llm=llm) as runtime:
            assert await runtime.wait_ready(within=LIMIT)
            assert await spends(runtime.session("table").npc("Bo")) == "ok"
        assert kept(file) == [("", 0, 90)]
        # One that is kept has a claim, in one process as in several.
        store = InMemory()
        async with open_runtime(config, llm=llm, memory=store) as runtime:
            assert await runtime.wait_ready(within=LIMIT)
            assert await spends(runtime.session("table").npc("Bo")) == "ok"
        assert [x[1:] for x in kept(file)] == [(0, 90), (1, 90)]


async def test_each_owner_of_a_session_has_a_higher_epoch(
    autojump_clock: MockClock,
) -> None:
    claims: list[SessionClaim | None] = []

    @tool(read_only=True)
    async def look(context: CallContext) -> str:
        """Look around."""
        claims.append(context.claim)
        return "nothing"

    def looking(request: LLMRequest) -> list[Any]:
        return [call("look")] if request.messages[-1].role != "tool" else ["Nothing."]

    store, config = InMemory(), silent(with_room(1000))
    for memory in (store, store.beside(), None):
        async with open_runtime(
            config, llm=ScriptedLLM(looking), tools=[look], memory=memory
        ) as runtime:
            async with runtime.session("table").npc("Bo").say("look") as turn:
                await turn.finish()
    first, second, none = claims
    assert first is not None
    assert second is not None
    assert first.session == second.session
    assert (first.epoch, second.epoch) == (1, 2)
    assert none is None
