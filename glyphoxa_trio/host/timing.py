"""What of a call's time was its tool's: from its sending, without the loop's delays."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, cast

import attrs

from glyphoxa_trio.actors import LoopLag, OwnTime
from glyphoxa_trio.tools.definition import CallContext, Handler

# A cut call that lost more than this share of its time to others says nothing.
_TOO_MUCH = 0.1


@attrs.define(eq=False)
class Timing:
    """The clock of one call. Times in seconds.

    Waiting for a server that starts, for a thread, or for a seat is no latency of the
    tool, and neither is time in which the loop did not run. Time in which the loop
    stood still in the tool's own code is.
    """

    _lag: LoopLag
    departed: float = attrs.field(init=False)
    _stalled_before: float = attrs.field(init=False)  # of the loop, until it departed
    _sent: float | None = attrs.field(default=None, init=False)
    _stalled: float = attrs.field(default=0.0, init=False)  # until it was sent
    _own: OwnTime[Any] | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.departed, self._stalled_before = self._lag.clock(), self._lag.total()

    @property
    def was_sent(self) -> bool:
        return self._sent is not None

    def sent(self) -> None:
        """The tool begins now; also in a thread, and once more for a repetition."""
        self._sent, self._stalled = self._lag.clock(), self._lag.total()

    async def run(
        self, handler: Handler, arguments: Mapping[str, Any], context: CallContext
    ) -> Any:
        """Run a handler of this process: it begins when its task does."""
        self.sent()
        result = cast("Awaitable[Any]", handler(arguments, context))
        self._own = OwnTime(result, self._lag.clock)
        return await self._own

    def kept_waiting(self) -> float:
        """How long the loop did not run it since it departed; its own code apart."""
        return self._excused(self._stalled_before)

    def _excused(self, before: float) -> float:
        own = 0.0 if self._own is None else self._own.seconds
        return max(0.0, self._lag.total() - before - own)

    def ended(self) -> float | None:
        """What the tool took until now; None if the call was never sent."""
        if self._sent is None:
            return None
        excused = self._excused(self._stalled)
        return max(0.0, self._lag.clock() - self._sent - excused)

    def had(self) -> float | None:
        """All the time since it departed; None if the loop, or waiting to be sent,
        took more of that than counts for nothing."""
        had = self._lag.clock() - self.departed
        if self._sent is None or self.kept_waiting() > _TOO_MUCH * had:
            return None
        return had if self._sent - self.departed <= _TOO_MUCH * had else None

    def cut(self) -> float | None:
        """What it had until now, not having ended; None if that says nothing of it."""
        if self._sent is None:
            return None
        now, excused = self._lag.clock(), self.kept_waiting()
        had = now - self.departed
        if excused > _TOO_MUCH * had:
            return None
        if self._sent - self.departed <= _TOO_MUCH * had:
            return max(0.0, had - excused)  # the next one would have no more
        return max(0.0, now - self._sent - self._excused(self._stalled))
