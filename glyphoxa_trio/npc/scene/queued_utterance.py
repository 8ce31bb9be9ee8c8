"""The queued utterances of a scene, from being said until their answers were heard."""

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
    """One utterance in the queue of a scene.

    ``id`` is the addressed NPC; the scene's actor sets it when the turn comes.
    ``scope`` ends its waiting: its listener has left, or it was ``cut`` for the reason
    given there. These events are set in order: ``given`` when its turn comes;
    ``handed`` when the NPC's session has it, or never will; ``told`` when the listener
    has the last event, or has left; ``over`` when the listener has heard the answer;
    ``gone`` when all others were told, and the next one may begin.
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
        """The speaker's name."""
        return self.said.speaker

    @property
    def own(self) -> bool:
        """True if the NPC speaks for itself."""
        return self.said.script is None

    @property
    def dm(self) -> bool:
        """True if the DM says it."""
        return self.said.dm

    @property
    def npc(self) -> str:
        """The addressed NPC."""
        return self.id.npc

    def end_because(self, why: str) -> bool:
        """Interrupt it or prevent its turn; return False if that was done before."""
        if self.cut:
            return False
        self.cut = why
        self.scope.cancel(why)
        self.over.set()  # the rest of the answer is not to be played
        return True

    def post(self, event: TurnEvent) -> None:
        """Send the listener an event of the scene, which the session does not know."""
        self._news.append(event)
        self._arrived.set()

    def queue(self, position: int) -> None:
        """Tell the listener its position in the queue; 1 is next."""
        self.post(Queued(**self.id.of(0), position=position))

    def hand_over(self) -> None:
        """Record that the NPC's session has it, and sends the remaining events."""
        self.begun = True
        self.handed.set()
        self._arrived.set()

    def end(self, why: str, *, failed: bool = False) -> None:
        """End an utterance that was not handed over, and tell its listener why."""
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
        # If a session got it nevertheless, its turn is cancelled as if the listener had
        # left.
        self.listener.stream.cancel(why)
        self.listener.stream.leave()

    def heard(self, event: TurnEvent) -> None:
        """Record that the listener has received this event."""
        if isinstance(event, Flush):
            self._flushed = True
        if isinstance(event, TurnDone):
            self.listened()

    def listened(self) -> None:
        """Record that the listener has the last event, and perhaps unplayed audio."""
        self.told.set()
        if self._flushed or self.listener.unplayed <= TOLERANCE:
            self.over.set()

    def leave(self, why: str) -> None:
        """Stop waiting: the listener is not interested any more."""
        self.scope.cancel(why)
        self.told.set()
        self.over.set()

    async def next_news(self) -> TurnEvent | None:
        """Wait for the next event of the scene; None if the session sends the rest."""
        await self._arrived.until(lambda: bool(self._news) or self.handed.is_set())
        return self._news.popleft() if self._news else None


@attrs.define(eq=False)
class SceneTurn(Turn):
    """A turn in a scene. Its first event is `Queued` if it has to wait.

    ``turn`` of an event is 0 until the NPC begins. A turn that never begins, because
    its player went on or the NPC was muted, ends with a `TurnDone`, too.
    """

    _place: QueuedUtterance = attrs.field(kw_only=True)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await super().__aexit__(kind, error, traceback)
        if self._place.over.is_set():  # otherwise the rest is still played
            with trio.move_on_after(FAREWELL, shield=True):
                await self._place.gone.wait()

    @property
    def npc(self) -> str:
        """The addressed NPC; known once the block was entered."""
        return self._place.npc

    @property
    def spoken_text(self) -> str:
        """The words that were said, as far as they are known."""
        return self._listener.text or self._place.said.text

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
        """Report how much was played; see `Turn.played`."""
        super().played(ms)
        if self._place.told.is_set():
            self._place.listened()

    def heard(self, text: str, *, over: bool = False) -> None:
        """Report the words that were heard; see `Turn.heard`."""
        super().heard(text, over=over)
        if self._place.told.is_set():
            self._place.listened()

    def _leave(self) -> None:
        super()._leave()
        if not self._place.told.is_set():  # otherwise the rest may still be played
            self._place.leave("the listener left")


def turn_of(
    scene: StableRef[SceneMessages],
    handover: Handover,
    said: Enter,
    listener: Listener | None = None,
) -> SceneTurn:
    """Return the turn that begins by entering the scene.

    Args:
      scene: the scene's mailbox.
      handover: passes the utterance to the scene.
      said: the message.
      listener: the listener of a turn that has begun already; None makes a new one.
    """
    place = QueuedUtterance(said, Listener() if listener is None else listener)

    async def enter() -> None:
        with handover.offered(place) as name:
            request = attrs.evolve(said, place=name)
            await scene.ask(request, within=PATIENCE)

    return SceneTurn(enter, place.listener, place=place)
