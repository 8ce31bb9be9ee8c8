"""The accuracy of `glyphoxa simulate`, beside live turns.

Promised: on a recorded trace, the simulator's 95th percentiles, of the time to the
first sentence and of the whole turn, are within 10 % of the live ones.

Measured: a real runtime with a real stdio server (``peers/server.py``, whose tool
``ponder`` takes a long-tailed random time), the runtime's own dice, and a model that
takes its time, talk for a while. What each call took is kept, in order. Then the
same script with the same choices of the model is simulated, and each tool takes what
it took then. What is left between the two is what virtual time does not know: the
processor's work and the scheduler.

``off by`` is the difference of the two percentiles, in per cent of the live one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from glyphoxa_trio import Config, open_runtime
from glyphoxa_trio.config import CalibrationConfig, McpConfig, NpcConfig, ServerSpec
from glyphoxa_trio.npc import FanOutDone
from glyphoxa_trio.simulation.latency import Latency, LatencyOrigin, Stated
from glyphoxa_trio.simulation.script import (
    ModelPace,
    Rehearsal,
    ScriptedModel,
    ScriptLine,
)
from glyphoxa_trio.simulation.seen import TurnSeen
from glyphoxa_trio.simulation.simulate import converse, simulate
from glyphoxa_trio.simulation.survey import survey
from glyphoxa_trio.tools.outcome import Status
from glyphoxa_trio.tools.tier import Tier

SERVER: Final = str(Path(__file__).parent / "peers" / "server.py")
SEED: Final = 11
PACE: Final = ModelPace(first_token=Stated(p50=0.03, p95=0.08), word=Stated(exactly=0))
PONDER: Final = "peer.ponder"
NEVER_RAN: Final = (Status.SKIPPED, Status.UNAVAILABLE, Status.DENIED)
SCRIPT: Final = tuple(
    ScriptLine(npc="Sage", say="Hm?", pause=0.0, tier=tier, calls=calls)
    for tier, calls in (
        (Tier.FAST, ((PONDER,),)),
        (Tier.STANDARD, ((PONDER, "dice.roll"), (PONDER,))),
        (Tier.DEEP, ((PONDER, PONDER, "dice.roll"),)),
    )
)


@attrs.frozen
class InOrder(Latency):
    """The recorded values, once more."""

    _rest: Iterator[float] = attrs.field(init=False, eq=False)

    @_rest.default
    def _from_the_first(self) -> Iterator[float]:
        return iter(self.seconds)

    def draw(self, rng: random.Random) -> float:
        # A turn that was cut elsewhere may make a call more: as long as the last one.
        return next(self._rest, self.seconds[-1])


def measure(quick: bool) -> list[Figure]:
    turns = 12 if quick else 150
    live, trace, config = trio.run(_live, turns)
    offers = trio.run(survey, config).offers
    simulated = simulate(
        config,
        Rehearsal(model=PACE, script=SCRIPT, turns=turns),
        offers=offers,
        measured={
            ("local", key): InOrder(tuple(took), LatencyOrigin.MEASURED)
            for key, took in trace
        },
        seed=SEED,
    )
    return [
        *_compared("first sentence", simulated.turns, live, "first_sentence"),
        *_compared("whole turn", simulated.turns, live, "total"),
    ]


async def _live(
    turns: int,
) -> tuple[list[TurnSeen], list[tuple[str, list[float]]], Config]:
    config = Config(
        npcs=(NpcConfig(name="Sage", tools=(PONDER, "dice"), budget_tier=Tier.DEEP),),
        mcp=McpConfig(
            remember=False,
            servers=(
                ServerSpec(
                    name="peer", command=("python", SERVER), estimated_duration=0.04
                ),
            ),
        ),
        calibration=CalibrationConfig(at_start=False),
    )

    def exposed(name: str) -> str | None:
        return runtime.host.snapshot.find(name).exposed

    took: dict[str, list[float]] = {PONDER: [], "dice.roll": []}

    async def listen(task_status: trio.TaskStatus[None]) -> None:
        with runtime.events.subscribe() as events:
            task_status.started()
            async for event in events:
                if isinstance(event, FanOutDone):
                    for end in event.outcomes:
                        if end.status not in NEVER_RAN:
                            took[str(end.tool)].append(end.elapsed)

    model = ScriptedModel(PACE, PACE, random.Random(SEED), exposed)
    async with open_runtime(config, llm=model) as runtime:
        async with trio.open_nursery() as nursery:
            await nursery.start(listen)
            seen = await converse(runtime, model, SCRIPT, turns=turns)
            nursery.cancel_scope.cancel()
    return seen, list(took.items()), config


def _compared(
    name: str, simulated: tuple[TurnSeen, ...], live: list[TurnSeen], field: str
) -> list[Figure]:
    said = [getattr(turn, field) for turn in simulated]
    seen = [getattr(turn, field) for turn in live]
    both = figure(f"{name}: simulated against live", said, unit="ms", bare=seen)
    ours, theirs = _p95(said), _p95(seen)
    off = 100 * abs(ours - theirs) / theirs
    return [both, Figure(name=f"{name}: p95 off by", unit="%", n=len(seen), p50=off)]


def _p95(seconds: list[float]) -> float:
    return sorted(seconds)[-(-95 * len(seconds) // 100) - 1]


BENCHMARK = Benchmark(
    name="simulator",
    promise="the simulator's p95 is within 10 % of a live run's, on its trace",
    measure=measure,
    budgets=(
        Budget(figure="first sentence: p95 off by", statistic="p50", at_most=10),
        Budget(figure="whole turn: p95 off by", statistic="p50", at_most=10),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
