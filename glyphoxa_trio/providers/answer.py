"""The events of one answer that comes as a stream, read as they are asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Final, Protocol

import attrs

import trio

from .llm import LLMError, LLMEvent, Working

if TYPE_CHECKING:
    import httpx2

KEEP_ALIVE_GRACE: Final = 0.05  # seconds a finished answer has to end its body


class Assembler(Protocol):
    """Makes events of what one answer's stream carries; free of I/O."""

    @property
    def over(self) -> bool:
        """Whether `Finished` is among the events given out."""
        ...

    def feed(self, data: str) -> list[LLMEvent] | None:
        """The events of one payload; none say that the model is at work, None that
        it is not heard of yet. Raises `LLMError`.
        """
        ...

    def finish(self) -> list[LLMEvent]:
        """The events that are left at the end of the stream. Raises `LLMError`."""
        ...


async def hang_up(response: httpx2.Response, content: AsyncIterator[object]) -> None:
    """Close the connection, unless the answer has been read to its end.

    ``content`` stands on a stack of the client's generators, which do not close
    one another. Asked once more, over a closed connection, each fails and ends,
    instead of being found by the garbage collector.
    """
    import httpx2

    with suppress(httpx2.HTTPError, httpx2.StreamError):
        await response.aclose()
    with suppress(httpx2.HTTPError, httpx2.StreamError):
        async for _ in content:
            pass


@attrs.define(eq=False)
class Events:
    """The events of one answer, read as they are asked for."""

    _response: httpx2.Response
    _payloads: AsyncIterator[httpx2.ServerSentEvent]
    _assembler: Assembler
    _translating: Callable[[], AbstractContextManager[None]]
    _ready: deque[LLMEvent] = attrs.field(factory=deque, init=False)
    _ended: bool = attrs.field(default=False, init=False)

    def __aiter__(self) -> Events:
        return self

    async def __anext__(self) -> LLMEvent:
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._ready:
            if self._ended:
                raise StopAsyncIteration
            self._ended = True  # unless this goes well
            with self._translating():
                payload = await anext(self._payloads, None)
            if payload is None:
                self._ready.extend(self._assembler.finish())
            else:
                events = self._assembler.feed(payload.data)
                self._ended = self._assembler.over
                if events is None:
                    continue
                if not events and not self._ended:
                    return Working()
                self._ready.extend(events)
        return self._ready.popleft()

    async def aclose(self) -> None:
        """Hang up. After the last event the connection may be kept for the next."""
        if self._assembler.over:
            with trio.move_on_after(KEEP_ALIVE_GRACE), suppress(LLMError):
                with self._translating():
                    async for _ in self._payloads:
                        pass
        await hang_up(self._response, self._payloads)
