"""One answer that comes as a stream: its payloads as events, read when asked for."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

import trio

from glyphoxa_trio.secret import Secret

from .body import Payloads as Sent
from .llm import ErrorKind, LLMError, LLMEvent, Usage, Waiting, Working
from .payloads import Payloads

if TYPE_CHECKING:
    import httpx2

KEEP_ALIVE_GRACE: Final = 0.05  # seconds a finished answer has to end its body


def random_id() -> str:
    return f"call_{uuid.uuid4().hex}"


@attrs.define(eq=False, kw_only=True)
class ResponseAssembler(ABC):
    """One response: `feed` it each payload of the stream, and `finish` it. No I/O.

    Args:
      model: whose response it is, for `Usage`.
      secret: removed from whatever of the server's words is quoted.
      new_id: makes the ids that the server failed to make.
    """

    model: str = ""
    secret: Secret | None = None
    new_id: Callable[[], str] = random_id
    _payloads: Payloads = attrs.field(init=False)
    _reason: str | None = attrs.field(default=None, init=False)  # why it ended
    _usage: Usage | None = attrs.field(default=None, init=False)
    _over: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._payloads = Payloads(self.secret)

    @property
    def over(self) -> bool:
        """Whether `Finished` is among the events given out."""
        return self._over

    def whole(self, text: str) -> list[str] | None:
        """The payloads of an answer that came in one piece though a stream was asked
        for; None if it is no answer."""
        return None

    @abstractmethod
    def feed(self, data: str) -> list[LLMEvent] | None:
        """The events of one SSE data payload. After the last, payloads are ignored.

        No events say that the model is at work, None that it is not heard of yet.

        Raises:
          LLMError: if the payload is an error, is not the protocol, or breaks a
            bound. The assembler is of no use afterwards.
        """

    def finish(self) -> list[LLMEvent]:
        """The events that are left at the end of the stream.

        Raises:
          LLMError: `INTERRUPTED`, if the server has not said that this is the end.
        """
        if self._over:
            return []
        if self._reason is None:
            raise LLMError(
                ErrorKind.INTERRUPTED, "the server ended the answer before its end"
            )
        return self._end()

    @abstractmethod
    def _end(self) -> list[LLMEvent]:
        """What comes at the end: calls, and `Finished`. `over` from here on."""


Again = Callable[[bool], Awaitable[tuple["httpx2.Response", Sent]]]


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
class AnswerEvents:
    """The events of one answer, read as they are asked for.

    Args:
      again: asks once more, if there is nothing at all in the stream; it is told
        whether the stream had an end.
      streams: called when there is something in it.
    """

    _response: httpx2.Response
    _payloads: Sent
    _assembler: ResponseAssembler
    _translating: Callable[[], AbstractContextManager[None]]
    _again: Again | None = None
    _streams: Callable[[], None] = lambda: None
    _retry: Callable[[], Awaitable[tuple[httpx2.Response, Sent]]] | None = attrs.field(
        default=None, init=False
    )
    _ready: deque[LLMEvent] = attrs.field(factory=deque, init=False)
    _ended: bool = attrs.field(default=False, init=False)

    def __aiter__(self) -> AnswerEvents:
        return self

    async def __anext__(self) -> LLMEvent:
        # What is there already comes at once; whoever streams without end must let
        # the others run, and hear that its time is over.
        await trio.lowlevel.checkpoint()
        retry, self._retry = self._retry, None
        if retry is not None:
            await hang_up(self._response, self._payloads)
            self._response, self._payloads = await retry()
            self._ended = False
        while not self._ready:
            if self._ended:
                raise StopAsyncIteration
            self._ended = True  # unless this goes well
            again, self._again = self._again, None  # nothing came yet
            ended = True
            try:
                with self._translating():
                    payload = await anext(self._payloads, None)
            except LLMError as error:
                if again is None or error.kind is not ErrorKind.INTERRUPTED:
                    raise
                payload, ended = None, False
            if payload is None and again is not None:
                self._retry = partial(again, ended)
                return Waiting(whole=True)
            if again is not None:
                self._streams()
            if payload is None:
                self._ready.extend(self._assembler.finish())
            else:
                events = self._assembler.feed(payload.data)
                self._ended = self._assembler.over
                if events is None:
                    await trio.lowlevel.checkpoint()
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
