"""Which tools of this process have held the event loop, and what is told of it.

The watchdog (`actors.watchdog`) says that a step of a handler was a hold; here it gets
the name of its tool, becomes an event, and counts towards the tool's refusal.
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
    """A call of a tool has held the event loop, and with it everybody.

    Args:
      handler: the function, as "module.function".
      place: the line, as "file.py:12 in function".
      seconds: how long nothing else ran; of these it was ``busy`` so many.
      refused: this was once too often: it may not be called any more.
    """

    key: str
    handler: str
    place: str
    seconds: float
    busy: float
    refused: bool

    @property
    def text(self) -> str:
        """For operators, with the remedy."""
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
      watchdog: what looks at the steps; None on a virtual clock, which is never late.
      tell: told of each call that held the loop, once; must not raise.
    """

    watchdog: Watchdog | None = None
    _tell: Callable[[ToolStalled], None] = lambda event: None
    _tools: dict[str, Holding] = attrs.field(factory=dict, init=False)

    def held(self, tool: Tool, hold: LoopHold) -> None:
        """A call of the tool has held the loop; for each call once."""
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
        """Why the tool may not be called now, if that is why."""
        holding = self._tools.get(key) if self._tools else None
        return None if holding is None else holding.refused()

    def wait(self, keys: Iterable[str], seconds: float) -> None:
        """NPCs had so many seconds of turns in which these tools were refused."""
        for key in keys:
            if (holding := self._tools.get(key)) is not None:
                holding.wait(seconds)

    def begun(self, key: str) -> bool:
        """A call begins; True if the tool is shown for this one only."""
        holding = self._tools.get(key) if self._tools else None
        return holding is not None and holding.begun()

    def ended(self, key: str, *, well: bool | None) -> None:
        """That call has ended; see `Holding.ended`."""
        if (holding := self._tools.get(key)) is not None:
            holding.ended(trio.current_time(), well=well)

    def forget(self, key: str) -> None:
        """The tool was removed, or its code is another one now."""
        self._tools.pop(key, None)


def _name(tool: Tool) -> str:
    code = tool.function or tool.handler
    module = getattr(code, "__module__", "")
    name = getattr(code, "__qualname__", type(code).__name__)
    return f"{module}.{name}" if module else str(name)


def _begins(tool: Tool) -> str:
    code = getattr(tool.function or tool.handler, "__code__", None)
    return _name(tool) if code is None else place_of(code)
