"""``glyphoxa serve memory``: a real file, real processes, and the SDK's client."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

import trio

from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.memory.opening import open_memory
from glyphoxa_trio.memory.visibility import CampaignKey
from glyphoxa_trio.tools.outcome import Status
from tests.builtin.memory.support import BARTOK, HERE, Told, said

from .processes import COMMAND, LIMIT, client_of, over_http
from .test_shelf import call

pytestmark = pytest.mark.border

READING = {
    *("search_sessions", "query_entities", "get_summary", "search_facts"),
    *("get_session_summary", "search_history"),
}


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    path = tmp_path / "inn.db"
    async with open_memory(str(path)) as memory:
        told = Told(memory)
        await told.evening(
            said("Aria", "The red dragon burned my village.", player="p1"),
            said("Aria", "I hid the crown under the mill.", BARTOK, player="p1"),
        )
    return path


@asynccontextmanager
async def client(*words: str, **env: str) -> AsyncGenerator[ClientSession]:
    server = StdioServerParameters(
        command=str(COMMAND), args=["serve", "memory", *words], env=env
    )
    with trio.fail_after(LIMIT):
        async with (
            stdio_client(server) as (incoming, outgoing),
            ClientSession(incoming, outgoing) as session,
        ):
            await session.initialize()
            yield session


async def ask(session: ClientSession, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await session.call_tool(tool, arguments)
    assert not answer.is_error, answer
    assert answer.structured_content is not None
    return dict(answer.structured_content)


async def test_a_client_sees_what_the_npc_may_know(file: Path) -> None:  # G5, G38
    words = ("--store", str(file), "--tenant", "guild")
    async with client(*words, "--npc", "Ysolde") as session:
        listed = {tool.name for tool in (await session.list_tools()).tools}
        assert listed == READING
        answer = await ask(session, "search_sessions", query="red dragon")
        assert answer["message"].endswith("The red dragon burned my village.")
        assert not (await ask(session, "search_sessions", query="crown"))["results"]
    # The game master sees everything, and the variable names the store.
    async with client("--tenant", "guild", GLYPHOXA_MEMORY=str(file)) as session:
        assert (await ask(session, "search_sessions", query="crown"))["results"]


async def test_remembering_is_offered_only_where_it_is_allowed(file: Path) -> None:
    words = ("--store", str(file), "--tenant", "guild", "--npc", "Bartok")
    async with client(*words, "--allow-remember") as session:
        listed = {tool.name for tool in (await session.list_tools()).tools}
        assert listed == {*READING, "remember"}
        await ask(session, "remember", fact="Aria owes me three copper.")
    async with client(*words) as session:
        answer = await ask(session, "search_facts", query="copper")
        assert answer["message"] == "Aria owes me three copper."


async def test_the_first_campaign_is_made_by_what_is_remembered(tmp_path: Path) -> None:
    words = ("--store", str(tmp_path / "new.db"), "--campaign", "inn")
    async with client(*words, "--allow-remember", "--npc", "Bo") as session:
        await ask(session, "remember", fact="The well tastes of iron.")
        answer = await ask(session, "search_facts", query="iron")
        assert answer["message"] == "The well tastes of iron."


@pytest.mark.long
@pytest.mark.border
async def test_a_second_runtime_uses_it_over_http(file: Path) -> None:  # G15
    words = ("--store", str(file), "--campaign", "inn", "--tenant", "guild")
    with trio.fail_after(LIMIT):
        async with (
            over_http("memory", *words) as url,
            client_of([ServerSpec(name="memory", url=url)]) as runtime,
        ):
            # It has the place of the built-in group of that name.
            keys = {x.key for x in runtime.host.snapshot.listings}
            assert {x for x in keys if x.startswith("memory.")} == {
                f"memory.{name}" for name in READING
            }
            found = await call(runtime, "memory.search_history", query="dragon")
            assert found.status is Status.OK
            assert found.data["results"][0]["session_id"] == "table-42-2026-11-12"


def serve(*words: str, **env: str) -> str:
    ran = subprocess.run(
        [COMMAND, "serve", "memory", *words],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=LIMIT,
        check=False,
        env=env,
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    return ran.stderr


@pytest.mark.long
async def test_what_cannot_be_served_is_told(file: Path, tmp_path: Path) -> None:
    assert "which memory? Give --store FILE, or set GLYPHOXA_MEMORY" in serve()
    assert "no such file" in serve("--store", str(tmp_path / "none.db"))
    assert not (tmp_path / "none.db").exists()
    told = serve("--store", "pg://me:hunter2@there/db")
    assert "begins with postgresql://" in told
    assert "hunter2" not in told
    store = ("--store", str(file))
    assert "the memory has no campaign yet" in serve(*store)
    guild = (*store, "--tenant", "guild")
    assert "did you mean 'inn'?" in serve(*guild, "--campaign", "in")
    assert "--npc: it must not be empty" in serve(*guild, "--npc", " ")
    async with open_memory(str(file)) as memory:
        other = Told(memory, CampaignKey("road", HERE.tenant))
        await other.evening(said("Bo", "Hail.", player="p2"), table="t")
    assert "which --campaign? There are 2 of guild: inn, road" in serve(*guild)
    (tmp_path / "notes.txt").write_text(json.dumps({"not": "a memory"}) * 100)
    told = serve("--store", str(tmp_path / "notes.txt"))
    assert "notes.txt" in told
    assert "Traceback" not in told
