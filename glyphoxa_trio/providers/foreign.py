"""A model's link that somebody else wrote, kept from holding a turn.

It may shield itself from cancellation, in its stream or while it is hung up on. So it
runs as a flight of the runtime's: the turn hears it through a channel that holds
nothing, and leaves it when it likes. Requests that do not stop are counted, and beyond
a bound the link is asked no more until they have.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import Flights
from glyphoxa_trio.errors import TooManyFlights

from .llm import LLM, ErrorKind, LLMError, LLMEvent, LLMRequest

FAREWELL: Final = 1.0  # seconds to be hung up on in good order


@attrs.define(eq=False)
class Foreign:
    """An `LLM` around another one.

    Args:
      flights: over a nursery that outlives the turns.
    """

    _llm: LLM
    _flights: Flights

    @property
    def label(self) -> str:
        return self._llm.label

    @asynccontextmanager
    async def stream(
        self, request: LLMRequest
    ) -> AsyncGenerator[AsyncIterator[LLMEvent]]:
        """As `LLM.stream`. Leaving takes a second at most, and no time if cancelled.

        Raises:
          LLMError: `OVERLOADED`, if earlier requests do not stop.
        """
        send, receive = trio.open_memory_channel[LLMEvent](0)
        heard = _Heard(receive)
        try:
            flight = self._flights.launch(self.label, self._hear, request, heard, send)
        except TooManyFlights as error:
            raise LLMError(ErrorKind.OVERLOADED, str(error)) from None
        flight.board()
        try:
            yield heard
            heard.leave()
            with trio.move_on_after(FAREWELL):
                await flight.settled()
        finally:
            heard.leave()
            flight.leave()

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

    def __aiter__(self) -> _Heard:
        return self

    async def __anext__(self) -> LLMEvent:
        try:
            return await self._receive.receive()
        except trio.EndOfChannel:
            if self.error is not None:
                raise self.error from None
            raise StopAsyncIteration from None

    def leave(self) -> None:
        """Nothing more is heard; what is below is left in good order."""
        self.hearing.cancel("the turn has left it")
        self._receive.close()
