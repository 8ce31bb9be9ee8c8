"""The fate of turns when there are more of them than the machine can serve.

Promised: at four times of what the machine serves, the turns that are served have
their first sentence at the 99th percentile at most three times as late as at half of
it, those that are turned away are told within half a second, and every turn has
exactly one end.

Measured: `open_runtime`, and a model that thinks for a tenth of a second, calls two
built-in tools, thinks again and writes word by word. What the machine serves is
found first: one over the processor time of a turn, at a load that it hardly notices.
Then guests speak, each once, at moments at random with the rate that is meant; each
load is a process of its own, with turning away (as by default) and without it. All
sessions are open by then, and out of the collector's way (``gc.freeze``). The
time to the first sentence runs from when the guest wanted to speak, so that a table
that is late with everything is not faster for it. The first three seconds, in which
it is not known yet how much is too much, are a figure of their own.

Without turning away many turns have not begun to answer when the measurement is over:
they count with the time that they waited until then, which is less than the truth.

Against: the turns at half the load, in the same run.
"""

from __future__ import annotations

import gc
import random
from collections import Counter
from time import perf_counter, process_time
from typing import Final

import attrs

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, in_fresh_process, main
from benchmarks.stress.table import UTTERANCE, Talker, config_of, count
from glyphoxa_trio import Runtime, open_runtime
from glyphoxa_trio.config import OverloadConfig
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc import Sentence, TurnDone, TurnEnd

LOADS: Final = (0.5, 1.0, 2.0, 4.0)
SETTLING: Final = 3.0  # seconds
SPEAKING: Final = 12.0
ENDING: Final = 4.0  # for what was said last


@attrs.frozen(kw_only=True)
class Night:
    """One load: seconds to the first sentence, or to being told; and the ends."""

    settling: list[float]
    served: list[float]
    told: list[float]
    ends: dict[str, int]
    turns: int
    limit: int | None


def measure(quick: bool) -> list[Figure]:
    rate = in_fresh_process(measure_capacity, 1.0 if quick else 5.0)
    loads = LOADS[:: len(LOADS) - 1] if quick else LOADS
    pace = 0.1 if quick else 1.0
    figures = [count("turns that the machine serves", rate, n=1, unit="1/s")]
    bare: list[float] = []
    for shedding in (True, False):
        for load in loads:
            night = in_fresh_process(measure_load, rate * load, shedding, pace)
            if not bare:
                bare = night.served
            name = f"{load:g}x{'' if shedding else ', all'}"
            figures += _figures(name, night, bare)
            if shedding and load >= 2 and (night.told or not quick):
                figures.append(figure(f"{name}: told", night.told, unit="ms"))
    return figures


def _figures(name: str, night: Night, bare: list[float]) -> list[Figure]:
    served = night.ends.get(TurnEnd.COMPLETED, 0)
    shed = night.ends.get(TurnEnd.SHED, 0)
    n = night.turns
    return [
        figure(f"{name}: first sentence", night.served, unit="ms", bare=bare),
        figure(f"{name}: first sentence, at first", night.settling, unit="ms"),
        count(f"{name}: answered", 100 * served / n, n=n, unit="%"),
        count(f"{name}: turned away", 100 * shed / n, n=n, unit="%"),
        count(f"{name}: without an end", n - sum(night.ends.values()), n=n),
    ]


# ---------------------------------------------------------- what the machine serves


def measure_capacity(seconds: float) -> float:
    return trio.run(_measure_capacity, seconds)


async def _measure_capacity(seconds: float) -> float:
    """Turns a second that would take all of one processor."""
    guests, turns = 10, 0
    async with open_runtime(config_of(guests), llm=Talker()) as runtime:

        async def talk(at: int) -> None:
            nonlocal turns
            while True:
                async with runtime.npc(f"Guest {at}").say(UTTERANCE) as turn:
                    await turn.finish()
                turns += 1

        async with trio.open_nursery() as nursery:
            for at in range(guests):
                nursery.start_soon(talk, at)
            await trio.sleep(0.5)
            turns, spent = 0, process_time()
            await trio.sleep(seconds)
            spent = process_time() - spent
            nursery.cancel_scope.cancel()
    return turns / spent


# ----------------------------------------------------------------------- one load


@attrs.define(eq=False)
class _Guest:
    wanted: float
    first: float | None = None
    end: TurnEnd | None = None
    ends: int = 0


def measure_load(rate: float, shedding: bool, pace: float) -> Night:
    return trio.run(_measure_load, rate, shedding, pace)


async def _measure_load(rate: float, shedding: bool, pace: float) -> Night:
    """``pace`` below 1 makes it shorter."""
    rng = random.Random(4)
    at, due = 0.0, []
    while at < (SETTLING + SPEAKING) * pace:
        due.append(at)
        at += rng.expovariate(rate)
    config = config_of(len(due), overload=OverloadConfig(enabled=shedding))
    guests: list[_Guest] = []
    async with open_runtime(config, llm=Talker()) as runtime:
        for number in range(len(due)):
            runtime.npc(f"Guest {number}")
        await trio.sleep(0.5 * pace)
        gc.collect()
        gc.freeze()  # as docs/operating.md says
        begun = perf_counter()
        async with trio.open_nursery() as nursery:
            for number, moment in enumerate(due):
                pause = begun + moment - perf_counter()
                if pause > 0:  # all that are due come at once, however late it is
                    await trio.sleep(pause)
                guests.append(_Guest(begun + moment))
                nursery.start_soon(_speak, runtime, number, guests[-1])
            with trio.move_on_after(ENDING * max(pace, 0.5)):
                while any(guest.end is None for guest in guests):  # noqa: ASYNC110
                    await trio.sleep(0.05)
            over = perf_counter()
            limit = runtime.overload.limit
            nursery.cancel_scope.cancel()
    settled = begun + SETTLING * pace
    ends = Counter(str(x.end or TurnEnd.INTERRUPTED) for x in guests if x.ends == 1)
    waited = [
        (x.wanted, (over if x.first is None else x.first) - x.wanted)
        for x in guests
        if x.end is not TurnEnd.SHED
    ]
    return Night(
        settling=[seconds for wanted, seconds in waited if wanted < settled],
        served=[seconds for wanted, seconds in waited if wanted >= settled],
        told=[
            x.first - x.wanted
            for x in guests
            if x.end is TurnEnd.SHED and x.first is not None
        ],
        ends=dict(ends),
        turns=len(guests),
        limit=limit,
    )


async def _speak(runtime: Runtime, number: int, guest: _Guest) -> None:
    try:
        async with runtime.npc(f"Guest {number}").say(UTTERANCE) as turn:
            async for event in turn:
                if guest.first is None and isinstance(event, Sentence):
                    guest.first = perf_counter()
                if isinstance(event, TurnDone):
                    guest.ends += 1
                    guest.end = event.end
    except GlyphoxaError:  # so late that not even saying it was possible
        guest.ends += 1
        guest.end = TurnEnd.FAILED
    except trio.Cancelled:  # the night is over
        guest.ends += guest.end is None
        raise


BENCHMARK = Benchmark(
    name="overload",
    promise=(
        "at four times of what the machine serves, first sentences come at most three"
        " times as late (p99) as at half of it; the others are told within 500 ms"
    ),
    measure=measure,
    budgets=(
        Budget(figure="4x: first sentence", statistic="ratio_p99", at_most=3),
        Budget(figure="4x: told", statistic="p99", at_most=500),
        Budget(figure="4x: without an end", statistic="p50", at_most=0),
        Budget(figure="0.5x: turned away", statistic="p50", at_most=0),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
