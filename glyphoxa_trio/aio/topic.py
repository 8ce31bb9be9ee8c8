"""Topics of trio, for asyncio subscribers."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import Generic, Self, TypeVar

import attrs

from glyphoxa_trio.actors import Lag
from glyphoxa_trio.actors import Subscription as Subscribed
from glyphoxa_trio.actors import Topic as Published
from glyphoxa_trio.actors.topic import Kinds

from .bridge import LoopBridge
from .iterator_proxy import END, IteratorEnd, IteratorProxy

E = TypeVar("E")


@attrs.define(eq=False)
class Subscription(Generic[E]):
    """One subscriber's events, in order. Entered once; ``missed`` counts lost events.

    Under `Lag.CUT_OFF`, iterating raises `Lagged` after the last event before the loss.
    It raises `RuntimeClosed` when the runtime ends.
    """

    _bridge: LoopBridge
    _subscribe: AbstractContextManager[Subscribed[E]]
    missed: int = attrs.field(default=0, init=False)
    _source: Subscribed[E] | None = attrs.field(default=None, init=False)
    _items: IteratorProxy[E] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._items = IteratorProxy(self._bridge)

    async def __aenter__(self) -> Self:
        try:
            await self._bridge.ask(self._enter)
        except BaseException as error:  # trio's side may have subscribed just now
            await self.__aexit__(type(error), error, None)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._items.close()
        if kind is GeneratorExit:  # closed: no await is possible
            self._bridge.start(self._leave)
        else:
            await self._bridge.see_out(self._leave)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> E:
        return await self._items.take(self._next)

    # On trio's side.

    async def _enter(self) -> None:
        self._source = self._subscribe.__enter__()

    async def _leave(self) -> None:
        if self._source is not None:
            self._source = None
            self._subscribe.__exit__(None, None, None)

    async def _next(self) -> E | IteratorEnd:
        source = self._source
        if source is None:
            return END
        try:
            return await anext(source, END)
        finally:
            self.missed = source.missed


@attrs.frozen(eq=False)
class Topic(Generic[E]):
    """A stream of events that any number of tasks may subscribe to.

    It stands for a `glyphoxa_trio.actors.Topic`.
    """

    _bridge: LoopBridge
    _published: Published[E]

    def subscribe(
        self,
        *,
        capacity: int = 256,
        lag: Lag = Lag.DROP_OLDEST,
        only: Kinds = object,
    ) -> Subscription[E]:
        """Receive the events that are published inside the ``async with`` block.

        Args:
          capacity: how many events may wait.
          lag: what happens to one more.
          only: events of these types; others are not queued.
        """
        subscribe = partial(self._published.subscribe, capacity=capacity)
        return Subscription(self._bridge, subscribe(lag=lag, only=only))
