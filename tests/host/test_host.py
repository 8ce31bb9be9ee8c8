"""The tool host as its users see it: from the first tool to the last (G1, G43)."""

from __future__ import annotations

import pytest

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio import tool
from glyphoxa_trio.actors import Started
from glyphoxa_trio.errors import DeadlineExceeded
from glyphoxa_trio.host import CalibratorSettings, Probed, ToolHost, open_host
from glyphoxa_trio.tools.estimate import EstimateSource
from glyphoxa_trio.tools.gate import Availability, Grant, Reason
from glyphoxa_trio.tools.naming import NameCollision, NamingStyle
from glyphoxa_trio.tools.outcome import Effect, Limit, Status
from glyphoxa_trio.tools.tier import Tier, TierLimits

from .fakes import Does, Log, fake, fan_out, statuses

READY, RESTARTING, DOWN = Availability
FAST, STANDARD, DEEP = Tier


def shown(host: ToolHost, tier: Tier = DEEP) -> list[str]:
    return [listing.exposed for listing in host.tools(tier)]


@tool(group="dice", estimated_duration_ms=5, max_duration_ms=20)
async def roll(sides: int) -> dict[str, int]:
    """Roll one die."""
    await trio.sleep(0.01)
    return {"total": sides}


async def test_a_host_from_its_first_tool_to_its_last(
    autojump_clock: MockClock,
) -> None:
    # G1, the whole of it
    async with open_host() as host:
        host.register(roll)
        assert shown(host, FAST) == ["roll"]
        host.publish("world", READY, [fake("look", 0.75, group="world")])
        assert shown(host, FAST) == ["roll", "look"]
        await host.calibrate(within=10, unsafe=True)
        assert shown(host, FAST) == ["roll"]
        assert shown(host, STANDARD) == ["roll", "look"]

        outcome = await host.execute("dice.roll", {"sides": 6})
        assert (outcome.status, outcome.data) == (Status.OK, {"total": 6})
        assert (await host.execute("roll", '{"sides": 6}', tier=FAST)).ok
        assert host.deregister("dice") == ("dice.roll",)
        assert (await host.execute("dice.roll")).status is Status.DENIED


async def test_the_tools_of_a_tier_are_a_prefix_of_those_of_a_slower_one(
    autojump_clock: MockClock,
) -> None:
    # So that a model's prompt cache survives a change of tier.
    async with open_host() as host:
        host.register(
            *(fake(f"fast{n}", estimated_duration=0.1 * n) for n in range(5, 0, -1)),
            *(fake(f"standard{n}", estimated_duration=0.5 * n) for n in (3, 2)),
            *(fake(f"deep{n}", estimated_duration=1.0 * n) for n in (4, 2)),
            fake("unknown", estimated_duration=None),
        )
        fast, standard, deep = (shown(host, tier) for tier in Tier)
    assert fast == ["fast1", "fast2", "fast3", "fast4", "fast5", "unknown"]
    assert standard == [*fast, "standard2", "standard3"]
    assert deep == [*standard, "deep2", "deep4"]


async def test_tools_are_shown_if_they_fit_what_remains(
    autojump_clock: MockClock,
) -> None:
    # D4
    async with open_host() as host:
        host.register(fake("quick"), fake("slow", estimated_duration=1.0))
        (listing,) = host.tools(DEEP, remaining=0.5)
        assert listing.exposed == "quick"
        assert host.tools(DEEP, remaining=0) == ()
        assert [
            (listing.exposed, None if no is None else no.reason)
            for listing, no in host.explain(DEEP, remaining=0.5)
        ] == [("quick", None), ("slow", Reason.OVER_BUDGET)]


async def test_tools_are_shown_to_those_who_were_granted_them(
    autojump_clock: MockClock,
) -> None:
    # A9: schemas are filtered for each call
    async with open_host() as host:
        host.register(fake("quick"), fake("slow", estimated_duration=1.0))
        grant = Grant(npc="Grimjaw", tools=("slow",))
        assert [x.exposed for x in host.tools(grant=grant)] == ["slow"]
        assert [
            None if no is None else no.reason
            for _, no in host.explain(FAST, grant=grant)
        ] == [Reason.NOT_GRANTED, Reason.OVER_TIER]
        outcome = await host.execute("quick", grant=grant)
        assert outcome.status is Status.DENIED


async def test_limits_are_the_hosts_settings(autojump_clock: MockClock) -> None:
    limits = TierLimits(fast_threshold=0.1, fast_ceiling=0.2)
    async with open_host(settings=CalibratorSettings(limits=limits)) as host:
        host.register(
            fake("slow", 9, estimated_duration=0.1), fake("x", estimated_duration=0.11)
        )
        assert shown(host, FAST) == ["slow"]
        outcome = await host.execute("slow", tier=FAST)
        assert (outcome.limit, trio.current_time()) == (Limit.TURN, 0.2)


async def test_registering_is_all_or_nothing(autojump_clock: MockClock) -> None:
    async with open_host() as host:
        host.register(fake("look"))
        with pytest.raises(NameCollision, match=r"fake\.look"):
            host.register(fake("roll"), fake("look", group="world"))
        assert shown(host) == ["look"]


async def test_publishing_replaces_a_server_and_leaves_the_others(
    autojump_clock: MockClock,
) -> None:
    async with open_host(naming=NamingStyle.SINGLE) as host:
        host.register(fake("roll"))

        def publish(availability: Availability, *names: str) -> None:
            tools = [fake(name, group="world", external=True) for name in names]
            host.publish("world", availability, tools)

        publish(READY, "look", "tell")
        assert shown(host) == ["roll", "mcp_world_look", "mcp_world_tell"]
        publish(READY, "tell", "walk")  # its list has changed
        assert shown(host) == ["roll", "mcp_world_tell", "mcp_world_walk"]
        host.publish("world", RESTARTING, None)
        assert len(shown(host)) == 3
        host.publish("world", DOWN, None)
        assert shown(host) == ["roll"]
        assert len(host.snapshot.listings) == 3
        host.publish("world", READY, None)
        assert len(shown(host)) == 3
        assert host.deregister("world.walk") == ("world.walk",)
        assert host.deregister("world") == ("world.tell",)
        assert host.deregister("world") == ()
        assert shown(host) == ["roll"]


async def test_a_publication_that_collides_changes_nothing(
    autojump_clock: MockClock,
) -> None:
    async with open_host() as host:
        host.register(fake("look"))
        host.publish("world", READY, [fake("walk", group="world")])
        before = host.snapshot
        with pytest.raises(NameCollision):
            host.publish("world", READY, [fake("look", group="world")])
        assert host.snapshot is before
        assert await fan_out(host, "walk")


async def test_what_was_measured_outlives_an_absence_but_not_a_removal(
    autojump_clock: MockClock,
) -> None:
    async with open_host() as host:
        tools = [fake("look", 0.25, group="world", read_only=True)]
        host.publish("world", READY, tools)
        await host.calibrate(within=9)
        host.publish("world", DOWN, [])
        host.publish("world", READY, tools)
        (listing,) = host.tools()
        assert listing.estimate.source is EstimateSource.MEASURED
        host.deregister("world")
        await wait_all_tasks_blocked()
        host.publish("world", READY, tools)
        (listing,) = host.tools()
        assert listing.estimate.source is EstimateSource.DECLARED


async def test_a_call_in_the_air_outlives_its_tool(autojump_clock: MockClock) -> None:
    async with open_host() as host:
        host.register(fake("look", 0.25))
        async with trio.open_nursery() as nursery:

            async def remove() -> None:
                await trio.sleep(0.1)
                host.deregister("fake")

            nursery.start_soon(remove)
            first = await host.execute("look")
        assert (first.status, first.elapsed) == (Status.OK, 0.25)
        assert (await host.execute("look")).status is Status.DENIED


async def test_calibration_that_ran_out_of_time_keeps_what_it_has(
    autojump_clock: MockClock,
) -> None:
    log = Log()
    async with open_host() as host:
        host.register(fake("look", 0.25, read_only=True, log=log))
        with pytest.raises(DeadlineExceeded):
            await host.calibrate(within=0.9)
        assert trio.current_time() == 0.9
        await wait_all_tasks_blocked()
        assert log.cancelled == [("look", 0.9)]
        assert (await host.report())["fake.look"].samples == 3
        with pytest.raises(DeadlineExceeded):
            await host.calibrate(within=0.6)
        assert (await host.report())["fake.look"].samples == 5
        (done,) = await host.calibrate(within=2, keys=["fake.look"])
        assert done == Probed(key="fake.look", samples=5, done=1, total=1)


async def test_nothing_to_calibrate_takes_no_time(autojump_clock: MockClock) -> None:
    async with open_host() as host:
        host.register(fake("act"))
        assert await host.calibrate(within=1) == ()
        assert await host.calibrate(within=1, keys=["no.tool"], unsafe=True) == ()
        assert trio.current_time() == 0


async def test_leaving_execute_interrupts_the_call(autojump_clock: MockClock) -> None:
    log = Log()
    async with open_host() as host:
        host.register(fake("look", 3, read_only=True, log=log))
        with trio.move_on_after(0.1):
            await host.execute("look")
        await wait_all_tasks_blocked()
        assert log.cancelled == [("look", 0.1)]


async def test_statistics_count_what_the_rooms_count(
    autojump_clock: MockClock,
) -> None:
    async with open_host() as host:
        host.register(fake("look", 0.25, read_only=True), fake("deaf", 9, Does.SHIELD))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fan_out, host, "look", "deaf", "nonsense")
            await trio.sleep(0.1)
            assert host.statistics().shared_tasks.running == 2
        await trio.sleep(0.1)
        counts = host.statistics()
        assert counts.tools == 2
        assert counts.executor.outcomes == {
            Status.OK: 1,
            Status.TIMEOUT: 1,
            Status.DENIED: 1,
        }
        assert (counts.shared_tasks.started, counts.shared_tasks.running) == (2, 1)
        assert counts.shared_tasks.lingering == {"fake.deaf": 1}
        assert (counts.calibrator.name, counts.calibrator.told) == ("calibrator", 3)


async def test_closing_ends_everything(autojump_clock: MockClock) -> None:
    # G43
    log = Log()
    ends: list[str] = []
    async with trio.open_nursery() as outside:
        async with open_host() as host:
            host.register(fake("look", 0, Does.HANG, log=log))

            async def ask() -> None:
                ends.extend(statuses(await fan_out(host, "look", within=9)))

            async def listen() -> None:
                with host.events.subscribe() as events:
                    async for _ in events:
                        pass
                ends.append("no more events")

            outside.start_soon(ask)
            outside.start_soon(listen)
            await trio.sleep(0.1)
    # Whoever waited has an answer, and whoever listened has the end.
    assert sorted(ends) == ["no more events", "unavailable"]
    assert log.cancelled == [("look", 0.1)]
    assert host.statistics().shared_tasks.running == 0
    assert trio.current_time() == 0.1


async def test_a_call_that_lost_its_host_has_an_unknown_effect(
    autojump_clock: MockClock,
) -> None:
    effects: list[Effect] = []
    async with trio.open_nursery() as outside:
        async with open_host() as host:
            host.register(fake("act", 9))

            async def ask() -> None:
                (outcome,) = await fan_out(host, "act", within=9)
                effects.append(outcome.effect)

            outside.start_soon(ask)
            await trio.sleep(0.1)
    assert effects == [Effect.UNKNOWN]


async def test_an_error_in_the_block_leaves_it_as_it_is(
    autojump_clock: MockClock,
) -> None:
    with pytest.raises(KeyError, match="mine"):
        async with open_host() as host:
            host.register(fake("look"))
            raise KeyError("mine")


async def test_the_calibrators_lives_are_told(autojump_clock: MockClock) -> None:
    async with open_host() as host:
        with host.events.subscribe() as events:
            await wait_all_tasks_blocked()
        heard = [event async for event in events]
    assert heard == [Started(name="calibrator", life=1)]
