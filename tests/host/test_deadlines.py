"""Deadlines: nothing that foreign code does can delay a turn (D3a).

What cooperates badly runs on virtual time and is exact. What sits in a thread
runs in real time, ordered by events, under an absolute limit.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import attrs
import pytest

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.host import ToolHost, open_host
from glyphoxa_trio.tools.definition import CallContext, Handler, Tool, ToolDefinition
from glyphoxa_trio.tools.outcome import Effect, Limit, Status, ToolResult
from glyphoxa_trio.tools.tier import Tier

from .fakes import Does, Log, call, fake, fan_out, statuses

DEAF = Does.SHIELD


def tool_of(handler: Handler, *, blocking: bool = False, **definition: Any) -> Tool:
    fields: dict[str, Any] = {"name": "deaf", "estimated_duration": 0.01}
    fields |= definition
    return Tool(definition=ToolDefinition(**fields), handler=handler, blocking=blocking)


@pytest.mark.parametrize("tier", Tier)
async def test_a_handler_that_shields_itself_holds_nobody(
    tier: Tier, autojump_clock: MockClock
) -> None:
    # G16, D3a: measured in a plain fan-out, it does, by its whole length.
    ceiling = {Tier.FAST: 0.5, Tier.STANDARD: 1.5, Tier.DEEP: 4.0}[tier]
    async with open_host() as host:
        host.register(fake("deaf", 60, DEAF), fake("good", 0.25, read_only=True))
        deaf, good = await fan_out(host, "deaf", "good", within=ceiling, tier=tier)
        assert trio.current_time() == ceiling
        assert (deaf.status, deaf.limit, deaf.effect, deaf.elapsed) == (
            Status.TIMEOUT,
            Limit.TURN,
            Effect.UNKNOWN,
            ceiling,
        )
        assert (good.status, good.elapsed) == (Status.OK, 0.25)


async def test_execute_ends_at_the_ceiling_of_its_tier(
    autojump_clock: MockClock,
) -> None:
    async with open_host() as host:
        host.register(fake("deaf", 60, DEAF, read_only=True))
        for tier, end in ((Tier.FAST, 0.5), (Tier.STANDARD, 2.0)):
            outcome = await host.execute("deaf", tier=tier)
            assert (outcome.limit, trio.current_time()) == (Limit.TURN, end)


async def test_a_shielded_handler_is_left_at_its_own_limit_too(
    autojump_clock: MockClock,
) -> None:
    async with open_host() as host:
        host.register(fake("deaf", 60, DEAF, max_duration=0.25))
        (outcome,) = await fan_out(host, "deaf")
        assert (outcome.limit, trio.current_time()) == (Limit.TOOL, 0.25)


async def test_an_interruption_does_not_wait_for_a_shielded_handler(
    autojump_clock: MockClock,
) -> None:
    async with open_host() as host:
        host.register(fake("deaf", 60, DEAF, read_only=True))
        with trio.move_on_after(0.1):
            await fan_out(host, "deaf", "deaf")
        assert trio.current_time() == 0.1


async def test_a_probe_does_not_wait_for_a_shielded_handler(
    autojump_clock: MockClock,
) -> None:
    async with open_host() as host:
        host.register(fake("deaf", 60, DEAF, read_only=True))
        with pytest.raises(trio.TooSlowError):
            await host.calibrate(within=1)
        assert trio.current_time() == 1


async def swallow_and_go_on() -> None:
    try:
        await trio.sleep_forever()
    except trio.Cancelled:
        with trio.CancelScope(shield=True):
            await trio.sleep(60)
        raise


async def swallow_and_answer() -> None:
    with suppress(trio.Cancelled):
        await trio.sleep_forever()


async def swallow_again_and_again() -> None:
    for _ in range(1000):  # trio cancels each of them, and nobody else waits
        try:
            await trio.sleep(60)
        except trio.Cancelled:
            continue


async def fail_on_the_way_out() -> None:
    try:
        await trio.sleep_forever()
    except trio.Cancelled:
        raise RuntimeError("in the clean-up") from None


async def fail_in_a_nursery_on_the_way_out() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fail_on_the_way_out)
        await trio.sleep_forever()


@pytest.mark.parametrize(
    "deaf",
    [
        swallow_and_go_on,
        swallow_and_answer,
        swallow_again_and_again,
        fail_on_the_way_out,
        fail_in_a_nursery_on_the_way_out,
    ],
)
async def test_a_handler_that_swallows_its_cancellation_holds_nobody(
    deaf: Callable[[], Any], autojump_clock: MockClock
) -> None:
    async def handler(_: Mapping[str, Any], __: CallContext) -> ToolResult:
        await deaf()
        return ToolResult(text=("too late",))

    async with open_host() as host:
        host.register(tool_of(handler), fake("good", 0.25))
        late, good = await fan_out(host, "deaf", "good")
        assert trio.current_time() == 0.5
        assert (late.status, late.limit) == (Status.TIMEOUT, Limit.TURN)
        assert good.ok
        await trio.sleep(0.1)
        assert statuses(await fan_out(host, "good")) == ["ok"]


def lingering(host: ToolHost) -> dict[Any, int]:
    return host.statistics().shared_tasks.lingering


async def test_strays_are_counted_and_beyond_the_bound_the_tool_is_refused(
    autojump_clock: MockClock,
) -> None:
    log = Log()
    async with open_host() as host:
        host.register(
            fake("deaf", 60, DEAF, read_only=True, log=log),
            fake("good", read_only=True),
        )
        await fan_out(host, "deaf")
        assert lingering(host) == {}  # it may yet stop
        await trio.sleep(0.1)
        assert lingering(host) == {"fake.deaf": 1}
        assert statuses(await fan_out(host, "deaf")) == ["timeout"]
        await trio.sleep(0.1)
        assert lingering(host) == {"fake.deaf": 2}

        begun = trio.current_time()
        refused, good = await fan_out(host, "deaf", "good")
        assert trio.current_time() == begun
        assert (refused.status, refused.effect) == (Status.UNAVAILABLE, Effect.NONE)
        assert "2 earlier calls do not stop" in refused.message
        assert good.ok
        assert [listing.key for listing in host.tools()] == ["fake.good"]
        assert len(log.began) == 2

        await trio.sleep(60)  # they end at last
        assert lingering(host) == {}
        assert host.statistics().shared_tasks.running == 0
        assert statuses(await fan_out(host, "deaf")) == ["timeout"]
        assert len(log.began) == 3


async def test_the_bound_of_strays_is_the_hosts_to_set(
    autojump_clock: MockClock,
) -> None:
    async with open_host(lingering_limit=1) as host:
        host.register(fake("deaf", 60, DEAF, read_only=True))
        await fan_out(host, "deaf")
        await trio.sleep(0.1)
        assert statuses(await fan_out(host, "deaf")) == ["unavailable"]


# Threads: real time


@attrs.define
class Stuck:
    """A blocking handler that no cancellation reaches, until it is released."""

    released: threading.Event = attrs.field(factory=threading.Event)
    began: int = 0

    def tool(self) -> Tool:
        def handler(_: Mapping[str, Any], __: CallContext) -> ToolResult:
            self.began += 1
            self.released.wait()
            return ToolResult(text=("at last",))

        return tool_of(handler, blocking=True, read_only=True)


@asynccontextmanager
async def stuck_host() -> AsyncGenerator[tuple[ToolHost, Stuck]]:
    stuck = Stuck()
    try:
        with trio.fail_after(60):
            async with open_host() as host:
                host.register(stuck.tool(), fake("good", read_only=True))
                yield host, stuck
    finally:
        stuck.released.set()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await trio.lowlevel.checkpoint()


@pytest.mark.border
async def test_a_thread_that_ignores_cancellation_holds_nobody() -> None:
    async with stuck_host() as (host, stuck):
        late, good = await fan_out(host, "deaf", "good", within=1.0)
        assert not stuck.released.is_set()
        assert (late.status, late.limit) == (Status.TIMEOUT, Limit.TURN)
        assert good.ok


@pytest.mark.border
async def test_stuck_threads_are_counted_refused_and_forgiven() -> None:
    async with stuck_host() as (host, stuck):
        for _ in range(2):
            assert statuses(await fan_out(host, "deaf", within=0.5)) == ["timeout"]
        await until(lambda: lingering(host) == {"custom.deaf": 2})
        refused, good = await fan_out(host, "deaf", "good", within=20)
        assert (refused.status, good.status) == (Status.UNAVAILABLE, Status.OK)
        assert "2 earlier calls do not stop" in refused.message
        assert stuck.began == 2
        stuck.released.set()
        await until(lambda: not lingering(host))
        (outcome,) = await fan_out(host, "deaf", within=20)
        assert (outcome.status, outcome.message) == (Status.OK, "at last")


@pytest.mark.border
async def test_the_host_closes_without_its_stuck_threads() -> None:
    stuck = Stuck()
    try:
        with trio.fail_after(60):
            async with open_host() as host:
                host.register(stuck.tool())
                await fan_out(host, "deaf", within=0.05)
        assert stuck.began == 1  # and it still waits
    finally:
        stuck.released.set()


async def test_plain_functions_run_beside_each_other() -> None:
    # Each waits for the other: one after the other they would wait for ever.
    both = threading.Barrier(2)

    def handler(_: Mapping[str, Any], __: CallContext) -> ToolResult:
        both.wait()
        return ToolResult()

    with trio.fail_after(60):
        async with open_host() as host:
            host.register(tool_of(handler, blocking=True, read_only=True))
            outcomes = await fan_out(host, call("deaf", n=1), call("deaf", n=2))
    assert statuses(outcomes) == ["ok", "ok"]


async def test_the_clock_goes_on_while_a_plain_function_computes() -> None:
    with trio.fail_after(60):
        async with stuck_host() as (host, _), trio.open_nursery() as nursery:
            nursery.start_soon(fan_out, host, "deaf")
            await wait_all_tasks_blocked()
            assert statuses(await fan_out(host, "good")) == ["ok"]
            nursery.cancel_scope.cancel()
