"""The sessions of a runtime that a worker holds, and the turns that run there."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

import attrs

import trio

from glyphoxa_trio.actors import Signal
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc import QueueFull, SceneFull, TurnDone, TurnEvent, TurnKept
from glyphoxa_trio.npc.events import TurnEnd
from glyphoxa_trio.npc.identity import NpcId, SessionKey
from glyphoxa_trio.runtime import NotClaimed, Runtime, Session, SessionHold, UnknownNpc

from .actions import Answer, CarryOut, ClaimSession, RunTurn
from .asked import carry_out, session_of, turn_of
from .media import MediaDesk
from .messages import (
    AcceptedMessage,
    AnswerMessage,
    AnyMessage,
    RefusalReason,
    RefusedMessage,
)
from .turn_delivery import TurnDelivery
from .wire import pack

logger = logging.getLogger(__name__)

TOGETHER: Final = 0.005
"""Seconds within which events travel in one message."""

KEPT_WITHIN: Final = 0.25
"""Seconds that the end of a turn waits until it is written."""

ACK_WITHIN: Final = 10.0
"""Seconds for a client to acknowledge something; then it is taken to have left."""

CLAIM_WITHIN: Final = 5.0
_BUG: Final = "an error in the worker; see its log"

_TurnKey: TypeAlias = tuple[NpcId, int]


class ClaimTooLate(GlyphoxaError):
    """The store did not answer in time."""


@attrs.define(eq=False)
class _ServedTurn:
    """A turn that runs: ``interrupt`` ends it as every turn ends, ``scope`` at once."""

    delivery: TurnDelivery = attrs.field(init=False)
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    interrupt: Callable[[str], None] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.interrupt = self.scope.cancel  # until it has begun


@attrs.define(eq=False)
class _Written:
    """The news that a turn was written, or never will be."""

    known: trio.Event = attrs.field(factory=trio.Event, init=False)
    kept: bool = attrs.field(default=False, init=False)

    def set(self, *, kept: bool) -> None:
        self.kept = kept
        self.known.set()


@attrs.define(eq=False)
class _ServedSession:
    """A session that was claimed, until it is given back: ``gone`` is set then."""

    session: Session
    turns: dict[str, _ServedTurn] = attrs.field(factory=dict, init=False)
    gone: trio.Event = attrs.field(factory=trio.Event, init=False)


@attrs.define(eq=False, repr=False)
class ServedSessions:
    """The sessions that a worker holds.

    Args:
      send: sends a message to a client.
      lost: called when another worker turns out to have a session that was claimed
        here, with the epoch of that claim.
      media: serves the audio of these sessions.
    """

    _worker: str
    _runtime: Runtime
    _send: Callable[[str, AnyMessage], None]
    _lost: Callable[[ClaimSession, int], None]
    _media: MediaDesk
    _held: dict[SessionKey, _ServedSession] = attrs.field(factory=dict, init=False)
    # What is being given back: its key may be claimed again only afterwards.
    _going: dict[SessionKey, _ServedSession] = attrs.field(factory=dict, init=False)
    _turns: dict[tuple[str, str], _ServedTurn] = attrs.field(factory=dict, init=False)
    _due: set[TurnDelivery] = attrs.field(factory=set, init=False)
    _any_due: Signal = attrs.field(factory=Signal, init=False)
    # Those whose end waits until it is known if they were written, by NPC and number.
    _unwritten: dict[_TurnKey, _Written] = attrs.field(factory=dict, init=False)

    @property
    def held(self) -> int:
        """The number of sessions."""
        return len(self._held)

    async def run(self) -> None:
        """Send what falls due together, and note which turns are written; until
        cancelled."""
        with self._runtime.events.tap(self._note):
            while True:
                await self._any_due.until(lambda: bool(self._due))
                await trio.sleep(TOGETHER)
                due, self._due = self._due, set()
                for delivery in due:
                    delivery.flush()

    def session(self, key: SessionKey) -> Session | None:
        """Return a session that is held."""
        served = self._held.get(key)
        return None if served is None else served.session

    def _note(self, event: TurnEvent) -> None:
        self._media.note(event)
        if isinstance(event, TurnKept):
            written = self._unwritten.get((event.id, event.turn))
            if written is not None:
                written.set(kept=event.kept)

    def _later(self, delivery: TurnDelivery) -> None:
        self._due.add(delivery)
        self._any_due.set()

    # -- sessions

    async def claim(self, claim: ClaimSession) -> SessionHold:
        """Claim a session and load it.

        Raises:
          HeldElsewhere: another worker has it.
          GlyphoxaError: it cannot be had now.
        """
        key, epoch = claim.key, 0
        if (going := self._going.get(key)) is not None:
            await going.gone.wait()
        session = session_of(self._runtime, key, claim.joined)

        def lost() -> None:
            self._lost(claim, epoch)

        steal_from = None if claim.silent is None else claim.silent.epoch
        try:
            with trio.move_on_after(CLAIM_WITHIN):
                hold = await session.claim(steal_from=steal_from, on_lost=lost)
                epoch = hold.epoch
                self._held[key] = _ServedSession(session)
                return hold
            raise ClaimTooLate(f"memory did not answer within {CLAIM_WITHIN:g} s")
        except NotClaimed:
            raise  # this program speaks in it itself
        except GlyphoxaError:
            # Nothing is written. A claim that was made all the same is made anew.
            await session.release(write=False)
            raise

    def close(self, key: SessionKey) -> None:
        """End the turns of a session at once, and send nothing more of them."""
        if (served := self._held.pop(key, None)) is not None:
            self._going[key] = served
            self._media.close(key, "the session is not here any more")
            for turn in served.turns.values():
                turn.delivery.close()
                turn.scope.cancel("the session is given up")

    async def end(self, key: SessionKey, *, write: bool) -> None:
        """Give a session back, or leave it to the worker that has it now."""
        self.close(key)
        served = self._going[key]
        try:
            await served.session.release(write=write)
        finally:
            del self._going[key]
            served.gone.set()

    # -- turns

    def ack(self, to: str, id_: str, n: int) -> None:
        """Note that a client has the events of an utterance up to this number."""
        if (turn := self._turns.get((to, id_))) is not None:
            turn.delivery.ack(n)

    def stop(self, key: SessionKey, id_: str) -> None:
        """Interrupt a turn; its last events still come."""
        served = self._held.get(key)
        if served is not None and (turn := served.turns.get(id_)) is not None:
            turn.delivery.hurry()
            turn.interrupt("its client leaves")

    async def speak(self, run: RunTurn) -> TurnEnd | None:
        """Run an utterance and send its events, until all of them have arrived.

        Return how its turn ended: ``LOST`` with its session; None if there is none,
        since the utterance was refused.
        """
        served = self._held.get(run.key)
        if served is None:
            return TurnEnd.LOST
        to, id_ = run.to, run.say.id
        running = _ServedTurn()
        delivery = running.delivery = TurnDelivery(
            run,
            AcceptedMessage(
                id=id_, worker=self._worker, epoch=run.epoch, turn=run.turn
            ),
            send=partial(self._send, to),
            later=self._later,
            overflow=lambda: running.interrupt("its client is too slow"),
        )
        served.turns[id_] = self._turns[to, id_] = running
        self._later(delivery)
        try:
            with running.scope:
                done = await self._speak(served.session, run, running)
                return TurnEnd.FAILED if done is None else done.end
            given_up = self._held.get(run.key) is not served
            return TurnEnd.LOST if given_up else TurnEnd.INTERRUPTED
        except (GlyphoxaError, ValueError) as error:  # what was said is not valid
            self._send(to, self._refused(id_, run.epoch, _reason_of(error), str(error)))
        except Exception:  # a bug in one turn must not end those of other sessions
            logger.exception("a turn of %s failed", run.key)
            self._send(to, self._refused(id_, run.epoch, RefusalReason.FAILED, _BUG))
        finally:
            del served.turns[id_]
            self._turns.pop((to, id_), None)
            self._due.discard(delivery)
        return None

    async def answer(self, asked: CarryOut) -> Answer:
        """Carry out a request, and return what is to be answered."""
        id_, epoch = asked.ask.id, asked.epoch
        served = self._held.get(asked.key)
        if served is None:
            return self._refused(id_, epoch, RefusalReason.FENCED, "it was given up")
        try:
            with trio.move_on_after(asked.remaining) as patience:
                result = await carry_out(
                    self._runtime,
                    served.session,
                    asked.ask,
                    lambda npc, speaker: self._media.offer(
                        npc, epoch, trio.current_time(), speaker
                    ),
                )
            if patience.cancelled_caught:
                late = "it was not carried out in time"
                return self._refused(id_, epoch, RefusalReason.FAILED, late)
            answer = AnswerMessage(
                id=id_, worker=self._worker, epoch=epoch, result=result
            )
            pack(answer)  # what is too large for the bus is refused
        except (GlyphoxaError, TypeError, ValueError) as error:
            return self._refused(id_, epoch, _reason_of(error), str(error))
        except Exception:  # as for turns
            logger.exception("a request of %s failed", asked.key)
            return self._refused(id_, epoch, RefusalReason.FAILED, _BUG)
        return answer

    def _refused(
        self, id_: str, epoch: int, reason: RefusalReason, why: str
    ) -> RefusedMessage:
        return RefusedMessage(
            id=id_, worker=self._worker, reason=reason, epoch=epoch, message=why[:2000]
        )

    async def _speak(
        self, session: Session, run: RunTurn, running: _ServedTurn
    ) -> TurnDone | None:
        delivery = running.delivery
        async with turn_of(session, run.say) as turn:
            turn.acknowledge()
            delivery.tell(turn.acknowledge)
            running.interrupt = turn.interrupt
            key: _TurnKey | None = None
            try:
                with trio.move_on_after(run.remaining) as patience:
                    async for event in turn:
                        key = self._awaits(event, key)
                        delivery.take(event)
                if patience.cancelled_caught:
                    turn.interrupt("the time of its caller is over")
                    async for event in turn:
                        key = self._awaits(event, key)
                        delivery.take(event)
                if turn.done is not None:
                    await self._finish(delivery, turn.done, key)
            finally:
                if key is not None:
                    self._unwritten.pop(key, None)
        return turn.done

    def _awaits(self, event: TurnEvent, key: _TurnKey | None) -> _TurnKey | None:
        """Wait from the turn's first event on for the news that it was written."""
        if key is None and event.turn:
            key = event.id, event.turn
            self._unwritten[key] = _Written()
        return key

    async def _finish(
        self, delivery: TurnDelivery, done: TurnDone, key: _TurnKey | None
    ) -> None:
        written = _Written() if key is None else self._unwritten[key]
        if key is not None:
            with trio.move_on_after(KEPT_WITHIN):
                await written.known.wait()
        await delivery.wait_sent(ACK_WITHIN)
        delivery.done(done, kept=written.kept)
        await delivery.wait_arrived(ACK_WITHIN)


def _reason_of(error: Exception) -> RefusalReason:
    match error:
        case UnknownNpc():
            return RefusalReason.NOT_FOUND
        case QueueFull() | SceneFull():
            return RefusalReason.SHED
    return RefusalReason.FAILED
