"""Which calls are owed an answer, and how it may be given: pure state.

Each call id is answered at most once, and never against the wire: not when its server
has cancelled it, and not as a result on a socket that did not ask for it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from enum import StrEnum

import attrs

from glyphoxa_trio.tools.outcome import ToolCall

# A server that repeats an id after so many others means another call.
_REMEMBERED = 1024


class Way(StrEnum):
    """How a call's answer is to be delivered."""

    RESULT = "result"
    TEXT = "text"  # its socket is gone: told as something that was said
    NOTHING = "nothing"  # cancelled by the server, or answered before


@attrs.frozen
class Owed:
    call: ToolCall
    socket: int


@attrs.define(eq=False)
class Ledger:
    """The calls of one conversation, over all its sockets (numbered from 1)."""

    _owed: dict[str, Owed] = attrs.field(factory=dict, init=False)
    _lost: set[str] = attrs.field(factory=set, init=False)
    _known: OrderedDict[str, None] = attrs.field(factory=OrderedDict, init=False)

    def take(self, call: ToolCall, socket: int) -> bool:
        """A call has come in. False if it is known already: one call in two forms."""
        if call.id in self._known:
            return False
        self._known[call.id] = None
        while len(self._known) > _REMEMBERED:
            oldest = next(iter(self._known))
            if oldest in self._owed:
                self._known.move_to_end(oldest)
            else:
                del self._known[oldest]
        self._owed[call.id] = Owed(call, socket)
        return True

    def cancelled(self, ids: Iterable[str]) -> tuple[ToolCall, ...]:
        """The server wants no answer to these; returns those that were owed one."""
        found = [self._owed.pop(id_) for id_ in ids if id_ in self._owed]
        self._lost -= {owed.call.id for owed in found}
        return tuple(owed.call for owed in found)

    def gone(self, socket: int) -> tuple[ToolCall, ...]:
        """That socket has closed; returns what it is owed, to be told as text."""
        lost = [owed.call for owed in self._owed.values() if owed.socket == socket]
        self._lost |= {call.id for call in lost}
        return tuple(lost)

    def settle(self, id_: str) -> Way:
        """The answer is there: how is it to be given? Asked again: not at all."""
        if self._owed.pop(id_, None) is None:
            return Way.NOTHING
        if id_ in self._lost:
            self._lost.discard(id_)
            return Way.TEXT
        return Way.RESULT

    def owes(self, id_: str) -> bool:
        return id_ in self._owed

    @property
    def owed(self) -> tuple[ToolCall, ...]:
        """What is not answered yet, oldest first."""
        return tuple(owed.call for owed in self._owed.values())
