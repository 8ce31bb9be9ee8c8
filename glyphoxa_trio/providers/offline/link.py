"""The stand-in as a model: it speaks its words one by one, at a pace."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Final

import attrs

import trio

from glyphoxa_trio.providers.llm import LLMEvent, LLMRequest, TextChunk

from .wire import respond

LABEL: Final = "offline stand-in (no language model)"


@attrs.frozen
class Offline:
    """A model that answers with `respond`; each word takes ``pace`` seconds."""

    pace: float = attrs.field(default=0.0, validator=attrs.validators.ge(0.0))

    @property
    def label(self) -> str:
        return LABEL

    @asynccontextmanager
    async def stream(
        self, request: LLMRequest
    ) -> AsyncIterator[AsyncIterator[LLMEvent]]:
        """Start one round. It holds no resources, so leaving early is safe."""
        yield _Paced(iter(respond(request)), self.pace)


@attrs.define(eq=False)
class _Paced:
    """The events of a round, at the pace of a model."""

    _events: Iterator[LLMEvent]
    _pace: float

    def __aiter__(self) -> _Paced:
        return self

    async def __anext__(self) -> LLMEvent:
        event = next(self._events, None)
        if event is None:
            raise StopAsyncIteration
        if isinstance(event, TextChunk):
            await trio.sleep(self._pace)
        else:
            await trio.lowlevel.checkpoint()
        return event
