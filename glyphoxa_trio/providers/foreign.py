"""A model's link that somebody else wrote, kept from holding a turn.

It may shield itself from cancellation, in its stream or while it is hung up on. So it
runs as a flight of the runtime's: the turn hears it through a channel that holds
nothing, and leaves it when it likes. Requests that do not stop are counted, and beyond
a bound the link is asked no more until they have.
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

FAREWELL: Final = 1.0  # seconds to be hung up on in good order
MOMENT: Final = 0.02  # seconds for that if the turn is interrupted
MOST_LEFT: Final = 8  # requests that do not stop; then the next one is refused


@attrs.define(eq=False)
class Foreign:
    """An `LLM` around another one.

    Args:
      nursery: where its requests run. It outlives the turns.
      warn: told of the first one that does not stop.
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
        """The link itself."""
        return self._llm

    @asynccontextmanager
    async def stream(
        self, request: LLMRequest
    ) -> AsyncGenerator[AsyncIterator[LLMEvent]]:
        """As `LLM.stream`. Leaving takes a second at most, and a moment if cancelled.

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
        """See that a request stops which nobody hears any more."""
        with trio.move_on_after(FAREWELL) as farewell:
            await flight.settled()
        if farewell.cancelled_caught:
            self._complain()

    def _complain(self) -> None:
        if not self._warned:
            self._warned = True
            self._warn(
                f"{self.label}: a request to it does not stop when it is hung up on"
                f" (does its link shield itself?); with {MOST_LEFT} of them the next"
                " one is refused"
            )

    async def _hear(
        self,
        request: LLMRequest,
        heard: _Heard,
        send: trio.MemorySendChannel[LLMEvent],
    ) -> None:
        try:
            async with self._llm.stream(request) as events:
                try:
                    with heard.hearing:
                        async for event in events:
                            await send.send(event)
                        heard.over = True
                except trio.BrokenResourceError:
                    pass  # nobody hears it any more
                except Exception as error:
                    heard.error = error
                finally:
                    send.close()
        except Exception as error:  # on entering; or it was hung up on, and complains
            heard.error = heard.error or error
        finally:
            send.close()


@attrs.define(eq=False)
class _Heard:
    """The events of one request, on the turn's side."""

    _receive: trio.MemoryReceiveChannel[LLMEvent]
    hearing: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    error: Exception | None = attrs.field(default=None, init=False)
    over: bool = attrs.field(default=False, init=False)  # the link has no more events
    flight: SharedTask[None] = attrs.field(init=False)

    def __aiter__(self) -> _Heard:
        return self

    async def __anext__(self) -> LLMEvent:
        try:
            return await self._receive.receive()
        except trio.EndOfChannel:
            if self.over:
                raise StopAsyncIteration from None
            if self.error is None:  # it raised what is no `Exception`
                result = await self.flight.settled()
                text = f"its link failed: {getattr(result, 'error', None)}"
                self.error = LLMError(ErrorKind.MALFORMED, text)
            raise self.error from None

    def leave(self) -> None:
        """Nothing more is heard; what is below is left in good order."""
        self.hearing.cancel("the turn has left it")
        self._receive.close()
