"""The script of a simulation: lines, the model's calls and its pace.

model: { first_token: { p50_ms: 400, p95_ms: 900 }, word: { exactly_ms: 40 } }
fast_model: { first_token: { p50_ms: 150, p95_ms: 350 }, word: { exactly_ms: 15 } }
latencies:
  oracle.consult: { mixture: [{ share: 0.7, taking_ms: 200 }, ...] }
script:
  - { npc: Greymantle, say: What do the rules say?, calls: [[oracle.consult]] }
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Final

import attrs

import trio

from glyphoxa_trio.config import Config
from glyphoxa_trio.config.fields import InMs, Text, above_zero, not_negative
from glyphoxa_trio.npc.prompting import only_opens
from glyphoxa_trio.npc.selection import SelectionRules
from glyphoxa_trio.providers.llm import (
    CallReady,
    Finished,
    FinishReason,
    LLMEvent,
    LLMRequest,
    TextChunk,
    ToolSpec,
)
from glyphoxa_trio.runtime.assembly import rules_of
from glyphoxa_trio.tools.arguments import canonical
from glyphoxa_trio.tools.instance import NoInstance, minimal_instance
from glyphoxa_trio.tools.outcome import ToolCall
from glyphoxa_trio.tools.schema import BadSchema
from glyphoxa_trio.tools.tier import Tier

from .latency import Latency, Stated

# Where a script leaves the calls to the model: how many it makes in one response of
# the first round, of the second; from the third round on it speaks.
_USUAL: Final = ((0, 1, 1, 2, 3), (0, 0, 0, 1))
_ANSWER: Final = "So it was told to me when I was young. Take it as you will."


@attrs.frozen(kw_only=True)
class ModelPace:
    """The pace of a model: the time to its first token, and for each word."""

    first_token: Stated = attrs.field(factory=lambda: Stated(p50=0.4, p95=0.9))
    word: Stated = attrs.field(factory=lambda: Stated(exactly=0.04))


@attrs.frozen(kw_only=True)
class ScriptLine:
    """Something said to an NPC.

    Args:
      pause: seconds since the turn before it ended.
      tier: the DM's override, as in `Npc.say`.
      calls: what the model calls, round by round: tools by key or exposed name.
        Those that it is not shown it does not call. None leaves it to chance.
    """

    npc: Text
    say: Text
    speaker: Text = "player"
    pause: InMs = attrs.field(default=5.0, validator=not_negative)
    tier: Tier | None = None
    calls: tuple[tuple[Text, ...], ...] | None = None


@attrs.frozen(kw_only=True)
class Rehearsal:
    """The file of a simulation. ``script`` begins again until ``turns`` are done.

    Args:
      fast_model: the one that opens for a sentence cascade.
      latencies: by the key of the tool, in place of what was measured of it.
    """

    model: ModelPace = attrs.field(factory=ModelPace)
    fast_model: ModelPace = attrs.field(
        factory=lambda: ModelPace(
            first_token=Stated(p50=0.15, p95=0.35), word=Stated(exactly=0.015)
        )
    )
    latencies: Mapping[str, Stated] = attrs.field(factory=dict)
    script: tuple[ScriptLine, ...] = ()
    turns: int = attrs.field(default=500, validator=above_zero)


def usual_script(config: Config) -> tuple[ScriptLine, ...]:
    """For each NPC small talk, something to look up, and something to think about."""
    rules: SelectionRules = rules_of(config)
    said = ["Good evening.", "A cold night.", "And the road north?", "I see."]
    said += [f"Well, {phrase}?" for phrase in rules.standard.phrases[:2]]
    said += [f"Now, {phrase}." for phrase in rules.deep.phrases[:1]]
    return tuple(
        ScriptLine(npc=npc.name, say=text) for npc in config.npcs for text in said
    )


@attrs.define(eq=False)
class ScriptedModel:
    """A model that takes its time and calls what the line says; else by chance."""

    pace: ModelPace
    fast: ModelPace
    rng: random.Random
    exposed: Callable[[str], str | None]
    _line: ScriptLine | None = attrs.field(default=None, init=False)
    _paces: dict[bool, tuple[Latency, Latency]] = attrs.field(init=False)  # if it opens
    _arguments: dict[str, str] = attrs.field(factory=dict, init=False)

    label = "simulated"

    def __attrs_post_init__(self) -> None:
        self._paces = {
            opens: (pace.first_token.latency(), pace.word.latency())
            for opens, pace in ((False, self.pace), (True, self.fast))
        }

    def answer(self, line: ScriptLine) -> None:
        """This is said next, and to be answered."""
        self._line = line

    @asynccontextmanager
    async def stream(
        self, request: LLMRequest
    ) -> AsyncGenerator[AsyncIterator[LLMEvent]]:
        async with aclosing(self._events(request)) as events:
            yield events

    async def _events(self, request: LLMRequest) -> AsyncGenerator[LLMEvent]:
        first_token, word = self._paces[only_opens(request)]
        await trio.sleep(first_token.draw(self.rng))
        calls = () if request.tools_forbidden else self._calls(request)
        for number, tool in enumerate(calls):
            yield CallReady(ToolCall(f"call_{number}", tool.name, self._made_up(tool)))
        if calls:
            yield Finished(reason=FinishReason.TOOL_CALLS)
            return
        for text in _ANSWER.split():
            await trio.sleep(word.draw(self.rng))
            yield TextChunk(f"{text} ")
        yield Finished()

    def _calls(self, request: LLMRequest) -> tuple[ToolSpec, ...]:
        said = [at for at, one in enumerate(request.messages) if one.role == "user"]
        rounds = sum(bool(one.calls) for one in request.messages[said[-1] :])
        shown = {tool.name: tool for tool in request.tools}
        assert self._line is not None
        if self._line.calls is None:
            if rounds >= len(_USUAL) or not shown:
                return ()
            count = min(self.rng.choice(_USUAL[rounds]), len(shown))
            return tuple(self.rng.sample(list(shown.values()), count))
        wanted = self._line.calls[rounds] if rounds < len(self._line.calls) else ()
        names = [self.exposed(name) for name in wanted]
        return tuple(shown[name] for name in names if name in shown)

    def _made_up(self, tool: ToolSpec) -> str:
        if tool.name not in self._arguments:
            try:
                made = minimal_instance(tool.parameters, foreign=True)
            except (NoInstance, BadSchema):
                made = {}
            self._arguments[tool.name] = canonical(made)
        return self._arguments[tool.name]
