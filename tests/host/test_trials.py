"""Trial calls of tools without measurements, and of tools that were slow once.

Decisions D1a, D6, D7; rows G16, G22 to G24, G26. Virtual time.
"""

from __future__ import annotations

from random import Random
from typing import Any

import attrs
import pytest

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.host import (
    CalibratorSettings,
    Caller,
    ToolHost,
    open_host,
)
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.estimate import Estimate, EstimateSource, Unknown
from glyphoxa_trio.tools.gate import Availability, Grant, TrustMode
from glyphoxa_trio.tools.outcome import Effect, Outcome, Status, ToolCall, ToolResult
from glyphoxa_trio.tools.tier import Tier

from .fakes import Log, call, fake, statuses

FAST, STANDARD, DEEP = Tier
NPC = Grant(npc="Stan", tools=("fake",), trust=TrustMode.FULL)


def unknown(name: str = "look", seconds: float = 0.02, **fields: Any) -> Tool:
    """A tool that says nothing of its latency, as most of the world's do."""
    made = fake(name, seconds, **{"estimated_duration": None, **fields})
    return attrs.evolve(made, handler=fields.get("handler", made.handler))


async def turn(
    host: ToolHost, *calls: ToolCall | str, tier: Tier = FAST, **caller: Any
) -> list[Outcome]:
    """One fan-out of an NPC with its whole tool time."""
    ceiling = host.settings.limits.ceiling(tier)
    ends = await host.fan_out(
        [call(one) if isinstance(one, str) else one for one in calls],
        Caller(grant=NPC, tier=tier, npc="Stan", **caller),
        deadline=trio.current_time() + ceiling,
        remaining=ceiling,
    )
    await wait_all_tasks_blocked()
    return ends


def shown(host: ToolHost, tier: Tier = FAST) -> list[str]:
    return [x.definition.name for x in host.tools(tier, grant=NPC)]


def listed(host: ToolHost, name: str = "look") -> Estimate:
    return host.snapshot.by_key[f"fake.{name}"].estimate


async def talk(host: ToolHost, seconds: float, tier: Tier = FAST) -> None:
    """Turns without a call, one every ten seconds."""
    for _ in range(round(seconds / 10)):
        host.tools(tier, grant=NPC)
        await trio.sleep(10)
    host.tools(tier, grant=NPC)
    await wait_all_tasks_blocked()


class Speed:
    """A tool whose seconds the test changes while it goes on."""

    def __init__(self, seconds: float = 0.02) -> None:
        self.seconds = seconds
        self.calls = 0
        self.no = False

    def tool(self, **fields: Any) -> Tool:
        async def handler(_: Any, __: Any) -> Any:
            self.calls += 1
            await trio.sleep(self.seconds)
            return ToolResult(text=("done",), is_error=self.no)

        made = fake("look", **{"estimated_duration": None, "read_only": True, **fields})
        return attrs.evolve(made, handler=handler)


# Unknown tools


async def test_an_unknown_tool_is_shown_and_runs_in_every_tier(
    autojump_clock: MockClock,
) -> None:  # N28
    async with open_host() as host:
        host.register(unknown())
        for tier in Tier:
            assert shown(host, tier) == ["look"]
            assert statuses(await turn(host, "look", tier=tier)) == ["ok"]


async def test_a_reading_trial_is_cut_and_hidden_from_the_tier_that_cut_it(
    autojump_clock: MockClock,
) -> None:  # G16, G23
    log = Log()
    async with open_host() as host:
        host.register(unknown(seconds=3.0, read_only=True, log=log))
        (end,) = await turn(host, "look")
        assert (end.status, trio.current_time()) == (Status.TIMEOUT, 0.5)
        assert log.cancelled == [("look", 0.5)]
        assert [shown(host, tier) for tier in Tier] == [[], ["look"], ["look"]]
        (end,) = await turn(host, "look", tier=STANDARD)
        assert [shown(host, tier) for tier in Tier] == [[], [], ["look"]]
        (end,) = await turn(host, "look", tier=DEEP)
        assert end.status is Status.OK
        # A call of 3 s says nothing against what was cut after 0.5 s.
        assert [shown(host, tier) for tier in Tier] == [[], [], ["look"]]


async def test_a_writing_trial_goes_on_and_comes_late(
    autojump_clock: MockClock,
) -> None:
    log = Log()
    late: list[Outcome] = []
    async with open_host() as host:
        host.register(unknown("write", 3.0, log=log))
        pending: dict[tuple[str, str], ToolCall] = {}
        (end,) = await turn(host, "write", on_late=late.append, pending=pending)
        assert trio.current_time() == 0.5  # the turn's clock stands by its ceiling
        assert (end.status, end.effect) == (Status.PENDING, Effect.UNKNOWN)
        assert "still working" in end.message
        # The same call again, in a later turn: refused while it works.
        (again,) = await turn(host, "write", pending=pending)
        assert again.status is Status.DENIED
        assert "still working" in again.message
        await trio.sleep_until(3.0)
        await wait_all_tasks_blocked()
        assert log.ended == [("write", 3.0)]
        assert log.cancelled == []
        (told,) = late
        assert (told.status, told.effect) == (Status.OK, Effect.DONE)
        assert (listed(host, "write").samples, listed(host, "write").p50) == (0, None)
        report = (await host.report())["fake.write"]
        assert (report.samples, report.p50) == (1, 3.0)  # a full sample
        # Until its result was told, which the session says by taking it away.
        assert statuses(await turn(host, "write", pending=pending)) == ["denied"]
        pending.clear()
        assert statuses(await turn(host, "write", pending=pending)) == ["pending"]


async def test_a_measured_write_is_cut_as_ever(autojump_clock: MockClock) -> None:
    log = Log()
    async with open_host() as host:
        host.register(fake("write", 3.0, log=log, estimated_duration=0.1))
        (end,) = await turn(host, "write")
        assert (end.status, end.effect) == (Status.TIMEOUT, Effect.UNKNOWN)
        assert log.cancelled == [("write", 0.5)]


async def test_two_calls_of_an_unknown_tool_run_at_once_and_more_wait(
    autojump_clock: MockClock,
) -> None:  # G26
    log = Log()
    async with open_host() as host:
        host.register(unknown(seconds=0.2, read_only=True, log=log))
        ends = await turn(host, *(call("look", str(n), n=n) for n in range(5)))
    # They wait for a seat inside the turn's clock; nobody is refused.
    assert log.began == [("look", at) for at in (0, 0, 0.2, 0.2, 0.4)]
    assert statuses(ends) == ["ok"] * 4 + ["timeout"]
    assert log.cancelled == [("look", 0.5)]


async def test_a_call_that_got_no_seat_in_time_never_began(
    autojump_clock: MockClock,
) -> None:
    async with open_host() as host:
        host.register(unknown(seconds=0.4, read_only=True))
        ends = await turn(host, *(call("look", str(n), n=n) for n in range(6)))
        assert statuses(ends) == ["ok", "ok", "timeout", "timeout"] + ["skipped"] * 2


async def test_unknown_is_deep_where_that_is_configured(
    autojump_clock: MockClock,
) -> None:
    settings = CalibratorSettings(unknown=Unknown.DEEP)
    async with open_host(settings=settings) as host:
        host.register(unknown())
        assert [shown(host, tier) for tier in Tier] == [[], [], ["look"]]


# An estimate that is its ceiling


@pytest.mark.parametrize("tier", Tier)
async def test_a_tool_that_needs_the_whole_ceiling_runs(tier: Tier) -> None:
    """Found: on a real clock some microseconds had always passed, and each call was
    `skipped: needs about 500 ms, 500 ms left`."""
    async with open_host() as host:
        ceiling = host.settings.limits.ceiling(tier)
        host.register(fake("round", estimated_duration=ceiling, read_only=True))
        ends = await turn(host, *(call("round", str(n)) for n in range(5)), tier=tier)
        assert statuses(ends) == ["ok"] * 5
        assert (await host.execute("round", tier=tier)).ok


# The way back


async def slow_minute(host: ToolHost, speed: Speed) -> None:
    """A tool that was quick is slow until it is hidden from FAST turns."""
    for _ in range(30):
        assert (await turn(host, "look"))[0].ok
    speed.seconds = 0.7
    for n in range(40):
        if "look" not in shown(host):
            break
        await turn(host, call("look", n=n))
    assert shown(host) == []
    speed.seconds = 0.02


async def test_a_tool_that_was_slow_for_a_minute_is_back_within_five(
    autojump_clock: MockClock,
) -> None:
    """Found: it was hidden for 24 hours."""
    speed = Speed()
    async with open_host() as host:
        host.register(speed.tool())
        await slow_minute(host, speed)
        assert listed(host).next_trial is not None
        await talk(host, 50)
        assert shown(host) == []
        await talk(host, 20)
        assert shown(host) == ["look"]  # once more, to be tried
        assert listed(host).source is EstimateSource.TRIAL
        assert statuses(await turn(host, "look")) == ["ok"]
        assert shown(host) == ["look"]  # one good call beats all that were cut
        assert listed(host).source is EstimateSource.MEASURED
        assert listed(host).next_trial is None


async def test_a_trial_that_is_slow_again_waits_longer(
    autojump_clock: MockClock,
) -> None:
    speed = Speed()
    async with open_host() as host:
        host.register(speed.tool())
        await slow_minute(host, speed)
        speed.seconds = 0.7
        for minutes in (1, 2, 4, 4):
            await talk(host, 60 * minutes - 50)
            assert shown(host) == []
            await talk(host, 70)
            assert shown(host) == ["look"]
            assert statuses(await turn(host, "look")) == ["timeout"]
            assert shown(host) == []  # until one trial was called


async def say_nothing(host: ToolHost, speed: Speed, how: str) -> None:
    """One call of the tool that tells nothing of how it is."""
    caller = Caller(grant=NPC, tier=FAST, npc="Stan")
    if how == "interrupted":
        with trio.move_on_after(0.01):
            await turn(host, "look")
    elif how == "dropped":  # begun before a turn that never came
        ahead = host.ahead(caller, remaining=0.5, until=trio.current_time() + 5)
        assert ahead.begin(call("look"))
        await trio.sleep(0.01)
        ahead.close()
    elif how == "no":
        speed.no = True
        assert statuses(await turn(host, "look")) == ["tool_error"]
        speed.no = False
    elif how == "late":  # the loop was late meanwhile
        host.disregard(trio.current_time() - 0.01, trio.current_time() + 0.1)
        assert statuses(await turn(host, "look")) == ["ok"]
        await trio.sleep(0.1)
    await wait_all_tasks_blocked()


@pytest.mark.parametrize("how", ["interrupted", "dropped", "no", "late"])
async def test_a_trial_that_says_nothing_does_not_use_up_the_way_back(
    how: str, autojump_clock: MockClock
) -> None:
    """Found: tried at 86, 226, 486, 746 s, each time interrupted, and still hidden."""
    speed = Speed()
    async with open_host() as host:
        host.register(speed.tool())
        await slow_minute(host, speed)
        await talk(host, 70)
        for _ in range(5):
            assert shown(host) == ["look"]
            await say_nothing(host, speed, how)
        assert shown(host) == ["look"]
        assert statuses(await turn(host, "look")) == ["ok"]
        assert listed(host).source is EstimateSource.MEASURED


async def test_a_trial_that_was_slow_counts_however_many_said_nothing_before(
    autojump_clock: MockClock,
) -> None:
    speed = Speed()
    async with open_host() as host:
        host.register(speed.tool())
        await slow_minute(host, speed)
        await talk(host, 70)
        await say_nothing(host, speed, "interrupted")
        speed.seconds = 0.7
        assert statuses(await turn(host, "look")) == ["timeout"]
        assert shown(host) == []
        await talk(host, 100)
        assert shown(host) == []  # the second wait, of two minutes
        await talk(host, 30)
        assert shown(host) == ["look"]


async def test_the_wait_counts_while_npcs_have_turns(autojump_clock: MockClock) -> None:
    speed = Speed()
    async with open_host() as host:
        host.register(speed.tool())
        await slow_minute(host, speed)
        await trio.sleep(3600)  # nobody talks
        assert shown(host) == []
        await wait_all_tasks_blocked()
        assert shown(host) == []  # that was half a minute of turns at most
        await talk(host, 60)
        assert shown(host) == ["look"]


async def test_a_call_in_a_slower_tier_brings_it_back_as_well(
    autojump_clock: MockClock,
) -> None:
    speed = Speed()
    async with open_host() as host:
        host.register(speed.tool())
        await slow_minute(host, speed)
        assert statuses(await turn(host, "look", tier=STANDARD)) == ["ok"]
        assert shown(host) == ["look"]


async def test_five_probes_bring_it_back_as_well(autojump_clock: MockClock) -> None:
    """Found: calibrating had to be done 1, 7, 1 or 19 times."""
    speed = Speed()
    async with open_host() as host:
        host.register(speed.tool())
        await slow_minute(host, speed)
        await host.calibrate(within=10, keys=["fake.look"])
        assert shown(host) == ["look"]


async def test_a_tool_cut_by_deep_turns_has_a_way_back(
    autojump_clock: MockClock,
) -> None:
    """A hang: no tier is left, and it is in the slowest already."""
    speed = Speed(2.0)
    async with open_host() as host:
        host.register(speed.tool(estimated_duration=2.0))
        for n in range(6):
            await turn(host, call("look", n=n), tier=DEEP)
        speed.seconds = 60.0
        for n in range(9):
            await turn(host, call("look", m=n), tier=DEEP)
        assert shown(host, DEEP) == []
        speed.seconds = 2.0
        await talk(host, 70, DEEP)
        assert shown(host, DEEP) == ["look"]
        assert statuses(await turn(host, "look", tier=DEEP)) == ["ok"]
        assert shown(host, DEEP) == ["look"]


async def test_a_tool_that_says_no_to_everything_is_degraded_and_comes_back(
    autojump_clock: MockClock,
) -> None:  # G24
    """Found: a server of which each call raised was healthy for ever."""
    broken = True

    async def handler(_: Any, __: Any) -> Any:
        return ToolResult(text=("database connection refused",), is_error=broken)

    async with open_host() as host:
        made = fake("look", estimated_duration=0.1)
        host.register(attrs.evolve(made, handler=handler))
        for _ in range(20):  # the same question: "not found" is an ordinary answer
            await turn(host, call("look", who="Bo"))
        assert shown(host) == ["look"]
        for n in range(10):
            await turn(host, call("look", who=n))
        assert shown(host) == []
        assert shown(host, STANDARD) == ["look"]  # no breaker
        assert "said no" in str((await host.report())["fake.look"].degraded)
        broken = False
        await talk(host, 70)
        assert shown(host) == ["look"]
        await turn(host, "look")
        assert shown(host) == ["look"]
        assert (await host.report())["fake.look"].degraded is None


async def test_a_tool_of_two_speeds_takes_longer_to_come_back_each_time(
    autojump_clock: MockClock,
) -> None:
    """D8: else it would be shown after every lucky call, and be cut in one of three."""
    rng, hits, turns = Random(3), 0, 0

    async def handler(_: Any, __: Any) -> Any:
        await trio.sleep(3.0 if rng.random() < 0.3 else 0.2)
        return "done"

    async with open_host() as host:
        made = fake("look", estimated_duration=None, read_only=True)
        host.register(attrs.evolve(made, handler=handler))
        for n in range(1500):  # four hours of talk
            turns += 1
            if "look" in shown(host):
                (end,) = await turn(host, call("look", n=n))
                hits += end.status is Status.TIMEOUT
            await trio.sleep(10)
    assert hits / turns < 0.1


async def hidden_by_one_slow_call(host: ToolHost, speed: Speed) -> None:
    speed.seconds = 0.7
    began = trio.current_time()
    assert statuses(await turn(host, "look", tier=FAST)) == ["timeout"]
    assert shown(host) == []
    speed.seconds = 0.02
    host.disregard(began, trio.current_time())
    await wait_all_tasks_blocked()


async def test_what_was_taken_back_is_no_relapse(autojump_clock: MockClock) -> None:
    """Found: after five incidents of a late loop the next wait was of 16 minutes."""
    speed = Speed()
    async with open_host() as host:
        host.register(speed.tool())
        for _ in range(5):
            await hidden_by_one_slow_call(host, speed)
            assert shown(host) == ["look"]
            await trio.sleep(60)
        await slow_minute(host, speed)
        await talk(host, 70)
        assert shown(host) == ["look"]
        assert statuses(await turn(host, "look")) == ["ok"]
        assert listed(host).next_trial is None  # one good call was enough


# Another life of a server


async def test_another_life_of_a_server_begins_with_a_clean_sheet(
    autojump_clock: MockClock,
) -> None:
    speed = Speed()
    async with open_host() as host:
        tool = attrs.evolve(speed.tool(external=True, group="srv"), remote=False)
        host.publish("srv", Availability.READY, [tool])
        grant = attrs.evolve(NPC, tools=("srv",))

        async def ask(n: int) -> Outcome:
            (end,) = await host.fan_out(
                [call("srv.look", n=n)],
                Caller(grant=grant, tier=FAST),
                deadline=trio.current_time() + 0.5,
            )
            await wait_all_tasks_blocked()
            return end

        for n in range(30):
            await ask(n)
        speed.seconds = 9.0
        for n in range(20):
            await ask(n)
        assert not host.tools(FAST, grant=grant)
        host.publish("srv", Availability.RESTARTING, None)
        host.publish("srv", Availability.READY, [tool])
        host.begin_life("srv")
        await wait_all_tasks_blocked()
        assert host.tools(FAST, grant=grant)
        report = (await host.report())["srv.look"]
        assert report.samples == 5
        assert report.p99 == pytest.approx(0.02)


async def test_the_first_call_in_a_life_may_be_slow(autojump_clock: MockClock) -> None:
    """A server that loads an index at its first call is not judged by it."""
    first = True

    async def handler(_: Any, context: Any) -> Any:
        nonlocal first
        context.sent()
        seconds, first = (22.0 if first else 0.02), False
        await trio.sleep(seconds)
        return "done"

    async with open_host() as host:
        made = fake("look", estimated_duration=None, read_only=True)
        host.register(attrs.evolve(made, handler=handler, remote=True))
        assert statuses(await turn(host, "look")) == ["timeout"]
        assert shown(host) == ["look"]
        assert statuses(await turn(host, "look")) == ["ok"]


# What a sample is


async def test_a_sample_begins_when_the_request_is_sent(
    autojump_clock: MockClock,
) -> None:  # G22
    """Found: waiting for a server that starts was counted as its tool's latency."""

    async def handler(_: Any, context: Any) -> Any:
        await trio.sleep(1.0)  # the server starts
        context.sent()
        await trio.sleep(0.25)
        return "done"

    async with open_host() as host:
        made = fake("look", estimated_duration=0.3)
        host.register(attrs.evolve(made, handler=handler, remote=True))
        assert statuses(await turn(host, "look", tier=DEEP)) == ["ok"]
        report = (await host.report())["fake.look"]
        assert (report.samples, report.p50) == (1, 0.25)


async def test_a_call_that_was_never_sent_says_nothing(
    autojump_clock: MockClock,
) -> None:
    async def handler(_: Any, __: Any) -> Any:
        await trio.sleep(60)
        return "never"

    async with open_host() as host:
        made = fake("look", estimated_duration=0.3, max_duration=2.0)
        host.register(attrs.evolve(made, handler=handler, remote=True))
        assert statuses(await turn(host, "look")) == ["timeout"]  # of the turn
        assert statuses(await turn(host, "look", tier=DEEP)) == ["timeout"]  # its own
        report = (await host.report())["fake.look"]
        assert (report.samples, report.degraded) == (0, None)
