"""What a speech-to-speech model says to one utterance, as it comes.

Whoever reads the socket puts, the turn takes. What a model says faster than its
listener takes it waits here, within a bound.
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

# Ten minutes of speech in pieces of 40 ms; nobody has to hear more at once.
_CAPACITY: Final = 15_000


@attrs.define(eq=False)
class Interaction:
    """One utterance's share of the events.

    ``spoken``: it was said, not written; then ``words`` are what the server has
    understood so far. ``automatic``: and it is answered without being asked to.
    ``reports``: nobody has said anything, the model speaks of what calls came to.
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
        """Append; False if nobody takes it: it is over, or is now, having too much.

        Whoever barges in waits for nobody: what was said before, and not taken, is
        void. The calls in it are still owed an answer: `end` returns them.
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
        # Nobody waits while something is there.
        if self._over or len(self._events) == 1:
            self._arrived.set()
        return not self._over

    async def take(self) -> Happening:
        """The next one, in order. Cancelled, it loses none. One reader."""
        await self._arrived.until(lambda: bool(self._events))
        return self._events.popleft()

    def on_transcript(self, text: str, *, final: bool) -> None:
        """The words so far, or all of them."""
        self.words, self.understood = text, final
        self._tell_words()
        if final:
            self._heard.set()

    def tell_words(
        self, told: Callable[[str, bool], None], *, passes_on: bool = True
    ) -> None:
        """Tell ``told`` of them, and whether they are final, from now on; also when the
        turn is long over. Words that are already known are told at once, unless they
        were told before to a caller that ``passes_on`` what it is told."""
        self._on_words, self._passes_on = told, passes_on
        if self.words and self._passed_on != (self.words, self.understood):
            self._tell_words()

    def _tell_words(self) -> None:
        if self._on_words is not None:
            if self._passes_on:
                self._passed_on = self.words, self.understood
            self._on_words(self.words, self.understood)

    async def wait_understood(self) -> None:
        """Return once the words are final. Has no end of its own."""
        await self._heard.wait()

    def end(self) -> tuple[Happening, ...]:
        """Nobody takes any more; returns what was not taken."""
        self._over = True
        left = tuple(self._events)
        self._events.clear()
        return left
