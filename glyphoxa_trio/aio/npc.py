"""An NPC as an asyncio program holds it: say something, listen, leave.

async with npc.say("Roll 2d6+3 for me") as turn:
    async for event in turn:
        ...
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

import attrs

from glyphoxa_trio.config import NpcConfig
from glyphoxa_trio.npc import Npc as NativeNpc
from glyphoxa_trio.npc import Turn as NativeTurn
from glyphoxa_trio.npc import TurnDone, TurnEvent
from glyphoxa_trio.tools.tier import Tier

from .bridge import Bridge
from .items import END, End, Items

R = TypeVar("R")


@attrs.define(eq=False)
class Turn:
    """One answer, as events. Made by `Npc.say`, entered once, heard by one task.

    Leaving the block before the end is the interruption, and so is cancelling the
    task that is in it: the block is left when the turn has ended, which takes a
    second at most. A sentence counts as delivered once the next event is asked for.
    """

    _bridge: Bridge
    _say: Callable[[], NativeTurn]
    done: TurnDone | None = attrs.field(default=None, init=False)
    _delivered: str = attrs.field(default="", init=False)
    _entered: bool = attrs.field(default=False, init=False)
    _native: NativeTurn | None = attrs.field(default=None, init=False)
    _events: Items[TurnEvent] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._events = Items(self._bridge)

    async def __aenter__(self) -> Self:
        """Speak to the NPC.

        Raises:
          QueueFull: too many speakers wait for it.
          ActorGone: its session has ended.
          UnknownNpc: a reload took it away.
          RuntimeClosed: the runtime has ended.
          RuntimeError: this turn was entered before.
        """
        if self._entered:
            raise RuntimeError("a turn is entered once; say it again for another")
        self._entered = True
        try:
            await self._bridge.ask(self._enter)
        except BaseException as error:  # it may have begun in this very moment
            await self.__aexit__(type(error), error, None)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is GeneratorExit:  # nothing can be awaited any more
            self._bridge.start(self._leave)
        else:
            await self._bridge.see_out(self._leave)

    @property
    def delivered(self) -> str:
        """What was heard by the time of the last event; after the block, all of it."""
        return self._delivered

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TurnEvent:
        """The next event. A wait that is cancelled loses none.

        Raises:
          RuntimeClosed: the runtime has ended.
        """
        self._must_be_entered()
        return await self._events.take(self._next)

    async def finish(self) -> TurnDone:
        """Listen to the end; the last event has the text, outcomes and timings.

        Raises:
          TurnNotOver: if the session was closed before that.
          RuntimeClosed: if the runtime was.
        """
        self._must_be_entered()
        if self._events.asked:  # by a wait that was cancelled
            await anext(self, None)
        return await self._bridge.ask(self._finish)

    def _must_be_entered(self) -> None:
        if not self._entered:
            raise RuntimeError("enter the turn first: async with npc.say(...) as turn")

    # On trio's side.

    async def _enter(self) -> None:
        native = self._say()
        await native.__aenter__()
        self._native = native

    async def _leave(self) -> None:
        if self._native is not None:
            await self._native.__aexit__(None, None, None)
            self._note(self._native)

    async def _next(self) -> TurnEvent | End:
        if self._native is None:
            return END
        try:
            return await anext(self._native, END)
        finally:
            self._note(self._native)

    async def _finish(self) -> TurnDone:
        assert self._native is not None
        try:
            return await self._native.finish()
        finally:
            self._note(self._native)

    def _note(self, native: NativeTurn) -> None:
        self._delivered, self.done = native.delivered, native.done


@attrs.frozen(eq=False)
class Npc:
    """One NPC of a runtime. Cheap to make, usable from any task of the loop.

    Every method raises `RuntimeClosed` when the runtime has ended, and `UnknownNpc`
    when a reload took the NPC away.
    """

    config: NpcConfig
    _bridge: Bridge
    _find: Callable[[], NativeNpc]

    @property
    def name(self) -> str:
        return self.config.name

    def say(
        self, text: str, *, speaker: str = "player", tier: Tier | None = None
    ) -> Turn:
        """Say something to the NPC; enter the turn to hear the answer.

        Args:
          speaker: who says it. The same speaker's next utterance interrupts,
            another's waits.
          tier: the DM's override of the tier for this utterance (D2).
        """
        return Turn(
            self._bridge, lambda: self._find().say(text, speaker=speaker, tier=tier)
        )

    async def approve(self, question: str, yes: bool) -> bool:
        """Answer an `ApprovalNeeded` by its ``question``; the first answer counts.

        Returns False if it was not open any more.
        """
        return await self._ask(lambda npc: npc.approve(question, yes))

    async def elevate(self, tier: Tier, *, seconds: float) -> None:
        """Raise the NPC's ceiling to ``tier`` for a while (the DM's lever, G31)."""
        await self._ask(partial(NativeNpc.elevate, tier=tier, seconds=seconds))

    async def tier_for(self, text: str) -> Tier:
        """The tier that ``text`` would get if it were said now; it leaves no trace."""
        return await self._ask(lambda npc: npc.tier_for(text))

    async def hearing(self, text: str, *, speaker: str = "player") -> None:
        """Tell the NPC what somebody is saying while they still speak."""
        await self._ask(lambda npc: npc.hearing(text, speaker=speaker))

    async def interrupt(self) -> bool:
        """End the turn that is running; False if none was."""
        return await self._ask(NativeNpc.interrupt)

    async def _ask(self, what: Callable[[NativeNpc], Awaitable[R]]) -> R:
        async def ask() -> R:
            return await what(self._find())

        return await self._bridge.ask(ask)
