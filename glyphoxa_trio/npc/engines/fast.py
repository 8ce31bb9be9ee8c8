"""The fast model of a sentence cascade, which only begins an answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Final

import attrs

import trio

from glyphoxa_trio.npc.clock import Clock
from glyphoxa_trio.npc.model_timeout import FAREWELL, ModelTimeout
from glyphoxa_trio.npc.sentences import AnswerOpening
from glyphoxa_trio.npc.spans import chat_finished, chat_span
from glyphoxa_trio.providers.llm import (
    LLM,
    ErrorKind,
    Finished,
    FinishReason,
    LLMError,
    LLMEvent,
    LLMRequest,
    TextChunk,
    Waiting,
    Working,
)
from glyphoxa_trio.tools.breaker import Breaker
from glyphoxa_trio.tracing import NO_SPAN, Span

# After this many failures in a row, turns begin without the model for this many
# seconds, because each failure may cost a turn its whole limit.
_FAILURES: Final = 3
_PAUSE: Final = 30.0


@attrs.frozen
class Opened:
    """The beginning of an answer. ``whole``: the model ended by itself after it."""

    text: str
    whole: bool = False


@attrs.define(eq=False)
class FastModel:
    """The fast model of one NPC. After repeated failures it pauses."""

    llm: LLM
    _breaker: Breaker = attrs.field(
        factory=lambda: Breaker(threshold=_FAILURES, pause=_PAUSE), init=False
    )

    async def open(
        self,
        request: LLMRequest,
        *,
        within: float,
        clock: Clock,
        nursery: trio.Nursery,
        told: Callable[[LLMEvent], None],
    ) -> Opened | None:
        """Return the beginning of an answer.

        Returns None if the model had no words, is pausing, or the request would have to
        wait for a rate limit. Returns as soon as the opener is decided; the model's
        request is closed in the background, also if this call is cancelled.

        Args:
          request: the request to the model.
          within: the limit in seconds, on the turn's model ``clock``.
          clock: counts the time of the turn's models.
          nursery: closes the request; it outlives the turn.
          told: called with every event of the model that is no text.

        Raises:
          LLMError: the model failed, or took longer.
        """
        ticket = self._breaker.begin(trio.current_time())
        if ticket is None:
            return None
        asked, patience = _OpenerRequest(self.llm, request, told), ModelTimeout(clock)
        try:
            with patience.scope:
                patience.wait_for(ErrorKind.FIRST_TOKEN, within)
                nursery.start_soon(asked.run)
                await asked.decided.wait()
        except BaseException:
            self._breaker.release(ticket, trio.current_time())
            raise
        finally:
            patience.pause()
            farewell = FAREWELL if asked.decided.is_set() else 0.0
            asked.scope.deadline = trio.current_time() + farewell
        if asked.waits:  # no fault of the model
            self._breaker.release(ticket, trio.current_time())
            return None
        well = asked.decided.is_set() and asked.error is None
        self._breaker.record(ticket, ok=well, now=trio.current_time())
        if well:
            return asked.found
        match asked.error:
            case None:
                text = f"no opener after {patience.limit:g} s"
                raise LLMError(patience.kind, text)
            case LLMError() as error:
                raise error
            case error:
                raise LLMError(ErrorKind.MALFORMED, type(error).__name__)


@attrs.define(eq=False)
class _OpenerRequest:
    """One request, until its opener is decided."""

    _llm: LLM
    _request: LLMRequest
    _told: Callable[[LLMEvent], None]
    found: Opened | None = attrs.field(default=None, init=False)
    error: Exception | None = attrs.field(default=None, init=False)
    waits: bool = attrs.field(default=False, init=False)
    decided: trio.Event = attrs.field(factory=trio.Event, init=False)
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _span: Span = attrs.field(default=NO_SPAN, init=False)

    async def run(self) -> None:
        try:
            with chat_span(self._llm, round=0) as self._span, self.scope:
                async with self._llm.stream(self._request) as events:
                    try:
                        self._settle(found=await self._hear(events))
                    except Exception as error:  # decided before the request is closed
                        self._settle(error=error)
        except Exception as error:  # border: a model's link is foreign code
            self._settle(error=error)

    async def _hear(self, events: AsyncIterator[LLMEvent]) -> Opened | None:
        beginning = AnswerOpening()
        async for event in events:
            match event:
                case TextChunk(text):
                    if found := beginning.feed(text):
                        return Opened(found)
                case Working(unsaid=True):
                    beginning = AnswerOpening()
                case Waiting(why=why):
                    if why:  # an opener that has to wait is useless
                        self.waits = True
                        return None
                case Finished(reason=reason):
                    chat_finished(self._span, event)
                    self._told(event)
                    return _ended(beginning, reason)
                case _:
                    self._told(event)
        return None

    def _settle(
        self, found: Opened | None = None, error: Exception | None = None
    ) -> None:
        if not self.decided.is_set():
            self.found, self.error = found, error
            self.decided.set()


def _ended(beginning: AnswerOpening, reason: FinishReason) -> Opened | None:
    """Return the opener of a model that stopped within its first sentence."""
    text = beginning.end()
    if text is None or reason is FinishReason.FILTERED:
        return None
    return Opened(text, whole=reason is FinishReason.STOP)
