"""The growth of a runtime in a long run.

Promised: under a mixed load in which everything happens, again and again, the memory
of the process grows by at most 256 KiB in a thousand turns, the objects in it by at
most 500, and neither tasks nor descriptors grow, from the second quarter of the run to
its end. Turns are not slower in the last quarter than in the second.

Measured: `open_runtime` with 30 NPCs and two real servers over stdio. Each NPC talks
without a pause, with a model that answers at once and calls a built-in tool, a server's
tool, or one of ours that sometimes does not end before its turn's ceiling. One turn in
eight is left in its middle, one in eight interrupted by its own speaker, one in eight
is spoken by another player while the NPC talks. Meanwhile servers are killed, NPCs
elevated, and the configuration is replaced by another one and back, with a server that
is new in it and a tool less; that happens between turns, so all NPCs fall silent for
it, as they would not do at a table where a reload waits for a minute. A history is
five turns long, so that it is full when the measurement begins.

Readings are taken in these silences, when both servers are ready, after a collection
of garbage. Growth is the difference between the least of those in the second quarter
and the least in the last. Memory is the resident set; objects are what the collector
knows (``gc.get_objects``). A minute by default; ``--seconds`` takes longer.

Against: for the turns, those of the second quarter.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import signal
import sys
from collections.abc import Sequence
from functools import partial
from typing import Final

import attrs

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from benchmarks.stress.table import (
    UTTERANCE,
    Held,
    Talker,
    config_of,
    count,
    resident,
)
from glyphoxa_trio import Config, Runtime, Tier, Tool, open_runtime, tool
from glyphoxa_trio.config import RestartConfig
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.mcp import ServerState
from glyphoxa_trio.npc import TurnDone, TurnEnd
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.testing import hostile
from glyphoxa_trio.tools.outcome import ToolCall

SECONDS: Final = 60.0
GUESTS: Final = 30
HISTORY: Final = 5
RESTART: Final = RestartConfig(backoff=0.05, max_restarts=1_000_000, period=0.001)
PATIENCE: Final = 20.0  # seconds; only a hang takes so long
CALLS: Final = (
    ToolCall("call_0", "roll", '{"expression": "2d6+3"}'),
    ToolCall("call_1", "mcp__ledger__write", '{"id": "1"}'),
    ToolCall("call_2", "mcp__guide__echo", '{"id": "1"}'),
    ToolCall("call_3", "listen", "{}"),
)


@attrs.frozen
class Reading:
    """The process at one moment, in KiB and in numbers."""

    turns: int
    resident: float
    objects: int
    held: Held

    @classmethod
    def now(cls, turns: int) -> Reading:
        memory = resident()  # collects, too
        return cls(turns, memory, len(gc.get_objects()), Held.now())


@attrs.define(eq=False)
class Soak:
    """The state of the run; ``wrong`` has a line for each broken promise.

    ``lull`` is not set while no turn may begin.
    """

    lull: trio.Event = attrs.field(factory=trio.Event)
    quarter: int = 0
    turns: int = 0
    kills: int = 0
    reloads: int = 0
    ends: dict[TurnEnd, int] = attrs.field(factory=dict)
    took: list[list[float]] = attrs.field(factory=lambda: [[], [], [], []])
    readings: list[list[Reading]] = attrs.field(factory=lambda: [[], [], [], []])
    wrong: list[str] = attrs.field(factory=list)


@attrs.define(eq=False)
class _Caller(Talker):
    """Calls one or two of its tools, whichever."""

    def calls_of(self, request: LLMRequest) -> Sequence[ToolCall]:
        return random.sample(self.calls, random.choice((1, 2)))


def measure(quick: bool, *, seconds: float = SECONDS) -> list[Figure]:
    found = trio.run(_measure, 3.0 if quick else seconds)
    for line in found.wrong[:20]:
        print(line, file=sys.stderr)
    second, last = found.readings[1], found.readings[3]
    turns = last[-1].turns - second[-1].turns
    thousands = max(turns, 1) / 1000

    def growth(name: str, unit: str, per_turn: bool, read: str) -> Figure:
        least = [min(_value(x, read) for x in quarter) for quarter in (second, last)]
        grown = least[1] - least[0]
        return count(name, grown / thousands if per_turn else grown, n=turns, unit=unit)

    return [
        figure("whole turn", found.took[3], unit="ms", bare=found.took[1]),
        growth("memory, per 1,000 turns", "KiB", True, "resident"),
        growth("objects, per 1,000 turns", "", True, "objects"),
        growth("tasks", "", False, "tasks"),
        growth("descriptors", "", False, "descriptors"),
        count("resident at the end", last[-1].resident / 1024, n=turns, unit="MiB"),
        *(
            count(f"turns that ended as {end}", found.ends.get(end, 0), n=found.turns)
            for end in TurnEnd
        ),
        count("kills", found.kills, n=found.turns),
        count("reloads", found.reloads, n=found.turns),
        count("promises broken", len(found.wrong), n=found.turns),
    ]


def _value(reading: Reading, name: str) -> float:
    found: float = getattr(
        reading.held if hasattr(reading.held, name) else reading, name
    )
    return found


async def _measure(seconds: float) -> Soak:
    found = Soak()
    found.lull.set()
    plain, other = _configs()
    before = Held.now()
    async with open_runtime(
        plain,
        tools=[_listen()],
        llm=_Caller(CALLS, pace=0.0),
        wait_for_servers=PATIENCE,
    ) as runtime:
        async with trio.open_nursery() as nursery:
            for at in range(GUESTS):
                nursery.start_soon(_talk, runtime, found, at)
            nursery.start_soon(_trouble, runtime, found, (other, plain))
            for found.quarter in range(4):
                await trio.sleep(seconds / 4)
                with trio.fail_after(PATIENCE):
                    while not found.readings[found.quarter]:  # noqa: ASYNC110
                        await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
    with trio.move_on_after(3):
        while Held.now() != before:  # noqa: ASYNC110
            await trio.sleep(0.01)
    if (after := Held.now()) != before:
        found.wrong.append(f"{before}, now {after}")
    return found


def _configs() -> tuple[Config, Config]:
    """Two configurations that take turns; the second has a server more."""
    ledger, guide, third = (
        hostile.server(behaviour, name=name, restart=RESTART, estimated_duration=0.01)
        for behaviour, name in (
            ("good", "ledger"),
            ("floods_stderr", "guide"),
            ("good", "third"),
        )
    )
    tools = ("dice", "mcp__*", "listen")
    plain = config_of(GUESTS, ledger, guide, tools=tools, history=HISTORY)
    trust = attrs.evolve(plain.trust, allow_tools=("mcp__*",))
    plain = attrs.evolve(plain, trust=trust)
    other = config_of(GUESTS, ledger, guide, third, tools=tools[1:], history=HISTORY)
    return plain, attrs.evolve(other, trust=trust)


def _listen() -> Tool:
    calls = 0

    @tool(group="own", estimated_duration_ms=5, read_only=True, max_duration_ms=200)
    async def listen() -> str:
        """Listen for something that sometimes never comes."""
        nonlocal calls
        calls += 1
        if calls % 16 == 0:
            await trio.sleep_forever()
        return "A door, and then nothing."

    return listen


async def _talk(runtime: Runtime, found: Soak, at: int) -> None:
    """One guest's evening."""
    rng = random.Random(at)
    while True:
        await found.lull.wait()
        mood = rng.randrange(8)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_turn, runtime, found, at, "player", mood == 0)
            if mood in (1, 2):  # the same one goes on, or another one waits
                await trio.sleep(rng.uniform(0, 0.01))
                speaker = ("player", "another")[mood - 1]
                nursery.start_soon(_turn, runtime, found, at, speaker, False)
        await trio.sleep(rng.uniform(0.02, 0.2))


async def _turn(
    runtime: Runtime, found: Soak, at: int, speaker: str, leave: bool
) -> None:
    ends: list[TurnDone] = []
    async with runtime.npc(f"Guest {at}").say(UTTERANCE, speaker=speaker) as turn:
        async for event in turn:
            if isinstance(event, TurnDone):
                ends.append(event)
            elif leave:
                break
    found.turns += 1
    if leave:
        return
    if len(ends) != 1 or ends[0].end in (TurnEnd.FAILED, TurnEnd.SHED):
        found.wrong.append(f"guest {at}: ended as {ends}"[:200])
        return
    found.ends[ends[0].end] = found.ends.get(ends[0].end, 0) + 1
    if ends[0].end is TurnEnd.COMPLETED:
        found.took[found.quarter].append(ends[0].timings.total)


async def _trouble(
    runtime: Runtime, found: Soak, configs: tuple[Config, Config]
) -> None:
    """Kills, elevations and reloads, until cancelled."""
    rng = random.Random(1)
    while True:
        for config in configs:
            for _ in range(5):
                await trio.sleep(rng.uniform(0.05, 0.15))
                npc = runtime.npc(f"Guest {rng.randrange(GUESTS)}")
                await npc.elevate(Tier.DEEP, seconds=0.2)
            alive = [row.pid for row in runtime.servers() if row.pid is not None]
            if alive:
                os.kill(rng.choice(alive), signal.SIGKILL)
                found.kills += 1
            found.lull = trio.Event()
            try:
                with trio.fail_after(PATIENCE):
                    await runtime.reload(config)
                found.reloads += 1
            except (GlyphoxaError, trio.TooSlowError) as error:
                found.wrong.append(f"not reloaded: {type(error).__name__} {error}")
            if config is configs[-1]:
                await _read(runtime, found)
            found.lull.set()


async def _read(runtime: Runtime, found: Soak) -> None:
    """Take a reading as soon as nothing is in the air."""
    with trio.move_on_after(PATIENCE) as patience:
        while (  # noqa: ASYNC110
            runtime.turns_running
            or runtime.host.statistics().shared_tasks.running
            or {row.name for row in runtime.servers()} != {"ledger", "guide"}
            or any(row.state is not ServerState.READY for row in runtime.servers())
        ):
            await trio.sleep(0.01)
    if patience.cancelled_caught:
        found.wrong.append("it does not come to rest")
        return
    await trio.sleep(0.2)  # processes that were left end
    found.readings[found.quarter].append(Reading.now(found.turns))


BENCHMARK = Benchmark(
    name="soak",
    promise=(
        "a runtime in which everything happens all the time grows by at most 256 KiB"
        " and 500 objects in a thousand turns, and no task or descriptor is left"
    ),
    measure=measure,
    budgets=(
        Budget(figure="promises broken", statistic="p50", at_most=0),
        Budget(figure="memory, per 1,000 turns", statistic="p50", at_most=256),
        Budget(figure="objects, per 1,000 turns", statistic="p50", at_most=500),
        Budget(figure="tasks", statistic="p50", at_most=0),
        Budget(figure="descriptors", statistic="p50", at_most=0),
        Budget(figure="whole turn", statistic="ratio", at_most=1.25),
    ),
)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    options, rest = parser.parse_known_args()
    longer = partial(measure, seconds=options.seconds)
    main(attrs.evolve(BENCHMARK, measure=longer), rest)
