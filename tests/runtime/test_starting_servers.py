"""The first turns beside servers that start: what they wait for, and what they say.

Virtual time; times are exact.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio import Config, Runtime, Tier, open_runtime
from glyphoxa_trio.config import CalibrationConfig, McpConfig, NpcConfig, ServerSpec
from glyphoxa_trio.config.servers import Sharing
from glyphoxa_trio.mcp.branches import MOST_BRANCHES
from glyphoxa_trio.npc import ToolsShown, TurnDone
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.runtime.environment import Environment
from glyphoxa_trio.tools.gate import Reason
from glyphoxa_trio.tools.outcome import Status

from ..mcp.fakes import FakeServer
from ..npc.support import ScriptedLLM, ask, call

BUDGET = {Tier.FAST: 0.5, Tier.STANDARD: 1.5, Tier.DEEP: 4.0}


@asynccontextmanager
async def opened(
    server: FakeServer,
    *,
    tools: tuple[str, ...] = ("faq.echo", "dice"),
    model: ScriptedLLM | None = None,
    **spec: Any,
) -> AsyncGenerator[Runtime]:
    """A runtime whose caller does not wait for its server."""
    faq = ServerSpec(name="faq", command=("x",), start_timeout=60.0, **spec)
    config = Config(
        npcs=(NpcConfig(name="Bo", tools=tools, budget_tier=Tier.DEEP),),
        mcp=McpConfig(remember=False, servers=(faq,)),
        calibration=CalibrationConfig(at_start=False),
    )
    async with open_runtime(
        config,
        llm=model or ScriptedLLM(lambda _: ["Well."]),
        wait_for_servers=0,
        environment=Environment(open_session=server.open),
    ) as runtime:
        yield runtime


def asked(request: LLMRequest) -> bool:
    return request.messages[-1].role == "user"


async def shown(runtime: Runtime, session: str, tier: Tier) -> tuple[ToolsShown, float]:
    """What a first round of a turn is shown, and the turn's time for tools."""
    heard = await ask(runtime.session(session).npc("Bo"), "Hello", tier=tier)
    (round_,), (done,) = heard.of(ToolsShown), heard.of(TurnDone)
    return round_, done.timings.tools


@pytest.mark.parametrize("tier", Tier)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.7])
async def test_the_first_turns_of_all_sessions_wait_for_a_server_within_their_time(
    tier: Tier, share: float, autojump_clock: MockClock
) -> None:
    takes = share * BUDGET[tier]
    async with opened(FakeServer(starting_takes=takes)) as runtime:
        found: list[tuple[ToolsShown, float]] = []

        async def one(session: str) -> None:
            found.append(await shown(runtime, session, tier))

        async with trio.open_nursery() as nursery:
            for session in ("one", "two", "three"):
                nursery.start_soon(one, session)
        for round_, waited in found:
            assert "mcp__faq__echo" in round_.shown
            assert waited == pytest.approx(takes)
            assert round_.remaining == pytest.approx(BUDGET[tier] - takes)
        # Then there is nothing to wait for.
        assert (await shown(runtime, "four", tier))[1] == 0.0


@pytest.mark.parametrize("tier", Tier)
async def test_a_server_that_does_not_start_costs_one_turn_its_wait(
    tier: Tier, autojump_clock: MockClock
) -> None:
    async with opened(FakeServer(starting_takes=50.0)) as runtime:
        round_, waited = await shown(runtime, "one", tier)
        assert waited == pytest.approx(0.75 * BUDGET[tier])
        assert "roll" in round_.shown
        ((name, why),) = round_.hidden
        assert (name, why.reason) == ("faq.echo", Reason.UNAVAILABLE)
        assert "the server 'faq' is starting" in why.text
        for session in ("one", "two"):
            round_, waited = await shown(runtime, session, tier)
            assert waited == 0.0
            assert [name for name, _ in round_.hidden] == ["faq.echo"]
        await trio.sleep(50)
        round_, waited = await shown(runtime, "one", tier)
        assert "mcp__faq__echo" in round_.shown
        assert waited == 0.0
        # The next server of that name is another one.
        await runtime.remove_server("faq")
        runtime.add_server(ServerSpec(name="faq", command=("x",), start_timeout=60.0))
        _, waited = await shown(runtime, "one", tier)
        assert waited == pytest.approx(0.75 * BUDGET[tier])


async def test_a_server_that_cannot_be_reached_is_named_and_not_waited_for(
    autojump_clock: MockClock,
) -> None:
    async with opened(FakeServer(["refuse"] * 9)) as runtime:
        await trio.sleep(0.1)
        round_, waited = await shown(runtime, "one", Tier.DEEP)
        ((_, why),) = round_.hidden
        assert "the server 'faq' cannot be reached" in why.text
        assert waited == 0.0


async def test_a_server_of_which_nothing_is_granted_is_not_waited_for(
    autojump_clock: MockClock,
) -> None:
    server = FakeServer(starting_takes=50.0)
    async with opened(server, tools=("dice", "files.*")) as runtime:
        round_, waited = await shown(runtime, "one", Tier.DEEP)
        assert (round_.hidden, waited) == ((), 0.0)


async def test_a_turn_that_is_left_while_it_waits_ends_at_once(
    autojump_clock: MockClock,
) -> None:
    async with opened(FakeServer(starting_takes=2.0)) as runtime:
        with trio.move_on_after(1.0):
            async with runtime.npc("Bo").say("Hello", tier=Tier.DEEP) as turn:
                await turn.finish()
        assert trio.current_time() == pytest.approx(1.0, abs=0.01)
        # That it was left says nothing of the server.
        _, waited = await shown(runtime, "two", Tier.DEEP)
        assert waited == pytest.approx(1.0, abs=0.01)


async def test_a_server_of_the_sessions_own_starts_with_the_session(
    autojump_clock: MockClock,
) -> None:
    # It needs longer than a fast turn has, and the first call is made within one.
    server = FakeServer(starting_takes=0.8)
    model = ScriptedLLM(lambda x: [call("mcp__faq__echo")] if asked(x) else ["Well."])
    async with opened(server, model=model, connection=Sharing.PER_SESSION) as runtime:
        await runtime.wait_ready(within=5)
        for n in range(3):
            npc = runtime.session(f"table {n}").npc("Bo")
            assert len(server.attempts) == n + 1  # those of all before
            await trio.sleep(1)  # while people say hello
            heard = await ask(npc, "Hello", tier=Tier.FAST)
            (done,) = heard.of(TurnDone)
            assert [x.status for x in done.outcomes] == [Status.OK]
            assert done.timings.tools == 0.0
            assert len(server.attempts) == n + 2


@pytest.mark.parametrize(
    ("tools", "lazy", "opened_for"),
    [(("faq",), False, 40), (("dice",), False, 0), (("faq.*",), True, 0)],
)
async def test_not_every_session_has_its_own_server(
    tools: tuple[str, ...], lazy: bool, opened_for: int, autojump_clock: MockClock
) -> None:
    server = FakeServer()
    own = Sharing.PER_SESSION
    async with opened(server, tools=tools, connection=own, lazy=lazy) as runtime:
        await runtime.wait_ready(within=5)
        before = len(server.attempts)
        for n in range(40):
            runtime.session(f"table {n}").npc("Bo")
        await trio.sleep(1)
        assert len(server.attempts) - before == min(opened_for, MOST_BRANCHES)
