"""Speculation: a turn that begins on a partial transcript, before its words are final.

    hearing "what is the price"      WAITING    the words must not change for `after`
      the model is asked, and its
      harmless calls are started     RUNNING    until the final words arrive
    say "What is the price?"         RESERVED   for the turn that begins
      the turn asks the same         CLAIMED    as the first round of the turn

In each of these states the speculation can end: other words came, no final words came
in time, or the turn would ask the model something else (another tier, other tools, a
longer conversation). Then the request is closed and the calls are cancelled, as by an
interruption. Nothing of the speculation has been heard, remembered or shown. A session
has one speculation at a time, and none while a turn runs (`speculator`).

The whole request of the turn is compared with the speculated one. So every change, such
as a reload, an elevation or a late result, is noticed without a list of possible
changes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType

import attrs

import trio

from glyphoxa_trio.actors import Stream
from glyphoxa_trio.host import Caller, SpeculativeCalls, ToolHost
from glyphoxa_trio.npc.conversation import Exchange
from glyphoxa_trio.npc.events import SpeculationEnd
from glyphoxa_trio.npc.prompting import request_of, visible_tools
from glyphoxa_trio.npc.words import words_of
from glyphoxa_trio.providers.llm import (
    LLM,
    CallReady,
    Finished,
    LLMEvent,
    LLMRequest,
    Usage,
)
from glyphoxa_trio.tools.tier import Tier

from .memory import NpcMemory
from .settings import SessionSettings

# How many events of the model wait for the final words; then the model waits.
_BUFFER = 1024
# How long an interrupted turn waits for its model's request to close. Seconds.
_FAREWELL = 1.0


@attrs.frozen(kw_only=True, eq=False)
class SpeculatedRequest:
    """The request that the turn would make, and the calls started for it."""

    tier: Tier
    llm: LLM
    request: LLMRequest
    ahead: SpeculativeCalls


def foresee(
    settings: SessionSettings,
    memory: NpcMemory,
    llm: LLM,
    host: ToolHost,
    *,
    tier: Tier,
    exchange: Exchange,
    epoch: int = 0,
) -> SpeculatedRequest:
    """Return the first round of the turn that would begin now, without side effects.

    ``epoch``: of the session's claim; 0 without one.
    """
    grant, config = settings.grant, settings.turn
    budget = host.settings.limits.ceiling(tier)
    view = visible_tools(
        host,
        memory.shelf.copy(),
        tier=tier,
        grant=grant,
        remaining=budget,
        threshold=settings.defer_threshold,
        permitted=lambda left: host.tools(
            tier, grant=grant, remaining=left, whose=memory.session.whose
        ),
    )
    caller = Caller(
        grant=grant,
        tier=tier,
        npc=memory.id.npc,
        session=memory.id.session.id,
        tenant=memory.id.session.tenant,
        epoch=epoch,
        max_calls=config.max_calls,
        showing=view,
    )
    expires = settings.speculation.expires
    until = trio.current_time() + expires + config.model_total + budget
    return SpeculatedRequest(
        tier=tier,
        llm=llm,
        request=request_of(memory.conversation, exchange, view, last=False),
        ahead=host.ahead(caller, remaining=budget, until=until),
    )


@attrs.define(eq=False)
class Speculation:
    """One speculation."""

    text: str
    speaker: str
    _tell: Callable[[Speculation, SpeculationEnd, str], None]
    words: tuple[str, ...] = attrs.field(init=False)
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    turn: int = attrs.field(default=0, init=False)
    end: SpeculationEnd | None = attrs.field(default=None, init=False)
    foreseen: SpeculatedRequest | None = attrs.field(default=None, init=False)
    began: float = attrs.field(default=0.0, init=False)
    model_ended: float | None = attrs.field(default=None, init=False)
    claimed: float | None = attrs.field(default=None, init=False)
    usage: Usage | None = attrs.field(default=None, init=False)
    _events: Stream[LLMEvent] = attrs.field(
        factory=lambda: Stream(capacity=_BUFFER), init=False
    )
    _model: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _hung_up: trio.Event = attrs.field(factory=trio.Event, init=False)
    _error: Exception | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.words = words_of(self.text)

    @property
    def head_start(self) -> float:
        """Seconds from the beginning to the claim; 0 if it was not claimed."""
        return 0.0 if self.claimed is None else self.claimed - self.began

    @property
    def ahead(self) -> SpeculativeCalls | None:
        """The speculative calls, for the turn that has claimed them."""
        if self.claimed is None or self.foreseen is None:
            return None
        return self.foreseen.ahead

    async def play(self, foreseen: SpeculatedRequest) -> None:
        """Send the request, start its calls, and wait until cancelled."""
        self.foreseen, self.began = foreseen, trio.current_time()
        try:
            with self._model:
                async with foreseen.llm.stream(foreseen.request) as events:
                    async for event in events:
                        # Once claimed, the turn makes the calls itself.
                        if isinstance(event, CallReady) and self.claimed is None:
                            foreseen.ahead.begin(event.call)
                        if isinstance(event, Finished):
                            self.usage = event.usage
                        await self._events.send(event)
                        if isinstance(event, Finished):
                            break
        except Exception as error:  # border: a model's link is foreign code
            self._error = error
            if self.claimed is None:  # otherwise the turn gets the error
                self.finish(SpeculationEnd.FAILED, type(error).__name__)
        finally:
            self.model_ended = trio.current_time()
            self._events.end()
            self._hung_up.set()
        await trio.sleep_forever()

    def reserve(self, turn: int) -> bool:
        """Reserve the speculation for the turn whose words it has.

        Only that turn ends it now. Return False if it is over already.
        """
        if self.foreseen is None or self.end is not None:
            return False
        self.turn = turn
        self.scope.deadline = float("inf")
        return True

    def claim(self, request: LLMRequest, *, tier: Tier) -> Replay | None:
        """Return the claimed round, or None if the turn makes another request."""
        if self.end is not None or self.foreseen is None or not self.turn:
            return None
        if tier is not self.foreseen.tier:
            why = "another tier"
        elif not same_request(request, self.foreseen.request):
            why = "another prompt or other tools"
        else:
            self.claimed = trio.current_time()
            return Replay(self)
        self.finish(SpeculationEnd.DISCARDED, why)
        return None

    def over(self) -> None:
        """End it: the turn needs no more of it."""
        if self.claimed is None:
            self.finish(SpeculationEnd.DISCARDED, "its turn ended before using it")
        else:
            self.finish(SpeculationEnd.ADOPTED)

    def finish(self, end: SpeculationEnd, reason: str = "") -> None:
        """Close the request, cancel untaken calls, and report the end once."""
        if self.end is None:
            self.end = end
            self.scope.cancel(reason or str(end))
            if self.foreseen is not None:
                self.foreseen.ahead.close()
                self._tell(self, end, reason)


@attrs.define(eq=False)
class Replay(AbstractAsyncContextManager[AsyncIterator[LLMEvent]]):
    """A claimed round, which looks like a request that was just made.

    Events that have arrived are delivered at once, the others as they come. Leaving the
    block closes the request, and raises the model's error, if any.
    """

    _of: Speculation

    async def __aenter__(self) -> AsyncIterator[LLMEvent]:
        return self._of._events

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if kind is None:  # read to its end: closing counts as the model's time, too
                await self._of._hung_up.wait()
        finally:
            self._of._model.cancel("its turn closed the request")
            # As with the turn's own request, the turn does not end before it is closed.
            with trio.move_on_after(_FAREWELL, shield=True):
                await self._of._hung_up.wait()
        if kind is None and self._of._error is not None:
            raise self._of._error


def same_request(now: LLMRequest, then: LLMRequest) -> bool:
    """Return True if a turn makes the request that was speculated.

    The last messages, which hold the words, are not compared: that was done when the
    words became final.
    """
    return (
        now.tools_forbidden == then.tools_forbidden
        and now.messages[:-1] == then.messages[:-1]
        and now.tools == then.tools
    )
