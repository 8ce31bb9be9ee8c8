"""The statistic that decides a tool's tier: turns that reach the FAST ceiling.

Promised: of a tool that takes 200 ms in 70 % of its calls and 3,000 ms in the rest,
`adaptive` lets less than 1 % of FAST turns wait until their ceiling.

Measured: the production host on virtual time, 10,000 turns ten seconds apart, each of
which calls the tool if it is shown. A FAST turn cuts the call at 500 ms, and the host
learns no more than that; so it must find out what it is not shown. A turn *hits*
if its call is cut. Everything begins *cold*, with the declared 200 ms, or *loaded*,
with what a run before it wrote into its file; ``mixed`` turns are FAST, STANDARD and
DEEP in turn, and only the FAST ones are counted. Beside it, as the bare counterpart,
the same turns under `p50`.

The other tools are there to show what a statistic costs where it gains nothing: one
tool that is quick (200 ms, give or take), one that is mostly too slow for FAST, and
one that is wide around 400 ms. *offered* is the share of FAST turns that could use it.

Figures are in percent of FAST turns, the p50 and p99 of five seeds. Where `p50` is
only compared with, 2,000 turns do: what it lets happen does not change with time.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import attrs

import trio
from trio.testing import MockClock

from benchmarks.common import Benchmark, Budget, Figure, main, percentile
from glyphoxa_trio.host import CalibratorSettings, Caller, SampleHistory, open_host
from glyphoxa_trio.storage.measurements import MeasurementFile
from glyphoxa_trio.tools.definition import CallContext, Tool, ToolDefinition
from glyphoxa_trio.tools.estimate import TierBy
from glyphoxa_trio.tools.gate import Grant, TrustMode
from glyphoxa_trio.tools.outcome import Status, ToolCall, ToolResult
from glyphoxa_trio.tools.tier import Tier

# An NPC's turns, since in those a hidden tool waits for its way back.
NPC = Grant(npc="Stan", tools=("*.*",), trust=TrustMode.FULL)

Takes = Callable[[random.Random], float]
APART = 10.0  # seconds between two turns


def mixture(rng: random.Random) -> float:
    return 0.2 if rng.random() < 0.7 else 3.0


def close_mixture(rng: random.Random) -> float:
    """The quick ones are so near the ceiling that a cut call looks like one more."""
    return 0.4 if rng.random() < 0.7 else 3.0


def jittered(rng: random.Random) -> float:
    return mixture(rng) * rng.lognormvariate(0.0, 0.2)


def quick(rng: random.Random) -> float:
    return 0.2 * rng.lognormvariate(0.0, 0.15)


def wide(rng: random.Random) -> float:
    return 0.4 * rng.lognormvariate(0.0, 0.3)


def slow(rng: random.Random) -> float:
    return 0.7 * rng.lognormvariate(0.0, 0.2)


@attrs.define
class Turns:
    """FAST turns of one run, counted."""

    all: int = 0
    offered: int = 0
    hit: int = 0


async def run_turns(
    takes: Takes,
    tier_by: TierBy,
    turns: int,
    seed: int,
    *,
    tiers: tuple[Tier, ...] = (Tier.FAST,),
    history: SampleHistory | None = None,
) -> Turns:
    """One run of the host: a turn every `APART` seconds."""
    rng = random.Random(seed)

    async def handler(_: Mapping[str, Any], __: CallContext) -> ToolResult:
        await trio.sleep(takes(rng))
        return ToolResult(text=("done",))

    tool = Tool(
        definition=ToolDefinition(
            name="look", group="fake", estimated_duration=0.2, read_only=True
        ),
        handler=handler,
    )
    settings = CalibratorSettings(tier_by=tier_by)
    counted = Turns()
    async with open_host(settings=settings, history=history) as host:
        host.register(tool)
        for number in range(turns):
            tier = tiers[number % len(tiers)]
            began = trio.current_time()
            ceiling = settings.limits.ceiling(tier)
            outcome = None
            if host.tools(tier, grant=NPC):
                (outcome,) = await host.fan_out(
                    [ToolCall("1", "look", "{}")],
                    Caller(grant=NPC, tier=tier),
                    deadline=began + ceiling,
                )
            if tier is Tier.FAST:
                counted.all += 1
                counted.offered += outcome is not None
                counted.hit += outcome is not None and outcome.status is Status.TIMEOUT
            await trio.sleep_until(began + APART)
    return counted


async def _beside(function: Callable[..., Any], *arguments: Any) -> Any:
    """In place of a thread: on virtual time there is no waiting for one."""
    await trio.lowlevel.checkpoint()
    return function(*arguments)


def simulate(
    takes: Takes, tier_by: TierBy, turns: int, seed: int, **rest: Any
) -> Turns:
    return trio.run(
        partial(run_turns, takes, tier_by, turns, seed, **rest),
        clock=MockClock(autojump_threshold=0),
    )


def loaded(takes: Takes, tier_by: TierBy, turns: int, seed: int) -> Turns:
    """The second of two runs: the first one, of mixed turns, left its file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "measurements.db"
        history = partial(
            SampleHistory, lambda: MeasurementFile.open(path), in_thread=_beside
        )
        tiers = tuple(Tier)
        simulate(takes, tier_by, 300, -1 - seed, tiers=tiers, history=history())
        return simulate(takes, tier_by, turns, seed, history=history())


# What is run, what it is called, and what it shows.
CASES: tuple[tuple[str, Takes], ...] = (
    ("two speeds", mixture),
    ("two speeds, jittered", jittered),
    ("two speeds, one near the ceiling", close_mixture),
    ("quick", quick),
    ("wide", wide),
    ("slow", slow),
)
COLD, LOADED, MIXED = "cold", "loaded", "mixed"


def measure(quick_run: bool) -> list[Figure]:
    seeds, most, fewer = (2, 300, 300) if quick_run else (5, 10_000, 2_000)
    found: list[Figure] = []
    for name, takes in CASES:
        promised = takes in (mixture, jittered, close_mixture)
        for how in (COLD, LOADED, MIXED) if takes is mixture else (COLD,):
            turns = {
                tier_by: most if promised and tier_by is not TierBy.P50 else fewer
                for tier_by in TierBy
            }
            counts = {
                tier_by: [
                    _counted(takes, tier_by, n, seed, how) for seed in range(seeds)
                ]
                for tier_by, n in turns.items()
            }
            for tier_by, runs in counts.items():
                label = f"{name}, {how}, {tier_by}"
                bare = [x.hit / x.all for x in counts[TierBy.P50]]
                hits = [x.hit / x.all for x in runs]
                offered = [x.offered / x.all for x in runs]
                found += [
                    _figure(f"{label}: hit", hits, turns[tier_by], bare),
                    _figure(f"{label}: offered", offered, turns[tier_by]),
                ]
    return found


def _counted(takes: Takes, tier_by: TierBy, turns: int, seed: int, how: str) -> Turns:
    if how == LOADED:
        return loaded(takes, tier_by, turns, seed)
    tiers = tuple(Tier) if how == MIXED else (Tier.FAST,)
    return simulate(takes, tier_by, turns, seed, tiers=tiers)


def _figure(
    name: str, shares: list[float], turns: int, bare: list[float] | None = None
) -> Figure:
    """Shares of turns, one a seed, in percent."""
    made = Figure(
        name=name,
        unit="%",
        n=turns * len(shares),
        p50=100 * percentile(50, shares),
        p99=100 * percentile(99, shares),
    )
    if bare is None:
        return made
    middle = percentile(50, bare)
    return attrs.evolve(
        made,
        bare_p50=100 * middle,
        bare_p99=100 * percentile(99, bare),
        ratio=percentile(50, shares) / middle if middle else None,
    )


BENCHMARK = Benchmark(
    name="tier_by",
    promise="adaptive lets less than 1 % of FAST turns run into their ceiling (p99)",
    measure=measure,
    budgets=tuple(
        Budget(figure=f"{name}, {how}, {tier_by}: hit", statistic="p99", at_most=0.99)
        for tier_by in (TierBy.ADAPTIVE,)
        for name, how in (
            ("two speeds", COLD),
            ("two speeds", LOADED),
            ("two speeds", MIXED),
            ("two speeds, jittered", COLD),
            ("two speeds, one near the ceiling", COLD),
        )
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
