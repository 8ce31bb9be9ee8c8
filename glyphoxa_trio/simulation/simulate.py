"""A conversation many times over on virtual time, and what its turns were like.

The production code runs with made-up servers: only the work of the tools and the
processor's time are left out, which virtual time does not know. A turn costs about
1 ms of processor beside what is shown here.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import cycle, islice
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.config import Config, ConfigError
from glyphoxa_trio.npc import FanOutDone, FellBack, Sentence, TierSelected, TurnDone
from glyphoxa_trio.runtime import Runtime, UnknownNpc, find_npc, open_runtime
from glyphoxa_trio.runtime.assembly import settings_of
from glyphoxa_trio.tools.definition import ToolDefinition
from glyphoxa_trio.tools.estimate import TierBy
from glyphoxa_trio.tools.outcome import Limit
from glyphoxa_trio.tools.tier import Tier

from . import virtual
from .latency import Latency, usual
from .plans import rehearsable
from .promises.fake_world import Act, Ending, FakeWorld
from .script import Rehearsal, ScriptedModel, ScriptLine, usual_script
from .seen import Simulated, ToolSeen, TurnSeen

_STARTS: Final = 60.0  # seconds, virtual ones, for servers to be ready


@attrs.define(eq=False)
class Director:
    """Lets every tool take as long as is known of it: stated, measured, declared.

    Args:
      measured: what this installation measured, by environment and key.
      environment: of tools that name none.
    """

    stated: Mapping[str, Latency]
    measured: Mapping[tuple[str, str], Latency]
    environment: str
    rng: random.Random
    definitions: Mapping[str, ToolDefinition] = attrs.field(factory=dict)

    def latency(self, key: str) -> Latency:
        definition = self.definitions.get(key)
        named = None if definition is None else definition.environment
        where = (named or self.environment, key)
        return usual(definition, self.stated.get(key), self.measured.get(where))

    def __call__(self, key: str, arguments: Mapping[str, Any]) -> Act:
        latency = self.latency(key)
        breaks = latency.fails and self.rng.random() < latency.fails
        ending = Ending.SAY_NO if breaks else Ending.ANSWER
        return Act(ending, latency.draw(self.rng))


def simulate(
    config: Config,
    rehearsal: Rehearsal,
    *,
    offers: Mapping[str, tuple[Mapping[str, Any], ...]],
    measured: Mapping[tuple[str, str], Latency] | None = None,
    tier_by: TierBy | None = None,
    seed: int = 0,
    tell: Callable[[int], None] = lambda done: None,
) -> Simulated:
    """Hold the conversation of ``rehearsal``; the same ``seed``, the same figures.

    Blocks until it is done: about 3 ms of processor time a turn.

    Args:
      offers: what each server lists (`survey`).
      measured: latencies by environment and key (`survey.measured`).
      tier_by: in place of the configured one.
      tell: told after each turn how many are over.

    Raises:
      ConfigError: for a script that the configuration cannot play.
    """
    script = rehearsal.script or usual_script(config)
    if not script:
        raise ConfigError("there is no NPC to talk to")
    problems = []
    for number, line in enumerate(script):
        try:
            find_npc(config, line.npc)
        except UnknownNpc as error:
            problems.append(f"{error} @ script[{number}].npc")
    if problems:
        raise ConfigError(*problems)
    chosen = tier_by or config.calibration.tier_by
    staged = rehearsable(config)
    staged = attrs.evolve(
        staged, calibration=attrs.evolve(staged.calibration, tier_by=chosen)
    )
    stated = {key: one.latency() for key, one in rehearsal.latencies.items()}
    environment = settings_of(config).environment
    director = Director(stated, measured or {}, environment, random.Random(seed))
    scenery = FakeWorld(director, offers, random.Random(seed), caches=False)
    play = partial(
        _play, staged, rehearsal, script, director, scenery, random.Random(seed), tell
    )
    return virtual.run(play, seed=seed)


async def _play(
    config: Config,
    rehearsal: Rehearsal,
    script: tuple[ScriptLine, ...],
    director: Director,
    scenery: FakeWorld,
    rng: random.Random,
    tell: Callable[[int], None],
) -> Simulated:
    def exposed(name: str) -> str | None:
        snapshot = runtime.host.snapshot
        listing = snapshot.by_key.get(name) or snapshot.by_exposed.get(name)
        return None if listing is None else listing.exposed

    model = ScriptedModel(rehearsal.model, rehearsal.fast_model, rng, exposed)
    async with open_runtime(
        config, llm=model, environment=scenery.environment(), wait_for_servers=_STARTS
    ) as runtime:
        director.definitions = {
            x.key: x.definition for x in runtime.host.snapshot.listings
        }
        problems = [
            f"no tool {key!r} @ latencies"
            for key in director.stated
            if key not in director.definitions
        ]
        problems += [
            f"no tool {name!r} @ script[{number}].calls"
            for number, line in enumerate(script)
            for names in line.calls or ()
            for name in names
            if exposed(name) is None
        ]
        if problems:
            raise ConfigError(*problems)
        if config.calibration.at_start:
            await runtime.calibrate()
        seen = await converse(runtime, model, script, turns=rehearsal.turns, tell=tell)
        estimates = await runtime.host.report()
    calls = Counter(run.key for run in scenery.journal)
    tools = []
    for key, estimate in sorted(estimates.items()):
        latency = director.latency(key)
        tools.append(
            ToolSeen(
                key=key,
                known=latency.known,
                p50=latency.percentile(50),
                p95=latency.percentile(95),
                calls=calls[key],
                estimate=estimate,
            )
        )
    return Simulated(
        tier_by=config.calibration.tier_by,
        turns=tuple(seen),
        tools=tuple(tools),
        warnings=tuple(f"{x.server}: {x.text}" for x in runtime.warnings),
    )


async def converse(
    runtime: Runtime,
    model: ScriptedModel,
    script: Sequence[ScriptLine],
    *,
    turns: int,
    tell: Callable[[int], None] = lambda done: None,
) -> list[TurnSeen]:
    """Say the script, again and again, to whatever runtime ``model`` speaks for."""
    seen = []
    for line in islice(cycle(script), turns):
        await trio.sleep(line.pause)
        model.answer(line)
        seen.append(await _turn(runtime, line))
        tell(len(seen))
    return seen


async def _turn(runtime: Runtime, line: ScriptLine) -> TurnSeen:
    began = trio.current_time()
    tier, first, cut, fell_back = Tier.FAST, None, False, False
    npc = runtime.npc(line.npc)
    async with npc.say(line.say, speaker=line.speaker, tier=line.tier) as turn:
        async for event in turn:
            match event:
                case TierSelected():
                    tier = event.tier
                case Sentence() if first is None:
                    first = trio.current_time() - began
                case FanOutDone():
                    cut |= any(end.limit is Limit.TURN for end in event.outcomes)
                case FellBack():
                    fell_back = True
    done: TurnDone | None = turn.done
    assert done is not None
    return TurnSeen(
        npc=npc.name,
        tier=tier,
        first_sentence=first,
        total=done.timings.total,
        tools=done.timings.tools,
        at_ceiling=cut,
        fell_back=fell_back,
        calls=tuple(str(end.status) for end in done.outcomes),
    )
