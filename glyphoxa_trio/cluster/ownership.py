"""The sessions of a worker, and its answer to everything that it is sent.

A session is claimed when somebody speaks in it, and is ours in that epoch until it is
released, or until a write is refused because somebody else has claimed it (`fenced`).
A client may know that sooner: it says of which epoch it has heard, and a session that
we have in an older one is given up at once. The client is wrong if the claim that is
made for it gets an older epoch all the same: the database was restored.
An utterance is known by its id: sent again, it is answered with the same turn. The ids
of a session are in its journal, with its turns and its begun effects, so whoever claims
it next knows them as well.

Pure: times are seconds of one clock, which are passed in, and methods return actions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

import attrs

from glyphoxa_trio.npc.identity import SessionKey

from .actions import (
    Answer,
    CarryOut,
    ClaimSession,
    CloseSession,
    ReleaseSession,
    RunTurn,
    StopTurn,
    ToClient,
    WorkerAction,
)
from .messages import (
    AcceptedMessage,
    Asking,
    AskMessage,
    BeatMessage,
    DoneMessage,
    ListedMessage,
    ListedSession,
    ListMessage,
    MovedMessage,
    OwnerSilence,
    RefusalReason,
    RefusedMessage,
    SayMessage,
    SilentOwner,
)
from .quotas import QuotaShares
from .spending import TenantSpending

STILL: Final = 0.2
"""Seconds without a step after which a worker, or a client, stood still. Below the time
in which others find it silent."""

SHORTEST: Final = 0.15
"""Seconds of a turn's time below which it is not begun."""

PAST: Final = 64
"""The last utterances, and other requests, of a session whose ids are kept. No message
may be on its way for longer than it takes to say so many."""

MOST_RUNNING: Final = (
    32  # utterances of one session, with those that wait; and requests
)
MOST_WAITING: Final = 32  # utterances and requests for one claim

_REASONS: Final = frozenset(x.value for x in OwnerSilence)


@attrs.frozen
class _WaitingRequest:
    asked: Asking
    key: SessionKey
    to: str
    by: float  # when it must be over


@attrs.define
class _HeldSession:
    epoch: int
    past: dict[str, int]  # ids of utterances, and their turns; the oldest first
    turns: int
    running: dict[str, tuple[int, str]] = attrs.field(factory=dict)  # and who hears it
    asking: dict[str, str] = attrs.field(factory=dict)  # ids of requests, and who asks
    answers: dict[str, Answer] = attrs.field(factory=dict)  # the oldest first
    listeners: int = 0  # connections for its audio
    over: bool = False  # it has ended, and is released once nothing runs
    refuted: int = 0  # an epoch that a client had heard of before this claim was made

    @property
    def quiet(self) -> bool:
        return not (self.running or self.asking or self.listeners)


@attrs.define
class _Claiming:
    silent: SilentOwner | None
    waiting: list[_WaitingRequest]
    least: int  # epoch of which those who waited had heard when the claim was made


@attrs.define(eq=False)
class Ownership:
    """The sessions that a worker holds, claims and releases.

    Args:
      worker: its name, unique to this process: a restarted one has another.
      where: which process that is, for people.
      tenants: those that it serves; None for all.
      most: sessions that it holds at a time.
      idle: seconds after which a quiet session is released.
      quotas: what tenants may use of it.
      spending: what tenants have spent of their quotas of tokens and cost.
    """

    worker: str
    deployment: str
    version: str
    tenants: frozenset[str] | None = None
    most: int = 10_000
    idle: float = 600.0
    where: str = ""
    quotas: QuotaShares = attrs.field(factory=QuotaShares)
    spending: TenantSpending = attrs.field(factory=lambda: TenantSpending({}))
    _held: dict[SessionKey, _HeldSession] = attrs.field(factory=dict, init=False)
    # Of those that it holds: since when they are quiet, the longest first.
    _quiet: dict[SessionKey, float] = attrs.field(factory=dict, init=False)
    # What runs, by its sender and id.
    _speaking: dict[tuple[str, str], SessionKey] = attrs.field(factory=dict, init=False)
    # And what waits until a claim, or a release, is over.
    _claiming: dict[SessionKey, _Claiming] = attrs.field(factory=dict, init=False)
    _releasing: dict[SessionKey, list[_WaitingRequest]] = attrs.field(
        factory=dict, init=False
    )
    _here: Counter[str] = attrs.field(factory=Counter, init=False)  # by tenant
    _last: float | None = attrs.field(default=None, init=False)  # step
    _beats: int = attrs.field(default=0, init=False)
    _awaited: int | None = attrs.field(default=None, init=False)  # beat, after standing
    _drain_by: float | None = attrs.field(default=None, init=False)

    @property
    def still(self) -> bool:
        """True if it stood still, and no beat of afterwards has come back yet."""
        return self._awaited is not None

    @property
    def draining(self) -> bool:
        """True if it takes no sessions any more."""
        return self._drain_by is not None

    @property
    def drained(self) -> bool:
        """True if it is draining, and has nothing left."""
        return self.draining and not (self._held or self._claiming or self._releasing)

    @property
    def room(self) -> int:
        """The number of sessions that it would still take."""
        if self.draining or self.still:
            return 0
        used = len(self._held) + len(self._claiming) + len(self._releasing)
        return max(0, self.most - used)

    def epoch(self, key: SessionKey) -> int:
        """Return the epoch in which it holds a session; 0 if it does not."""
        held = self._held.get(key)
        return held.epoch if held else 0

    # -- what clients send -------------------------------------------------------

    def say(self, say: SayMessage, to: str, now: float) -> list[WorkerAction]:
        """Answer an utterance, or claim its session first. ``to`` is its sender."""
        return self._request(say, to, now)

    def ask(self, ask: AskMessage, to: str, now: float) -> list[WorkerAction]:
        """Answer a request, or claim its session first. ``to`` is its sender."""
        return self._request(ask, to, now)

    def _request(self, asked: Asking, to: str, now: float) -> list[WorkerAction]:
        actions = self._step(now)
        actions += self._take(
            _WaitingRequest(asked, asked.key, to, now + asked.remaining_ms / 1000), now
        )
        return actions

    def leave(self, id_: str, to: str, now: float) -> list[WorkerAction]:
        """Stop the turn that this sender's utterance runs, or waits for."""
        actions = self._step(now)
        for waiting in self._all_waiting():
            waiting[:] = [x for x in waiting if (x.to, x.asked.id) != (to, id_)]
        if key := self._speaking.get((to, id_)):
            actions.append(StopTurn(key, self._held[key].epoch, id_))
        return actions

    def _all_waiting(self) -> list[list[_WaitingRequest]]:
        claiming = [x.waiting for x in self._claiming.values()]
        return [*claiming, *self._releasing.values()]

    def _take(self, asked: _WaitingRequest, now: float) -> list[WorkerAction]:
        key = asked.key
        if self.still and not self._runs(asked.asked):
            return [self._refused(asked, RefusalReason.STOOD_STILL)]
        if self.tenants is not None and key.tenant not in self.tenants:
            return [self._refused(asked, RefusalReason.WRONG_TENANT)]
        if held := self._held.get(key):
            return self._run(held, asked, now)
        if claiming := self._claiming.get(key):
            return self._wait(claiming.waiting, asked)
        if (waiting := self._releasing.get(key)) is not None:
            return self._wait(waiting, asked)
        if self.draining:
            return [self._refused(asked, RefusalReason.DRAINING)]
        if not self.room or asked.by - now < SHORTEST:
            return [self._refused(asked, RefusalReason.SHED)]
        if self._has_enough(key.tenant, now):
            return [self._refused(asked, RefusalReason.QUOTA)]
        return self._claim(key, _allowed(asked.asked.silent), [asked])

    def _runs(self, asked: Asking) -> bool:
        """Return True for what is sent again while it runs: nothing begins by it. Its
        sender would go elsewhere, and miss what comes from here."""
        held = self._held.get(asked.key)
        return held is not None and (
            asked.id in held.running or asked.id in held.asking
        )

    def _has_enough(self, tenant: str, now: float) -> bool:
        most = self.quotas.most_sessions(tenant, now)
        if most is None:
            return False
        return self._here[tenant] >= most

    def _count(self, key: SessionKey, step: int) -> None:
        """Count a session of its tenant, which is held, claimed or released here."""
        self._here[key.tenant] += step
        if not self._here[key.tenant]:
            del self._here[key.tenant]

    def _claim(
        self,
        key: SessionKey,
        silent: SilentOwner | None,
        waiting: list[_WaitingRequest],
    ) -> list[WorkerAction]:
        heard = max(x.asked.least for x in waiting)
        self._claiming[key] = _Claiming(silent, waiting, heard)
        self._count(key, 1)
        first = waiting[0].asked
        join = None
        if isinstance(first, AskMessage) and first.what == "join":
            join = first
        return [ClaimSession(key, silent, join)]

    def _wait(
        self, waiting: list[_WaitingRequest], asked: _WaitingRequest
    ) -> list[WorkerAction]:
        if any(x.asked.id == asked.asked.id for x in waiting):
            return []
        if len(waiting) >= MOST_WAITING:
            return [self._refused(asked, RefusalReason.SHED)]
        waiting.append(asked)
        return []

    def _run(
        self, held: _HeldSession, asked: _WaitingRequest, now: float
    ) -> list[WorkerAction]:
        say, key, to, epoch = asked.asked, asked.key, asked.to, held.epoch
        given_up = self._held.get(key) is not held  # for one that waited as well
        if given_up or say.least > max(epoch, held.refuted):
            refused = self._refusal(say.id, to, RefusalReason.FENCED, epoch)
            closing = [] if given_up else self._close(key, RefusalReason.FENCED)
            return [*closing, refused]
        if isinstance(say, AskMessage):
            return self._carry_out(held, say, asked, now)
        if (turn := held.past.get(say.id)) is not None:
            done = DoneMessage(id=say.id, epoch=epoch, turn=turn, n=0, end="lost")
            return [ToClient(to, done)]
        if known := held.running.get(say.id):
            return [self._accepted(say, to, epoch, known[0])]
        if held.over:
            return [self._refused(asked, RefusalReason.DRAINING)]
        if len(held.running) >= MOST_RUNNING or asked.by - now < SHORTEST:
            return [self._refused(asked, RefusalReason.SHED)]
        if spent := self.spending.refusal(key.tenant, now):
            return [self._refused(asked, RefusalReason.QUOTA, spent)]
        if not self.quotas.takes_turn(key.tenant, now):
            return [self._refused(asked, RefusalReason.QUOTA)]
        held.turns += 1
        held.running[say.id] = held.turns, to
        self._speaking[to, say.id] = key
        self._quiet.pop(key, None)
        return [
            self._accepted(say, to, epoch, held.turns),
            RunTurn(key, epoch, held.turns, say, to, asked.by - now),
        ]

    def _carry_out(
        self, held: _HeldSession, ask: AskMessage, asked: _WaitingRequest, now: float
    ) -> list[WorkerAction]:
        if (answer := held.answers.get(ask.id)) is not None:
            return [ToClient(asked.to, answer)]
        if ask.id in held.asking:
            return []
        if held.over:
            return [self._refused(asked, RefusalReason.DRAINING)]
        if len(held.asking) >= MOST_RUNNING:
            return [self._refused(asked, RefusalReason.SHED)]
        held.asking[ask.id] = asked.to
        self._quiet.pop(asked.key, None)
        return [CarryOut(asked.key, held.epoch, ask, max(0.0, asked.by - now))]

    def _accepted(self, say: SayMessage, to: str, epoch: int, turn: int) -> ToClient:
        worker = self.worker
        accepted = AcceptedMessage(id=say.id, worker=worker, epoch=epoch, turn=turn)
        return ToClient(to, accepted)

    def _refused(
        self, asked: _WaitingRequest, reason: RefusalReason, why: str = ""
    ) -> ToClient:
        epoch = self.epoch(asked.key)
        return self._refusal(asked.asked.id, asked.to, reason, epoch, why)

    def _refusal(
        self, id_: str, to: str, reason: RefusalReason, epoch: int, why: str = ""
    ) -> ToClient:
        message = RefusedMessage(
            id=id_, worker=self.worker, reason=reason, epoch=epoch, message=why
        )
        return ToClient(to, message)

    # -- what the journal and the runtime answer ---------------------------------

    def claimed(
        self, key: SessionKey, epoch: int, past: Mapping[str, int], now: float
    ) -> list[WorkerAction]:
        """Hold a session that was claimed, and run what waits.

        Args:
          past: the ids of its last `PAST` utterances that have a turn or a begun effect
            in the journal, and the number of each one's turn, the oldest first.
        """
        actions = self._step(now)
        held = _HeldSession(epoch, dict(past), max(past.values(), default=0))
        self._held[key] = held
        self._quiet[key] = now
        if (claiming := self._claiming.pop(key, None)) is None:
            self._count(key, 1)
        else:
            held.refuted = claiming.least
            for asked in claiming.waiting:
                actions += self._run(held, asked, now)
        return actions + self._let_go(now)

    def claim_failed(
        self, key: SessionKey, why: RefusalReason | tuple[str, int], now: float
    ) -> list[WorkerAction]:
        """Answer those who wait for a claim: another worker has the session in an
        epoch, or there is a reason why it cannot be had."""
        actions = self._step(now)
        claiming = self._claiming.pop(key, None)
        if claiming is None:
            return actions
        self._count(key, -1)
        if isinstance(why, RefusalReason):
            return actions + [self._refused(x, why) for x in claiming.waiting]
        worker, epoch = why
        for asked in claiming.waiting:
            silent = _allowed(asked.asked.silent)
            found = silent is not None and (silent.worker, silent.epoch) == why
            if found and silent != claiming.silent:  # it came after the claim had begun
                return actions + self._claim(key, silent, claiming.waiting)
        for asked in claiming.waiting:
            moved = MovedMessage(id=asked.asked.id, worker=worker, epoch=epoch)
            actions.append(ToClient(asked.to, moved))
        return actions

    def ended(
        self, key: SessionKey, epoch: int, id_: str, now: float
    ) -> list[WorkerAction]:
        """Note that the turn of an utterance is over."""
        actions = self._step(now)
        held = self._held.get(key)
        if held is None or held.epoch != epoch or id_ not in held.running:
            return actions
        held.past[id_], to = held.running.pop(id_)
        while len(held.past) > PAST:
            del held.past[next(iter(held.past))]
        del self._speaking[to, id_]
        return actions + self._rest(key, held, now)

    def answered(
        self, key: SessionKey, epoch: int, answer: Answer, now: float
    ) -> list[WorkerAction]:
        """Send the answer to a request, and keep it for who asks again."""
        actions = self._step(now)
        held = self._held.get(key)
        if held is None or held.epoch != epoch or answer.id not in held.asking:
            return actions
        to = held.asking.pop(answer.id)
        held.answers[answer.id] = answer
        while len(held.answers) > PAST:
            del held.answers[next(iter(held.answers))]
        return [*actions, ToClient(to, answer), *self._rest(key, held, now)]

    def over(self, key: SessionKey, epoch: int, now: float) -> list[WorkerAction]:
        """Note that a session has ended for good: it is released once nothing runs."""
        actions = self._step(now)
        held = self._held.get(key)
        if held is None or held.epoch != epoch:
            return actions
        held.over = True
        return actions + self._rest(key, held, now)

    def _rest(
        self, key: SessionKey, held: _HeldSession, now: float
    ) -> list[WorkerAction]:
        if held.over and held.quiet:
            del self._held[key]
            self._quiet.pop(key, None)
            return self._release(key, held.epoch)
        if held.quiet:
            self._quiet[key] = now
        return self._let_go(now)

    def attached(
        self, key: SessionKey, epoch: int, here: bool, now: float
    ) -> list[WorkerAction]:
        """Note that a connection for a session's audio has begun, or ended: as long as
        there is one, the session is not quiet."""
        actions = self._step(now)
        held = self._held.get(key)
        if held is None or held.epoch != epoch:
            return actions
        held.listeners += 1 if here else -1
        if here:
            self._quiet.pop(key, None)
            return actions
        return actions + self._rest(key, held, now)

    def may_use(self, key: SessionKey) -> int:
        """Return the epoch of a session in which something may begin now; else 0."""
        held = self._held.get(key)
        if held is None or held.over or self.still or self.draining:
            return 0
        return held.epoch

    def fenced(self, key: SessionKey, epoch: int, now: float) -> list[WorkerAction]:
        """Close a session at once: a write was refused, since it has another owner."""
        actions = self._step(now)
        if self.epoch(key) == epoch:
            actions += self._close(key, RefusalReason.FENCED)
        return actions

    def released(self, key: SessionKey, now: float) -> list[WorkerAction]:
        """Take what was sent during a release, which is over, as if it came now."""
        actions = self._step(now)
        if key in self._releasing:
            self._count(key, -1)
        for asked in self._releasing.pop(key, []):
            actions += self._take(asked, now)
        return actions

    def _close(self, key: SessionKey, reason: RefusalReason) -> list[WorkerAction]:
        held = self._held.pop(key)
        self._count(key, -1)
        self._quiet.pop(key, None)
        actions: list[WorkerAction] = [CloseSession(key, held.epoch)]
        for id_, (_, to) in held.running.items():
            del self._speaking[to, id_]
            actions.append(self._refusal(id_, to, reason, held.epoch))
        for id_, to in held.asking.items():
            actions.append(self._refusal(id_, to, reason, held.epoch))
        return actions

    def _let_go(self, now: float) -> list[WorkerAction]:
        """Release what is quiet for long enough; all that is quiet, when draining."""
        actions: list[WorkerAction] = []
        while self._quiet:
            key, since = next(iter(self._quiet.items()))
            if not self.draining and now - since < self.idle:
                break
            del self._quiet[key]
            actions += self._release(key, self._held.pop(key).epoch)
        return actions

    def _release(self, key: SessionKey, epoch: int) -> list[WorkerAction]:
        self._releasing[key] = []
        return [ReleaseSession(key, epoch)]

    def listed(self, asked: ListMessage) -> ListedMessage:
        """Return the sessions that are asked for."""
        found = sorted(
            (key.tenant, key.id)
            for key in self._held
            if asked.tenant in (None, key.tenant) and asked.session in (None, key.id)
        )
        sessions: list[ListedSession] = []
        for tenant, id_ in found[: asked.most]:
            held = self._held[SessionKey(id_, tenant)]
            turns, epoch = len(held.running), held.epoch
            sessions.append(
                ListedSession(session=id_, tenant=tenant, epoch=epoch, turns=turns)
            )
        more = len(found) - len(sessions)
        return ListedMessage(
            id=asked.id, worker=self.worker, sessions=sessions, more=more
        )

    # -- time --------------------------------------------------------------------

    def beat(self, now: float, late_ms: float = 0.0) -> BeatMessage:
        """Return the next beat. The worker hears it as well: `acknowledged`."""
        self._beats += 1
        return self.state(late_ms)

    def state(self, late_ms: float = 0.0) -> BeatMessage:
        """Return what its last beat would say now."""
        return BeatMessage(
            worker=self.worker,
            where=self.where,
            deployment=self.deployment,
            version=self.version,
            n=self._beats,
            sessions=len(self._held),
            turns=len(self._speaking),
            late_ms=late_ms,
            room=self.room,
            draining=self.draining,
            still=self.still,
        )

    def acknowledged(self, n: int, now: float) -> list[WorkerAction]:
        """Note that the own beat ``n`` came back: what came before it is dealt with."""
        actions = self._step(now)
        if self._awaited is not None and n >= self._awaited:
            self._awaited = None
        return actions

    def stood_still(self) -> list[WorkerAction]:
        """Refuse what waits, and all that comes before a beat of now came back."""
        self._awaited = self._beats + 1
        actions: list[WorkerAction] = []
        for waiting in self._all_waiting():
            actions += [self._refused(x, RefusalReason.STOOD_STILL) for x in waiting]
            waiting.clear()
        return actions

    def drain(self, now: float, within: float) -> list[WorkerAction]:
        """Take no more sessions, and let go of each when it is quiet; of all of them,
        with what runs there, ``within`` so many seconds."""
        self._drain_by = now + within
        return self.tick(now)

    def tick(self, now: float) -> list[WorkerAction]:
        """Let go of what is idle. To be called ten times a second, since a longer pause
        means that this worker stood still."""
        actions = self._step(now) + self._let_go(now)
        if self._drain_by is not None and now >= self._drain_by:
            for key, held in list(self._held.items()):
                actions += self._close(key, RefusalReason.DRAINING)
                self._count(key, 1)
                actions += self._release(key, held.epoch)
        return actions

    def _step(self, now: float) -> list[WorkerAction]:
        # Whatever wakes first after a pause is the first to see it, before the watch.
        last, self._last = self._last, now
        return self.stood_still() if last is not None and now - last > STILL else []


def _allowed(silent: SilentOwner | None) -> SilentOwner | None:
    """Return the owner that may lose a session, for a reason that counts."""
    return silent if silent is not None and silent.why in _REASONS else None
