"""The refusal of a tool of this process whose code blocks the event loop. Pure.

After `STRIKES` such calls within `WITHIN` it is refused, since no deadline is kept
while it blocks, at the cost of all NPCs. It is readmitted like slow tools
(`readmission`): after 1, 2 and then every 4 minutes of its NPCs' turns it is shown for
one call, and one that ends without blocking the loop readmits it. If it is refused
again within an hour of that, it needs twice as many.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final

import attrs

from glyphoxa_trio.units import in_ms

from .readmission import RELAPSE, Readmission
from .tier import Tier

STRIKES: Final = 3
WITHIN: Final = 600.0  # seconds

REMEDY: Final = (
    "declare it @tool(blocking=True), and it runs in a thread of its own; or"
    " @tool(isolated=True), and it runs in a process of its own, which also helps with"
    " code that holds the interpreter"
)


@attrs.frozen(kw_only=True)
class HeldTool:
    """The reason why a tool is refused, and the seconds of turns until its trial."""

    place: str
    seconds: float
    next_trial: float

    @property
    def text(self) -> str:
        return (
            f"its code held the event loop in {STRIKES} calls within"
            f" {WITHIN / 60:g} minutes, the last time for {in_ms(self.seconds)} at"
            f" {self.place}"
        )


@attrs.define
class Holding:
    """The calls of one tool that blocked the loop. All times in seconds."""

    _held_at: deque[float] = attrs.field(
        factory=lambda: deque(maxlen=STRIKES), init=False
    )
    _back: Readmission | None = attrs.field(default=None, init=False)
    _returned: float = attrs.field(default=-math.inf, init=False)
    _needed: int = attrs.field(default=1, init=False)
    _place: str = attrs.field(default="", init=False)
    _seconds: float = attrs.field(default=0.0, init=False)

    def held(self, now: float, place: str, seconds: float) -> bool:
        """Record that a call has blocked the loop. Return True if the tool is refused
        from now on, and was not before."""
        self._place, self._seconds = place, seconds
        if self._back is not None:
            self._back.judge(good=False)
            self._back.hide()
            return False
        self._held_at.append(now)
        if len(self._held_at) < STRIKES or now - self._held_at[0] > WITHIN:
            return False
        self._held_at.clear()
        if now - self._returned > RELAPSE:
            self._needed = 1
        self._back = Readmission(Tier.FAST, self._needed)
        return True

    def refused(self) -> HeldTool | None:
        """Return why it may not be called now; None if it may."""
        if self._back is None or self._back.open:
            return None
        return HeldTool(
            place=self._place, seconds=self._seconds, next_trial=self._back.left
        )

    def wait(self, seconds: float) -> None:
        """Count seconds of its NPCs' turns without it."""
        if self._back is not None:
            self._back.wait(seconds)

    def begun(self) -> bool:
        """Note that a call starts; return True if it is the trial."""
        if self._back is None or not self._back.open:
            return False
        self._back.called()
        return True

    def ended(self, now: float, *, well: bool | None) -> None:
        """Note that the trial has ended by itself, without blocking the loop (None: it
        was cut before that could be known)."""
        if self._back is None:
            return
        if well is None:
            self._back.said_nothing()
        elif well and self._back.judge(good=True):
            self._needed, self._returned = self._back.again(), now
            self._back = None
