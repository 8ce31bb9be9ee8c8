"""The one place that decides whether a request to a model is sent once more.

A request is sent again if a refusal has taught something (`asking`), and if the server
could not take it and may do so in a moment: it has reset the connection or has closed
it without a word, has not accepted it in time, or is overloaded. That is tried again at
once, and then after a pause. Nothing is sent again after the first byte of an answer.
"""

from __future__ import annotations

from typing import Final

import attrs

import trio

from .client_errors import may_pass
from .llm import LLMError

MOST: Final = 5  # of one round, each of which has taught something
PAUSE: Final = 0.5  # seconds, unless the server names a time
LONGEST: Final = 3.0  # seconds; a server that asks for a longer pause is not waited for
SHORTEST: Final = 0.05

_OVERLOADED: Final = (502, 503, 529)


@attrs.define(eq=False)
class RequestRetries:
    """The attempts of one request.

    Args:
      tools: the number of its tools, each of which may be refused by itself.
      patient: True waits once if the server says that it will have time in a moment,
        because no other model can be asked.
    """

    _tools: int
    _patient: bool
    _learned: int = attrs.field(default=0, init=False)
    _lost: int = attrs.field(default=0, init=False)

    def learn(self) -> bool:
        """Return whether one more refusal may be learned from."""
        self._learned += 1
        return self._learned < MOST + self._tools

    async def again(self, failure: LLMError, status: int | None) -> bool:
        """Return whether to send the request again, after a pause where one is needed.

        A pause that would last longer than the caller waits is not made. If cancelled,
        nothing is sent.

        Args:
          failure: why there is no answer.
          status: the status that the server gave, if it gave one.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        asked = failure.retry_after
        if status in _OVERLOADED or may_pass(failure.__cause__):
            self._lost += 1
            if self._lost == 1:
                return True
            return self._lost == 2 and await _paused(PAUSE if asked is None else asked)
        patient, self._patient = self._patient, False
        return patient and asked is not None and await _paused(asked)


async def _paused(pause: float) -> bool:
    """Wait, if that is soon over; otherwise return False."""
    if pause > LONGEST:
        return False
    if trio.current_time() + pause >= trio.current_effective_deadline():
        return False
    await trio.sleep(max(pause, SHORTEST))
    return True
