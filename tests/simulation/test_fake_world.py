"""Made-up servers and tools behave as real ones do, where it matters."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

import trio

from glyphoxa_trio import Config, Runtime, open_runtime
from glyphoxa_trio.config import McpConfig, NpcConfig, RestartConfig, ServerSpec
from glyphoxa_trio.config.model import CalibrationConfig
from glyphoxa_trio.mcp import ServerState
from glyphoxa_trio.simulation import virtual
from glyphoxa_trio.simulation.promises.fake_world import Act, Ending, FakeWorld
from glyphoxa_trio.tools.outcome import Effect, Limit, Status

CONSULT = {"name": "consult", "inputSchema": {"type": "object"}}
READ = {**CONSULT, "name": "read", "annotations": {"readOnlyHint": True}}


def config() -> Config:
    return Config(
        npcs=(NpcConfig(name="Ysolde", tools=("oracle.*", "roll")),),
        mcp=McpConfig(
            remember=False,
            servers=(
                ServerSpec(
                    name="oracle",
                    command=("nobody-starts-this",),
                    restart=RestartConfig(backoff=0.0),
                ),
            ),
        ),
        calibration=CalibrationConfig(at_start=False),
    )


@asynccontextmanager
async def rehearsal(scenery: FakeWorld) -> AsyncGenerator[Runtime]:
    async with open_runtime(config(), environment=scenery.environment()) as runtime:
        assert await runtime.wait_ready(within=1)
        yield runtime


def scenery(act: Act) -> FakeWorld:
    return FakeWorld(lambda key, arguments: act, {"oracle": (CONSULT, READ)})


async def one_call(act: Act, name: str = "oracle.read") -> Any:
    stage = scenery(act)
    async with rehearsal(stage) as runtime:
        began = trio.current_time()
        end = await runtime.host.execute(name)
        return end, trio.current_time() - began, stage


@pytest.mark.parametrize(
    ("act", "status", "took"),
    [
        (Act(Ending.ANSWER, 0.25), Status.OK, 0.25),
        (Act(Ending.SAY_NO, 0.25), Status.TOOL_ERROR, 0.25),
        (Act(Ending.HANG), Status.TIMEOUT, 4.0),
        (Act(Ending.STUBBORN, 9.0), Status.TIMEOUT, 4.0),
        (Act(Ending.STUBBORN, 1.0), Status.OK, 1.0),
    ],
)
def test_a_call_of_a_server_takes_what_the_director_says(
    act: Act, status: Status, took: float
) -> None:
    end, elapsed, _ = virtual.run(one_call, act)
    assert (end.status, elapsed) == (status, took)


def test_what_dies_of_a_write_leaves_its_effect_unknown_and_comes_back() -> None:
    async def main() -> None:
        stage = scenery(Act(Ending.CRASH, 0.5))
        async with rehearsal(stage) as runtime:
            end = await runtime.host.execute("oracle.consult")
            assert (end.status, end.effect) == (Status.UNAVAILABLE, Effect.UNKNOWN)
            assert len(stage.journal) == 1
            stage.direct = lambda key, arguments: Act()
            assert (await runtime.host.execute("oracle.consult")).ok

    virtual.run(main)


def test_a_cancelled_call_is_cancelled_at_its_server() -> None:
    end, _, stage = virtual.run(one_call, Act(Ending.HANG))
    assert end.limit is Limit.TURN
    (run,) = stage.journal
    assert not run.complete
    assert run.over == run.began + 4.0  # and not at the end of everything


def test_a_tool_of_ours_is_played_here() -> None:
    async def main() -> None:
        stage = scenery(Act(Ending.ANSWER, 1 / 64))
        async with rehearsal(stage) as runtime:
            began = trio.current_time()
            end = await runtime.host.execute("dice.roll", {"expression": "1d6"})
            assert end.message == "dice.roll has answered."
            assert trio.current_time() - began == 1 / 64

    virtual.run(main)


def test_a_frozen_server_answers_nobody_and_is_replaced() -> None:
    async def main() -> None:
        stage = scenery(Act())
        async with rehearsal(stage) as runtime:
            stage.server("oracle").freeze()
            for _ in range(2):
                end = await runtime.host.execute("oracle.read")
                assert end.status in (Status.TIMEOUT, Status.UNAVAILABLE)
            # Pings find it out, also when nobody calls it any more.
            await trio.sleep(15)
            (row,) = runtime.servers()
            assert row.restarts > 0
            stage.server("oracle").thaw()
            await trio.sleep(30)
            assert (await runtime.host.execute("oracle.read")).ok

    virtual.run(main)


def test_another_list_is_heard_of() -> None:
    async def main() -> None:
        stage = scenery(Act())
        async with rehearsal(stage) as runtime:
            stage.server("oracle").offer([CONSULT])
            await trio.sleep(1)
            keys = {x.key for x in runtime.host.snapshot.listings}
            assert "oracle.read" not in keys
            assert "oracle.consult" in keys

    virtual.run(main)


def test_a_server_that_never_starts_has_failed() -> None:
    async def main() -> None:
        stage = scenery(Act())
        stage.server("oracle").start_after(float("inf"))
        async with open_runtime(
            config(), environment=stage.environment(), wait_for_servers=0
        ) as runtime:
            assert not await runtime.wait_ready(within=60)
            (row,) = runtime.servers()
            assert row.state is not ServerState.READY

    virtual.run(main)


def test_the_director_is_told_what_is_called() -> None:
    asked: list[tuple[str, Mapping[str, Any]]] = []

    def direct(key: str, arguments: Mapping[str, Any]) -> Act:
        asked.append((key, arguments))
        return Act()

    async def main() -> None:
        stage = FakeWorld(direct, {"oracle": (CONSULT,)})
        async with rehearsal(stage) as runtime:
            await runtime.host.execute("oracle.consult", {"about": "rain"})

    virtual.run(main)
    assert asked == [("oracle.consult", {"about": "rain"})]
