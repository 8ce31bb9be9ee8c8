"""Frames of Pipecat for the events of an answer, and the words of its contexts.

Calls are told as external ones: they run outside of the pipeline, and belong to the
conversation of the NPC. Nothing in a pipeline acts on such frames, while its own kind
would be written into a context, which is then sent to the model again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pipecat.frames.frames import (
    AggregatedTextFrame,
    ExternalFunctionCall,
    ExternalFunctionCallCancelFrame,
    ExternalFunctionCallInProgressFrame,
    ExternalFunctionCallResultFrame,
    ExternalFunctionCallsStartedFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
)
from pipecat.metrics.metrics import LLMTokenUsage, MetricsData
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.utils.errors import ErrorCategory
from pipecat.utils.text.base_text_aggregator import TextType

from glyphoxa_trio.npc import (
    Filler,
    ModelFailed,
    Scripted,
    Sentence,
    TierSelected,
    ToolFinished,
    ToolStarted,
    TurnDone,
    TurnEnd,
    TurnEvent,
    UsageReported,
)
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.tools.outcome import Outcome, Status, ToolCall

from .answer import PipelineAnswer

# A processor with an error of a category that lasts, such as AUTHENTICATION, is
# unusable for Pipecat.
CATEGORIES: Final = {
    ErrorKind.UNREACHABLE: ErrorCategory.CONNECTIVITY,
    ErrorKind.AUTHENTICATION: ErrorCategory.AUTHENTICATION,
    ErrorKind.NOT_FOUND: ErrorCategory.INVALID_REQUEST,
    ErrorKind.BAD_REQUEST: ErrorCategory.INVALID_REQUEST,
    ErrorKind.CONTEXT_FULL: ErrorCategory.APPLICATION,
    ErrorKind.RATE_LIMITED: ErrorCategory.RATE_LIMIT,
    ErrorKind.OVERLOADED: ErrorCategory.SERVER,
    ErrorKind.INTERRUPTED: ErrorCategory.CONNECTIVITY,
    ErrorKind.MALFORMED: ErrorCategory.SERVER,
    ErrorKind.FIRST_TOKEN: ErrorCategory.SERVER,
    ErrorKind.SILENCE: ErrorCategory.SERVER,
    ErrorKind.TURN: ErrorCategory.SERVER,
    ErrorKind.TOO_LONG: ErrorCategory.SERVER,
}

# The events that `give` has a use for.
GIVEN: Final = (
    TierSelected,
    Scripted,
    Sentence,
    Filler,
    ToolStarted,
    ToolFinished,
    ModelFailed,
    UsageReported,
    TurnDone,
)


async def give(to: FrameProcessor, answer: PipelineAnswer, event: TurnEvent) -> None:
    """Push what an event of an answer means, from this processor."""
    match event:
        case TierSelected() | Scripted():
            await _begin(to, answer)
        case Sentence() | Filler():
            await _speak(to, answer, event)
        case ToolStarted(call=call):
            await _started(to, call)
        case ToolFinished(outcome=outcome):
            await _finished(to, outcome)
        case ModelFailed(kind=kind, detail=detail):
            answer.fail()
            what = f"the model failed ({kind}): {detail}"
            await to.push_error(what, category=CATEGORIES[kind])
        case UsageReported():
            await _used(to, event)
        case TurnDone():
            await _done(to, answer, event)
        case _:
            pass


async def _begin(to: FrameProcessor, answer: PipelineAnswer) -> None:
    if not answer.cut and answer.begin():
        await to.push_frame(LLMFullResponseStartFrame())


async def _speak(
    to: FrameProcessor, answer: PipelineAnswer, event: Sentence | Filler
) -> None:
    await _begin(to, answer)
    if answer.cut:
        return
    form = answer.reader.read(event)
    if not form.text:
        if isinstance(event, Sentence):
            answer.pass_over(form)
        return
    # A TTS service says a sentence at once. Pieces of text would wait there for the
    # beginning of the next sentence.
    frame = AggregatedTextFrame(form.text, TextType.SENTENCE)
    frame.metadata["npc"] = event.npc
    if isinstance(event, Sentence):
        await to.stop_ttfb_metrics()
        answer.give(form, frame.id)
    else:
        frame.append_to_context = False
    await to.push_frame(frame)


async def _started(to: FrameProcessor, call: ToolCall) -> None:
    told = ExternalFunctionCall(function_name=call.name, tool_call_id=call.id)
    await to.broadcast_frame(ExternalFunctionCallsStartedFrame, function_calls=[told])
    await to.broadcast_frame(
        ExternalFunctionCallInProgressFrame,
        function_name=call.name,
        tool_call_id=call.id,
        arguments=call.arguments,
    )


async def _finished(to: FrameProcessor, outcome: Outcome) -> None:
    call = outcome.call
    which = {"function_name": call.name, "tool_call_id": call.id}
    if outcome.status is Status.CANCELLED:
        await to.broadcast_frame(ExternalFunctionCallCancelFrame, **which)
        return
    result = {"status": outcome.status.value, "message": outcome.message}
    await to.broadcast_frame(
        ExternalFunctionCallResultFrame,
        **which,
        arguments=call.arguments,
        result=result if outcome.data is None else result | {"data": outcome.data},
    )


async def _used(to: FrameProcessor, event: UsageReported) -> None:
    to.set_core_metrics_data(MetricsData(processor=to.name, model=event.model))
    await to.start_llm_usage_metrics(
        LLMTokenUsage(
            prompt_tokens=event.input_tokens,
            completion_tokens=event.output_tokens,
            total_tokens=event.input_tokens + event.output_tokens,
            cache_read_input_tokens=event.cached_tokens,
        )
    )


async def _done(to: FrameProcessor, answer: PipelineAnswer, event: TurnDone) -> None:
    if event.end is TurnEnd.FAILED and not answer.failed:
        await to.push_error(event.error, category=ErrorCategory.APPLICATION)
    elif event.end is TurnEnd.COMPLETED and not answer.failed:
        await to.set_usable(True)  # what was wrong with the model is over
    if answer.cut:
        return
    await to.stop_processing_metrics()
    if answer.close():
        last = LLMFullResponseEndFrame()
        answer.give_last(last.id)
        await to.push_frame(last)


def newest_words(messages: Sequence[Any], before: Any) -> str:
    """Return what the user has said last in a context, after the message ``before``."""
    texts: list[str] = []
    for message in reversed(messages):
        if message is before or not isinstance(message, dict):
            break
        if message.get("role") != "user":
            break
        content = message.get("content") or ""
        parts = [{"text": content}] if isinstance(content, str) else content
        texts[:0] = [part.get("text", "") for part in parts]
    return " ".join(filter(None, texts))
