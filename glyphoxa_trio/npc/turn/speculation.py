"""Beginning a turn on a partial transcript, before its words are certain (D2, D12).

    hearing "what is the price"      WAITING    stays the same for `after`
      the model is asked, its        RUNNING    until the words are said
      harmless calls are begun
    say "What is the price?"         RESERVED   for the turn that begins
      the turn asks the same         CLAIMED    its first round is this one

From each of them it goes to its end: other words came, nobody said them in time, or
the turn would ask the model something else (another tier, other tools, a longer
conversation). Then the model is hung up on and the calls are cancelled, as by an
interruption. Nothing of it was heard, remembered or shown to anybody. A session has
one at a time, and none while a turn runs (`speculator`).

What a turn asks is compared whole, so whatever makes it another one, a reload, an
elevation, a late result, is noticed without being listed here.
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

# Events of a model that wait for the words to be said; beyond it the model waits.
_BUFFER = 1024
# How long an interrupted turn waits for its model to be hung up on. Seconds.
_FAREWELL = 1.0


@attrs.frozen(kw_only=True, eq=False)
class SpeculatedRequest:
    """What the turn would ask its model, and where its calls may be begun."""

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
) -> SpeculatedRequest:
    """The first round of the turn that would begin now; it leaves no trace."""
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
    """One of them."""

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
        """Seconds from its beginning to the claim; 0 if nobody claimed it."""
        return 0.0 if self.claimed is None else self.claimed - self.began

    @property
    def ahead(self) -> SpeculativeCalls | None:
        """The calls that were begun, for the turn that has claimed them."""
        if self.claimed is None or self.foreseen is None:
            return None
        return self.foreseen.ahead

    async def play(self, foreseen: SpeculatedRequest) -> None:
        """Ask the model and begin what it calls, then stay until it is over."""
        self.foreseen, self.began = foreseen, trio.current_time()
        try:
            with self._model:
                async with foreseen.llm.stream(foreseen.request) as events:
                    async for event in events:
                        # From the claim on the turn makes the calls itself.
                        if isinstance(event, CallReady) and self.claimed is None:
                            foreseen.ahead.begin(event.call)
                        if isinstance(event, Finished):
                            self.usage = event.usage
                        await self._events.send(event)
                        if isinstance(event, Finished):
                            break
        except Exception as error:  # border: a model's link is foreign code
            self._error = error
            if self.claimed is None:  # else it is the turn's
                self.finish(SpeculationEnd.FAILED, type(error).__name__)
        finally:
            self.model_ended = trio.current_time()
            self._events.end()
            self._hung_up.set()
        await trio.sleep_forever()

    def reserve(self, turn: int) -> bool:
        """Its words were said, and nothing else ends it now; False if it is over."""
        if self.foreseen is None or self.end is not None:
            return False
        self.turn = turn
        self.scope.deadline = float("inf")
        return True

    def claim(self, request: LLMRequest, *, tier: Tier) -> Replay | None:
        """Be the first round of the turn that asks this; None if it is another."""
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
        """The turn has had of it what it wanted."""
        if self.claimed is None:
            self.finish(SpeculationEnd.DISCARDED, "its turn ended before")
        else:
            self.finish(SpeculationEnd.ADOPTED)

    def finish(self, end: SpeculationEnd, reason: str = "") -> None:
        """Hang up, cancel what nobody took, and say so once."""
        if self.end is None:
            self.end = end
            self.scope.cancel(reason or str(end))
            if self.foreseen is not None:
                self.foreseen.ahead.close()
                self._tell(self, end, reason)


@attrs.define(eq=False)
class Replay(AbstractAsyncContextManager[AsyncIterator[LLMEvent]]):
    """A claimed round, as if the model had just been asked: what came already comes
    at once, the rest as it comes. Leaving it hangs up, and raises what the model did.
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
            if kind is None:  # read to its end: hanging up is the model's time, too
                await self._of._hung_up.wait()
        finally:
            self._of._model.cancel("its turn hung up")
            # As with a model of one's own: the turn has not ended before.
            with trio.move_on_after(_FAREWELL, shield=True):
                await self._of._hung_up.wait()
        if kind is None and self._of._error is not None:
            raise self._of._error


def same_request(now: LLMRequest, then: LLMRequest) -> bool:
    """Whether a turn asks what was asked ahead. The last message is what was said:
    whether those are the same words was decided when they were."""
    return (
        now.tools_forbidden == then.tools_forbidden
        and now.messages[:-1] == then.messages[:-1]
        and now.tools == then.tools
    )
