"""A server that keeps something for its client, and a connection for each session.

Real processes and the real clock.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest

import trio

from glyphoxa_trio import Config, Runtime, Session, Tier, open_runtime
from glyphoxa_trio.config import (
    CalibrationConfig,
    McpConfig,
    NpcConfig,
    ServerSpec,
    TrustConfig,
)
from glyphoxa_trio.config.servers import Sharing
from glyphoxa_trio.config.sessions import SessionsConfig
from glyphoxa_trio.mcp import branches
from glyphoxa_trio.npc import ToolStarted, TurnEvent
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.gate import TrustMode
from glyphoxa_trio.tools.outcome import Outcome, Status

from ..aio.support import PATIENT
from ..mcp.support import gone, is_gone
from ..npc.support import ScriptedLLM, call

pytestmark = pytest.mark.border

DIARY = Path(__file__).parent / "servers" / "diary.py"


def config(connection: Sharing = Sharing.PER_SESSION, **more: Any) -> Config:
    diary = ServerSpec(
        name="diary",
        command=(sys.executable, "-B", str(DIARY)),
        connection=connection,
    )
    return Config(
        npcs=(NpcConfig(name="Bo", tools=("diary.*",), budget_tier=Tier.DEEP),),
        mcp=McpConfig(remember=False, servers=(diary,)),
        trust=TrustConfig(mode=TrustMode.FULL),
        calibration=CalibrationConfig(at_start=False),
        tiers=PATIENT,  # a process that starts on a busy machine
        **more,
    )


def play(request: LLMRequest) -> list[Any]:
    """What is said is a tool and its arguments."""
    last = request.messages[-1]
    if last.role == "tool":
        return ["Well."]
    name, _, rest = last.content.partition(" ")
    exposed = (x.name for x in request.tools if x.name.endswith(f"__{name}"))
    return [call(next(exposed, name), rest or "{}")]


@asynccontextmanager
async def opened(config: Config) -> AsyncGenerator[Runtime]:
    async with open_runtime(config, llm=ScriptedLLM(play), wait_for_servers=10) as it:
        yield it


async def asked(session: Session, tool: str, **arguments: Any) -> Outcome:
    said = f"{tool} {json.dumps(arguments)}"
    async with session.npc("Bo").say(said, tier=Tier.DEEP) as turn:
        done = await turn.finish()
    assert len(done.outcomes) == 1, done
    return done.outcomes[0]


async def pages(session: Session) -> tuple[int, list[str]]:
    outcome = await asked(session, "pages")
    assert outcome.ok, outcome
    return outcome.data["pid"], outcome.data["pages"]


async def test_each_session_has_a_server_of_its_own() -> None:  # D29
    async with opened(config()) as runtime:
        one, two = runtime.session("one"), runtime.session("two", tenant="guild")
        assert (await asked(one, "note", line="the key is under the mat")).ok
        assert (await asked(two, "note", line="the king is a dragon")).ok
        (first, kept), (second, other) = await pages(one), await pages(two)
        assert kept == ["the key is under the mat"]
        assert other == ["the king is a dragon"]
        assert len({first, second}) == 2
        # One tool, with one window, for all of them.
        (row,) = runtime.servers()
        assert set(row.tools) == {"die", "note", "pages"}
        await one.end()
        await gone(first)
        assert not is_gone(second)
        # Another session of that name finds a new one.
        assert (await pages(runtime.session("one")))[1] == []
    assert is_gone(second)


async def test_a_shared_one_is_the_same_for_all() -> None:
    async with opened(config(Sharing.SHARED)) as runtime:
        one, two = runtime.session("one"), runtime.session("two")
        assert (await asked(one, "note", line="for everybody")).ok
        assert await pages(one) == await pages(two)


async def test_one_that_dies_is_lost_to_its_session_alone() -> None:
    async with opened(config()) as runtime:
        one, two = runtime.session("one"), runtime.session("two")
        assert (await asked(two, "note", line="still here")).ok
        await pages(one)
        assert (await asked(one, "die")).status is Status.UNAVAILABLE
        before, kept = await pages(two)
        assert kept == ["still here"]
        assert (await pages(one))[1] == []  # it waits for the next process
        assert await pages(two) == (before, ["still here"])


async def test_a_write_ends_though_its_session_has(tmp_path: Path) -> None:
    written = tmp_path / "written"
    async with opened(config()) as runtime:
        one = runtime.session("one")
        pid, _ = await pages(one)
        arguments = {"line": "to the end", "seconds": 1.0, "path": str(written)}
        said = f"note {json.dumps(arguments)}"
        async with one.npc("Bo").say(said, tier=Tier.DEEP) as turn:
            async for event in turn:
                if isinstance(event, ToolStarted):
                    break
        await one.end()
        assert not written.exists()
        await gone(pid)
        assert written.read_text() == "to the end\n"


async def test_a_session_that_is_set_aside_lets_go_of_its_server() -> None:
    async with opened(config(sessions=SessionsConfig(most=1))) as runtime:
        one = runtime.session("one")
        pid, _ = await pages(one)
        runtime.session("two")
        assert runtime.set_aside == 1
        await gone(pid)
        assert (await pages(one))[1] == []


async def test_beyond_so_many_the_longest_idle_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(branches, "MOST_BRANCHES", 2)
    async with opened(config()) as runtime:
        one, two, three = (runtime.session(x) for x in ("one", "two", "three"))
        first, _ = await pages(one)
        assert (await asked(two, "note", line="mine")).ok
        first_again, _ = await pages(one)
        assert first_again == first
        second, _ = await pages(two)
        await pages(three)
        await gone(first)
        assert (await pages(two)) == (second, ["mine"])

        begun, both = [0], trio.Event()

        def hear(event: TurnEvent) -> None:
            begun[0] += isinstance(event, ToolStarted)
            if begun[0] == 2:
                both.set()

        async with trio.open_nursery() as nursery:  # two write, and a third must wait
            with runtime.events.tap(hear):
                for session in (two, three):
                    nursery.start_soon(
                        partial(asked, session, "note", line="", seconds=2)
                    )
                await both.wait()
            outcome = await asked(one, "pages")
            assert outcome.status is Status.UNAVAILABLE
            assert "serves 2 sessions at the moment" in outcome.message
        assert (await pages(one))[1] == []


async def test_the_campaign_that_is_chosen_is_chosen_in_its_session_alone(
    tmp_path: Path,
) -> None:
    """Our own campaign server, over one database."""
    campaign = ServerSpec(
        name="campaign",
        command=(str(Path(sys.executable).with_name("glyphoxa")), "serve", "campaign"),
        env={"XDG_DATA_HOME": Secret(str(tmp_path))},
        connection=Sharing.PER_SESSION,
    )
    bo = NpcConfig(name="Bo", tools=("campaign.*",), budget_tier=Tier.DEEP)
    served = attrs.evolve(config(), npcs=(bo,))
    served = attrs.evolve(
        served, mcp=attrs.evolve(served.mcp, servers=(campaign,), defer_threshold=100)
    )

    async with opened(served) as runtime:
        chosen = {}
        sessions = [runtime.session(x) for x in ("one", "two")]
        for session in sessions:
            made = await asked(
                session, "campaign_create", name=session.id, gm_mode="AI"
            )
            assert made.ok, made
            chosen[session.id] = made.data["id"]
            assert (await asked(session, "set_context", campaign_id=made.data["id"])).ok
        for session in sessions:
            found = await asked(session, "get_context")
            assert found.data["context"]["campaign_id"] == chosen[session.id]
        assert len(set(chosen.values())) == 2
