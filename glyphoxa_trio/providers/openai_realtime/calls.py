"""The calls that the model made on this socket, and their answers: one for each.

A result may be there before the response that made the call is over; the vendor accepts
it only afterwards, so it waits here.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import attrs

from glyphoxa_trio.providers.s2s import SendResult

MAX_ANSWERED: Final = 4096  # answered calls that are remembered


@attrs.define(eq=False)
class Calls:
    """The calls of one socket."""

    # The response that made each call; None once that is over.
    _open: dict[str, str | None] = attrs.field(factory=dict, init=False)
    _waiting: list[tuple[str, SendResult]] = attrs.field(factory=list, init=False)
    _answered: OrderedDict[str, None] = attrs.field(factory=OrderedDict, init=False)

    def made(self, call_id: str, response: str) -> bool:
        """Record a call of the model; return False if it was recorded before.

        Some servers send the same call in several forms.
        """
        if call_id in self._open or call_id in self._answered:
            return False
        self._open[call_id] = response
        return True

    def answer(self, result: SendResult) -> SendResult | None:
        """Return the result if it may be sent now; None if it waits for `over`.

        Raises:
          ValueError: for a call that this socket did not make, or that has its answer.
        """
        if result.call_id in self._answered:
            raise ValueError(f"call {result.call_id!r} is answered already")
        if result.call_id not in self._open:
            raise ValueError(f"call {result.call_id!r} was not made on this socket")
        response = self._open.pop(result.call_id)
        self._answered[result.call_id] = None
        if len(self._answered) > MAX_ANSWERED:
            self._answered.popitem(last=False)
        if response is None:
            return result
        self._waiting.append((response, result))
        return None

    def over(self, response: str) -> list[SendResult]:
        """Return the results that waited for the end of this response."""
        for call_id, made_by in self._open.items():
            if made_by == response:
                self._open[call_id] = None
        ready = [result for made_by, result in self._waiting if made_by == response]
        self._waiting = [w for w in self._waiting if w[0] != response]
        return ready
