"""The utterances that run, by WebSocket or HTTP, so that the service stops in order."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import attrs

import trio

from glyphoxa_trio.actors import Signal

from .refusal import Refused


class ServiceState(StrEnum):
    """The answer of `GET /readyz`; only ``ready`` has status 200."""

    READY = "ready"
    STOPPING = "stopping"


@attrs.define(eq=False)
class Utterances:
    """Counts the utterances that run, and admits no more once the service stops."""

    running: int = attrs.field(default=0, init=False)
    _stopping: bool = attrs.field(default=False, init=False)
    _changed: Signal = attrs.field(factory=Signal, init=False)

    @property
    def state(self) -> ServiceState:
        """Ready, until no more are admitted."""
        return ServiceState.STOPPING if self._stopping else ServiceState.READY

    def begin(self) -> Callable[[], None]:
        """Count an utterance; return what is called once when it is over.

        Raises:
          Refused: the service stops.
        """
        if self._stopping:
            raise Refused("busy", "the service stops")
        self.running += 1
        return self._end

    def _end(self) -> None:
        self.running -= 1
        self._changed.set()

    async def drain(self, within: float) -> bool:
        """Admit no more, and wait until none runs; return False if some still do."""
        self._stopping = True
        with trio.move_on_after(within):
            await self._changed.until(lambda: not self.running)
        return not self.running
