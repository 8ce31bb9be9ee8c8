"""The silences of a model that waits for its tools: pure state.

The state answers one question: when has the user heard silence for too long? Times are
seconds on trio's clock.
"""

from __future__ import annotations

from typing import Final

import attrs

# An instruction to the model for one response.
STILL_WORKING: Final = (
    "The tool you have called takes a while, and its result will come later. If it is"
    " not there yet, say so now in a few words of your own; do not guess it, and"
    " call no tools. If it is there, speak of it."
)


@attrs.define(eq=False)
class Talk:
    """The speech of one interaction's model, as far as silence is concerned.

    ``fills``: another part of the engine says something while calls run. ``until``: the
    time at which all that was said will have been heard. ``going_on``: the model
    speaks, or was asked to. ``due``: the model should speak of calls that were left
    running, and was not asked to yet. ``over``: the model has spoken since the last
    calls began. ``watched``: a task watches for silence.
    """

    fills: bool = False
    until: float = attrs.field(default=0.0, init=False)
    going_on: bool = attrs.field(default=False, init=False)
    due: bool = attrs.field(default=False, init=False)
    over: bool = attrs.field(default=False, init=False)
    watched: bool = attrs.field(default=False, init=False)

    def begins(self) -> None:
        """Record that the model begins to speak."""
        self.going_on, self.due = True, False

    def ends(self) -> None:
        """Record that the model has finished its response."""
        self.going_on = False

    def calls_begin(self) -> bool:
        """Record that the model has made calls; return True to start the watcher."""
        look, self.watched, self.over = not self.watched, True, False
        return look

    def is_due(self) -> None:
        """Record that the model should speak of the calls left running."""
        self.due = True

    def is_asked(self) -> None:
        """Record that the model was asked to say something."""
        self.going_on, self.due, self.over = True, False, True

    def is_heard(self, now: float, seconds: float) -> None:
        """Add ``seconds`` of audio that the listener has still to hear."""
        self.until = max(self.until, now) + seconds
        self.over = True

    def waits(self, now: float) -> None:
        """Start measuring silence at ``now``, unless audio is still to be heard."""
        self.until = max(self.until, now)
