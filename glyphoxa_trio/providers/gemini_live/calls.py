"""The calls of one socket: which were made, and which may still be answered.

A call arrives as a ``toolCall``, as a part of the model's turn, or as both; with an id,
or on some servers without. It is one call in all cases, and gets one id here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final

import attrs

from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.s2s import LinkClosed
from glyphoxa_trio.tools.outcome import ToolCall

MAX_KNOWN: Final = 1024  # calls; beyond, the oldest that are settled are forgotten


class CallState(StrEnum):
    """The state of a call."""

    OWED = "owed"
    ANSWERED = "answered"
    CANCELLED = "cancelled"


@attrs.define(eq=False)
class Made:
    """A call that was made.

    ``given_id`` is the server's id, None as long as it gave none. ``in_turn`` is True
    until the turn in which the call came is over.
    """

    call: ToolCall
    given_id: str | None
    standing: CallState = CallState.OWED
    in_turn: bool = True


@attrs.define(eq=False)
class Calls:
    """All calls by our id. ``new_id`` makes the ids that the server did not give."""

    new_id: Callable[[], str]
    _made: OrderedDict[str, Made] = attrs.field(factory=OrderedDict, init=False)

    def take(self, given_id: str | None, name: str, arguments: str) -> ToolCall | None:
        """Record a call that has arrived; return None if it came before, in any form.

        Raises:
          LinkClosed: if more than `MAX_KNOWN` calls are waiting for an answer.
        """
        made = self._made.values()
        if given_id is not None and any(one.given_id == given_id for one in made):
            return None
        for one in made:
            same = (one.call.name, one.call.arguments) == (name, arguments)
            if same and one.in_turn and (one.given_id is None) != (given_id is None):
                one.given_id = one.given_id or given_id
                return None
        call = ToolCall(given_id or self.new_id(), name, arguments)
        self._made[call.id] = Made(call, given_id)
        self._forget()
        return call

    def answerable(self, call_id: str) -> Made | None:
        """Return the call to be answered; None if the server no longer wants an answer.

        Raises:
          ValueError: if the call is not of this socket, or is answered already.
        """
        made = self._made.get(call_id)
        if made is None:
            raise ValueError(f"no call {call_id!r} was made on this socket")
        if made.standing is CallState.ANSWERED:
            raise ValueError(f"call {call_id!r} is answered already")
        return made if made.standing is CallState.OWED else None

    def answered(self, made: Made) -> None:
        """Note that the answer is being sent; there is no second one."""
        made.standing = CallState.ANSWERED

    def cancel(self, given_ids: Iterable[str]) -> tuple[str, ...]:
        """Cancel calls by the server's ids.

        Returns our ids of the calls that had no answer.
        """
        ids = frozenset(given_ids)
        if not ids:
            return ()
        found = [m for m in self._made.values() if m.given_id in ids and _is_owed(m)]
        for made in found:
            made.standing = CallState.CANCELLED
        return tuple(made.call.id for made in found)

    def end_turn(self) -> None:
        """Note that calls from now on belong to another turn."""
        for made in self._made.values():
            made.in_turn = False

    @property
    def owed(self) -> bool:
        """True if a call waits for an answer."""
        return any(_is_owed(made) for made in self._made.values())

    def _forget(self) -> None:
        """Forget the oldest calls that are settled, if there are too many."""
        while len(self._made) > MAX_KNOWN:
            oldest = next((m for m in self._made.values() if not _is_owed(m)), None)
            if oldest is None:
                detail = f"more than {MAX_KNOWN} calls wait for an answer"
                raise LinkClosed(ErrorKind.MALFORMED, detail, retryable=True)
            del self._made[oldest.call.id]


def _is_owed(made: Made) -> bool:
    return made.standing is CallState.OWED
