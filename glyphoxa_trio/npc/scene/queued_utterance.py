"""An utterance in a scene, from when it is said until its answer has been heard."""

from __future__ import annotations

from collections import deque
from types import TracebackType

import attrs

import trio

from glyphoxa_trio.actors import Handover, Signal, StableRef
from glyphoxa_trio.npc.events import (
    Flush,
    Queued,
    Timings,
    TurnDone,
    TurnEnd,
    TurnEvent,
)
from glyphoxa_trio.npc.identity import NpcId
from glyphoxa_trio.npc.session.npc import FAREWELL, PATIENCE, Turn
from glyphoxa_trio.npc.spoken_audio import TOLERANCE
from glyphoxa_trio.npc.turn.listener import Listener

from .messages import Enter, SceneMessages


@attrs.define(eq=False)
class QueuedUtterance:
    """Where it stands among all that is said in the scene.

    ``scope`` ends its waiting: its listener left, or it was ``cut``, which says why.
    It is ``given`` the floor; ``handed`` to the NPC's session, or never will be;
    ``told`` when its listener has the last event, or has left; ``over`` when they have
    heard it; ``gone`` when everybody knows what was said, and another may speak.
    """

    said: Enter
    listener: Listener
    id: NpcId = attrs.field(default=NpcId(""), init=False)
    since: float = attrs.field(factory=trio.current_time, init=False)
    cut: str = attrs.field(default="", init=False)
    begun: bool = attrs.field(default=False, init=False)
    _flushed: bool = attrs.field(default=False, init=False)
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    given: trio.Event = attrs.field(factory=trio.Event, init=False)
    handed: trio.Event = attrs.field(factory=trio.Event, init=False)
    told: trio.Event = attrs.field(factory=trio.Event, init=False)
    over: trio.Event = attrs.field(factory=trio.Event, init=False)
    gone: trio.Event = attrs.field(factory=trio.Event, init=False)
    _news: deque[TurnEvent] = attrs.field(factory=deque, init=False)
    _arrived: Signal = attrs.field(factory=Signal, init=False)

    @property
    def speaker(self) -> str:
        return self.said.speaker

    @property
    def own(self) -> bool:
        """Whether the NPC speaks for itself."""
        return self.said.script is None

    @property
    def dm(self) -> bool:
        """Whether whoever directs the scene says it."""
        return self.said.dm

    @property
    def npc(self) -> str:
        """Who is meant."""
        return self.id.npc

    def goes_to(self, npc: NpcId) -> None:
        """This one is meant."""
        self.id = npc

    def end_because(self, why: str) -> bool:
        """Cut it, or have it not begin; False if it was cut before."""
        if self.cut:
            return False
        self.cut = why
        self.scope.cancel(why)
        self.over.set()  # what is left of it is not to be played
        return True

    def post(self, event: TurnEvent) -> None:
        """Tell the listener something that is not its session's to say."""
        self._news.append(event)
        self._arrived.set()

    def queue(self, position: int) -> None:
        self.post(Queued(**self.id.of(0), position=position))

    def hand_over(self) -> None:
        """Its NPC has it, and says the rest."""
        self.begun = True
        self.handed.set()
        self._arrived.set()

    def end(self, why: str, *, failed: bool = False) -> None:
        """If it was not begun it never will be. The listener is told so, if there
        still is one."""
        if self.handed.is_set():
            return
        waited = trio.current_time() - self.since
        self.post(
            TurnDone(
                **self.id.of(0),
                end=TurnEnd.FAILED if failed else TurnEnd.INTERRUPTED,
                text="",
                outcomes=(),
                timings=Timings(model=0.0, tools=0.0, total=waited),
                rounds=0,
                error=why,
            )
        )
        self.handed.set()
        self.listener.ended.set()
        # A session may have got it after all: then it is as if its listener had left.
        self.listener.stream.cancel(why)
        self.listener.stream.leave()

    def heard(self, event: TurnEvent) -> None:
        """The listener has got this."""
        if isinstance(event, Flush):
            self._flushed = True
        if isinstance(event, TurnDone):
            self.listened()

    def listened(self) -> None:
        """The listener has the last event, and perhaps more to hear."""
        self.told.set()
        if self._flushed or self.listener.unplayed <= TOLERANCE:
            self.over.set()

    def leave(self, why: str) -> None:
        """Nobody waits for it any more, nor listens to the rest."""
        self.scope.cancel(why)
        self.told.set()
        self.over.set()

    async def next_news(self) -> TurnEvent | None:
        """What the scene has to say; None once the session says the rest."""
        await self._arrived.until(lambda: bool(self._news) or self.handed.is_set())
        return self._news.popleft() if self._news else None


@attrs.define(eq=False)
class SceneTurn(Turn):
    """A turn in a scene: its events begin with `Queued` if others are spoken to.

    ``turn`` of an event is 0 until the NPC begins. One that never does, because its
    player went on or the NPC was muted, ends in a `TurnDone` all the same.
    """

    _place: QueuedUtterance = attrs.field(kw_only=True)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await super().__aexit__(kind, error, traceback)
        if self._place.over.is_set():  # else the rest is still played
            with trio.move_on_after(FAREWELL, shield=True):
                await self._place.gone.wait()

    @property
    def npc(self) -> str:
        """Who is meant; known once the block was entered."""
        return self._place.npc

    @property
    def spoken_text(self) -> str:
        """What was said, as far as it is known."""
        return self._listener.text or self._place.said.text

    def interrupt(self, reason: str) -> None:
        """Have the NPC stop; its last event is still to come."""
        self._listener.stream.cancel(reason)

    async def __anext__(self) -> TurnEvent:
        place = self._place
        if self._entered and (event := await place.next_news()) is not None:
            await trio.lowlevel.checkpoint()
            if isinstance(event, TurnDone):
                self.done = event
            return event
        try:
            event = await super().__anext__()
        except StopAsyncIteration:
            place.listened()
            raise
        place.heard(event)
        return event

    def played(self, ms: float) -> None:
        super().played(ms)
        if self._place.told.is_set():
            self._place.listened()

    def _leave(self) -> None:
        super()._leave()
        if not self._place.told.is_set():  # else the rest may still be played
            self._place.leave("the listener left")


def turn_of(
    scene: StableRef[SceneMessages],
    handover: Handover,
    said: Enter,
    listener: Listener | None = None,
) -> SceneTurn:
    """The turn that begins by entering the scene.

    Args:
      listener: of a turn that has begun already.
    """
    place = QueuedUtterance(said, Listener() if listener is None else listener)

    async def enter() -> None:
        with handover.offered(place) as name:
            request = attrs.evolve(said, place=name)
            await scene.ask(request, within=PATIENCE)

    return SceneTurn(enter, place.listener, place=place)
