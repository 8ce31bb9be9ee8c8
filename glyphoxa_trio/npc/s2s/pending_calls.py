"""The calls that are owed an answer, and how each answer may be given: pure state.

Each call id is answered at most once, and only as the wire permits: not after its
server has cancelled the call, and not as a result on a socket that did not ask for it.

A call that takes longer than its turn is *left*: it continues, and stays owed if the
wire allows that. Otherwise the model is answered that the call continues, and the
outcome is told as text later.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

import attrs

from glyphoxa_trio.providers.s2s import Schedule
from glyphoxa_trio.tools.outcome import ToolCall

# After this many other calls, a repeated id means another call.
_REMEMBERED: Final = 1024
# An internal error this soon after a result was probably caused by it. Seconds.
_BLAMED: Final = 2.0
_SHORTENED: Final = 300  # characters of a result that is repeated
# The model is not asked to speak of an outcome that is older than this. Seconds.
_NEWS: Final = 30.0


class Way(StrEnum):
    """The ways of delivering the answer to a call."""

    RESULT = "result"
    TEXT = "text"  # its socket is lost: as a line of text
    NOTHING = "nothing"  # cancelled by the server, or answered before


@attrs.frozen(kw_only=True)
class LateOutput:
    """The outcome of a call that was left running; ``output`` is as in `SendResult`.

    ``at``: when the outcome was known, in seconds on trio's clock. ``matters``: the
    call has side effects, so the model must be told even if its server accepts no
    answer any more.
    """

    call: ToolCall
    output: str
    at: float
    is_error: bool = False
    schedule: Schedule = Schedule.WHEN_IDLE
    matters: bool = False

    def is_spoken_of(self, now: float) -> bool:
        """Return True if the model should be asked to speak of the outcome."""
        return self.schedule is not Schedule.SILENT and now - self.at <= _NEWS


@attrs.define(eq=False)
class PendingCalls:
    """The calls of one conversation, over all its sockets, of which one is open.

    ``owed``: the calls that are not answered yet, oldest first. ``left``: the calls
    that continue though no turn waits for them. ``late``: their outcomes that are not
    told yet.
    """

    owed: dict[str, ToolCall] = attrs.field(factory=dict, init=False)
    left: dict[str, ToolCall] = attrs.field(factory=dict, init=False)
    late: list[LateOutput] = attrs.field(factory=list, init=False)
    # answered with "continues"
    _put_off: set[str] = attrs.field(factory=set, init=False)
    _lost: set[str] = attrs.field(factory=set, init=False)  # their socket is lost
    _known: OrderedDict[str, None] = attrs.field(factory=OrderedDict, init=False)
    _half: list[ToolCall] = attrs.field(factory=list, init=False)
    _answers: Counter[Way] = attrs.field(factory=Counter, init=False)
    _told: deque[tuple[float, str, str]] = attrs.field(
        factory=lambda: deque(maxlen=16), init=False
    )

    def take(self, call: ToolCall) -> bool:
        """Add a call; return False if it is known already, as one call in two forms."""
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
        """Add one call of a message.

        Return nothing while ``more`` calls of the message follow, and all of them with
        the last one.
        """
        if self.take(call):
            self._half.append(call)
        if more:
            return ()
        calls, self._half = tuple(self._half), []
        return calls

    def knows(self, id_: str) -> bool:
        """Return True if a call with this id was received."""
        return id_ in self._known

    def is_owed_here(self, id_: str) -> bool:
        """Return True if the open socket asked for this call and is owed its answer."""
        return id_ in self.owed and id_ not in self._lost

    def leave(self, call: ToolCall) -> None:
        """Record that a call continues and that no turn waits for it."""
        self.left[call.id] = call

    def finish(self, late: LateOutput) -> None:
        """Add the outcome of a call that was left."""
        self.late.append(late)

    def take_late(self) -> list[LateOutput]:
        """Return the outcomes that were not told yet, and forget them."""
        late, self.late = self.late, []
        return late

    def put_off(self, call: ToolCall) -> None:
        """Record that a call was answered with "it continues"."""
        self._put_off.add(call.id)

    def settle_late(self, late: LateOutput, now: float) -> Way:
        """Settle a call that was left; return how its outcome is delivered."""
        id_ = late.call.id
        self.left.pop(id_, None)
        if id_ in self._put_off:
            self._put_off.discard(id_)
            self._answers[Way.TEXT] += 1
            return Way.TEXT
        way = self.settle(late.call, late.output, now)
        return Way.TEXT if way is Way.NOTHING and late.matters else way

    def cancel(self, ids: Iterable[str]) -> tuple[str, ...]:
        """Drop calls that need no answer; return the ids of the owed ones."""
        found = tuple(id_ for id_ in ids if self.owed.pop(id_, None) is not None)
        self._lost.difference_update(found)
        return found

    def lose_socket(self) -> None:
        """Record that the socket was lost.

        What is owed will be told as text; the calls of an incomplete message are
        dropped.
        """
        self.cancel([call.id for call in self._half])
        self._half.clear()
        self._lost.update(self.owed)

    def settle(self, call: ToolCall, output: str, now: float) -> Way:
        """Settle a call, and return how its answer is to be delivered.

        For a call that was settled before this is `Way.NOTHING`.
        """
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
        """Return name and shortened result of the most recent answers.

        A server that breaks down now may have been broken by one of them. Each is
        returned once.
        """
        told, self._told = self._told, deque(maxlen=16)
        return [
            (name, output[:_SHORTENED])
            for at, name, output in told
            if now - at < _BLAMED
        ]

    @property
    def answers(self) -> Mapping[Way, int]:
        """The number of answers by the way of their delivery."""
        return dict(self._answers)
