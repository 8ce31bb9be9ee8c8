"""The cascaded engine: model, tools, model, until there is an answer.

One round: the gate's tools → the model, streamed → each sentence as it is complete →
the model's calls in parallel → their outcomes back to the model. The next round shows
the tools that still fit in the remaining time. The tool clock runs only during a
fan-out, so a slow model does not use up the tools' time; the model clock runs while the
model is awaited.

Other engines begin differently and continue in these rounds: an `Opener` comes before
the first request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from math import inf

import trio

from glyphoxa_trio.host import CatalogueEntry, VisibleTools
from glyphoxa_trio.npc.conversation import Round
from glyphoxa_trio.npc.events import Fallback
from glyphoxa_trio.npc.model_timeout import ModelTimeout
from glyphoxa_trio.npc.prompting import request_of, visible_tools
from glyphoxa_trio.npc.sentences import Sentences
from glyphoxa_trio.npc.spans import chat_finished, chat_span
from glyphoxa_trio.npc.turn.state import TurnState
from glyphoxa_trio.npc.turn.tool_round import ToolRound
from glyphoxa_trio.providers.llm import (
    CallReady,
    ErrorKind,
    Finished,
    LLMError,
    LLMEvent,
    LLMRequest,
    Switched,
    TextChunk,
    Waiting,
    Working,
)
from glyphoxa_trio.tools.outcome import ToolCall
from glyphoxa_trio.tracing import Span

from .continuation import Continuation

Opener = Callable[[Round, VisibleTools], Awaitable[bool]]
"""Says what comes before the first request, into the turn's first round.

Returns True if that was the whole answer.
"""


async def run(turn: TurnState, *, opener: Opener | None = None) -> None:
    """Answer once, within the limits of the turn. Cancelling interrupts the turn."""
    for index in range(turn.config.max_rounds + 1):
        last = index == turn.config.max_rounds
        round_ = turn.exchange.begin_round()
        view = await _show(turn, index, last=last)
        if opener is not None and not index and await opener(round_, view):
            return
        opened = len(round_.sentences)
        try:
            with chat_span(turn.llm, round=index) as chat:
                calls = await _listen(turn, index, round_, view, chat, last=last)
        except LLMError as error:
            await turn.fail(error)
            # An opener alone is no answer: it may have promised one.
            if len(round_.sentences) == opened or not round_.sentences[-1]:
                await turn.fall_back(round_, index, Fallback.MODEL_FAILED)
            return
        if calls:
            fan_out = ToolRound(
                turn=turn,
                round_=round_,
                index=index,
                calls=calls,
                showing=view,
                tier=lambda: turn.tier,
                last=last,
            )
            await fan_out.run(turn.host.fan_out)
            await fan_out.tell()
        if turn.speculation is not None:
            turn.speculation.over()  # cancels speculative calls that were not taken
        if last or not calls:
            break
    if not (round_.sentences and round_.sentences[-1]):
        await turn.fall_back(round_, index, turn.why_nothing(round_, last=last))


async def _show(turn: TurnState, index: int, *, last: bool) -> VisibleTools:
    """Ask the gate which tools the model may see in this round."""
    remaining = turn.tool_clock.remaining(trio.current_time())

    def permitted(left: float) -> tuple[CatalogueEntry, ...]:
        return turn.host.tools(
            turn.tier, grant=turn.grant, remaining=left, whose=turn.memory.session.whose
        )

    view = visible_tools(
        turn.host,
        turn.memory.shelf,
        tier=turn.tier,
        grant=turn.grant,
        remaining=remaining,
        threshold=turn.settings.defer_threshold,
        permitted=permitted,
    )
    await turn.tell_shown(
        view, index, remaining=remaining, forbidden=last or not view.shown
    )
    return view


async def _listen(
    turn: TurnState,
    index: int,
    round_: Round,
    view: VisibleTools,
    chat: Span,
    *,
    last: bool,
) -> list[ToolCall]:
    """Stream one response: deliver the text, and return the calls.

    Raises:
      LLMError: the model failed, or exceeded its limits of time or length.
    """
    request = request_of(
        turn.memory.conversation,
        turn.exchange,
        view,
        last=last,
        opened=bool(turn.opener),
    )
    sentences, opened = Sentences(), len(round_.sentences)
    fresh = Continuation(turn.opener, joined=not index)
    calls: list[ToolCall] = []
    patience = ModelTimeout(turn.model_clock)
    written, longest = 0, turn.config.max_answer  # characters

    async def write(text: str) -> None:
        nonlocal written
        if not text:
            return
        written += len(text)
        turn.text_begins()
        await patience.hand_on(turn.write(text))
        await say(sentences.feed(text))

    async def say(whole: list[str]) -> None:
        for text in whole:
            await patience.hand_on(turn.say(round_, index, text))

    stream, ours = _stream(turn, request)
    if not ours:
        chat.set({"glyphoxa.speculative": True})
    finished = False

    async def hear(events: AsyncIterator[LLMEvent]) -> None:
        nonlocal finished, sentences
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
                            f"its answer is longer than {longest} characters"
                            " (turn.max_answer)",
                        )
                # the model sends nothing before the answer is complete
                case Waiting(whole=True):
                    patience.wait_for(ErrorKind.TURN, inf)
                    continue
                case Waiting(""):
                    patience.wait_for(ErrorKind.FIRST_TOKEN, turn.config.first_token)
                    continue
                case Waiting(why):
                    patience.wait_in_line(why)
                    continue
                # Nothing that follows a call belongs to the words before it.
                case Working(calls=True):
                    await say(sentences.end())
                case Working(unsaid=True):
                    sentences = Sentences()
                    turn.unsay(round_, index, since=opened)
                case CallReady(call):
                    if not calls:
                        await say(sentences.end())
                    calls.append(call)
                case Switched():
                    turn.switched(event)
                case Finished():
                    finished = True
                    chat_finished(chat, event)
                    round_.verbatim = event.verbatim
                    if ours and event.usage is not None:
                        turn.spent(event.usage)
                    # Closing the request counts as the model's time, too.
                    patience.wait_for(ErrorKind.SILENCE, turn.config.silence)
                    return
            patience.wait_for(ErrorKind.SILENCE, turn.config.silence)

    # There is one scope, whose deadline moves. It is infinite while an event is
    # delivered, so that a slow listener is never mistaken for a slow model. The clock
    # continues, in case the model's stream has no end.
    failure: LLMError | None = None
    # the error that counts, however closing the request ends
    first: Exception | None = None
    try:
        with patience.scope:
            patience.wait_for(ErrorKind.FIRST_TOKEN, turn.config.first_token)
            async with stream as events:
                try:
                    await hear(events)
                except Exception as error:
                    first = error
                    patience.hang_up()
                    raise
                except BaseException:
                    if not patience.scope.cancel_called:
                        # Closing the model's request may take a while.
                        turn.output.flush()
                    raise
    except LLMError as error:
        failure = error
    except (Exception, trio.Cancelled, KeyboardInterrupt, BaseExceptionGroup):
        # Written, but not heard any more.
        round_.sentences.extend([*sentences.feed(fresh.end()), *sentences.end()])
        raise
    except BaseException as error:  # border: the link raised SystemExit or the like
        failure = LLMError(ErrorKind.MALFORMED, f"its link raised {type(error)!r}")
    finally:
        patience.pause()
    if patience.exceeded and not finished:
        if first is not None and not isinstance(first, LLMError):
            raise first
        failure = first or patience.failure()
    await write(fresh.end())
    await say(sentences.end())  # what was written before a failure was heard
    if failure is not None:
        raise failure
    return calls


def _stream(
    turn: TurnState, request: LLMRequest
) -> tuple[AbstractAsyncContextManager[AsyncIterator[LLMEvent]], bool]:
    """Return the stream of one round: the speculated one, if its request is the same.

    The second value is True if this turn reports the usage; that of a speculated round
    is reported by the speculation.
    """
    if turn.speculation is not None:
        begun = turn.speculation.claim(request, tier=turn.tier)
        if begun is not None:
            return begun, False
    return turn.llm.stream(request), True
