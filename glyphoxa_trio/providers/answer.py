"""One streamed answer: its payloads as events, read when the caller asks for them."""

from __future__ import annotations

import json
import uuid
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

import trio

from glyphoxa_trio.secret import Secret

from .body import NO_STREAM, hang_up
from .body import Payloads as Sent
from .failures import error_in, status_error, stream_error
from .llm import ErrorKind, LLMError, LLMEvent, Usage, Waiting, Working
from .payloads import Payloads

if TYPE_CHECKING:
    import httpx2

_TOO_DEEP: Final = "a chunk is nested too deeply"
KEEP_ALIVE_GRACE: Final = 0.05  # seconds for a finished answer to end its body


def random_id() -> str:
    """Return a random id for a tool call."""
    return f"call_{uuid.uuid4().hex}"


@attrs.define(eq=False, kw_only=True)
class ResponseAssembler(ABC):
    """The builder of one response's events: `feed` it payloads, then `finish` it.

    No I/O.

    Args:
      model: the model's name, for `Usage`.
      label: the model's label, for what it wants back; by default its name.
      secret: removed from the server's words that are quoted.
      new_id: makes the ids that the server did not send.
    """

    model: str = ""
    label: str = ""
    secret: Secret | None = None
    new_id: Callable[[], str] = random_id
    _payloads: Payloads = attrs.field(init=False)
    _reason: str | None = attrs.field(default=None, init=False)  # why the model stopped
    _usage: Usage | None = attrs.field(default=None, init=False)
    _over: bool = attrs.field(default=False, init=False)
    # True once it has a part of the answer.
    begun: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._payloads = Payloads(self.secret)

    @property
    def writer(self) -> str:
        """The model to which what it wants back is sent."""
        return self.label or self.model

    @property
    def over(self) -> bool:
        """True if `Finished` is among the events that were returned."""
        return self._over

    def whole(self, text: str) -> list[str] | None:
        """Return the payloads of a whole answer that came instead of a stream.

        Returns None if the text is not an answer.
        """
        return None

    def rescued(self, text: str) -> list[str] | None:
        """Return the payloads of the calls in an answer that its server could not read.

        Some refuse it as an error that quotes what the model wrote. Returns None if
        there is none, or it is not sure what it says.
        """
        return None

    def read(self, text: str, event: str) -> list[LLMEvent] | None:
        """Return the events of a payload, whatever it is. See `feed`.

        Args:
          text: the payload.
          event: its name in the stream.

        Raises:
          LLMError: see `feed`.
        """
        given: list[str] | None = None
        if event == NO_STREAM:
            given = self.whole(text)
            if given is None:
                raise status_error(200, {}, text, self.secret)
        try:
            if event == "error":
                raise stream_error(_error_of(text), self.secret)
            if given is None:
                return self.feed(text)
        except RecursionError:
            raise self._payloads.malformed(_TOO_DEEP) from None
        except LLMError:
            given = self.rescued(text)
            if given is None:
                raise
        return [event for payload in given for event in self.feed(payload) or ()]

    @abstractmethod
    def feed(self, data: str) -> list[LLMEvent] | None:
        """Return the events of one SSE data payload.

        An empty list means that the model is working, None that it has not started.
        Payloads after the last one are ignored.

        Raises:
          LLMError: if the payload is an error, breaks the protocol, or exceeds a limit.
            The assembler cannot be used afterwards.
        """

    def finish(self) -> list[LLMEvent]:
        """Return the events that are left at the end of the stream.

        Raises:
          LLMError: `INTERRUPTED`, if the server has not said that this is the end.
        """
        if self._over:
            return []
        if self._reason is None:
            raise LLMError(
                ErrorKind.INTERRUPTED,
                "the server closed the stream before the end of the answer",
            )
        try:
            return self._end()
        except RecursionError:
            raise self._payloads.malformed(_TOO_DEEP) from None

    @abstractmethod
    def _end(self) -> list[LLMEvent]:
        """Return the calls and `Finished`. The answer is `over` from here on."""


def _error_of(text: str) -> object:
    """Return the error in a payload that is one."""
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return error_in(payload) or payload


Opened = tuple["httpx2.Response", Sent]
"""A response, and its payloads."""

Again = Callable[[bool], Awaitable[Opened]]
Refused = Callable[[str, LLMError], Awaitable[Opened | None]]


@attrs.define(eq=False)
class AnswerEvents:
    """The events of one answer, read as the caller asks for them.

    Args:
      response: the response, closed with this.
      payloads: its payloads.
      assembler: turns payloads into events.
      translating: a context that converts the client's errors to `LLMError`.
      again: sends the request once more, if the stream was empty; its argument says
        whether the stream ended properly.
      streams: called when the stream has its first payload.
      refused: sends the request once more, if the first payload of the stream refuses
        it, and that can be mended; else returns None.
    """

    _response: httpx2.Response
    _payloads: Sent
    _assembler: ResponseAssembler
    _translating: Callable[[], AbstractContextManager[None]]
    _again: Again | None = None
    _streams: Callable[[], None] = lambda: None
    _refused: Refused | None = None
    _retry: Callable[[], Awaitable[Opened]] | None = attrs.field(
        default=None, init=False
    )
    _ready: deque[LLMEvent] = attrs.field(factory=deque, init=False)
    _ended: bool = attrs.field(default=False, init=False)

    def __aiter__(self) -> AnswerEvents:
        return self

    async def __anext__(self) -> LLMEvent:
        # What has arrived is returned at once; a stream without a pause must let other
        # tasks run, and notice that it was cancelled.
        await trio.lowlevel.checkpoint()
        retry, self._retry = self._retry, None
        if retry is not None:
            await hang_up(self._response, self._payloads)
            self._response, self._payloads = await retry()
            self._ended = False
        while not self._ready:
            if self._ended:
                raise StopAsyncIteration
            self._ended = True  # stays so if the next lines raise
            # Still set only if nothing has arrived.
            again, self._again = self._again, None
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
                try:
                    events = self._assembler.read(payload.data, payload.event)
                except LLMError as error:
                    await self._ask_again(payload.data, error)
                    continue
                if self._assembler.begun:
                    self._refused = None
                self._ended = self._assembler.over
                if events is None:
                    await trio.lowlevel.checkpoint()
                    continue
                if not events and not self._ended:
                    return Working()
                self._ready.extend(events)
        return self._ready.popleft()

    async def _ask_again(self, text: str, error: LLMError) -> None:
        """Send the request once more after an error in the stream, if it was refused.

        Raises:
          LLMError: ``error``, if it was not, or nothing can be mended.
        """
        if self._refused is None:
            raise error
        await hang_up(self._response, self._payloads)
        opened = await self._refused(text, error)
        if opened is None:
            raise error
        self._response, self._payloads = opened
        self._ended = False

    async def aclose(self) -> None:
        """Close the answer; after the last event the connection is kept if possible."""
        if self._assembler.over:
            with trio.move_on_after(KEEP_ALIVE_GRACE), suppress(LLMError):
                with self._translating():
                    async for _ in self._payloads:
                        pass
        await hang_up(self._response, self._payloads)
