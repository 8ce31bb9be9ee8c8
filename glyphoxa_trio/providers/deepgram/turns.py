"""The utterances of one microphone, over all sockets. Pure state.

    socket 1   StartOfTurn  Update  Update ✕
    socket 2                (the same audio again)  StartOfTurn  Update  EndOfTurn
    utterance  Began        Partial                              Partial Final

An utterance that is open when a socket breaks goes on with the first turn of the next
one. Every utterance ends once, whatever is lost, repeated or late.
"""

from __future__ import annotations

from typing import Final

import attrs

from glyphoxa_trio.providers.speech import (
    Began,
    NotUnderstood,
    Partial,
    Recognized,
    Sounding,
)
from glyphoxa_trio.providers.speech import Final as Said

from .wire import FluxTurnEvent, TurnInfo

# Seconds of audio after what was sent again, in which its words must have come.
_LATE: Final = 1.0
_NONE: Final = -1


@attrs.define(eq=False)
class FluxTurns:
    """The state of one microphone; ``number`` counts its utterances."""

    number: int = 0
    is_open: bool = False
    _text: str = ""
    _index: int = _NONE  # of the last turn of this socket
    _ended: bool = False  # that turn has
    _again: float = 0.0  # seconds of audio that this socket was sent again

    def hear(self, info: TurnInfo) -> list[Recognized]:
        """Return what a message means."""
        if info.index < self._index or (info.index == self._index and self._ended):
            return []
        found: list[Recognized] = []
        if self.is_open and _NONE < self._index < info.index:
            found.append(self._end(self._text))  # the message of its end is lost
        is_end = info.event is FluxTurnEvent.END
        if not (info.text or info.event is FluxTurnEvent.START or is_end):
            return [*found, *self._silence(info)]
        self._index, self._ended = info.index, is_end
        if not self.is_open:
            if is_end and not info.text:
                return found
            self.number += 1
            self.is_open, self._text = True, ""
            found.append(Began(self.number))
        if is_end:
            return [*found, self._end(info.text)]
        if info.text and info.text != self._text:
            self._text = info.text
            found.append(Partial(info.text))
        return found

    def sounding(self, info: TurnInfo) -> Sounding | None:
        """Return the speech of a message that was heard; None if it has none."""
        if not self.number or info.index != self._index:
            return None
        return Sounding(self.number, info.spoken, over=not self.is_open)

    def restart(self, again: float) -> None:
        """Begin a new socket, which was sent so many seconds of audio again."""
        self._index, self._ended, self._again = _NONE, False, again

    def fail(self, detail: str) -> list[Recognized]:
        """End the utterance that is open, because it cannot be understood."""
        if not self.is_open:
            return []
        self.is_open = False
        return [NotUnderstood(detail)]

    def _silence(self, info: TurnInfo) -> list[Recognized]:
        """Return the end of an utterance that is not there any more when heard again.

        Its words are those that were understood before.
        """
        lost = self.is_open and self._index == _NONE
        if lost and info.ends >= self._again + _LATE:
            return [self._end(self._text)]
        return []

    def _end(self, text: str) -> Said:
        self.is_open = False
        return Said(text)
