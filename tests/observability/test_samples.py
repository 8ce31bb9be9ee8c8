"""What metrics count of tools is what calibration has recorded, sample by sample (A47).

In virtual time everything that can become of a call; then two real servers that answer
for each other, and are killed.
"""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock

from glyphoxa_trio import Config, Runtime, open_runtime
from glyphoxa_trio.actors import Topic
from glyphoxa_trio.config import CalibrationConfig, McpConfig, NpcConfig, ServerSpec
from glyphoxa_trio.errors import DeadlineExceeded
from glyphoxa_trio.host import Sampled, ToolHost, open_host
from glyphoxa_trio.host.measurements import Measurements
from glyphoxa_trio.mcp import ServerState
from glyphoxa_trio.npc import TurnEvent
from glyphoxa_trio.observability import open_metrics
from glyphoxa_trio.observability.figures import Figures, Health
from glyphoxa_trio.observability.metrics import counted
from glyphoxa_trio.tools.definition import Tool, ToolDefinition
from glyphoxa_trio.tools.hedging import HedgingRules
from glyphoxa_trio.tools.outcome import Limit, Outcome, Status
from glyphoxa_trio.tools.tier import Tier, TierLimits
from glyphoxa_trio.tools.window import Sample, SampleKind

from ..host.fakes import Does, fake
from ..mcp.support import QUICKLY
from ..npc.support import ScriptedLLM, call
from .support import LIMIT
from .test_metrics import CALLS, LATENCY, config, say, shown
from .test_metrics_servers import Statuses

TWIN = Path(__file__).parents[1] / "runtime" / "servers" / "twin.py"
RULES = HedgingRules(
    enabled=True, replicas=(("north", "south"),), extra_calls=1.0, min_samples=5
)
TICK = 1 / 64  # exact in binary


@contextmanager
def recorded() -> Generator[list[tuple[str, Sample]]]:
    """Every sample that a calibrator records, as it does so."""
    found: list[tuple[str, Sample]] = []
    record = Measurements.record

    def spy(self: Measurements, definition: ToolDefinition, sample: Sample) -> None:
        found.append((definition.key, sample))
        record(self, definition, sample)

    with patch.object(Measurements, "record", spy):
        yield found


def of_key(figures: Figures) -> dict[str, int]:
    """How many samples each tool has in its histogram."""
    return {
        f"{server}.{tool}": sum(histogram.counts)
        for (server, tool), histogram in figures.latency.items()
    }


async def reported(runtime: Runtime) -> dict[str, int]:
    """How many latency samples calibration has of each tool, if any."""
    estimates = await runtime.host.report()
    return {key: found.samples for key, found in estimates.items() if found.samples}


# ------------------------------------------------------------------ in virtual time


async def test_probes_and_calls_of_the_operator_are_samples(
    autojump_clock: MockClock,
) -> None:
    # A46, A47, D7, D9
    tools = (
        fake("map", 0.25, read_only=True, cacheable=60.0),
        fake("slow", 60.0, read_only=True),
        fake("lost", 0.25, Does.LOSE, read_only=True),
        fake("refuses", 0.25, Does.SAY_NO),
        fake("away", 0.25, Does.BE_AWAY),
    )
    llm = ScriptedLLM(
        [[call("map"), call("slow"), call("lost"), call("ball")], ["Well."]]
    )
    async with open_runtime(config(), tools=tools, llm=llm) as runtime:
        async with open_metrics(runtime) as metrics:
            done = await say(runtime)
            assert [one.status for one in done.outcomes] == [
                *(Status.OK, Status.TIMEOUT, Status.UNAVAILABLE, Status.DENIED)
            ]
            for name in ("map", "refuses", "away", "lost"):
                await runtime.host.execute(f"fake.{name}")
            await runtime.calibrate(within=60)
            figures = metrics.figures
            assert await reported(runtime) == of_key(figures)
            of_fakes = {k: n for k, n in of_key(figures).items() if k[:4] == "fake"}
            assert of_fakes == {
                "fake.map": 1 + 5,  # and not the cached one
                "fake.slow": 1 + 1,  # cut, and one probe that is cut is the last
            }
            assert {tool: attrs.astuple(x) for tool, x in figures.health.items()} == {
                ("fake", "map"): (1, 0),
                ("fake", "lost"): (2, 2),
                ("fake", "refuses"): (1, 0),
            }
            sums = shown(metrics.registry, f"{LATENCY}_sum")
            assert sums["fake", "map"] == 6 * 0.25
            assert sums["fake", "slow"] == pytest.approx(0.5 + 4.0)
            # Calls are those of turns, however they ended.
            assert shown(metrics.registry, CALLS) == {
                ("fake", "ok", "map"): 1,
                ("fake", "timeout", "slow"): 1,
                ("fake", "unavailable", "lost"): 1,
                ("unknown", "denied", "unknown"): 1,
            }


@attrs.frozen
class Bare:
    """What is counted of a runtime: one without servers has nobody to hedge with."""

    host: ToolHost
    events: Topic[TurnEvent] = attrs.field(factory=Topic)


@attrs.frozen
class Step:
    """Something that is done at a time, while what was begun goes on."""

    after: float
    what: str  # a tool's key, or what else
    tier: Tier


STEPS = st.builds(
    Step,
    st.integers(0, 24).map(lambda count: count * TICK),
    st.sampled_from(
        [
            *(f"fake.{does.name.lower()}" for does in Does),
            *("north.look", "north.look", "south.look", "fake.kept", "fake.limited"),
            *("calibrate", "deregister", "leave"),
        ]
    ),
    st.sampled_from(Tier),
)


@given(
    st.lists(STEPS, max_size=25),
    st.lists(st.integers(1, 60).map(lambda count: count * TICK), min_size=1),
)
def test_whatever_is_called_what_is_recorded_is_counted(
    steps: list[Step], seconds: list[float]
) -> None:
    # A47: any calls, each of any duration, one on the heels of the other
    begun = 0

    def tool(made: Tool) -> Tool:
        answer: Any = made.handler

        async def handler(arguments: Any, context: Any) -> Any:
            nonlocal begun
            begun += 1
            await trio.sleep(seconds[begun % len(seconds)])
            return await answer(arguments, context)

        return attrs.evolve(made, handler=handler)

    tools = [
        *(tool(fake(does.name.lower(), 0.0, does, read_only=True)) for does in Does),
        tool(fake("look", group="north", expose_as="one", read_only=True)),
        tool(fake("look", group="south", expose_as="two", read_only=True)),
        tool(fake("kept", read_only=True, cacheable=1.0)),
        tool(fake("limited", read_only=True, max_duration=0.25)),
    ]

    async def main() -> None:
        figures = Figures()
        async with (
            open_host(hedging=attrs.evolve(RULES, min_samples=1)) as host,
            trio.open_nursery() as nursery,
        ):
            host.register(*tools)
            runtime: Any = Bare(host)
            with counted(runtime, figures), recorded() as samples:
                for step in steps:
                    await trio.sleep(step.after)
                    nursery.start_soon(take, host, step)
                await trio.sleep(60)
                await host.report()
        assert figures.faults == 0
        check(figures, samples)

    async def take(host: ToolHost, step: Step) -> None:
        match step.what:
            case "calibrate":
                with suppress(DeadlineExceeded):  # what was measured by then is kept
                    await host.calibrate(within=50)
            case "deregister":
                host.deregister("fake.limited")
            case "leave":
                with trio.move_on_after(step.after):
                    await host.execute("fake.answer")
            case name:
                await host.execute(name, tier=step.tier)

    trio.run(main, clock=MockClock(autojump_threshold=0))


def check(figures: Figures, samples: list[tuple[str, Sample]]) -> None:
    """The dumbest way of counting, from everything that was recorded."""
    latencies, health = defaultdict[str, list[float]](list), dict[str, Health]()
    for key, sample in samples:
        if sample.kind in (SampleKind.OK, SampleKind.TIMEOUT, SampleKind.CENSORED):
            latencies[key].append(sample.seconds)
        if sample.kind is not SampleKind.CENSORED and not sample.probe:
            known = health.setdefault(key, Health())
            known.calls += 1
            known.failures += sample.kind in (SampleKind.TIMEOUT, SampleKind.FAILED)
    assert of_key(figures) == {key: len(found) for key, found in latencies.items()}
    for (server, tool), histogram in figures.latency.items():
        assert histogram.total == pytest.approx(sum(latencies[f"{server}.{tool}"]))
    assert {
        f"{s}.{t}": attrs.asdict(found) for (s, t), found in figures.health.items()
    } == {key: attrs.asdict(found) for key, found in health.items()}


async def test_a_sample_that_makes_no_sense_ends_neither_metrics_nor_calibration(
    autojump_clock: MockClock,
) -> None:
    tools = (fake("look", 0.25),)
    async with open_runtime(config(), tools=tools, llm=ScriptedLLM([])) as runtime:
        async with open_metrics(runtime) as metrics:
            broken: Any = Sampled.__new__(Sampled)  # without any field
            runtime.host.events.publish(broken)
            await runtime.host.execute("look")
            assert await reported(runtime) == {"fake.look": 1}
            assert of_key(metrics.figures) == {"fake.look": 1}
            assert shown(metrics.registry, "glyphoxa_metrics_faults_total") == {(): 1}
        assert runtime.host.events._taps == []


# ------------------------------------------------------------------- real servers


@pytest.mark.border
async def test_servers_that_are_hedged_cut_and_lost_have_all_their_samples() -> None:
    # A47: over real pipes
    statuses = Statuses()
    servers = tuple(
        ServerSpec(
            name=name,
            command=("python", str(TWIN), name),
            restart=QUICKLY,
            timeout=LIMIT,
        )
        for name in ("north", "south")
    )
    chosen = Config(
        npcs=(
            NpcConfig(
                name="Bo", tools=("north.look", "south.look"), budget_tier=Tier.DEEP
            ),
        ),
        mcp=McpConfig(servers=servers, remember=False),
        calibration=CalibrationConfig(at_start=False),
        hedging=RULES,
        # Only what never answers meets a ceiling.
        tiers=TierLimits(fast_ceiling=10.0, standard_ceiling=LIMIT, deep_ceiling=LIMIT),
    )
    asked = Asked()
    with trio.fail_after(LIMIT), recorded() as samples:
        async with (
            open_runtime(
                chosen,
                llm=ScriptedLLM([[call("mcp__north__look")], ["Well."]]),
                wait_for_servers=LIMIT,
                on_server_event=statuses.told,
                on_server_line=asked.add,
            ) as runtime,
            open_metrics(runtime) as metrics,
        ):
            assert await runtime.wait_ready(within=LIMIT)
            await runtime.calibrate(within=LIMIT)
            assert (await say(runtime, tier=Tier.DEEP)).outcomes[0].status is Status.OK
            await runtime.host.report()

            end = await look(runtime, never=["north"])
            assert end.answered_by == "south.look"
            assert runtime.host.statistics().executor.hedging.won == 1

            ends: list[Outcome] = []

            async def lose() -> None:
                ends.append(await look(runtime, never=["north", "south"]))

            await asked.until(2)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lose)
                for round_ in (0, 1):  # what changes nothing is sent again, once
                    await asked.until(4 + 2 * round_)  # both servers have it
                    for name in ("north", "south"):
                        pid = await statuses.until(
                            name, ServerState.READY, restarts=round_
                        )
                        os.kill(pid, signal.SIGKILL)
            assert ends[0].status is Status.UNAVAILABLE
            for name in ("north", "south"):
                await statuses.until(name, ServerState.READY, restarts=2)
            assert (await look(runtime)).status is Status.OK
            end = await look(runtime, tier=Tier.FAST, never=["north", "south"])
            assert (end.status, end.limit) == (Status.TIMEOUT, Limit.TURN)

            measured = await reported(runtime)
            figures = metrics.figures
            counted = of_key(figures)
            # A new life of a server keeps five calls of the one before; figures keep
            # all.
            for name in ("north.look", "south.look"):
                assert counted.pop(name) > measured.pop(name) > 0
            assert counted == measured
            assert "dice.roll" in measured
            lost = [key for key, one in samples if one.kind is SampleKind.FAILED]
            assert sorted(lost) == ["north.look", "south.look"]
            assert {one.kind for _, one in samples} == {
                *(SampleKind.OK, SampleKind.CENSORED, SampleKind.FAILED)
            }
            counted_ = shown(metrics.registry, f"{LATENCY}_count")
            told = {f"{s}.{t}": n for (s, t), n in counted_.items()}
            assert told == of_key(figures)
            check(figures, samples)


async def look(runtime: Runtime, tier: Tier = Tier.DEEP, **arguments: Any) -> Outcome:
    grant = runtime.npc("Bo").grant
    return await runtime.host.execute("north.look", arguments, tier=tier, grant=grant)


@attrs.define(eq=False)
class Asked:
    """The calls that servers say they were asked, and a wait for them."""

    lines: list[str] = attrs.field(factory=list)
    _news: trio.Event = attrs.field(factory=trio.Event)

    def add(self, server: str, line: str) -> None:
        if line.startswith("asked "):
            self.lines.append(server)
            self._news.set()
            self._news = trio.Event()

    async def until(self, count: int) -> None:
        while len(self.lines) < count:
            await self._news.wait()
