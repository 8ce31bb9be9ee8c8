"""Words that a model says literally, beside its conversation, for one listener each."""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs

from glyphoxa_trio.actors import Signal
from glyphoxa_trio.providers.s2s import RecitalEnded, Recited

LONGEST: Final = 8 * 1024 * 1024  # bytes of one: three minutes at 24 kHz


@attrs.define(eq=False)
class Recital:
    """The audio of one recital, as it arrives; for a single reader.

    ``error``: why it is incomplete. ``text``: what was said, once it is over.
    """

    name: str
    text: str = attrs.field(default="", init=False)
    error: str = attrs.field(default="", init=False)
    _pieces: deque[bytes] = attrs.field(factory=deque, init=False)
    _bytes: int = attrs.field(default=0, init=False)
    _over: bool = attrs.field(default=False, init=False)
    _news: Signal = attrs.field(factory=Signal, init=False)

    def put(self, pcm: bytes) -> None:
        """Add a piece of audio; ends the recital if it gets too long."""
        self._bytes += len(pcm)
        if self._bytes > LONGEST:
            self.end("its audio is too long")
        else:
            self._pieces.append(pcm)
        self._news.set()

    def end(self, error: str = "", text: str = "") -> None:
        """End it. Only the first end counts."""
        if not self._over:
            self._over, self.error, self.text = True, error, text
        self._news.set()

    async def take(self) -> bytes | None:
        """Return the next piece, or None after the last. Has no time limit."""
        await self._news.until(lambda: bool(self._pieces) or self._over)
        return self._pieces.popleft() if self._pieces else None


@attrs.define(eq=False)
class Recitals:
    """The recitals in progress, by name. The loss of a socket ends all of them."""

    _running: dict[str, Recital] = attrs.field(factory=dict, init=False)
    _count: int = attrs.field(default=0, init=False)

    @property
    def busy(self) -> bool:
        """True while a recital is in progress."""
        return bool(self._running)

    def begin(self) -> Recital:
        """Begin a recital and return it."""
        self._count += 1
        recital = Recital(str(self._count))
        self._running[recital.name] = recital
        return recital

    def leave(self, recital: Recital) -> bool:
        """End listening to a recital; return True if it was still in progress."""
        return self._running.pop(recital.name, None) is not None

    def take(self, event: Recited | RecitalEnded) -> None:
        """Handle an event of the socket; ignored if its recital has no listener."""
        recital = self._running.get(event.name)
        if recital is None:
            return
        if isinstance(event, Recited):
            recital.put(event.pcm)
        else:
            del self._running[event.name]
            recital.end(event.error, event.text)

    def lose(self, why: str) -> None:
        """End all recitals, because the socket is lost."""
        running, self._running = self._running, {}
        for recital in running.values():
            recital.end(why)
