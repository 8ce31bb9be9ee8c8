"""`Turn` for asyncio: one answer of an NPC, as events."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import attrs

from glyphoxa_trio.npc import SceneTurn as NativeSceneTurn
from glyphoxa_trio.npc import Turn as NativeTurn
from glyphoxa_trio.npc import TurnDone, TurnEvent
from glyphoxa_trio.tracing import here, within

from .bridge import LoopBridge
from .call_order import QueuePosition
from .iterator_proxy import END, IteratorEnd, IteratorProxy

N = TypeVar("N", bound=NativeTurn)


@attrs.define(eq=False)
class _TurnProxy(Generic[N]):
    """The common part of turns of NPCs and of scenes.

    Args:
      say: makes the turn, on trio's side.
      to: the NPCs that are spoken to: they hear turns in the order of entering.
    """

    _bridge: LoopBridge
    _say: Callable[[], N]
    _to: Hashable
    done: TurnDone | None = attrs.field(default=None, init=False)
    _delivered: str = attrs.field(default="", init=False)
    _unplayed: float = attrs.field(default=0.0, init=False)
    _entered: bool = attrs.field(default=False, init=False)
    _native: N | None = attrs.field(default=None, init=False)
    _place: QueuePosition = attrs.field(init=False)
    _events: IteratorProxy[TurnEvent] = attrs.field(init=False)
    _context: Any = attrs.field(factory=here, init=False)  # the speaker's trace
    _only: tuple[type[TurnEvent], ...] = attrs.field(default=(TurnEvent,), init=False)

    def __attrs_post_init__(self) -> None:
        self._events = IteratorProxy(self._bridge)

    async def __aenter__(self) -> Self:
        """Speak to the NPC.

        Raises:
          QueueFull: too many speakers wait for the NPC.
          ActorGone: its session has ended.
          UnknownNpc: there is none of that name, or a reload removed it.
          NobodyAddressed: in a scene, if the text addresses no NPC; see `Scene`.
          RuntimeClosed: the runtime has ended.
          RuntimeError: this turn was entered before.
        """
        if self._entered:
            raise RuntimeError("a turn is entered once; say it again for another")
        self._entered = True
        self._place = self._bridge.order.take(self._to)
        try:
            await self._bridge.ask(self._enter)
        except BaseException as error:  # the turn may have begun just now
            await self.__aexit__(type(error), error, None)
            raise
        finally:
            self._bridge.order.forget(self._to, self._place)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._events.close()
        if kind is GeneratorExit:  # closed: no await is possible
            self._bridge.start(self._leave)
        else:
            await self._bridge.see_out(self._leave)

    @property
    def delivered(self) -> str:
        """The text that was heard by the last event or report; after the block, all of
        it."""
        return self._delivered

    def played(self, ms: float) -> None:
        """Report how many milliseconds of this turn's `Speech` were played since it
        began.

        From the first report on, only text that was played counts as delivered: report
        0 before you play anything. Reports also count after the turn has ended. Never
        waits.
        """
        self._bridge.post(partial(self._played, ms))

    def heard(self, text: str, *, over: bool = False) -> None:
        """Report the beginning of the answer that was heard, where another program
        speaks its sentences.

        From the first report on, only that counts as delivered, so report "" before you
        ask for the first event. It is compared by the number of its words. Reports
        count after the turn has ended, too. Never waits.

        Args:
          over: True if no more of the answer will be heard.
        """
        self._bridge.post(partial(self._heard, text, over))

    @property
    def unplayed(self) -> float:
        """Milliseconds of audio still to be played, if playback is reported; an
        estimate if words are (`heard`)."""
        return self._unplayed

    def acknowledge(self, *events: TurnEvent) -> None:
        """Report events that have arrived, where this program only passes them on.

        Events are acknowledged in their order. From the first call on, only what was
        acknowledged counts as delivered, so call it without events before the first
        one. Never waits.
        """
        self._bridge.post(partial(self._acknowledge, events))

    def interrupt(self, reason: str) -> None:
        """Interrupt the NPC; the last events of the turn are still to come. Never
        waits."""
        self._bridge.post(partial(self._interrupt, reason))

    def only(self, *kinds: type[TurnEvent]) -> None:
        """Leave out the events of other kinds, from the next one on.

        They count as heard, and do not cross to this loop, which takes time of it: a
        `TextDelta` comes with every piece that a model writes. Never waits.
        """
        self._only = kinds

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TurnEvent:
        """Return the next event. A wait that is cancelled loses none.

        Raises:
          RuntimeClosed: the runtime has ended.
          RuntimeError: another task waits for the next event.
        """
        self._must_be_entered()
        return await self._events.take(self._next)

    async def finish(self) -> TurnDone:
        """Listen to the end; return the last event, with the text, outcomes and
        timings.

        Raises:
          TurnNotOver: if the session was closed before that.
          RuntimeClosed: if the runtime was.
        """
        self._must_be_entered()
        if self._events.asked:  # requested by a wait that was cancelled
            await anext(self, None)
        return await self._bridge.ask(self._finish)

    def _must_be_entered(self) -> None:
        if not self._entered:
            raise RuntimeError("enter the turn first: async with npc.say(...) as turn")

    # On trio's side.

    async def _enter(self) -> None:
        async with self._place:
            with within(self._context):
                native = self._say()
            await native.__aenter__()
            self._native = native

    async def _leave(self) -> None:
        if self._native is not None:
            await self._native.__aexit__(None, None, None)
            self._note(self._native)

    async def _next(self) -> TurnEvent | IteratorEnd:
        if self._native is None:
            return END
        try:
            async for event in self._native:
                if isinstance(event, self._only):
                    return event
            return END
        finally:
            self._note(self._native)

    async def _finish(self) -> TurnDone:
        assert self._native is not None
        try:
            return await self._native.finish()
        finally:
            self._note(self._native)

    def _played(self, ms: float) -> None:
        if self._native is not None:
            self._native.played(ms)
            self._note(self._native)

    def _heard(self, text: str, over: bool) -> None:
        if self._native is not None:
            self._native.heard(text, over=over)
            self._note(self._native)

    def _acknowledge(self, events: tuple[TurnEvent, ...]) -> None:
        if self._native is not None:
            self._native.acknowledge(*events)
            self._note(self._native)

    def _interrupt(self, reason: str) -> None:
        if self._native is not None:
            self._native.interrupt(reason)

    def _note(self, native: N) -> None:
        self._delivered, self.done = native.delivered, native.done
        self._unplayed = native.unplayed


@attrs.define(eq=False)
class Turn(_TurnProxy[NativeTurn]):
    """One answer, as events. Made by `Npc.say`, entered once, heard by one task.

    Leaving the block early interrupts the NPC, and so does cancelling the task inside:
    the block is left when the turn has ended, which takes a second at most. A sentence
    counts as delivered once the next event is asked for, or once it was `played`.
    """


@attrs.define(eq=False)
class SceneTurn(_TurnProxy[NativeSceneTurn]):
    """A turn in a scene; its events begin with `Queued` if other turns come first."""

    npc: str = attrs.field(default="", init=False)
    """Who is meant; known once the block was entered."""

    async def _enter(self) -> None:
        await super()._enter()
        if self._native is not None:
            self.npc = self._native.npc
