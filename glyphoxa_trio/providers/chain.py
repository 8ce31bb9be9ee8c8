"""A chain of models: the next one is asked when the first one fails.

Theory of operation. A round goes to the first model of the chain whose breaker admits
it. If that model fails before its first event, the next one is asked, and the round's
first event is `Switched`. After its first event a model keeps the round to its end,
even if it fails: what was said is not said again by another model.

*Time.* The caller's deadline covers all of them together. Each model may take half of
the time that is left while another one may follow; the last one has the rest. So of the
5 seconds of ``turn.first_token_ms`` a first model that hangs takes 2.5.

*Places.* A model that is being loaded, or whose places are all taken, is skipped while
another one may follow; the caller waits in line for the last one.

*Breakers.* Each model has a breaker (`tools.breaker`): after five failed rounds in a
row the model is skipped for ten seconds; then one round tries it. A round fails by an
error of its model, also in the middle, and by the caller's deadline before the first
event. A request that the model does not accept (`BAD_REQUEST`) says nothing about the
model, nor does a round that its caller has left.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from math import inf
from typing import Final, Generic, Protocol, TypeVar

import attrs

import trio

from glyphoxa_trio.tools.breaker import Breaker, BreakerState, Ticket

from .llm import (
    LLM,
    ErrorKind,
    Finished,
    LLMError,
    LLMEvent,
    LLMRequest,
    Switched,
    Waiting,
)
from .naming import Labelled

PATIENCE: Final = 5.0  # seconds for a whole chain, if the caller has no deadline
_SHARE: Final = 0.5


@attrs.frozen(kw_only=True)
class ModelStatistics:
    """The statistics of one model of a chain.

    ``passed_over`` counts the rounds for which its breaker was open.
    """

    name: str
    label: str
    breaker: BreakerState
    answered: int
    failed: Mapping[ErrorKind, int]
    passed_over: int


class ModelFailure(Protocol):
    """The reason why a model did not answer."""

    @property
    def kind(self) -> ErrorKind: ...


M = TypeVar("M", bound=Labelled)


@attrs.define(eq=False)
class ModelCandidate(Generic[M]):
    """One model with its breaker and statistics; chains and conversations may share it.

    Args:
      name: for events and prices.
      model: the model.
      warn: called when it fails in another way than before, and when it will be
        skipped.
      breaker: decides whether it is asked.
    """

    name: str
    model: M
    warn: Callable[[str], None] = lambda _: None
    breaker: Breaker = attrs.field(factory=Breaker)
    passed_over: int = attrs.field(default=0, init=False)
    _answered: int = attrs.field(default=0, init=False)
    _failed: Counter[ErrorKind] = attrs.field(factory=Counter, init=False)
    _told: ErrorKind | None = attrs.field(default=None, init=False)

    def answered(self, ticket: Ticket) -> None:
        """Note that a round ended well."""
        self._answered += 1
        self._told = None
        self.breaker.record(ticket, ok=True, now=trio.current_time())

    def failed(self, ticket: Ticket, error: ModelFailure) -> None:
        """Note that a round failed."""
        now = trio.current_time()
        self._failed[error.kind] += 1
        if error.kind is not self._told:
            self._told = error.kind
            self.warn(labelled(self.model.label, error))
        if error.kind in (ErrorKind.BAD_REQUEST, ErrorKind.CONTEXT_FULL):
            self.breaker.release(ticket, now)
            return
        before = self.breaker.state
        self.breaker.record(ticket, ok=False, now=now)
        opened = self.breaker.state is BreakerState.OPEN
        if opened and before is BreakerState.CLOSED:
            pause = f"{self.breaker.pause:g} s"
            self.warn(
                f"{self.model.label}: it keeps failing, and is not asked for {pause}"
            )

    def left(self, ticket: Ticket) -> None:
        """Note that the caller left a round."""
        self.breaker.release(ticket, trio.current_time())

    def unavailable(self, now: float) -> str:
        """Return the reason why it is not asked now."""
        wait = self.breaker.retry_in(now)
        return f"unavailable: it keeps failing, next attempt in {wait:.1f} s"

    def statistics(self) -> ModelStatistics:
        return ModelStatistics(
            name=self.name,
            label=self.model.label,
            breaker=self.breaker.state,
            answered=self._answered,
            failed=dict(self._failed),
            passed_over=self.passed_over,
        )


@attrs.define(eq=False)
class Chain:
    """Models, in the order in which they are asked."""

    _candidates: Sequence[ModelCandidate[LLM]] = attrs.field(
        validator=attrs.validators.min_len(1)
    )

    @property
    def label(self) -> str:
        return ", else ".join(each.model.label for each in self._candidates)

    @property
    def spoken_by(self) -> LLM:
        """The model that is asked first."""
        return self._candidates[0].model

    @asynccontextmanager
    async def stream(
        self, request: LLMRequest
    ) -> AsyncIterator[AsyncIterator[LLMEvent]]:
        """Open one round: entering waits for the first event of a model.

        Raises:
          LLMError: of the last model that was asked, with all reasons in its text; or
            the error of the model that answers.
        """
        async with AsyncExitStack() as stack:
            yield await self._answer(request, stack)

    async def _answer(self, request: LLMRequest, stack: AsyncExitStack) -> _Answer:
        """Ask the models in turn; return the answer of the first that has an event."""
        await trio.lowlevel.checkpoint_if_cancelled()
        until = trio.current_effective_deadline()
        if until == inf:
            until = trio.current_time() + PATIENCE
        reasons: list[str] = []
        kind = ErrorKind.OVERLOADED
        for at, candidate in enumerate(self._candidates):
            now = trio.current_time()
            ticket = candidate.breaker.begin(now)
            of = f"{candidate.name}: " if at else ""
            if ticket is None:
                candidate.passed_over += 1
                reasons.append(f"{of}{candidate.unavailable(now)}")
                continue
            follows = any(x.breaker.admits(now) for x in self._candidates[at + 1 :])
            limit = now + _SHARE * (until - now) if follows else inf
            attempt = _attempt(candidate, ticket, request, limit, until, spare=follows)
            try:
                answer = await stack.enter_async_context(attempt)
            except LLMError as error:
                reasons.append(f"{of}{error}")
                kind = error.kind
                continue
            if at:
                first = self._candidates[0].name
                why = "; ".join(reasons)
                answer.announce(
                    Switched(model=candidate.name, instead_of=first, reason=why)
                )
            return answer
        raise LLMError(kind, "; ".join(reasons))


@asynccontextmanager
async def _attempt(
    candidate: ModelCandidate[LLM],
    ticket: Ticket,
    request: LLMRequest,
    limit: float,
    until: float,
    *,
    spare: bool,
) -> AsyncIterator[_Answer]:
    """Run one model's round from its first event on, and record how it ended.

    Args:
      limit: when the first event must have arrived, for this model.
      until: the caller's deadline.
      spare: True if another model can be asked, so this one is not waited for in line.
    """
    began = trio.current_time()
    error: LLMError | None = None
    busy: LLMError | None = None
    answer: _Answer | None = None
    try:
        with trio.CancelScope(deadline=limit) as scope:
            async with candidate.model.stream(request) as events:
                first = await anext(events, None)
                # The model's share of the time covers this as well.
                if spare and isinstance(first, Waiting) and first.whole:
                    first = await anext(events, None)  # it has its share, too
                if first is None:
                    raise LLMError(ErrorKind.INTERRUPTED, "it ended without an answer")
                # A first event at the very end of its time comes too late.
                await trio.lowlevel.checkpoint_if_cancelled()
                scope.deadline = inf
                if spare and isinstance(first, Waiting):
                    busy = LLMError(ErrorKind.OVERLOADED, first.why)
                    raise busy  # which is not a failure
                answer = _Answer(events, first)
                yield answer
        if scope.cancelled_caught:
            raise _silent(limit - began)
    except LLMError as failure:
        error = None if failure is busy else failure
        raise
    except trio.Cancelled:
        if answer is None and trio.current_time() >= until:
            error = _silent(until - began)  # by the caller's own deadline
        raise
    finally:
        if error is not None:
            candidate.failed(ticket, error)
        elif answer is not None and answer.finished:
            candidate.answered(ticket)
        else:
            candidate.left(ticket)


def labelled(label: str, error: object) -> str:
    """Return the text of an error that names its model, once."""
    words = str(error)
    return words if words.startswith(f"{label}: ") else f"{label}: {words}"


def _silent(seconds: float) -> LLMError:
    return LLMError(ErrorKind.FIRST_TOKEN, f"it sent nothing within {seconds:g} s")


@attrs.define(eq=False)
class _Answer:
    """The events of the model that answers, its first one included."""

    _events: AsyncIterator[LLMEvent]
    _first: LLMEvent
    _ready: deque[LLMEvent] = attrs.field(factory=deque, init=False)
    finished: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._ready.append(self._first)

    def announce(self, switched: Switched) -> None:
        """Put this event before the others."""
        self._ready.appendleft(switched)

    def __aiter__(self) -> _Answer:
        return self

    async def __anext__(self) -> LLMEvent:
        if self._ready:
            await trio.lowlevel.checkpoint_if_cancelled()
            event = self._ready.popleft()
        else:
            event = await anext(self._events)
        self.finished = self.finished or isinstance(event, Finished)
        return event
