"""An NPC's model as LiveKit sees it: a name, tokens, times and errors, no answers."""

from __future__ import annotations

from time import perf_counter, time
from typing import Any

import attrs
from livekit.agents import llm
from livekit.agents.metrics import LLMMetrics
from livekit.agents.metrics.base import Metadata

from glyphoxa_trio.npc import (
    ModelFailed,
    TextDelta,
    ToolFinished,
    TurnEvent,
    UsageReported,
)
from glyphoxa_trio.providers.llm import LLMError


class NpcModel(llm.LLM[Any]):
    """The source of an NPC's metrics and errors in a session of LiveKit.

    An agent without a model is asked for no answer.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    @property
    def model(self) -> str:
        return self._name

    @property
    def provider(self) -> str:
        return "glyphoxa_trio"

    def chat(self, **_: Any) -> llm.LLMStream:
        raise RuntimeError("an NPC answers in the llm_node of its NpcAgent")


@attrs.define(eq=False)
class AnswerMetrics:
    """The metrics and errors of one answer, which may have several responses."""

    _model: NpcModel
    _request: str
    _began: float = attrs.field(factory=perf_counter, init=False)
    _first: float | None = attrs.field(default=None, init=False)

    def take(self, event: TurnEvent) -> None:
        """Tell LiveKit what an event means for it."""
        match event:
            case TextDelta() if self._first is None:
                self._first = perf_counter()
            case UsageReported():
                self._report(event)
            case ToolFinished():  # the model is asked again after the last of them
                self._began, self._first = perf_counter(), None
            case ModelFailed(kind=kind, detail=detail):
                failed = llm.LLMError(
                    timestamp=time(),
                    label=self._model.label,
                    error=LLMError(kind, detail),
                    recoverable=True,  # the NPC goes on, and has something to say
                )
                self._model.emit("error", failed)
            case _:
                pass

    def _report(self, event: UsageReported) -> None:
        took = perf_counter() - self._began
        metrics = LLMMetrics(
            label=self._model.label,
            request_id=self._request,
            timestamp=time(),
            duration=took,
            ttft=-1.0 if self._first is None else self._first - self._began,
            cancelled=False,
            completion_tokens=event.output_tokens,
            prompt_tokens=event.input_tokens,
            prompt_cached_tokens=event.cached_tokens,
            total_tokens=event.input_tokens + event.output_tokens,
            tokens_per_second=event.output_tokens / took if took else 0.0,
            metadata=Metadata(
                model_name=event.model, model_provider=self._model.provider
            ),
        )
        self._model.emit("metrics_collected", metrics)
