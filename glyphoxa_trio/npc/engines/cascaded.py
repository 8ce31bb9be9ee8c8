"""The cascaded engine: model, tools, model, until there is an answer (G32).

One round: the gate's tools → the model, streamed → sentences out as they
complete → its calls in parallel → their outcomes back. The next round shows what
still fits (D4). The tool clock runs during a fan-out and at no other time (D3);
the model clock runs while the model is awaited.

Other engines begin otherwise and go on in these rounds: an `Opener` comes before the
first request. Above 300 lines, because the parts of a round are read best in their
order.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from math import inf

import attrs

import trio

from glyphoxa_trio.config.model import TurnConfig
from glyphoxa_trio.config.voices import CascadeMode, Engine
from glyphoxa_trio.host import Caller, Listing, Shelf, Showing, ToolHost
from glyphoxa_trio.npc.conversation import Conversation, Exchange, Round
from glyphoxa_trio.npc.engines.continuation import Continuation
from glyphoxa_trio.npc.engines.fast import FastModel
from glyphoxa_trio.npc.engines.patience import Patience
from glyphoxa_trio.npc.engines.round import request_of, view_of
from glyphoxa_trio.npc.events import (
    Fallback,
    FanOutDone,
    FellBack,
    Filler,
    ModelFailed,
    ModelSwitched,
    Sentence,
    TextDelta,
    ToolFinished,
    ToolsShown,
    ToolStarted,
    TurnEvent,
)
from glyphoxa_trio.npc.filler import Fillers
from glyphoxa_trio.npc.sentences import Sentences
from glyphoxa_trio.npc.speculation import Speculation
from glyphoxa_trio.npc.turn import Clock
from glyphoxa_trio.providers.llm import (
    LLM,
    CallReady,
    ErrorKind,
    Finished,
    LLMError,
    LLMEvent,
    LLMRequest,
    Switched,
    TextChunk,
    Usage,
    Waiting,
)
from glyphoxa_trio.tools.gate import Grant, Reason
from glyphoxa_trio.tools.outcome import Outcome, ToolCall
from glyphoxa_trio.tools.tier import Tier

Approve = Callable[[Sequence[ToolCall]], Awaitable[frozenset[str]]]

Opener = Callable[[Round, Showing], Awaitable[bool]]
"""Says what comes before the first request, into the turn's first round; true if that
was the whole answer."""


@attrs.define(eq=False, kw_only=True)
class TurnInProgress:
    """What a turn works with, and what it leaves behind.

    Args:
      emit: hand an event to the consumer; waits while the consumer is slow.
      post: likewise, without waiting, for events inside a running tool clock.
      approve: which of these calls somebody says yes to; takes its own time.
      shelf: the tools that this conversation has loaded, of those that are too
        many to be shown: more than ``defer_threshold`` external ones.
      speculation: what was begun of this turn before its words were said.
      fallback: a line to say when there is nothing to say (D12b).
      spent: told what each response took that this turn has asked for.
      cut: told that the turn is interrupted, before a model is hung up on.
      nursery: the session's, for what the turn does not wait for. It must not fail.
      fast: the model that opens, and ``cascade`` when it does.
      opener: what it has said of the answer.
      pending: calls of the conversation that go on after their turn; see `Caller`.
      fillers: what is said while tools are waited for; None is nothing.
    """

    npc: str
    turn: int
    tier: Tier
    grant: Grant
    config: TurnConfig
    llm: LLM
    nursery: trio.Nursery
    host: ToolHost
    shelf: Shelf
    defer_threshold: int
    conversation: Conversation
    exchange: Exchange
    tool_clock: Clock
    model_clock: Clock
    emit: Callable[[TurnEvent], Awaitable[None]]
    post: Callable[[TurnEvent], None]
    approve: Approve
    fallback: Callable[[], str]
    on_late: Callable[[Outcome], None]
    spent: Callable[[Usage], None]
    cut: Callable[[], None] = lambda: None
    engine: Engine = Engine.CASCADED
    cascade: CascadeMode = CascadeMode.AUTO
    fast: FastModel | None = None
    fillers: Fillers | None = None
    speculation: Speculation | None = None
    opener: str = ""
    first_text_at: float | None = None
    error: LLMError | None = None
    unknown_effects: set[tuple[str, str]] = attrs.field(factory=set)
    pending: dict[tuple[str, str], ToolCall] = attrs.field(factory=dict)


async def run(turn: TurnInProgress, *, opener: Opener | None = None) -> None:
    """Answer once. Ends within its limits; cancelling it interrupts the turn."""
    for index in range(turn.config.max_rounds + 1):
        last = index == turn.config.max_rounds
        round_ = turn.exchange.begin_round()
        view = await _show(turn, index, last=last)
        if opener is not None and not index and await opener(round_, view):
            return
        opened = len(round_.sentences)
        try:
            calls = await _listen(turn, index, round_, view, last=last)
        except LLMError as error:
            turn.error = error
            await turn.emit(
                ModelFailed(
                    npc=turn.npc, turn=turn.turn, kind=error.kind, detail=error.detail
                )
            )
            # An opener alone is no answer: it may have promised one.
            if len(round_.sentences) == opened:
                await fall_back(turn, index, round_, Fallback.MODEL_FAILED)
            return
        if calls:
            await _run_calls(turn, index, round_, calls, view, last=last)
        if turn.speculation is not None:
            turn.speculation.over()  # what it began and nobody took ends here
        if last or not calls:
            break
    if not round_.sentences:
        await fall_back(turn, index, round_, why_nothing(round_, turn, last=last))


async def _show(turn: TurnInProgress, index: int, *, last: bool) -> Showing:
    """Ask the gate what this round's model may see."""
    remaining = turn.tool_clock.remaining(trio.current_time())

    def permitted(left: float) -> tuple[Listing, ...]:
        return turn.host.tools(turn.tier, grant=turn.grant, remaining=left)

    view = view_of(
        turn.host,
        turn.shelf,
        tier=turn.tier,
        grant=turn.grant,
        remaining=remaining,
        threshold=turn.defer_threshold,
        permitted=permitted,
    )
    await turn.emit(
        ToolsShown(
            npc=turn.npc,
            turn=turn.turn,
            round=index,
            shown=tuple(listing.exposed for listing in view.shown),
            hidden=tuple(
                (listing.exposed, no)
                for listing, no in view.hidden
                if no.reason is not Reason.NOT_GRANTED
            ),
            remaining=remaining,
            forbidden=last or not view.shown,
            deferred=tuple(listing.exposed for listing in view.deferred),
        )
    )
    return view


async def _listen(
    turn: TurnInProgress,
    index: int,
    round_: Round,
    view: Showing,
    *,
    last: bool,
) -> list[ToolCall]:
    """Stream one response: text out, calls collected.

    Raises:
      LLMError: whatever the model fails with, its limits of D0 included.
    """
    request = request_of(
        turn.conversation,
        turn.exchange,
        view,
        last=last,
        opened=bool(turn.opener),
    )
    sentences = Sentences()
    opened = bool(round_.sentences)
    fresh = Continuation(turn.opener, joined=not index)
    calls: list[ToolCall] = []
    patience = Patience(turn.model_clock)
    written, longest = 0, turn.config.max_answer  # characters

    async def write(text: str) -> None:
        nonlocal written
        if not text:
            return
        written += len(text)
        if turn.first_text_at is None:
            turn.first_text_at = trio.current_time()
        delta = TextDelta(npc=turn.npc, turn=turn.turn, text=text)
        await patience.hand_on(turn.emit(delta))
        await say(sentences.feed(text))

    async def say(whole: list[str]) -> None:
        for text in whole:
            round_.sentences.append(text)
            said = Sentence(npc=turn.npc, turn=turn.turn, text=text, round=index)
            await patience.hand_on(turn.emit(said))

    stream, ours = _stream(turn, request)
    finished = False

    async def hear(events: AsyncIterator[LLMEvent]) -> None:
        nonlocal finished
        async for event in events:
            patience.serve()
            match event:
                case TextChunk(text):
                    new = fresh.feed(text)
                    room = longest - written
                    await write(new[:room])
                    if len(new) > room:
                        raise LLMError(
                            ErrorKind.TOO_LONG,
                            f"its answer has over {longest} characters, which is"
                            " turn.max_answer",
                        )
                case Waiting(whole=True):  # nothing is heard before all is there
                    patience.wait_for(ErrorKind.TURN, inf)
                    continue
                case Waiting(""):
                    patience.wait_for(ErrorKind.FIRST_TOKEN, turn.config.first_token)
                    continue
                case Waiting(why):
                    patience.wait_in_line(why)
                    continue
                case CallReady(call):
                    calls.append(call)
                case Switched():
                    turn.post(switched(turn, event))
                case Finished():
                    finished = True
                    # With an opener it is not all of the message.
                    round_.verbatim = None if opened else event.verbatim
                    if ours and event.usage is not None:
                        turn.spent(event.usage)
                    # Hanging up is the model's time, too.
                    patience.wait_for(ErrorKind.SILENCE, turn.config.silence)
                    return
            patience.wait_for(ErrorKind.SILENCE, turn.config.silence)

    # One scope whose deadline moves: it is infinite while the consumer is served, so
    # that a slow listener is never taken for a slow model. The clock runs on, for a
    # model whose stream has no end.
    failure: LLMError | None = None
    try:
        with patience.scope:
            patience.wait_for(ErrorKind.FIRST_TOKEN, turn.config.first_token)
            async with stream as events:
                try:
                    await hear(events)
                except Exception:
                    raise
                except BaseException:
                    if not patience.scope.cancel_called:
                        turn.cut()  # a model may take its time to be hung up on
                    raise
    except LLMError as error:
        failure = error
    except (Exception, trio.Cancelled, KeyboardInterrupt, BaseExceptionGroup):
        # Written, and not heard any more.
        round_.sentences += [*sentences.feed(fresh.end()), *sentences.end()]
        raise
    except BaseException as error:  # border: a link that asks the program to end
        failure = LLMError(ErrorKind.MALFORMED, f"its link raised {type(error)!r}")
    finally:
        patience.rest()
    if patience.exceeded and not finished:
        failure = patience.failure()
    await write(fresh.end())
    await say(sentences.end())  # what was written before a failure was heard
    if failure is not None:
        raise failure
    return calls


def switched(turn: TurnInProgress, event: Switched) -> ModelSwitched:
    """Another model answers, as an event of the turn."""
    return ModelSwitched(npc=turn.npc, turn=turn.turn, **attrs.asdict(event))


def _stream(
    turn: TurnInProgress, request: LLMRequest
) -> tuple[AbstractAsyncContextManager[AsyncIterator[LLMEvent]], bool]:
    """One round of the model: the one that was begun ahead, if it is the same.

    Beside it whether it is ours: what that one takes, its speculation tells.
    """
    if turn.speculation is not None:
        begun = turn.speculation.claim(request, tier=turn.tier)
        if begun is not None:
            return begun, False
    return turn.llm.stream(request), True


async def _run_calls(
    turn: TurnInProgress,
    index: int,
    round_: Round,
    calls: Sequence[ToolCall],
    view: Showing,
    *,
    last: bool,
) -> None:
    """One fan-out: all calls of a response, inside what is left of the turn."""
    # Nobody is asked about a call that the gate refuses whatever they say.
    names = () if last else {listing.exposed for listing in view.shown}
    approved = await turn.approve(
        [call for call in calls[: turn.config.max_calls] if call.name in names]
    )

    def started(slot: int, listing: Listing) -> None:
        turn.shelf.use(listing.key)
        turn.post(
            ToolStarted(
                npc=turn.npc,
                turn=turn.turn,
                call=calls[slot],
                tool=listing.key,
                round=index,
            )
        )

    ended: dict[int, Outcome] = {}

    def finished(slot: int, outcome: Outcome) -> None:
        ended[slot] = outcome
        if awaiting is not None:
            awaiting.ended(slot)
        turn.post(
            ToolFinished(npc=turn.npc, turn=turn.turn, outcome=outcome, round=index)
        )

    speculation = turn.speculation
    caller = Caller(
        grant=turn.grant,
        tier=turn.tier,
        still=lambda: (turn.grant, turn.tier),
        npc=turn.npc,
        session=turn.npc,
        max_calls=0 if last else turn.config.max_calls,
        unknown_effects=turn.unknown_effects,
        pending=turn.pending,
        approved=approved,
        showing=view,
        ahead=None if speculation is None else speculation.ahead,
        on_start=started,
        on_outcome=finished,
        on_late=turn.on_late,
    )

    def say(text: str) -> None:
        turn.post(Filler(npc=turn.npc, turn=turn.turn, text=text, round=index))

    begun = trio.current_time()
    budget = turn.tool_clock.remaining(begun)
    awaiting = None
    if turn.fillers is not None and not last:
        possible = calls[: turn.config.max_calls]
        awaiting = turn.fillers.awaiting(possible, view.shown, turn.tier, budget)
    if awaiting is not None:
        awaiting.begin(turn.nursery, say)
    deadline = turn.tool_clock.start(begun)
    try:
        await turn.host.fan_out(calls, caller, deadline=deadline, remaining=budget)
    finally:
        elapsed = turn.tool_clock.stop(trio.current_time())
        # Also when interrupted: every call in the history has its answer.
        round_.outcomes.extend(ended[slot] for slot in sorted(ended))
    await turn.emit(
        FanOutDone(
            npc=turn.npc,
            turn=turn.turn,
            round=index,
            tier=turn.tier,
            shown=len(view.shown),
            budget=budget,
            elapsed=elapsed,
            outcomes=tuple(round_.outcomes),
        )
    )


def why_nothing(round_: Round, turn: TurnInProgress, *, last: bool) -> Fallback:
    outcomes = turn.exchange.outcomes
    if round_.outcomes and last:
        return Fallback.ROUNDS_EXHAUSTED
    if outcomes and not any(outcome.ok for outcome in outcomes):
        return Fallback.TOOLS_FAILED
    return Fallback.EMPTY_ANSWER


async def fall_back(
    turn: TurnInProgress, index: int, round_: Round, reason: Fallback
) -> None:
    await turn.emit(FellBack(npc=turn.npc, turn=turn.turn, reason=reason))
    line = turn.fallback()
    round_.sentences.append(line)
    await turn.emit(TextDelta(npc=turn.npc, turn=turn.turn, text=line))
    await turn.emit(Sentence(npc=turn.npc, turn=turn.turn, text=line, round=index))
