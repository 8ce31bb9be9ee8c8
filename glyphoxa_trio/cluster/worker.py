"""A worker: a runtime that serves its sessions to other machines.

    async with open_runtime(config) as runtime:
        async with open_nats("nats://127.0.0.1") as nats:
            async with serve(runtime, nats) as worker:
                await worker.drained()

It hears what clients send, and does what `Ownership` says. Sessions are kept in the
runtime's memory, whose journal says who has which.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

import attrs
from msgspec.structs import replace

import trio

from glyphoxa_trio.actors import Signal, lone_errors
from glyphoxa_trio.memory.errors import HeldElsewhere
from glyphoxa_trio.memory.spending import SpendingStore
from glyphoxa_trio.nats import NatsError, NatsLink, NatsMessage, NatsMessages
from glyphoxa_trio.npc.identity import NpcId, SessionKey
from glyphoxa_trio.runtime import Runtime, Session, TooManySessions
from glyphoxa_trio.units import seconds

from .actions import (
    CarryOut,
    ClaimSession,
    CloseSession,
    ReleaseSession,
    RunTurn,
    StopTurn,
    ToClient,
    WorkerAction,
)
from .call_sharing import CallSharing
from .errors import ClusterError
from .knowledge_sharing import share_knowledge
from .media import MediaDesk
from .messages import (
    AcceptedMessage,
    AckMessage,
    AnswerMessage,
    AnyMessage,
    AskMessage,
    BeatMessage,
    DrainMessage,
    LeaveMessage,
    ListMessage,
    LookMessage,
    PingMessage,
    PongMessage,
    RefusalReason,
    RefusedMessage,
    SayMessage,
    WatchMessage,
)
from .ownership import Ownership
from .quotas import QuotaShares, TenantQuota
from .served_sessions import ServedSessions
from .signals import ClaimResult, WorkerSignals
from .spending import TenantSpending, share_spending
from .wire import InvalidMessage, LargeMessage, NewerMessage, Subjects, pack, read

if TYPE_CHECKING:
    from .looks import WorkerLooks

logger = logging.getLogger(__name__)

TICK: Final = 0.1  # seconds, as `Ownership.tick` wants it
BEATS: Final = 5  # ticks from one beat to the next
_SUBSCRIBING: Final = 5.0
# At once, when a worker drains: more would keep it from answering for too long.
_RELEASES: Final = 32


@asynccontextmanager
async def serve(
    runtime: Runtime,
    nats: NatsLink,
    *,
    deployment: str = "default",
    tenants: Sequence[str] | None = None,
    most: int = 10_000,
    idle: float = 600.0,
    quotas: Mapping[str, TenantQuota] | None = None,
) -> AsyncGenerator[ClusterWorker]:
    """Serve the sessions of a runtime, until the block is left.

    Leaving it interrupts the turns that run for others; `ClusterWorker.drained` lets
    them end first.

    Args:
      runtime: it must have memory that other workers share: a PostgreSQL database.
      deployment: the name of the workers and clients that belong together: letters,
        digits, ``_`` and ``-``.
      tenants: those that are served here; None for all.
      most: sessions that are held at a time.
      idle: seconds after which a quiet session is given back.
      quotas: what tenants may use of the deployment; others are without a bound. Of
        sessions and turns each worker enforces an equal share; what is spent is
        summed in the database.

    Raises:
      ClusterError: the runtime has no memory, or there are quotas of tokens or cost
        and it is no database.
      InvalidMessage: the deployment's name cannot be used.
      NatsError: the server does not answer, or refuses a subscription.
    """
    if runtime.memory is None:
        raise ClusterError(
            "a worker needs memory that others share: set memory.store to the address"
            " of a PostgreSQL database"
        )
    spending = TenantSpending(quotas or {})
    store = runtime.memory if isinstance(runtime.memory, SpendingStore) else None
    if spending.tenants and store is None:
        raise ClusterError(
            "quotas of tokens and cost need memory in a PostgreSQL database"
        )
    ownership = Ownership(
        worker=runtime.memory.holder.id,
        where=runtime.memory.holder.where,
        deployment=deployment,
        version=version("glyphoxa-trio"),
        tenants=None if tenants is None else frozenset(tenants),
        most=most,
        idle=idle,
        quotas=QuotaShares(quotas or {}),
        spending=spending,
    )
    subjects = Subjects(deployment)
    async with (
        nats.subscribe(subjects.worker(ownership.worker), capacity=4096) as inbox,
        nats.subscribe(subjects.operations(ownership.worker), capacity=64) as orders,
        nats.subscribe(subjects.beat, capacity=4096) as beats,
        nats.subscribe(subjects.all_knowledge, capacity=4096) as told,
        nats.subscribe(subjects.calls(ownership.worker), capacity=1024) as asked,
    ):
        await nats.flush(within=_SUBSCRIBING)
        with lone_errors(), ExitStack() as stack:
            async with trio.open_nursery() as nursery:
                if spending.tenants and store is not None:
                    stack.enter_context(runtime.events.tap(spending.note))
                    stack.enter_context(runtime.costs_limited(_limit_of(spending)))
                    nursery.start_soon(share_spending, spending, store)
                worker = ClusterWorker(runtime, nats, subjects, ownership, nursery)
                nursery.start_soon(worker._hear, inbox, worker._take)
                nursery.start_soon(worker._hear, orders, worker._obey)
                nursery.start_soon(worker._hear_beats, beats)
                nursery.start_soon(worker._live)
                nursery.start_soon(worker._sessions.run)
                nursery.start_soon(worker._looks.run)
                nursery.start_soon(worker._share, told, asked)
                try:
                    yield worker
                finally:
                    nursery.cancel_scope.cancel("the worker stops")


def _limit_of(spending: TenantSpending) -> Callable[[NpcId], str]:
    return lambda npc: spending.refusal(npc.session.tenant, trio.current_time())


@attrs.define(eq=False, repr=False)
class ClusterWorker:
    """One worker.

    ``counts``: messages that could not be read or sent, by reason; those of
    ``knowledge`` were sent by other workers. ``signals``: what it did, which
    `monitoring` shows to Prometheus. ``calls``: those of tools that it shares with
    others.
    """

    _runtime: Runtime
    _nats: NatsLink
    _subjects: Subjects
    _ownership: Ownership
    _nursery: trio.Nursery
    counts: Counter[str] = attrs.field(factory=Counter, init=False)
    signals: WorkerSignals = attrs.field(factory=WorkerSignals, init=False)
    media: MediaDesk = attrs.field(init=False, repr=False)
    calls: CallSharing = attrs.field(init=False)
    _sessions: ServedSessions = attrs.field(init=False)
    _looks: WorkerLooks = attrs.field(init=False)
    _changed: Signal = attrs.field(factory=Signal, init=False)
    _drain_within: float | None = attrs.field(default=None, init=False)
    _to_release: deque[SessionKey] = attrs.field(factory=deque, init=False)
    _releasing: int = attrs.field(default=0, init=False)  # tasks

    def __attrs_post_init__(self) -> None:
        self.media = MediaDesk(self._ownership.may_use, self._attached)
        self._sessions = ServedSessions(
            self.name, self._runtime, self._send, self._lost, self.media
        )
        self.calls = CallSharing(
            *(self._runtime.host, self._nats, self._subjects, self.name, self.counts)
        )
        # The pages' libraries are for workers alone, and not for clients to load.
        from .looks import WorkerLooks

        self._looks = WorkerLooks(self.name, self._runtime, self._send, self._nursery)

    @property
    def name(self) -> str:
        """The name of the worker, which no other process has."""
        return self._ownership.worker

    @property
    def sessions(self) -> int:
        """The number of sessions that it holds."""
        return self._sessions.held

    @property
    def connected(self) -> bool:
        """True while the bus answers."""
        return self._nats.is_connected

    def state(self) -> BeatMessage:
        """Return what its last beat would say now."""
        return self._with_signals(self._ownership.state())

    def _with_signals(self, beat: BeatMessage) -> BeatMessage:
        signals = self.signals
        return replace(
            beat,
            late_p99_ms=round(signals.late_p99 * 1000, 3),
            shed=round(signals.shed, 4),
            journal_lag_ms=round(self._runtime.memory_lag * 1000, 3),
            claims=signals.claimed,
            restores=signals.restores,
            fenced=signals.fenced,
        )

    def session(self, key: SessionKey) -> Session | None:
        """Return a session that it holds."""
        return self._sessions.session(key)

    def refusal(self, tenant: str) -> str:
        """Count a turn that does not come over the bus; return why the tenant's quota
        refuses it, or ""."""
        now = trio.current_time()
        if spent := self._ownership.spending.refusal(tenant, now):
            return spent
        counted = self._ownership.quotas.takes_turn(tenant, now)
        return "" if counted else "the tenant's quota of turns a second is used up"

    async def told(self) -> float:
        """Return when a client, or an operator, tells it to drain, with the seconds for
        turns that run."""
        await self._changed.until(lambda: self._drain_within is not None)
        assert self._drain_within is not None
        return self._drain_within

    async def drained(self, within: float = 30.0) -> None:
        """Take no more sessions, give each back when it is quiet, and return then.

        While the database is away this waits for it, since what was said is to be
        written; cancel it to leave all the same.

        Args:
          within: seconds for turns that run; then they are interrupted.
        """
        self._do(self._ownership.drain(trio.current_time(), within))
        self._beat(0.0)
        await self._changed.until(lambda: self._ownership.drained)
        self._beat(0.0)

    # -- what is heard

    async def _hear(
        self, inbox: NatsMessages, take: Callable[[AnyMessage, str], None]
    ) -> None:
        async for message in inbox:
            if not (to := message.reply):
                self.counts["without_reply"] += 1
            elif (said := self._read(message, to)) is not None:
                take(said, to)

    def _read(self, message: NatsMessage, to: str) -> AnyMessage | None:
        try:
            return read(message.payload)
        except InvalidMessage as error:
            newer = isinstance(error, NewerMessage)
            self.counts["newer" if newer else "invalid"] += 1
            logger.warning("a message to this worker cannot be read: %s", error)
            why = RefusalReason.NEWER_VERSION if newer else RefusalReason.INVALID
            if error.id:
                self._send(
                    to,
                    RefusedMessage(
                        id=error.id, worker=self.name, reason=why, message=str(error)
                    ),
                )
            return None

    def _take(self, said: AnyMessage, to: str) -> None:
        now = trio.current_time()
        match said:
            case SayMessage():
                self._do(self._ownership.say(said, to, now))
            case AskMessage():
                self._do(self._ownership.ask(said, to, now))
            case LeaveMessage(id=id_):
                self._do(self._ownership.leave(id_, to, now))
            case AckMessage(id=id_, n=n):
                self._sessions.ack(to, id_, n)
            case PingMessage():
                self._send(to, PongMessage(worker=self.name))
            case _:
                self.counts["invalid"] += 1

    def _obey(self, said: AnyMessage, to: str) -> None:
        match said:
            case ListMessage():
                self._send(to, self._ownership.listed(said))
            case DrainMessage(within_ms=within):
                self._drain_within = seconds(within)
                self._do(self._ownership.drain(trio.current_time(), seconds(within)))
                beat = self._ownership.beat(trio.current_time())
                self._send(to, self._with_signals(beat))
            case LookMessage():
                self._looks.look(said, to)
            case WatchMessage():
                self._looks.watch(said, to)
            case LeaveMessage(id=id_):
                self._looks.leave(to, id_)
            case _:
                self.counts["invalid"] += 1

    async def _hear_beats(self, beats: NatsMessages) -> None:
        """Hear the own beats: this worker is connected, and so no longer still. Those
        of others tell who shares the quotas, and calls of tools."""
        async for message in beats:
            quotas, own = self._ownership.quotas, self.name.encode() in message.payload
            if not (own or quotas.quotas or self.calls.wanted):
                continue
            try:
                beat = read(message.payload)
            except InvalidMessage:
                continue
            if not isinstance(beat, BeatMessage):
                continue
            self.calls.beat(beat, trio.current_time())
            if beat.worker != self.name:
                quotas.beat(beat.worker, trio.current_time())
            else:
                self._do(self._ownership.acknowledged(beat.n, trio.current_time()))

    async def _share(self, told: NatsMessages, asked: NatsMessages) -> None:
        host, calls = self._runtime.host, self.calls
        await share_knowledge(
            *(host, self._nats, self._subjects, self.name, told, asked, calls),
            self.counts,
        )

    async def _live(self) -> None:
        ticks, late, due = 0, 0.0, trio.current_time()
        while True:
            now = trio.current_time()
            late = max(late, now - due)
            self._do(self._ownership.tick(now))
            self.signals.woke(now - due, still=self._ownership.still)
            if self._ownership.draining:
                self.media.close_quiet("the session goes to another worker")
            if ticks % BEATS == 0:
                self.signals.beat()
                self._beat(late)
                late = 0.0
            ticks += 1
            due = max(due + TICK, now)
            await trio.sleep_until(due)

    def _beat(self, late: float) -> None:
        beat = self._ownership.beat(trio.current_time(), late * 1000)
        self._send(self._subjects.beat, self._with_signals(beat))

    # -- what is done

    def _do(self, actions: Sequence[WorkerAction]) -> None:
        released = {x.key for x in actions if isinstance(x, ReleaseSession)}
        begun = {x.say.id for x in actions if isinstance(x, RunTurn)}
        for action in actions:
            match action:
                case ToClient(message=AcceptedMessage(id=id_)) if id_ in begun:
                    pass  # it is sent with the first events
                case ToClient(to=to, message=message):
                    self._send(to, message)
                case ClaimSession():
                    self._nursery.start_soon(self._claim, action)
                case RunTurn():
                    self._nursery.start_soon(self._run, action)
                case CarryOut():
                    self._nursery.start_soon(self._carry_out, action)
                case StopTurn(key=key, id=id_):
                    self._sessions.stop(key, id_)
                case CloseSession(key=key):
                    self._sessions.close(key)
                    if key not in released:  # somebody else has it
                        end = partial(self._sessions.end, key, write=False)
                        self._nursery.start_soon(end)
                case ReleaseSession(key=key):
                    self._to_release.append(key)
                    if self._releasing < _RELEASES:
                        self._releasing += 1
                        self._nursery.start_soon(self._release)
        self._changed.set()

    async def _claim(self, claim: ClaimSession) -> None:
        key = claim.key
        try:
            hold = await self._sessions.claim(claim)
        except HeldElsewhere as held:
            self.signals.claim_ended(ClaimResult.ELSEWHERE)
            owner, now = (held.holder, held.epoch), trio.current_time()
            self._do(self._ownership.claim_failed(key, owner, now))
        except Exception as error:  # the same for a store that fails, and for a bug
            logger.warning("the session %s cannot be claimed: %r", key, error)
            self.signals.claim_ended(ClaimResult.FAILED)
            full = isinstance(error, TooManySessions)
            why = RefusalReason.SHED if full else RefusalReason.UNAVAILABLE
            self._do(self._ownership.claim_failed(key, why, trio.current_time()))
        else:
            result = ClaimResult.TAKEN if claim.silent else ClaimResult.FREE
            self.signals.claim_ended(result, hold.epoch)
            past = {x: at for at, x in enumerate(hold.said, 1)}
            now = trio.current_time()
            self._do(self._ownership.claimed(key, hold.epoch, past, now))

    async def _run(self, run: RunTurn) -> None:
        end = await self._sessions.speak(run)
        if end is not None:
            self.signals.turn_ended(end)
        key, epoch, id_ = run.key, run.epoch, run.say.id
        self._do(self._ownership.ended(key, epoch, id_, trio.current_time()))

    async def _carry_out(self, asked: CarryOut) -> None:
        answer = await self._sessions.answer(asked)
        key, epoch, now = asked.key, asked.epoch, trio.current_time()
        self._do(self._ownership.answered(key, epoch, answer, now))
        if asked.ask.what == "end" and isinstance(answer, AnswerMessage):
            self.media.close(key, "the session has ended")
            self._do(self._ownership.over(key, epoch, trio.current_time()))

    def _attached(self, key: SessionKey, epoch: int, here: bool) -> None:
        self._do(self._ownership.attached(key, epoch, here, trio.current_time()))

    async def _release(self) -> None:
        """Give sessions back as long as there are some. A task for each would do the
        first part of all of them without a pause."""
        while self._to_release:
            key = self._to_release.popleft()
            await self._sessions.end(key, write=True)
            self._do(self._ownership.released(key, trio.current_time()))
        self._releasing -= 1

    def _lost(self, claim: ClaimSession, epoch: int) -> None:
        # The runtime goes on after `serve`, and may notice it then.
        if not self._nursery.cancel_scope.cancel_called:
            self.signals.lost()
            self._do(self._ownership.fenced(claim.key, epoch, trio.current_time()))

    def _send(self, subject: str, message: AnyMessage) -> None:
        if isinstance(message, RefusedMessage):
            self.signals.refused(message.reason)
        try:
            self._nats.publish_nowait(subject, pack(message))
        except LargeMessage:
            raise  # the turn knows what to leave out
        except (NatsError, InvalidMessage, ValueError) as error:
            # Clients ask again, or notice the gap.
            self.counts["unsent"] += 1
            logger.debug("not sent to %s: %s", subject, error)
