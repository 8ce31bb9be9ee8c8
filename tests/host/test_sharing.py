"""Shared calls: one execution for equal calls, and a cached result for later ones.

Row G20; decision D11. Virtual time, exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import attrs
import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio.host import ToolHost, open_host
from glyphoxa_trio.tools.decorate import tool
from glyphoxa_trio.tools.definition import CallContext
from glyphoxa_trio.tools.gate import Availability
from glyphoxa_trio.tools.outcome import Effect, Outcome, Status, ToolResult

from .fakes import Does, Log, call, fake, fan_out, statuses

# Kept results


async def test_a_kept_result_costs_no_time_until_its_time_is_up(
    autojump_clock: MockClock,
) -> None:
    log = Log()
    async with open_host() as host:
        host.register(fake("look", 0.25, read_only=True, cacheable=10, log=log))
        (first,) = await fan_out(host, "look")
        await trio.sleep(9.75)  # kept from 0.25 on
        (again,) = await fan_out(host, "look")
        assert trio.current_time() == 10
        await trio.sleep(0.25)
        await fan_out(host, "look")
    assert log.began == [("look", 0), ("look", 10.25)]
    assert (first.cached, first.elapsed) == (False, 0.25)
    assert (again.cached, again.elapsed, again.message) == (True, 0, "look")


async def test_a_tool_that_is_not_cacheable_is_asked_every_time(
    autojump_clock: MockClock,
) -> None:
    log = Log()
    async with open_host() as host:
        host.register(fake("look", 0.25, read_only=True, log=log))
        await fan_out(host, "look", "look")
        await fan_out(host, "look")
    assert log.began == [("look", 0), ("look", 0), ("look", 0.25)]


async def test_the_same_arguments_are_the_same_however_they_are_written(
    autojump_clock: MockClock,
) -> None:
    log = Log()
    async with open_host() as host:
        host.register(fake("look", read_only=True, cacheable=10, log=log))
        await fan_out(host, call("look", x=1, y=2))
        await fan_out(host, call("look", y=2.0, x=1))
        assert len(log.began) == 1
        await fan_out(host, call("look", x=1, y=3))
        assert len(log.began) == 2


@pytest.mark.parametrize(("per_npc", "runs"), [(True, 2), (False, 1)])
async def test_what_differs_by_who_asks_is_kept_for_each(
    per_npc: bool, runs: int, autojump_clock: MockClock
) -> None:
    log = Log()
    async with open_host() as host:
        host.register(
            fake("know", 0.1, read_only=True, cacheable=10, per_npc=per_npc, log=log)
        )

        async def ask(npc: str) -> None:
            (outcome,) = await fan_out(host, "know", npc=npc)
            assert outcome.ok

        async with trio.open_nursery() as nursery:  # in the air as well as kept
            nursery.start_soon(ask, "Grimjaw")
            nursery.start_soon(ask, "Elara")
        await ask("Grimjaw")
        await ask("Elara")
    assert len(log.began) == runs


@pytest.mark.parametrize("does", [Does.SAY_NO, Does.CRASH, Does.LOSE, Does.BE_AWAY])
async def test_only_answers_are_kept(does: Does, autojump_clock: MockClock) -> None:
    log = Log()
    async with open_host() as host:
        host.register(fake("look", 0, does, read_only=True, cacheable=10, log=log))
        for _ in range(2):
            (outcome,) = await fan_out(host, "look")
            assert not outcome.cached
    assert len(log.began) == 2


async def test_a_no_is_not_kept_however_it_was_said(
    autojump_clock: MockClock,
) -> None:
    async def handler(_: Mapping[str, Any], __: CallContext) -> ToolResult:
        return ToolResult(text=("not today",), is_error=True)

    tool = fake("look", read_only=True, cacheable=60)
    async with open_host() as host:
        host.register(attrs.evolve(tool, handler=handler))
        for _ in range(2):
            (outcome,) = await fan_out(host, "look")
            assert (outcome.status, outcome.cached) == (Status.TOOL_ERROR, False)


async def test_the_result_of_an_idempotent_call_is_kept(
    autojump_clock: MockClock,
) -> None:
    # Found: it dropped the cached results of its group, its own among them.
    log = Log()
    async with open_host() as host:
        host.register(fake("light", idempotent=True, cacheable=10, log=log))
        (first,) = await fan_out(host, "light")
        (again,) = await fan_out(host, "light")
    assert (first.cached, first.effect) == (False, Effect.DONE)
    assert (again.cached, again.effect) == (True, Effect.NONE)
    assert len(log.began) == 1


async def test_an_idempotent_call_that_another_write_crossed_is_not_kept(
    autojump_clock: MockClock,
) -> None:
    log = Log()
    async with open_host() as host:
        host.register(
            fake("light", 0.25, idempotent=True, cacheable=10, log=log), fake("douse")
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fan_out, host, "light")
            nursery.start_soon(fan_out, host, "douse")
        await fan_out(host, "light")  # nobody knows which of the two came last
    assert len(log.began) == 2


# Writes


@pytest.mark.parametrize(
    ("group", "does", "dropped"),
    [
        ("world", Does.ANSWER, True),
        ("world", Does.SAY_NO, True),  # it may have done half of it
        ("world", Does.CRASH, True),
        ("world", Does.HANG, True),
        ("elsewhere", Does.ANSWER, False),
    ],
)
async def test_a_write_drops_what_was_read_of_its_own_group(
    group: str, does: Does, dropped: bool, autojump_clock: MockClock
) -> None:
    log = Log()
    async with open_host() as host:
        host.register(
            fake("look", group="world", read_only=True, cacheable=60, log=log),
            fake("act", 0, does, group=group, max_duration=0.1),
        )
        await fan_out(host, "look")
        await fan_out(host, "act")
        (again,) = await fan_out(host, "look")
    assert again.cached is not dropped
    assert len(log.began) == 1 + dropped


async def test_a_read_that_a_write_overtook_is_neither_joined_nor_kept(
    autojump_clock: MockClock,
) -> None:
    # Found: who read after a write could be given the world from before it.
    log = Log()
    async with open_host() as host:
        host.register(
            fake("look", 1, read_only=True, cacheable=60, log=log), fake("act", 0.25)
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(fan_out, host, "look", within=2))
            await fan_out(host, "act")
            (after,) = await fan_out(host, "look", within=2)
        assert trio.current_time() == 1.25
        assert not after.shared
        (last,) = await fan_out(host, "look", within=2)
        assert last.cached  # the second one's
    assert log.began == [("look", 0), ("look", 0.25)]


async def test_a_probe_that_writes_drops_what_was_read(
    autojump_clock: MockClock,
) -> None:
    async with open_host() as host:
        host.register(
            fake("look", read_only=True, cacheable=60), fake("act", idempotent=True)
        )
        await fan_out(host, "look")
        await host.calibrate(keys=["fake.act"], within=5)
        (again,) = await fan_out(host, "look")
        assert not again.cached


async def test_a_tool_that_was_replaced_loses_what_is_kept(
    autojump_clock: MockClock,
) -> None:
    old, new = Log(), Log()
    async with open_host() as host:
        for log in (old, new):
            host.deregister("fake")
            host.register(fake("look", read_only=True, cacheable=60, log=log))
            await fan_out(host, "look", "look")
    assert (len(old.began), len(new.began)) == (1, 1)


async def test_nobody_joins_a_call_of_a_tool_that_was_replaced(
    autojump_clock: MockClock,
) -> None:
    # Found: the answer was the old tool's.
    async with open_host() as host:
        host.register(fake("look", 3, read_only=True, cacheable=60))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fan_out, host, "look")
            await trio.sleep(0.1)
            host.deregister("fake")
            host.register(fake("look", 0.1, read_only=True, cacheable=60))
            (outcome,) = await fan_out(host, "look")
    assert (outcome.status, outcome.shared) == (Status.OK, False)


async def test_a_new_definition_forgets_what_the_old_one_said(
    autojump_clock: MockClock,
) -> None:
    log = Log()
    async with open_host() as host:
        for description, cached in (("old", False), ("old", True), ("new", False)):
            tool = fake(
                "look",
                description=description,
                read_only=True,
                cacheable=60,
                log=log,
            )
            host.publish("fake", Availability.READY, [tool])
            (outcome,) = await fan_out(host, "look")
            assert outcome.cached is cached


async def test_a_tool_that_its_server_dropped_leaves_nothing_behind(
    autojump_clock: MockClock,
) -> None:
    log = Log()
    tools = [fake("look", read_only=True, cacheable=60, log=log)]
    async with open_host() as host:
        for _ in range(2):
            host.publish("fake", Availability.READY, tools)
            await fan_out(host, "look")
            host.publish("fake", Availability.READY, [])
    assert len(log.began) == 2


# Single flight


async def ask(host: ToolHost, ends: list[Outcome], within: float = 0.5) -> None:
    ends += await fan_out(host, "look", within=within)


async def test_twenty_who_ask_the_same_make_one_call(
    autojump_clock: MockClock,
) -> None:
    log, ends = Log(), list[Outcome]()
    async with open_host() as host:
        host.register(fake("look", 0.25, read_only=True, cacheable=60, log=log))
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(ask, host, ends)
        assert trio.current_time() == 0.25
        # D7: followers say nothing of latency
        assert (await host.report())["fake.look"].samples == 1
    assert log.began == [("look", 0)]
    assert statuses(ends) == ["ok"] * 20
    assert sorted(end.shared for end in ends) == [False] + [True] * 19


async def test_one_leaving_does_not_stop_it_for_the_others(
    autojump_clock: MockClock,
) -> None:
    log, ends = Log(), list[Outcome]()
    async with open_host() as host:
        host.register(fake("look", 0.4, read_only=True, cacheable=60, log=log))

        async def interrupted() -> None:  # and it came first
            with trio.move_on_after(0.2):
                await ask(host, ends)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(interrupted)
            await trio.sleep(0.1)
            nursery.start_soon(ask, host, ends, 0.2)  # its turn ends too early
            nursery.start_soon(ask, host, ends)
        assert trio.current_time() == 0.4
    assert log.began == [("look", 0)]
    assert log.ended == [("look", 0.4)]
    assert statuses(ends) == ["timeout", "ok"]


async def test_the_last_one_leaving_stops_it(autojump_clock: MockClock) -> None:
    log, ends = Log(), list[Outcome]()
    async with open_host() as host:
        host.register(fake("look", 3, read_only=True, cacheable=60, log=log))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, host, ends, 0.25)
            nursery.start_soon(ask, host, ends, 0.5)
        await trio.testing.wait_all_tasks_blocked()
        assert log.cancelled == [("look", 0.5)]
        await ask(host, ends)  # and the next one begins anew, at once
        assert log.began == [("look", 0), ("look", 0.5)]
    assert statuses(ends) == ["timeout"] * 3


async def test_a_shared_failure_is_everybodys(autojump_clock: MockClock) -> None:
    ends = list[Outcome]()
    async with open_host() as host:
        host.register(fake("look", 0.1, Does.CRASH, read_only=True, cacheable=60))
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ask, host, ends)
    assert statuses(ends) == ["crashed"] * 3


async def test_within_one_response_identical_reads_share_too(
    autojump_clock: MockClock,
) -> None:
    log = Log()
    async with open_host() as host:
        host.register(fake("look", 0.25, read_only=True, cacheable=60, log=log))
        outcomes = await fan_out(host, "look", "look")
        assert host.statistics().executor.cache.size == 1
    assert log.began == [("look", 0)]
    assert [outcome.status for outcome in outcomes] == [Status.OK] * 2


async def test_a_cut_write_outdates_reads_when_it_really_ends(
    autojump_clock: MockClock,
) -> None:
    # D11, D3a: it ignores its cancellation and writes after everybody left
    world = {"door": "closed"}

    @tool(group="door", max_duration_ms=100)
    async def open_door() -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(0.4)
        world["door"] = "open"
        return "done"

    @tool(group="door", read_only=True, idempotent=True, cacheable_seconds=600)
    async def look() -> str:
        return world["door"]

    async with open_host() as host:
        host.register(open_door, look)
        assert (await host.execute("open_door")).status is Status.TIMEOUT
        await trio.sleep(0.1)
        assert (await host.execute("look")).message == "closed"
        await trio.sleep(1)
        after = await host.execute("look")
        assert (after.message, after.cached) == ("open", False)
