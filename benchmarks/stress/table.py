"""A table for stress: a model that talks like one, and what a process holds."""

from __future__ import annotations

import gc
import os
import random
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final

import attrs

import trio

from benchmarks.common import Figure
from glyphoxa_trio import Config, Runtime
from glyphoxa_trio.config import McpConfig, NpcConfig, OverloadConfig, ServerSpec
from glyphoxa_trio.config.model import CalibrationConfig
from glyphoxa_trio.providers.llm import (
    CallReady,
    Finished,
    FinishReason,
    LLMEvent,
    LLMRequest,
    TextChunk,
)
from glyphoxa_trio.tools.outcome import ToolCall

UTTERANCE: Final = "Well met, friend. What would a room for the night cost?"
ANSWER: Final = (
    "The innkeeper wipes a mug and thinks it over for a while. A silver piece a night"
    " is what it costs, and you look after your own horse, which is more work than it"
    " looks, as a cousin of mine found out last winter when the mare got loose."
)
_WORDS: Final = tuple(ANSWER.split())
BUILTIN: Final = (
    ToolCall("call_0", "roll", '{"expression": "2d6+3"}'),
    ToolCall("call_1", "get_rule", '{"id": "condition-blinded"}'),
)


@attrs.define(eq=False)
class Talker:
    """Thinks for a tenth of a second, calls tools, then writes word by word.

    Args:
      calls: what it calls in the first round of every turn.
      pace: 1 is as fast as a good model, 0 does not wait at all.
    """

    calls: Sequence[ToolCall] = BUILTIN
    pace: float = 1.0
    label: str = "talker"

    def stream(
        self, request: LLMRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[LLMEvent]]:
        return self._stream(request)

    @asynccontextmanager
    async def _stream(
        self, request: LLMRequest
    ) -> AsyncGenerator[AsyncIterator[LLMEvent]]:
        yield self.events(request)

    async def events(self, request: LLMRequest) -> AsyncIterator[LLMEvent]:
        await trio.sleep(self.pace * random.uniform(0.05, 0.15))
        shown = {spec.name for spec in request.tools}
        calls = [x for x in self.calls_of(request) if x.name in shown]
        if request.messages[-1].role == "user" and calls:
            for call in calls:
                yield CallReady(call)
            yield Finished(reason=FinishReason.TOOL_CALLS)
            return
        for word in _WORDS:
            await trio.sleep(self.pace * random.uniform(0.005, 0.015))
            yield TextChunk(f"{word} ")
        yield Finished()

    def calls_of(self, request: LLMRequest) -> Sequence[ToolCall]:
        return self.calls


def config_of(
    guests: int,
    *servers: ServerSpec,
    tools: Sequence[str] = ("dice", "rules"),
    overload: OverloadConfig | None = None,
    history: int = 40,
) -> Config:
    """A configuration of this many NPCs with these tools; without overload refusals."""
    plain = Config()
    return attrs.evolve(
        plain,
        npcs=tuple(
            NpcConfig(name=f"Guest {at}", tools=tuple(tools)) for at in range(guests)
        ),
        mcp=McpConfig(servers=tuple(servers), remember=False),
        calibration=CalibrationConfig(at_start=False),
        overload=overload or OverloadConfig(enabled=False),
        turn=attrs.evolve(plain.turn, history=history),
    )


@attrs.frozen
class Held:
    """The resources of a process: live tasks and open descriptors."""

    tasks: int
    descriptors: int

    @classmethod
    def now(cls) -> Held:
        tasks = trio.lowlevel.current_statistics().tasks_living
        return cls(tasks, len(os.listdir("/proc/self/fd")))


async def nothing_left(runtime: Runtime, before: Held, *, within: float) -> list[str]:
    """Return what a storm has left behind; empty if all is well."""
    faults: list[str] = []
    with trio.move_on_after(within):
        while faults := _left(runtime, before):  # noqa: ASYNC110
            await trio.sleep(0.01)
    return faults


def _left(runtime: Runtime, before: Held) -> list[str]:
    flights, now = runtime.host.statistics().shared_tasks, Held.now()
    return [
        text
        for text, wrong in (
            (f"calls still fly: {flights}", flights.running or flights.lingering),
            (f"turns still run: {runtime.turns_running}", runtime.turns_running),
            (f"tasks are left: {now.tasks - before.tasks}", now.tasks > before.tasks),
            (
                f"descriptors are left: {now.descriptors - before.descriptors}",
                now.descriptors > before.descriptors,
            ),
        )
        if wrong
    ]


def resident() -> float:
    """KiB of memory in use by this process. Linux only."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


def count(name: str, value: float, *, n: int, unit: str = "") -> Figure:
    """A figure that is one number and not a distribution."""
    return Figure(name=name, unit=unit, n=n, p50=float(value))
