"""The environment of a replay: models and tools that give the recorded answers after
the recorded time, and servers that are not started.

An answer comes at its recorded time if its question does; if a changed rule moved the
question, as long after it. A question that is not in the recording has no answer, and
makes the replay a *what-if*: `Notes` says from where on.
"""

from __future__ import annotations

from collections.abc import (
    Mapping,
)
from typing import Any

import attrs

import trio

from glyphoxa_trio.observability.recording.format import Line
from glyphoxa_trio.simulation.replay.driver import ReplayDriver


@attrs.define(eq=False)
class Notes:
    """The parts that a replay could not take from its recording, as text, in order."""

    texts: list[str] = attrs.field(factory=list)

    def add(self, text: str) -> None:
        line = f"{trio.current_time():.3f} s: {text}"
        if line not in self.texts:
            self.texts.append(line)


@attrs.frozen
class Shift:
    """Recorded times as those of a replay, for what follows from one question."""

    recorded: float
    now: float
    conductor: ReplayDriver

    def of(self, at: float) -> float:
        # Not now + (at - recorded): that would be another float of the same time.
        if self.now == self.recorded:
            return at
        return self.now + (at - self.recorded)

    def has_come(self, line: Line) -> bool:
        return self.now == self.recorded and self.conductor.cue(line).is_set()

    async def wait(self, line: Line) -> None:
        if self.now == self.recorded:
            await self.conductor.cue(line).wait()
        else:
            await trio.sleep_until(max(self.of(line["at"]), trio.current_time()))


def bug(error: Mapping[str, Any]) -> Exception:
    """An error that is called as the recorded one was, since outcomes name it."""
    kind = type(str(error.get("error") or "Exception"), (Exception,), {})
    raised: Exception = kind(error.get("detail", ""))
    return raised
