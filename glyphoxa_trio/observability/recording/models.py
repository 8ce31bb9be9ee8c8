"""Wrappers of models, which record requests and answers.

`where` says, in the task of a turn, which of its rounds runs: a model is not told that.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from hashlib import sha256
from typing import Any, Protocol

import attrs

import trio

from glyphoxa_trio.npc import ToolsShown, TurnEvent
from glyphoxa_trio.npc.identity import NpcId
from glyphoxa_trio.observability.recording.hiding import Hiding, Later
from glyphoxa_trio.providers.llm import (
    LLM,
    CallReady,
    Finished,
    LLMError,
    LLMEvent,
    LLMRequest,
    Switched,
    TextChunk,
    Waiting,
    Working,
)

where: ContextVar[tuple[NpcId, int, int]] = ContextVar(
    "where", default=(NpcId(""), 0, 0)
)
"""NPC, turn and round of whatever runs in this task."""


def mark(event: TurnEvent) -> None:
    """To be called with each event in the moment in which it is published."""
    if isinstance(event, ToolsShown):
        where.set((event.id, event.turn, event.round))


class Note(Protocol):
    """Takes one line: its kind, and its fields."""

    def __call__(self, kind: str, /, **fields: Any) -> None: ...


def digest(request: LLMRequest, hiding: Hiding) -> str:
    """Return a digest of a model's request, which tells it from any other."""
    plain = json.dumps(hiding.plain(request), sort_keys=True)
    return sha256(plain.encode()).hexdigest()[:16]


@attrs.define(eq=False)
class HeardModel:
    """A wrapped model.

    Args:
      number: gives each request its own.
      asked: told which NPC has just asked, when that is noted.
    """

    spoken_by: LLM
    _note: Note
    _number: Callable[[], int]
    _asked: Callable[[NpcId], None]

    @property
    def label(self) -> str:
        return self.spoken_by.label

    @asynccontextmanager
    async def stream(
        self, request: LLMRequest
    ) -> AsyncIterator[AsyncIterator[LLMEvent]]:
        number, began = self._number(), trio.current_time()
        npc, turn, round_ = where.get()
        self._note(
            "request",
            request=number,
            **npc.named,
            turn=turn,
            round=round_,
            prompt=Later(lambda hiding: digest(request, hiding)),
        )
        self._asked(npc)
        hung_up = began
        try:
            async with self.spoken_by.stream(request) as events:
                if trio.current_time() > began:
                    self._note("model", request=number, connected=True)
                try:
                    yield HeardWords(events, self._note, number)
                finally:
                    hung_up = trio.current_time()
            if trio.current_time() > hung_up:
                self._note("model", request=number, hung_up=hung_up)
        except Exception as error:  # border: a model's link is foreign code
            if not isinstance(error, LLMError):
                failed: dict[str, Any] = {"error": type(error).__name__}
                failed["detail"] = str(error)
            else:
                failed = {"kind": error.kind, "detail": error.detail}
            self._note("model", request=number, failed=failed)
            raise


@attrs.define(eq=False)
class HeardWords:
    """The answer of a wrapped model, event by event."""

    _events: AsyncIterator[LLMEvent]
    _note: Note
    _request: int

    def __aiter__(self) -> HeardWords:
        return self

    async def __anext__(self) -> LLMEvent:
        event = await self._events.__anext__()
        match event:
            case TextChunk(text):
                self._note("model", request=self._request, text=text)
            case CallReady(call):
                self._note("model", request=self._request, call=call)
            case Switched():
                self._note("model", request=self._request, switched=event)
            case Finished():
                self._note("model", request=self._request, finished=event)
            case Waiting():
                self._note("model", request=self._request, waiting=event)
            case Working(unsaid=True):
                self._note("model", request=self._request, unsaid=True)
            case _:
                self._note("model", request=self._request, working=True)
        return event
