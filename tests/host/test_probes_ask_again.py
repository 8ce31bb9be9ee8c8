"""A probe may be called when it is called, not only when it was planned.

Measuring takes up to two minutes, and a tool may change, go, or lose its grant
meanwhile. Virtual time, exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio.host import Approvals, CalibratorSettings, Probed, open_host
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.gate import Availability, Grant

from .fakes import Log, fake

READY = Availability.READY
NAMES = tuple(f"look{n}" for n in range(8))
STAN = Grant(npc="Stan", tools=tuple(f"world.{name}" for name in NAMES))
CHANGED = "not called: its definition has changed"


def world(log: Log, names: Iterable[str] = NAMES, **hints: Any) -> list[Tool]:
    """A server's tools that only read what is there, unless told otherwise."""
    hints = {"read_only": True, "open_world": False} | hints
    return [
        fake(name, 1.0, log=log, group="world", external=True, **hints)
        for name in names
    ]


async def test_tools_that_turn_into_writers_meanwhile_are_called_no_more(
    autojump_clock: MockClock,
) -> None:
    # Found: 32 more calls with made-up arguments, while all of them were held back.
    log = Log()
    approvals = Approvals(approved=STAN.approves)
    async with open_host(
        settings=CalibratorSettings(probe_concurrency=2),
        approvals=approvals,
        granted=lambda: [STAN],
    ) as host:
        host.publish("world", READY, world(log))
        keys = [tool.key for tool in world(log)]
        done: list[Probed] = []

        async def measure() -> None:
            done.extend(await host.measure(keys, within=60))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(measure)
            await trio.sleep(1.5)
            host.publish("world", READY, world(log, read_only=False, destructive=True))
            assert approvals.held == set(keys)
    assert len(log.began) == 4  # two at a time, and two calls of each by then
    assert sorted(one.samples for one in done) == [0] * 6 + [2, 2]
    assert {one.note for one in done} == {CHANGED}


async def test_a_tool_that_goes_meanwhile_is_called_no_more(
    autojump_clock: MockClock,
) -> None:
    log = Log()
    async with open_host(granted=lambda: [STAN]) as host:
        host.publish("world", READY, world(log, ["look0"]))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(host.measure, ["world.look0"], within=60))
            await trio.sleep(1.5)
            host.publish("world", READY, [])
    assert len(log.began) == 2


async def test_a_grant_that_is_taken_away_ends_the_probes(
    autojump_clock: MockClock,
) -> None:
    log, grants = Log(), [STAN]
    async with open_host(granted=lambda: grants) as host:
        host.publish("world", READY, world(log, ["look0"]))
        done: list[Probed] = []

        async def measure() -> None:
            done.extend(await host.measure(["world.look0"], within=60))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(measure)
            await trio.sleep(1.5)
            grants.clear()
    assert len(log.began) == 2
    (one,) = done
    assert one.note == "not called: no NPC is granted it and approved for it"


async def test_nothing_is_probed_unasked_where_nobody_is_granted_anything(
    autojump_clock: MockClock,
) -> None:
    log = Log()
    async with open_host() as host:
        host.publish("world", READY, world(log))
        keys = [tool.key for tool in world(log)]
        assert await host.measure(keys, within=60) == ()
    assert log.began == []


async def test_of_keys_that_are_to_be_harmless_no_writer_is_called(
    autojump_clock: MockClock,
) -> None:
    log = Log()
    async with open_host() as host:
        host.publish("world", READY, world(log, ["look0", "look1"]))
        # After they were chosen, and before they are probed.
        host.publish(
            "world",
            READY,
            [*world(log, ["look0"], read_only=False), *world(log, ["look1"])],
        )
        keys = ["world.look0", "world.look1"]
        done = await host.calibrate(within=60, keys=keys, harmless_only=True)
        assert [one.key for one in done] == ["world.look1"]
        assert log.names() == ["look1"] * 5
        named = await host.calibrate(within=60, keys=["world.look0"])  # by its name
        assert [one.samples for one in named] == [5]


@pytest.mark.parametrize(
    "named", [{"keys": ["world.look0"]}, {"unsafe": True}], ids=str
)
async def test_who_names_a_tool_that_is_held_back_is_told_so(
    named: dict[str, Any], autojump_clock: MockClock
) -> None:
    # Found: nothing was called, and nothing was said.
    log = Log()
    async with open_host(approvals=Approvals(approved=STAN.approves)) as host:
        for description in ("One.", "Other."):
            host.publish("world", READY, world(log, ["look0"], description=description))
        (one,) = await host.calibrate(within=60, **named)
    assert (one.samples, log.began) == (0, [])
    assert one.note == (
        "not called: it has changed since it was approved; look at it with"
        " glyphoxa mcp approve world.look0"
    )
