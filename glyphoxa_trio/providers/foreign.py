"""A wrapper for a custom model's code, so that it cannot block a turn.

Custom code may shield itself from cancellation, in its stream or while it is being
closed. So a request runs as a task of the runtime: the turn receives events through a
channel without a buffer, and leaves at any time. Requests that do not stop are counted,
and beyond a limit the model is not asked until some have stopped.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import SharedTask, SharedTasks
from glyphoxa_trio.errors import TooManyFlights

from .llm import LLM, ErrorKind, LLMError, LLMEvent, LLMRequest

FAREWELL: Final = 1.0  # seconds for a request to end in order
MOMENT: Final = 0.02  # seconds for the same, if the turn is interrupted
MOST_LEFT: Final = 8  # requests that do not stop; beyond that the next one is refused


@attrs.define(eq=False)
class Foreign:
    """An `LLM` around another one.

    Args:
      llm: the custom model.
      nursery: runs its requests. It must outlive the turns.
      warn: called about the first request that does not stop.
    """

    _llm: LLM
    _nursery: trio.Nursery
    _warn: Callable[[str], None] = lambda _: None
    _warned: bool = attrs.field(default=False, init=False)
    _flights: SharedTasks = attrs.field(init=False)

    @_flights.default
    def _over_the_nursery(self) -> SharedTasks:
        return SharedTasks(self._nursery, lingering_limit=MOST_LEFT, grace=FAREWELL)

    @property
    def label(self) -> str:
        return self._llm.label

    @property
    def spoken_by(self) -> LLM:
        """The wrapped model itself."""
        return self._llm

    @asynccontextmanager
    async def stream(
        self, request: LLMRequest
    ) -> AsyncGenerator[AsyncIterator[LLMEvent]]:
        """Open a round as `LLM.stream`.

        Leaving takes at most 1 s, and 20 ms if cancelled.

        Raises:
          LLMError: `OVERLOADED`, if earlier requests do not stop.
        """
        send, receive = trio.open_memory_channel[LLMEvent](0)
        heard = _Heard(receive)
        try:
            flight = self._flights.start(self.label, self._hear, request, heard, send)
        except TooManyFlights:
            raise LLMError(
                ErrorKind.OVERLOADED,
                f"{MOST_LEFT} earlier requests to {self.label} do not stop",
            ) from None
        heard.flight = flight
        flight.add_waiter()
        moment = MOMENT
        try:
            yield heard
            heard.leave()
            moment = 0
            await self._watch(flight)
        finally:
            heard.leave()
            if flight.release():
                self._nursery.start_soon(self._watch, flight)
                with trio.move_on_after(moment, shield=True):
                    await flight.settled()

    async def _watch(self, flight: SharedTask[None]) -> None:
        """Warn if a request that the turn has left does not stop."""
        with trio.move_on_after(FAREWELL) as farewell:
            await flight.settled()
        if farewell.cancelled_caught:
            self._complain()

    def _complain(self) -> None:
        if not self._warned:
            self._warned = True
            self._warn(
                f"{self.label}: a request to it does not stop when it is cancelled"
                f" (does its code shield itself?); after {MOST_LEFT} of them the next"
                " one is refused"
            )

    async def _hear(
        self,
        request: LLMRequest,
        heard: _Heard,
        send: trio.MemorySendChannel[LLMEvent],
    ) -> None:
        """Run the request, and send its events to the turn."""
        try:
            async with self._llm.stream(request) as events:
                try:
                    with heard.hearing:
                        async for event in events:
                            await send.send(event)
                        heard.over = True
                except trio.BrokenResourceError:
                    pass  # the turn has left
                except Exception as error:
                    heard.error = error
                finally:
                    send.close()
        except Exception as error:  # an error on entering, or while closing
            heard.error = heard.error or error
        finally:
            send.close()


@attrs.define(eq=False)
class _Heard:
    """The events of one request, as the turn receives them."""

    _receive: trio.MemoryReceiveChannel[LLMEvent]
    hearing: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    error: Exception | None = attrs.field(default=None, init=False)
    over: bool = attrs.field(default=False, init=False)  # the model has no more events
    flight: SharedTask[None] = attrs.field(init=False)

    def __aiter__(self) -> _Heard:
        return self

    async def __anext__(self) -> LLMEvent:
        try:
            return await self._receive.receive()
        except trio.EndOfChannel:
            if self.over:
                raise StopAsyncIteration from None
            # The code raised something that is not an `Exception`.
            if self.error is None:
                result = await self.flight.settled()
                text = f"its code failed: {getattr(result, 'error', None)}"
                self.error = LLMError(ErrorKind.MALFORMED, text)
            raise self.error from None

    def leave(self) -> None:
        """Receive no more events; the request is closed in order."""
        self.hearing.cancel("the turn has ended the request")
        self._receive.close()
