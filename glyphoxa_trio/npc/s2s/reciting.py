"""Words that a model says as they stand, beside its conversation: whoever listens."""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs

from glyphoxa_trio.actors import Signal
from glyphoxa_trio.providers.s2s import RecitalEnded, Recited

LONGEST: Final = 8 * 1024 * 1024  # bytes of one: three minutes at 24 kHz


@attrs.define(eq=False)
class Recital:
    """The audio of one, as it comes; one reader. ``error``: why it is not whole;
    ``text``: what was said, once it is over."""

    name: str
    text: str = attrs.field(default="", init=False)
    error: str = attrs.field(default="", init=False)
    _pieces: deque[bytes] = attrs.field(factory=deque, init=False)
    _bytes: int = attrs.field(default=0, init=False)
    _over: bool = attrs.field(default=False, init=False)
    _news: Signal = attrs.field(factory=Signal, init=False)

    def put(self, pcm: bytes) -> None:
        self._bytes += len(pcm)
        if self._bytes > LONGEST:
            self.end("it is too long")
        else:
            self._pieces.append(pcm)
        self._news.set()

    def end(self, error: str = "", text: str = "") -> None:
        """Nothing follows. The first end counts."""
        if not self._over:
            self._over, self.error, self.text = True, error, text
        self._news.set()

    async def take(self) -> bytes | None:
        """The next piece; None after the last one. Has no end of its own."""
        await self._news.until(lambda: bool(self._pieces) or self._over)
        return self._pieces.popleft() if self._pieces else None


@attrs.define(eq=False)
class Recitals:
    """Those that are going on, by name. A socket that is lost ends all of them."""

    _running: dict[str, Recital] = attrs.field(factory=dict, init=False)
    _count: int = attrs.field(default=0, init=False)

    @property
    def busy(self) -> bool:
        return bool(self._running)

    def begin(self) -> Recital:
        self._count += 1
        recital = Recital(str(self._count))
        self._running[recital.name] = recital
        return recital

    def leave(self, recital: Recital) -> bool:
        """Nobody listens any more; whether it was still going on."""
        return self._running.pop(recital.name, None) is not None

    def take(self, event: Recited | RecitalEnded) -> None:
        """What the socket says of one of them; nothing if nobody listens."""
        recital = self._running.get(event.name)
        if recital is None:
            return
        if isinstance(event, Recited):
            recital.put(event.pcm)
        else:
            del self._running[event.name]
            recital.end(event.error, event.text)

    def lose(self, why: str) -> None:
        """The socket is gone."""
        running, self._running = self._running, {}
        for recital in running.values():
            recital.end(why)
