"""Helpers of the tests of this room: outputs that can be inspected, a runtime."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs

import trio

from glyphoxa_trio import Config, Runtime, TurnDone, open_runtime
from glyphoxa_trio.config import CalibrationConfig, NpcConfig, RestartConfig, ServerSpec
from glyphoxa_trio.tools.tier import TierLimits

from ..cli.support import SEER

LIMIT = 60.0  # seconds; no test that passes comes near it

Line = tuple[str, str, Mapping[str, Any]]


@attrs.define(eq=False)
class Kept:
    """An output that keeps what it is given: level, event, fields without ``at``.

    Args:
      faults: what to raise, event by event.
      gate: where each record waits, in its thread; None lets all through.
    """

    faults: Mapping[str, BaseException] = attrs.field(factory=dict)
    gate: threading.Event | None = None
    lines: list[Line] = attrs.field(factory=list)
    times: list[str] = attrs.field(factory=list)
    entered: threading.Event = attrs.field(factory=threading.Event)
    _more: threading.Condition = attrs.field(factory=threading.Condition)

    def __getattr__(self, level: str) -> Any:
        if level not in ("debug", "info", "warning", "error"):
            raise AttributeError(level)

        def write(event: str, *, at: str, **fields: Any) -> None:
            self.entered.set()
            if self.gate is not None:
                self.gate.wait(LIMIT)
            if event in self.faults:
                raise self.faults[event]
            with self._more:
                self.times.append(at)
                self.lines.append((level, event, fields))
                self._more.notify_all()

        return write

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for what is written in another thread."""

        def wait() -> None:
            with self._more:
                assert self._more.wait_for(condition, LIMIT), self.lines

        await trio.to_thread.run_sync(wait)

    def of(self, *events: str) -> list[Mapping[str, Any]]:
        """The fields of these events, in order."""
        return [fields for _, event, fields in self.lines if event in events]


def seer(*habits: str, told: str = "-", **more: Any) -> ServerSpec:
    more.setdefault("restart", RestartConfig(backoff=0.01))
    return ServerSpec(name="seer", command=("python", str(SEER), told, *habits), **more)


def config(*tools: str, **more: Any) -> Config:
    """One NPC, Bo, with these tools; nothing is measured unless a test says so."""
    unmeasured: dict[str, Any] = {
        "npcs": (NpcConfig(name="Bo", tools=tools),),
        "calibration": CalibrationConfig(at_start=False),
        "tiers": TierLimits(
            fast_ceiling=LIMIT, standard_ceiling=LIMIT, deep_ceiling=LIMIT
        ),
    }
    return Config(**{**unmeasured, **more})


@asynccontextmanager
async def opened(chosen: Config, **more: Any) -> AsyncGenerator[Runtime]:
    with trio.fail_after(LIMIT):
        async with open_runtime(chosen, **{"wait_for_servers": LIMIT, **more}) as one:
            yield one


async def say(runtime: Runtime, text: str) -> TurnDone:
    async with runtime.npc("Bo").say(text) as turn:
        return await turn.finish()
