"""What is heard of a model while it waits for its tools: pure state.

Nobody is to sit in silence. Times are seconds, on trio's clock.
"""

from __future__ import annotations

from typing import Final

import attrs

# Said to a model, for one response.
STILL_WORKING: Final = (
    "What you have called takes a while, and its result comes later by itself. If it is"
    " not there yet, say so now in a few words of your own; do not guess it, and call"
    " nothing. If it is there, speak of it."
)


@attrs.define(eq=False)
class Talk:
    """What the model of one interaction says, as far as silence goes.

    ``fills``: somebody else says something while calls run. ``until`` is when all that
    was said was heard; ``going_on``: it speaks, or is asked to; ``due``: it is to speak
    of calls that were left, and was not asked to; ``over``: it has spoken since the
    last calls began; ``watched``: somebody looks at it.
    """

    fills: bool = False
    until: float = attrs.field(default=0.0, init=False)
    going_on: bool = attrs.field(default=False, init=False)
    due: bool = attrs.field(default=False, init=False)
    over: bool = attrs.field(default=False, init=False)
    watched: bool = attrs.field(default=False, init=False)

    def begins(self) -> None:
        """It begins to speak."""
        self.going_on, self.due = True, False

    def ends(self) -> None:
        """It says nothing more for now."""
        self.going_on = False

    def calls_begin(self) -> bool:
        """It has called something. Returns whether somebody has to look at it now."""
        look, self.watched, self.over = not self.watched, True, False
        return look

    def is_due(self) -> None:
        """It is to speak of what was left, and may do so by itself."""
        self.due = True

    def is_asked(self) -> None:
        """It is asked to say something."""
        self.going_on, self.due, self.over = True, False, True

    def is_heard(self, now: float, seconds: float) -> None:
        """There is so much more to be heard."""
        self.until = max(self.until, now) + seconds
        self.over = True

    def waits(self, now: float) -> None:
        """If nothing is to be heard, it is silent from now on."""
        self.until = max(self.until, now)
