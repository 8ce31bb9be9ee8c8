"""Which calls are owed an answer, and how it may be given: pure state.

Each call id is answered at most once, and never against the wire: not when its server
has cancelled it, and not as a result on a socket that did not ask for it.

A call that takes longer than its turn is *left*: it goes on, and stays owed if the wire
lets it. Else it is answered that it goes on, and what comes of it is told as text.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

import attrs

from glyphoxa_trio.providers.s2s import Schedule
from glyphoxa_trio.tools.outcome import ToolCall

# A server that repeats an id after so many others means another call.
_REMEMBERED: Final = 1024
# An internal error so soon after a result was probably about it. Seconds.
_BLAMED: Final = 2.0
_SHORTENED: Final = 300  # characters of a result that is told again
# What is told later than this is not spoken of any more. Seconds.
_NEWS: Final = 30.0


class Way(StrEnum):
    """How a call's answer is to be delivered."""

    RESULT = "result"
    TEXT = "text"  # its socket is gone: told as something that was said
    NOTHING = "nothing"  # cancelled by the server, or answered before


@attrs.frozen(kw_only=True)
class LateOutput:
    """What a call came to that was left: ``output``, as in `SendResult`.

    ``at`` is when it was there; ``matters``: it has changed something, so the model
    is to know of it though nobody may answer its call any more.
    """

    call: ToolCall
    output: str
    at: float
    is_error: bool = False
    schedule: Schedule = Schedule.WHEN_IDLE
    matters: bool = False

    def is_spoken_of(self, now: float) -> bool:
        """Whether the model is to say something to it."""
        return self.schedule is not Schedule.SILENT and now - self.at <= _NEWS


@attrs.define(eq=False)
class PendingCalls:
    """The calls of one conversation, over all its sockets, of which one is open.

    ``owed``: what is not answered yet, oldest first; ``left``: what goes on though no
    turn waits for it; ``late``: what came of such calls and is not told yet.
    """

    owed: dict[str, ToolCall] = attrs.field(factory=dict, init=False)
    left: dict[str, ToolCall] = attrs.field(factory=dict, init=False)
    late: list[LateOutput] = attrs.field(factory=list, init=False)
    _put_off: set[str] = attrs.field(factory=set, init=False)  # answered: it goes on
    _lost: set[str] = attrs.field(factory=set, init=False)  # owed to none any more
    _known: OrderedDict[str, None] = attrs.field(factory=OrderedDict, init=False)
    _half: list[ToolCall] = attrs.field(factory=list, init=False)
    _answers: Counter[Way] = attrs.field(factory=Counter, init=False)
    _told: deque[tuple[float, str, str]] = attrs.field(
        factory=lambda: deque(maxlen=16), init=False
    )

    def take(self, call: ToolCall) -> bool:
        """A call has come in. False if it is known already: one call in two forms."""
        if call.id in self._known:
            return False
        self._known[call.id] = None
        while len(self._known) > _REMEMBERED:
            oldest = next(iter(self._known))
            if oldest in self.owed:
                self._known.move_to_end(oldest)
            else:
                del self._known[oldest]
        self.owed[call.id] = call
        return True

    def collect(self, call: ToolCall, *, more: bool) -> tuple[ToolCall, ...]:
        """A call of a message: all of them with the last one, nothing before."""
        if self.take(call):
            self._half.append(call)
        if more:
            return ()
        calls, self._half = tuple(self._half), []
        return calls

    def knows(self, id_: str) -> bool:
        """Whether such a call came in."""
        return id_ in self._known

    def is_owed_here(self, id_: str) -> bool:
        """Whether the socket that is open has asked for it, and is owed an answer."""
        return id_ in self.owed and id_ not in self._lost

    def leave(self, call: ToolCall) -> None:
        """It goes on, and no turn waits for it."""
        self.left[call.id] = call

    def finish(self, late: LateOutput) -> None:
        """What came of such a call is there."""
        self.late.append(late)

    def take_late(self) -> list[LateOutput]:
        """All of that, once."""
        late, self.late = self.late, []
        return late

    def put_off(self, call: ToolCall) -> None:
        """It was answered that it goes on."""
        self._put_off.add(call.id)

    def settle_late(self, late: LateOutput, now: float) -> Way:
        """What came of a call that was left: how is it to be told?"""
        id_ = late.call.id
        self.left.pop(id_, None)
        if id_ in self._put_off:
            self._put_off.discard(id_)
            self._answers[Way.TEXT] += 1
            return Way.TEXT
        way = self.settle(late.call, late.output, now)
        return Way.TEXT if way is Way.NOTHING and late.matters else way

    def cancel(self, ids: Iterable[str]) -> tuple[str, ...]:
        """Nobody wants an answer to these; returns those that were owed one."""
        found = tuple(id_ for id_ in ids if self.owed.pop(id_, None) is not None)
        self._lost.difference_update(found)
        return found

    def lose_socket(self) -> None:
        """What is owed is to be told as text; a half message is nothing."""
        self.cancel([call.id for call in self._half])
        self._half.clear()
        self._lost.update(self.owed)

    def settle(self, call: ToolCall, output: str, now: float) -> Way:
        """The answer is there: how is it to be given? Asked again: not at all."""
        if self.owed.pop(call.id, None) is None:
            way = Way.NOTHING
        elif call.id in self._lost:
            self._lost.discard(call.id)
            way = Way.TEXT
        else:
            way = Way.RESULT
            self._told.append((now, call.name, output))
        self._answers[way] += 1
        return way

    def suspects(self, now: float) -> list[tuple[str, str]]:
        """Name and shortened result of what a server that breaks now was given last."""
        told, self._told = self._told, deque(maxlen=16)
        return [
            (name, output[:_SHORTENED])
            for at, name, output in told
            if now - at < _BLAMED
        ]

    @property
    def answers(self) -> Mapping[Way, int]:
        """How many were given, by how."""
        return dict(self._answers)
