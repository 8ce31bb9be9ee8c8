"""The events of one utterance's answer, as they arrive from a speech-to-speech model.

The reader of the socket puts events in, the turn takes them out. Events that arrive
faster than the listener takes them wait here, within a bound.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import Signal
from glyphoxa_trio.providers.s2s import Heard

from .happenings import BargedIn, CallsReady, Happening, Overflowed

# Ten minutes of speech in pieces of 40 ms, more than a listener needs at once.
_CAPACITY: Final = 15_000


@attrs.define(eq=False)
class Interaction:
    """One utterance's share of a conversation's events.

    ``spoken``: the utterance was spoken, not written; then ``words`` are what the
    server has understood so far. ``automatic``: a spoken utterance is answered without
    being asked to. ``reports``: there is no utterance, the model reports the outcomes
    of calls.
    """

    spoken: bool = False
    automatic: bool = True
    reports: bool = False
    words: str = attrs.field(default="", init=False)
    understood: bool = attrs.field(default=False, init=False)  # the words are final
    _on_words: Callable[[str, bool], None] | None = attrs.field(
        default=None, init=False
    )
    _events: deque[Happening] = attrs.field(factory=deque, init=False)
    _arrived: Signal = attrs.field(factory=Signal, init=False)
    _heard: trio.Event = attrs.field(factory=trio.Event, init=False)
    _over: bool = attrs.field(default=False, init=False)
    _passes_on: bool = attrs.field(default=False, init=False)
    _passed_on: tuple[str, bool] = attrs.field(default=("", False), init=False)

    def put(self, event: Happening) -> bool:
        """Append an event; return False if it is not taken.

        The interaction has ended, or ends now because too many events wait. A
        `BargedIn` overtakes all events but words and calls: what was said before it and
        not taken is void. Calls are still owed an answer: `end` returns them.
        """
        if self._over:
            return False
        if isinstance(event, BargedIn):
            words = [x for x in self._events if isinstance(x, Heard)]
            calls = [x for x in self._events if isinstance(x, CallsReady)]
            self._events = deque([*words, event, *calls])
            self._arrived.set()
        elif len(self._events) >= _CAPACITY:
            self._over = True
            # The calls are still owed an answer: `end` returns them.
            calls = [event for event in self._events if isinstance(event, CallsReady)]
            self._events = deque([Overflowed(), *calls])
        else:
            self._events.append(event)
        # A reader waits only while there is no event.
        if self._over or len(self._events) == 1:
            self._arrived.set()
        return not self._over

    async def take(self) -> Happening:
        """Return the next event, in order.

        For a single reader. Cancelling it loses no event.
        """
        await self._arrived.until(lambda: bool(self._events))
        return self._events.popleft()

    def on_transcript(self, text: str, *, final: bool) -> None:
        """Set the words so far; ``final`` if they are complete."""
        self.words, self.understood = text, final
        self._tell_words()
        if final:
            self._heard.set()

    def tell_words(
        self, told: Callable[[str, bool], None], *, passes_on: bool = True
    ) -> None:
        """Call ``told`` with the words, and whether they are final, from now on.

        Words that are already known are reported at once, unless they were reported
        before to a caller that ``passes_on`` what it is told. Words are also reported
        after the turn is over.
        """
        self._on_words, self._passes_on = told, passes_on
        if self.words and self._passed_on != (self.words, self.understood):
            self._tell_words()

    def _tell_words(self) -> None:
        if self._on_words is not None:
            if self._passes_on:
                self._passed_on = self.words, self.understood
            self._on_words(self.words, self.understood)

    async def wait_understood(self) -> None:
        """Wait, without a limit of its own, until the words are final."""
        await self._heard.wait()

    def end(self) -> tuple[Happening, ...]:
        """End the interaction; return the events that were not taken."""
        self._over = True
        left = tuple(self._events)
        self._events.clear()
        return left
