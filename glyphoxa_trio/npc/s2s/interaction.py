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
from glyphoxa_trio.providers.s2s import Event, LinkClosed
from glyphoxa_trio.tools.outcome import ToolCall

# Ten minutes of speech in pieces of 40 ms; nobody has to hear more at once.
_CAPACITY: Final = 15_000


@attrs.frozen
class Calls:
    """These may be begun now, in one fan-out. Each call comes once."""

    response: str
    calls: tuple[ToolCall, ...]


@attrs.frozen
class Answered:
    """The calls of a fan-out have ended: the model is awaited again."""


@attrs.frozen
class BargedIn:
    """Somebody speaks: what the model says is not wanted any more."""


@attrs.frozen
class LinkLost:
    """The socket is gone, and another is being opened."""

    error: LinkClosed


@attrs.frozen
class LinkBack:
    """Another socket is open. ``resumed``: the model remembers what was before it."""

    resumed: bool


@attrs.frozen
class LinkGone:
    """No socket can be had. Nothing follows."""

    error: LinkClosed


@attrs.frozen
class Overflowed:
    """The listener fell too far behind. Nothing follows."""


Happening = (
    Event | Calls | Answered | BargedIn | LinkLost | LinkBack | LinkGone | Overflowed
)


@attrs.define(eq=False)
class Interaction:
    """One utterance's share of the events.

    ``spoken``: it was said, not written; then ``words`` are what the server has
    understood so far. ``automatic``: and it is answered without being asked to.
    """

    spoken: bool = False
    automatic: bool = True
    words: str = ""
    understood: bool = False  # the words are final
    _on_words: Callable[[str], None] | None = attrs.field(default=None, init=False)
    _events: deque[Happening] = attrs.field(factory=deque, init=False)
    _arrived: Signal = attrs.field(factory=Signal, init=False)
    _heard: trio.Event = attrs.field(factory=trio.Event, init=False)
    _over: bool = attrs.field(default=False, init=False)

    def put(self, event: Happening) -> None:
        """Append, unless it is over."""
        if self._over:
            return
        if len(self._events) >= _CAPACITY:
            self._events.clear()
            self._events.append(Overflowed())
            self._over = True
        else:
            self._events.append(event)
        self._arrived.set()

    async def take(self) -> Happening:
        """The next one, in order. Cancelled, it loses none. One reader."""
        await self._arrived.until(lambda: bool(self._events))
        return self._events.popleft()

    def understand(self, text: str, *, final: bool) -> None:
        """The words so far, or all of them."""
        self.words, self.understood = text, final
        if self._on_words is not None:
            self._on_words(text)
        if final:
            self._heard.set()

    def tell_words(self, told: Callable[[str], None]) -> None:
        """Tell ``told`` of them, also when the turn is long over."""
        self._on_words = told

    async def wait_understood(self) -> None:
        """Return once the words are final. Has no end of its own."""
        await self._heard.wait()

    def end(self) -> list[Happening]:
        """Nobody takes any more; returns what was not taken."""
        self._over = True
        left = list(self._events)
        self._events.clear()
        return left

    @property
    def over(self) -> bool:
        return self._over
