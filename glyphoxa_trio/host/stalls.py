"""Stalls: tools of this process that have blocked the event loop, and their reports.

The watchdog (`actors.watchdog`) detects that a step of a handler blocked the loop; here
the hold gets the name of its tool, becomes an event, and counts towards the refusal of
the tool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs

import trio

from glyphoxa_trio.actors import LoopHold, Watchdog
from glyphoxa_trio.actors.watchdog import place_of
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.holding import REMEDY, HeldTool, Holding
from glyphoxa_trio.units import in_ms


@attrs.frozen(kw_only=True)
class ToolStalled:
    """A call of a tool has blocked the event loop, and so delayed everything else.

    Args:
      handler: the function, as "module.function".
      place: the line, as "file.py:12 in function".
      seconds: how long nothing else ran; ``busy`` of these it was computing.
      refused: this was one time too many: the tool may not be called any more.
    """

    key: str
    handler: str
    place: str
    seconds: float
    busy: float
    refused: bool

    @property
    def text(self) -> str:
        """The message for operators, with the remedy."""
        how = "computing" if self.busy >= self.seconds / 2 else "waiting"
        told = (
            f"{self.key} ({self.handler}) held the event loop for"
            f" {in_ms(self.seconds)}, {how} at {self.place}: everything else was late"
        )
        return f"{told}. {'It is refused now; ' if self.refused else ''}{REMEDY}"


@attrs.define(eq=False)
class Stalls:
    """The holds of one host's tools, by key.

    Args:
      watchdog: observes the steps; None on a virtual clock, which is never late.
      tell: called with each call that blocked the loop, once; must not raise.
    """

    watchdog: Watchdog | None = None
    _tell: Callable[[ToolStalled], None] = lambda event: None
    _tools: dict[str, Holding] = attrs.field(factory=dict, init=False)

    def held(self, tool: Tool, hold: LoopHold) -> None:
        """Record that a call of the tool has blocked the loop; once for each call."""
        place = hold.place or _begins(tool)
        holding = self._tools.setdefault(tool.key, Holding())
        refused = holding.held(trio.current_time(), place, hold.seconds)
        self._tell(
            ToolStalled(
                key=tool.key,
                handler=_name(tool),
                place=place,
                seconds=hold.seconds,
                busy=hold.busy,
                refused=refused,
            )
        )

    def refused(self, key: str) -> HeldTool | None:
        """Return why the tool may not be called for having blocked the loop, if so."""
        holding = self._tools.get(key) if self._tools else None
        return None if holding is None else holding.refused()

    def wait(self, keys: Iterable[str], seconds: float) -> None:
        """Count seconds of turns of NPCs in which these tools were refused."""
        for key in keys:
            if (holding := self._tools.get(key)) is not None:
                holding.wait(seconds)

    def begun(self, key: str) -> bool:
        """Note the start of a call; return True if it is a trial."""
        holding = self._tools.get(key) if self._tools else None
        return holding is not None and holding.begun()

    def ended(self, key: str, *, well: bool | None) -> None:
        """Note the end of a trial; see `Holding.ended`."""
        if (holding := self._tools.get(key)) is not None:
            holding.ended(trio.current_time(), well=well)

    def forget(self, key: str) -> None:
        """Drop the state of a tool that was removed, or whose code has changed."""
        self._tools.pop(key, None)


def _name(tool: Tool) -> str:
    code = tool.function or tool.handler
    module = getattr(code, "__module__", "")
    name = getattr(code, "__qualname__", type(code).__name__)
    return f"{module}.{name}" if module else str(name)


def _begins(tool: Tool) -> str:
    code = getattr(tool.function or tool.handler, "__code__", None)
    return _name(tool) if code is None else place_of(code)
