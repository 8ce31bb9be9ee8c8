"""The fast model of a sentence cascade: how an answer begins, no more (D23c)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Final

import attrs

import trio

from glyphoxa_trio.npc.clock import Clock
from glyphoxa_trio.npc.model_timeout import FAREWELL, ModelTimeout
from glyphoxa_trio.npc.sentences import AnswerOpening
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
)
from glyphoxa_trio.tools.breaker import Breaker

# After so many failures in a row turns begin without it, for so many seconds: each of
# them may have cost a turn its limit.
_FAILURES: Final = 3
_PAUSE: Final = 30.0


@attrs.frozen
class Opened:
    """How an answer begins. ``whole``: the model ended by itself, and had no more."""

    text: str
    whole: bool = False


@attrs.define(eq=False)
class FastModel:
    """The model that opens for one NPC. One that fails again and again has a pause."""

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
        """The beginning of an answer; None if it had no words, has its pause, or the
        request would have to wait in line.

        Returns with the piece that decides it; the model is hung up on meanwhile, also
        if this is cancelled.

        Args:
          within: seconds, on the turn's model ``clock``.
          nursery: where it is hung up on. It outlives the turn.
          told: of whatever it says that is no text.

        Raises:
          LLMError: it failed, or took longer.
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
        if asked.waits:  # which says nothing of the model
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
    """One request, up to the piece that decides the opener."""

    _llm: LLM
    _request: LLMRequest
    _told: Callable[[LLMEvent], None]
    found: Opened | None = attrs.field(default=None, init=False)
    error: Exception | None = attrs.field(default=None, init=False)
    waits: bool = attrs.field(default=False, init=False)
    decided: trio.Event = attrs.field(factory=trio.Event, init=False)
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)

    async def run(self) -> None:
        try:
            with self.scope:
                async with self._llm.stream(self._request) as events:
                    try:
                        self._settle(found=await self._hear(events))
                    except Exception as error:  # before it is hung up on
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
                case Waiting(why=why):
                    if why:  # an opener that comes late opens nothing
                        self.waits = True
                        return None
                case Finished(reason=reason):
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
    """What a model has said that stopped before its first sentence was over."""
    text = beginning.end()
    if text is None or reason is FinishReason.FILTERED:
        return None
    return Opened(text, whole=reason is FinishReason.STOP)
