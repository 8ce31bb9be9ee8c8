"""The driver, which starts everything in its turn when a recording is replayed.

At one instant no clock can tell what came first, and it matters: a player who speaks
when the answer is over does not interrupt it. So the order of lines is the order of
what happens. What people do comes when nothing else can happen at its instant; it did
when it was recorded. Everything else is done, and answers of models and tools are
given their cue, as soon as all has happened again that had happened before to the same
NPC, in that very step; or, if the run has diverged, when nothing more can happen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import attrs

import trio

from glyphoxa_trio.npc.identity import NpcId, npc_in
from glyphoxa_trio.observability.recording.format import Line
from glyphoxa_trio.simulation.clock import ExactClock

ANSWERS: Final = frozenset({"model", "speech", "answer"})
# What a replay does by itself, and others may have to wait for.
STEPS: Final = frozenset({"event", "request", "socket", "told", "call", *ANSWERS})
# What people did.
DEEDS: Final = frozenset(
    {
        *("say", "left", "cancelled", "hearing", "interrupt", "elevate", "approve"),
        *("overhear", "situate", "introduce"),
        *("approved", "session", "restored", "ended", "reload", "leaving"),
    }
)
_NOBODY: Final = NpcId("")
# What came to pass.
NEWS: Final = frozenset({"heard", "played", "tools", "server", "probed"})


@attrs.define(eq=False)
class ReplayDriver:
    """Goes through the lines of a recording, in their order.

    Args:
      act: does what a person did; must not block.
      may_act: what must be true beside all that had happened before.
    """

    _lines: Sequence[Line]
    _clock: ExactClock
    _act: Callable[[Line], None]
    _may_act: Callable[[Line], bool]
    over: trio.Event = attrs.field(factory=trio.Event, init=False)
    _at: int = attrs.field(default=0, init=False)
    _cues: dict[int, trio.Event] = attrs.field(factory=dict, init=False)
    _before: dict[int, Counter[object]] = attrs.field(factory=dict, init=False)
    _done: Counter[object] = attrs.field(factory=Counter, init=False)
    _now: float = attrs.field(default=0.0, init=False)
    _moved: trio.Event = attrs.field(factory=trio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        whose = _npcs_of(self._lines)
        steps: list[tuple[object, NpcId]] = []
        at = None
        for line in self._lines:
            if line["at"] != at:
                at = line["at"]
                steps.clear()
            npc = whose.get(id(line))
            if line["kind"] in NEWS | ANSWERS:
                self._before[id(line)] = Counter(
                    step for step, its in steps if npc is None or npc == its
                )
            if line["kind"] in STEPS:
                steps.append((_step(line), npc or _NOBODY))

    def cue(self, line: Line) -> trio.Event:
        """Set when it is its turn."""
        return self._cues.setdefault(id(line), trio.Event())

    def done(self, line: Line) -> None:
        """The replay has just done what the line says. An event may be any that looks
        like it; everything else is the very line."""
        now = trio.current_time()
        if now != self._now:
            self._now = now
            self._done.clear()
        self._done[_step(line)] += 1
        self.look()

    def look(self) -> None:
        """Do whatever it is time for."""
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line["at"] > trio.current_time() or not self._ready(line):
                return
            self._go_on(line)

    async def run(self) -> None:
        """Conduct to the end; then `over` is set."""
        while not self.over.is_set():
            self.look()
            if self._at == len(self._lines):
                self.over.set()
                return
            line = self._lines[self._at]
            if line["at"] > trio.current_time():
                await trio.sleep_until(line["at"])
                continue
            at, self._moved = self._at, trio.Event()
            told = self._moved.set
            self._clock.quiet.when_quiet(told)
            await self._moved.wait()
            self._clock.quiet.forget(told)
            if self._at == at:
                self._go_on(line)  # it will not come to what came before

    def _ready(self, line: Line) -> bool:
        if line["kind"] in DEEDS:
            return bool(line.get("over"))  # that changes nothing
        before = self._before.get(id(line))
        if before is None:
            return True
        now = trio.current_time()
        done = self._done if self._now == now else Counter()
        # What was recorded for another instant cannot be waited for at this one.
        had = line["at"] < now or before <= done
        return had and self._may_act(line)

    def _go_on(self, line: Line) -> None:
        self._at += 1
        self._moved.set()
        if line["kind"] in ANSWERS:
            self.cue(line).set()
        elif line["kind"] == "leaving":
            self._at = len(self._lines)
            self.over.set()
        elif line["kind"] in DEEDS | NEWS:
            self._act(line)


def _npcs_of(lines: Sequence[Line]) -> dict[int, NpcId]:
    """Return the NPCs that lines belong to, by a line's identity; some have none."""
    owners: dict[tuple[str, int], NpcId] = {}
    found: dict[int, NpcId] = {}
    for line in lines:
        for kind in ("say", "request", "socket", "call"):
            if kind in line and not isinstance(line[kind], dict):
                there = owners.get((kind, line[kind]), _NOBODY)
                owner = npc_in(line) if line.get("npc") else there
                owners[kind, line[kind]] = found[id(line)] = owner
        if line.get("npc"):
            found[id(line)] = npc_in(line)
    return found


def _step(line: Line) -> object:
    if line["kind"] == "event":
        return line["event"], npc_in(line), line.get("turn")
    return id(line)
