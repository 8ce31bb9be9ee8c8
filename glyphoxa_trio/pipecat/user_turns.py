"""The words of users, until it is the turn of each utterance to be answered."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

import attrs

WAITING: Final = 8


@attrs.define(eq=False)
class UserTurns:
    """Words that are gathered by speaker in a user turn, and utterances that wait.

    None is handed out while a user speaks, or before the one before is `answered`.
    ``in_turn``: a user turn goes on, or its transcriptions are still to come.
    """

    in_turn: bool = attrs.field(default=False, init=False)
    _speaking: bool = attrs.field(default=False, init=False)
    _busy: bool = attrs.field(default=False, init=False)
    _words: dict[str, list[str]] = attrs.field(factory=dict, init=False)
    _waiting: deque[tuple[str, str]] = attrs.field(factory=deque, init=False)
    _ready: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    _idle: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)

    def begin(self) -> None:
        """A user turn begins."""
        self.in_turn = self._speaking = True
        self._update()

    def stop(self) -> None:
        """The user turn is over, and its last transcriptions come just now."""
        self._speaking = False
        self._update()

    def understand(self, who: str, text: str) -> None:
        """Gather words of a speaker."""
        self._words.setdefault(who, []).append(text.strip())

    def so_far(self, who: str) -> str:
        """Return the words of a speaker in this user turn."""
        return " ".join(filter(None, self._words.get(who, ())))

    def end(self) -> bool:
        """Hand out what was gathered; return False if some of it is lost, since too
        many wait."""
        self.in_turn = self._speaking
        kept = True
        for who in self._words:
            if text := self.so_far(who):
                kept = self.put(text, who) and kept
        self._words.clear()
        return kept

    def put(self, text: str, who: str) -> bool:
        """Add an utterance; return False if too many wait."""
        if len(self._waiting) >= WAITING:
            return False
        self._waiting.append((text, who))
        self._update()
        return True

    async def take(self) -> tuple[str, str]:
        """Return the next utterance and its speaker, when it may be answered."""
        await self._ready.wait()
        said = self._waiting.popleft()
        self._busy = True
        self._update()
        return said

    def answered(self) -> None:
        """The utterance that was taken last is answered."""
        self._busy = False
        self._update()

    async def wait_answered(self) -> None:
        """Return once nothing waits and nothing is answered."""
        self._update()
        await self._idle.wait()

    def _update(self) -> None:
        _set(self._ready, bool(self._waiting) and not (self._speaking or self._busy))
        _set(self._idle, not (self._waiting or self._busy))


def _set(event: asyncio.Event, value: bool) -> None:
    if value:
        event.set()
    else:
        event.clear()
