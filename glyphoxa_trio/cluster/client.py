"""The connection of a client to the workers, and the turns that are open on it.

Which worker has a session, and what is done if it is gone, is decided by `Placement`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeAlias

import attrs

import trio

from glyphoxa_trio.actors import Signal
from glyphoxa_trio.nats import NatsError, NatsLink, NatsMessage, NatsMessages
from glyphoxa_trio.nats.protocol import NO_RESPONDERS
from glyphoxa_trio.npc import Turn, TurnDone, TurnEvent
from glyphoxa_trio.npc.events import TurnEnd

from .errors import ClusterRefused
from .messages import (
    CREDIT,
    AckMessage,
    AnswerMessage,
    AnyMessage,
    AskMessage,
    BeatMessage,
    DoneMessage,
    ListedMessage,
    ListMessage,
    LookMessage,
    RefusalReason,
    RefusedMessage,
    SayMessage,
    SeenMessage,
    ShownMessage,
)
from .placement import ClientAction, EndSay, GiveEvents, Placement, ToWorker
from .remote_turn import RemoteListener, RemoteTurn
from .wire import InvalidMessage, Subjects, event_of, pack, read

logger = logging.getLogger(__name__)

_TICK: Final = 0.05

OperatorAnswer: TypeAlias = ListedMessage | ShownMessage


@attrs.define(eq=False)
class _RemoteAsk:
    """A request that is open, until its ``answer`` has come."""

    over: trio.Event = attrs.field(factory=trio.Event, init=False)
    answer: AnswerMessage | RefusedMessage | None = attrs.field(
        default=None, init=False
    )

    def end(self, answer: AnswerMessage | RefusedMessage | None) -> None:
        """Take the answer; None if its time is over."""
        self.answer = answer
        self.over.set()


@attrs.define(eq=False, repr=False)
class ClusterClient:
    """The connection of `RemoteRuntime`."""

    _nats: NatsLink
    _subjects: Subjects
    _inbox: str
    placement: Placement = attrs.field(factory=Placement, init=False)
    counts: Counter[str] = attrs.field(factory=Counter, init=False)
    seen: trio.Event = attrs.field(factory=trio.Event, init=False)  # a worker
    _open: dict[str, RemoteTurn] = attrs.field(factory=dict, init=False)
    _asks: dict[str, _RemoteAsk] = attrs.field(factory=dict, init=False)
    # What workers have answered to an operator, by the id of the question.
    _answers: dict[str, dict[str, OperatorAnswer]] = attrs.field(
        factory=dict, init=False
    )
    _answered: Signal = attrs.field(factory=Signal, init=False)
    _watches: dict[str, Callable[[SeenMessage], None]] = attrs.field(
        factory=dict, init=False
    )

    @property
    def connected(self) -> bool:
        """True while the bus answers."""
        return self._nats.is_connected

    def turn(self, say: SayMessage) -> Turn:
        """Return the turn that an utterance begins."""
        listener = RemoteListener()
        return Turn(partial(self.say, say, listener), listener)

    async def say(self, say: SayMessage, listener: RemoteListener) -> None:
        """Say something; return when the first events have come.

        Raises:
          ClusterRefused: it is refused, or no worker took it in time.
        """
        turn = RemoteTurn(say, listener, trio.current_time())
        self._open[say.id] = turn
        listener.stream.produced_by(
            partial(self._consumed, turn), partial(self._cancelled, turn)
        )
        try:
            self._do(self.placement.say(say, trio.current_time()))
            await turn.answered.wait()
        except BaseException:
            self._do(self.placement.leave(say.id, forget=True))
            raise
        if (refused := turn.refused) is not None:
            raise ClusterRefused(refused.reason, refused.message)

    async def gathered(
        self, asked: ListMessage | LookMessage, names: Sequence[str], within: float
    ) -> tuple[OperatorAnswer, ...]:
        """Ask workers for something; return what came in time, by their names."""
        answers = self._answers[asked.id] = {}
        try:
            for name in names:
                self.order(name, asked)
            with trio.move_on_after(within):
                while len(answers) < len(names):
                    await self._answered.changed()
        finally:
            del self._answers[asked.id]
        return tuple(answers[x] for x in sorted(answers))

    @contextmanager
    def watching(
        self, id_: str, seen: Callable[[SeenMessage], None]
    ) -> Generator[None]:
        """Call ``seen`` with what workers send of a watch; it must not raise."""
        self._watches[id_] = seen
        try:
            yield
        finally:
            del self._watches[id_]

    def order(self, worker: str, message: AnyMessage) -> None:
        """Send an operator's order to a worker."""
        self._send(worker, message, self._subjects.operations(worker))

    async def ask(self, ask: AskMessage) -> Any:
        """Ask the owner of a session for something, and return the result.

        Raises:
          ClusterRefused: it is refused, has failed, or nobody answered in time.
        """
        one = self._asks[ask.id] = _RemoteAsk()
        try:
            self._do(self.placement.ask(ask, trio.current_time()))
            await one.over.wait()
        except BaseException:
            self._do(self.placement.leave(ask.id, forget=True))
            raise
        finally:
            del self._asks[ask.id]
        match one.answer:
            case AnswerMessage(result=result):
                return result
            case RefusedMessage(reason=reason, message=message):
                raise ClusterRefused(reason, message)
        raise ClusterRefused(RefusalReason.UNAVAILABLE, "its worker is gone")

    def leave(self) -> None:
        """Interrupt everything that is open."""
        for id_ in [*self._open, *self._asks]:
            self._do(self.placement.leave(id_, forget=True))

    # -- what listeners do

    def _consumed(self, turn: RemoteTurn, event: TurnEvent) -> None:
        """Acknowledge an event that was heard, with those before it."""
        n = turn.consumed(event)
        if isinstance(event, TurnDone):
            due = turn.acknowledged < n - 1  # what was before it
        else:
            waiting = turn.listener.stream.statistics().waiting
            due = not waiting or n % (CREDIT // 4) == 0
        if n and due:
            turn.acknowledge(n)
            self._send(turn.worker, AckMessage(id=turn.say.id, n=n))

    def _cancelled(self, turn: RemoteTurn, why: str) -> None:
        self._do(self.placement.leave(turn.say.id))

    # -- what is heard

    async def hear(self, answers: NatsMessages) -> None:
        """Take what workers answer, until cancelled."""
        async for message in answers:
            worker, now = message.subject.rpartition(".")[2], trio.current_time()
            if message.status == NO_RESPONDERS and not message.payload:
                self._do(self.placement.no_responders(worker, now))
            elif isinstance(said := self._read(message), ListedMessage | ShownMessage):
                self._answers.get(said.id, {})[said.worker] = said
                self._answered.set()
            elif isinstance(said, SeenMessage):
                if (seen := self._watches.get(said.id)) is not None:
                    seen(said)
            elif isinstance(said, BeatMessage):
                self._do(self.placement.beat(said, now))
            elif said is not None:
                self._do(self.placement.received(said, worker, now))

    async def hear_beats(self, beats: NatsMessages) -> None:
        """Learn from their beats which workers there are, until cancelled."""
        async for message in beats:
            beat = self._read(message)
            if isinstance(beat, BeatMessage):
                self.seen.set()
                self._do(self.placement.beat(beat, trio.current_time()))

    def _read(self, message: NatsMessage) -> AnyMessage | None:
        try:
            return read(message.payload)
        except InvalidMessage as error:
            self.counts["invalid"] += 1
            logger.warning("a message to this client cannot be read: %s", error)
            return None

    async def live(self) -> None:
        """Ask again, and find who is silent, until cancelled."""
        while True:
            deaf = not self._nats.is_connected
            self._do(self.placement.tick(trio.current_time(), deaf=deaf))
            await trio.sleep(_TICK)

    # -- what is done

    def _do(self, actions: Sequence[ClientAction]) -> None:
        for action in actions:
            match action:
                case ToWorker(worker=worker, message=message):
                    self._send(worker, message)
                case GiveEvents():
                    self._give(action)
                case EndSay():
                    self._end(action)

    def _give(self, events: GiveEvents) -> None:
        turn = self._open.get(events.id)
        if turn is None:
            return
        for n, told in enumerate(events.events, events.n):
            if (event := self._event(told)) is not None:
                turn.give(events.worker, n, event)
        turn.answered.set()

    def _event(self, told: dict[str, Any]) -> TurnEvent | None:
        try:
            return event_of(told)
        except InvalidMessage as error:
            self.counts["invalid"] += 1
            logger.warning("an event cannot be read: %s", error)
            return None

    def _end(self, end: EndSay) -> None:
        ended, last = end.ended, None
        if (asking := self._asks.get(end.id)) is not None:
            asking.end(None if isinstance(ended, DoneMessage) else ended)
            return
        turn = self._open.pop(end.id, None)
        if turn is None or isinstance(ended, AnswerMessage):
            return
        if isinstance(ended, RefusedMessage):
            if not turn.answered.is_set():
                turn.refuse(ended)
                return
            done = turn.ended(TurnEnd.FAILED, ended.message or ended.reason)
        else:
            if ended is not None and ended.event is not None:
                last = self._event(ended.event)
            if ended is not None and isinstance(last, TurnDone):
                done = attrs.evolve(last, kept=ended.kept)
            else:
                done = turn.ended(TurnEnd.LOST, "its worker is gone")
        turn.give(end.worker, 0 if ended is None else getattr(ended, "n", 0), done)
        turn.over()

    def _send(self, worker: str, message: AnyMessage, subject: str = "") -> None:
        try:
            self._nats.publish_nowait(
                subject or self._subjects.worker(worker),
                pack(message),
                reply=f"{self._inbox}.{worker}",
            )
        except (NatsError, InvalidMessage, ValueError) as error:
            # It is sent again, or the turn ends as lost.
            self.counts["unsent"] += 1
            logger.debug("not sent to %s: %s", worker, error)
