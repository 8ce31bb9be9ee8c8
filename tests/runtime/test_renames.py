"""Servers that keep renaming their tools leave nothing behind."""

from __future__ import annotations

from functools import partial

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.host import CalibratorSettings, open_host
from glyphoxa_trio.mcp import ServerState, ServerWarning
from glyphoxa_trio.runtime.publisher import Publisher
from glyphoxa_trio.tools.gate import Grant

from ..host.fakes import Log, fake


async def test_tools_that_are_renamed_for_ever_leave_no_tasks(
    autojump_clock: MockClock,
) -> None:
    # Found: 4,663 tasks after 20 s of new names ten times a second.
    names = [[f"look{n}_{k}" for k in range(10)] for n in range(50)]
    stan = Grant(
        npc="Stan", tools=tuple(f"world.{name}" for batch in names for name in batch)
    )
    warned: list[ServerWarning] = []
    settings = CalibratorSettings(probe_concurrency=2)
    async with (
        open_host(settings=settings, granted=lambda: [stan]) as host,
        trio.open_nursery() as nursery,
    ):
        publisher = Publisher(host, nursery, True, warned.append)
        counts: list[int] = []
        for batch in names:
            tools = [
                fake(name, 1000, log=Log(), group="world", external=True,
                     read_only=True, open_world=False)
                for name in batch
            ]  # fmt: skip
            publisher("world", ServerState.READY, tools)
            await trio.sleep(0.1)
            await wait_all_tasks_blocked()
            counts.append(trio.lowlevel.current_statistics().tasks_living)
        # A batch has few tasks, however many tools it has, and batches have a bound.
        assert max(counts) < counts[0] + 20 * 10
        assert max(counts[25:]) <= max(counts[:25])
        nursery.cancel_scope.cancel()


async def test_a_request_to_probe_has_few_tasks_however_many_tools(
    autojump_clock: MockClock,
) -> None:
    async with open_host(settings=CalibratorSettings(probe_concurrency=2)) as host:
        host.register(*(fake(f"look{n}", 1000, read_only=True) for n in range(200)))
        before = trio.lowlevel.current_statistics().tasks_living
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(host.calibrate, within=10_000))
            await wait_all_tasks_blocked()
            assert trio.lowlevel.current_statistics().tasks_living < before + 20
            nursery.cancel_scope.cancel()
