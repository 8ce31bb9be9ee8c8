"""Workers that share a journal, against the dumbest model of one: a lock and a list.

The journal here is a dict of epochs, and its operations are carried out whenever a rule
says so: late, in any order between workers, or never, because a worker has died.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from glyphoxa_trio.cluster.actions import (
    CarryOut,
    ClaimSession,
    CloseSession,
    ReleaseSession,
    RunTurn,
    StopTurn,
    ToClient,
    WorkerAction,
)
from glyphoxa_trio.cluster.messages import (
    AcceptedMessage,
    AnswerMessage,
    AskMessage,
    DoneMessage,
    ListMessage,
    MovedMessage,
    OwnerSilence,
    RefusalReason,
    RefusedMessage,
    SayMessage,
    SilentOwner,
)
from glyphoxa_trio.cluster.ownership import PAST, SHORTEST, STILL, Ownership
from glyphoxa_trio.npc.identity import SessionKey

KEY = SessionKey("table")


def say(
    id_: str,
    session: str = "table",
    *,
    silent: SilentOwner | None = None,
    ms: float = 5000.0,
    tenant: str = "",
    least: int = 0,
) -> SayMessage:
    return SayMessage(
        id=id_,
        session=session,
        tenant=tenant,
        npc="Bo",
        text="Hm.",
        remaining_ms=ms,
        silent=silent,
        least=least,
    )


def owner(name: str = "w1", **more: Any) -> Ownership:
    return Ownership(worker=name, deployment="d", version="1", **more)


def claimed(worker: Ownership, epoch: int = 1, **past: int) -> None:
    """Have a worker hold the session."""
    worker.say(say("first", ms=1.0 + 1000 * SHORTEST), "c", 0.0)
    worker.claimed(KEY, epoch, {"first": 1, **past}, 0.0)


def told(actions: list[WorkerAction]) -> list[Any]:
    return [x.message for x in actions if isinstance(x, ToClient)]


def ask(id_: str, what: str = "interrupt") -> AskMessage:
    return AskMessage(id=id_, session="table", npc="Bo", what=what, remaining_ms=5000.0)


# ------------------------------------------------------------------- one at a time


def test_a_session_is_claimed_before_it_is_spoken_in() -> None:
    worker = owner()
    first, second = say("u1"), say("u2")
    assert worker.say(first, "c1", 0.0) == [ClaimSession(KEY, None)]
    assert worker.say(second, "c2", 0.0) == []
    actions = worker.claimed(KEY, 3, {}, 0.1)
    accepted = AcceptedMessage(id="u1", worker="w1", epoch=3, turn=1)
    assert actions[:2] == [
        ToClient("c1", accepted),
        RunTurn(KEY, 3, 1, first, "c1", 4.9),
    ]
    assert actions[3] == RunTurn(KEY, 3, 2, second, "c2", 4.9)


def test_what_is_sent_again_is_not_run_again() -> None:
    worker = owner()
    claimed(worker)
    assert len(worker.say(say("u1"), "c", 0.0)) == 2
    (again,) = told(worker.say(say("u1"), "c", 0.1))
    assert isinstance(again, AcceptedMessage)
    worker.ended(KEY, 1, "u1", 0.1)
    (past,) = told(worker.say(say("u1"), "c", 0.1))
    assert isinstance(past, DoneMessage)
    assert (past.end, past.n, past.turn) == ("lost", 0, again.turn)
    (of_before,) = told(worker.say(say("first"), "c", 0.1))
    assert isinstance(of_before, DoneMessage)


def test_a_session_is_given_up_at_once_when_a_client_knows_a_newer_epoch() -> None:
    worker = owner()
    claimed(worker, 3)
    worker.say(say("u1", least=3), "c1", 0.0)
    worker.ask(ask("q1"), "c1", 0.0)
    actions = worker.say(say("u2", least=4), "c2", 0.1)
    assert actions[0] == CloseSession(KEY, 3)
    refused = told(actions)
    assert [x.id for x in refused] == ["u1", "q1", "u2"]
    assert {(x.reason, x.epoch) for x in refused} == {(RefusalReason.FENCED, 3)}
    assert worker.epoch(KEY) == 0
    # For whoever comes next it asks the journal.
    assert worker.say(say("u3", least=4), "c2", 0.2) == [ClaimSession(KEY, None)]
    assert worker.claim_failed(KEY, ("w2", 4), 0.3) == [
        ToClient("c2", MovedMessage(id="u3", worker="w2", epoch=4))
    ]


def test_a_client_that_knows_an_epoch_that_never_was_costs_one_claim() -> None:
    worker = owner()
    claimed(worker, 3)
    assert worker.say(say("u1", least=9), "c", 0.0)[0] == CloseSession(KEY, 3)
    assert worker.say(say("u2", least=9), "c", 0.0) == [ClaimSession(KEY, None)]
    assert isinstance(told(worker.claimed(KEY, 4, {}, 0.0))[0], AcceptedMessage)
    assert isinstance(
        told(worker.say(say("u3", least=9), "c", 0.1))[0], AcceptedMessage
    )
    assert worker.epoch(KEY) == 4
    assert worker.say(say("u4", least=10), "c", 0.1)[0] == CloseSession(KEY, 4)


def test_whoever_waits_for_a_claim_that_is_outdated_is_sent_on() -> None:
    worker = owner()
    assert worker.say(say("u1"), "c1", 0.0) == [ClaimSession(KEY, None)]
    assert worker.say(say("u2", least=5), "c2", 0.0) == []  # heard since the claim
    assert worker.say(say("u3"), "c3", 0.0) == []
    actions = worker.claimed(KEY, 4, {}, 0.1)
    run = next(x for x in actions if isinstance(x, RunTurn))
    assert run.say.id == "u1"
    assert actions.index(run) < actions.index(CloseSession(KEY, 4))
    assert [x.say.id for x in actions if isinstance(x, RunTurn)] == ["u1"]
    refused = [x for x in told(actions) if isinstance(x, RefusedMessage)]
    assert [x.id for x in refused] == ["u1", "u2", "u3"]
    assert worker.epoch(KEY) == 0


def test_a_request_is_carried_out_once_and_answered_as_often_as_it_is_asked() -> None:
    worker = owner()
    claimed(worker)
    assert worker.ask(ask("q1"), "c", 0.0) == [CarryOut(KEY, 1, ask("q1"), 5.0)]
    assert worker.ask(ask("q1"), "c", 0.1) == []  # it is under way
    answer = AnswerMessage(id="q1", worker="w1", epoch=1, result=True)
    assert worker.answered(KEY, 1, answer, 0.1) == [ToClient("c", answer)]
    assert worker.answered(KEY, 1, answer, 0.1) == []
    assert worker.ask(ask("q1"), "c", 0.1) == [ToClient("c", answer)]
    for at in range(PAST):
        worker.ask(ask(f"x{at}"), "c", 0.1)
        more = AnswerMessage(id=f"x{at}", worker="w1", epoch=1)
        worker.answered(KEY, 1, more, 0.1)
    assert worker.ask(ask("q1"), "c", 0.1) == [CarryOut(KEY, 1, ask("q1"), 5.0)]


def test_a_request_claims_its_session_and_keeps_it_from_being_released() -> None:
    worker = owner(idle=0.05)
    assert worker.ask(ask("q1"), "c", 0.0) == [ClaimSession(KEY, None)]
    assert worker.claimed(KEY, 2, {}, 0.0) == [CarryOut(KEY, 2, ask("q1"), 5.0)]
    assert worker.tick(0.1) == []
    answer = AnswerMessage(id="q1", worker="w1", epoch=2)
    worker.answered(KEY, 2, answer, 0.1)
    assert worker.tick(0.2) == [ReleaseSession(KEY, 2)]


def test_a_fenced_worker_refuses_the_requests_that_run() -> None:
    worker = owner()
    claimed(worker)
    worker.ask(ask("q1"), "c", 0.0)
    close, refused = worker.fenced(KEY, 1, 0.1)
    assert close == CloseSession(KEY, 1)
    assert isinstance(refused, ToClient)
    assert isinstance(refused.message, RefusedMessage)
    assert (refused.message.id, refused.message.reason) == ("q1", "fenced")
    late = AnswerMessage(id="q1", worker="w1", epoch=1)
    assert worker.answered(KEY, 1, late, 0.1) == []


def test_a_session_that_has_ended_is_released_when_nothing_runs_there() -> None:
    worker = owner()
    claimed(worker)
    worker.say(say("u1"), "c", 0.0)
    worker.ask(ask("q1", "end"), "c", 0.0)
    worker.answered(KEY, 1, AnswerMessage(id="q1", worker="w1", epoch=1), 0.1)
    assert worker.over(KEY, 1, 0.1) == []
    (refused,) = told(worker.say(say("u2"), "c", 0.1))
    assert refused.reason == "draining"  # so that it is sent again
    assert worker.ended(KEY, 1, "u1", 0.1) == [ReleaseSession(KEY, 1)]
    assert worker.say(say("u2"), "c", 0.1) == []
    assert worker.released(KEY, 0.1) == [ClaimSession(KEY, None)]


def test_the_sessions_of_a_worker_are_listed() -> None:
    worker = owner()
    for at in range(3):
        key = SessionKey(f"t{at}", "b" if at == 2 else "a")
        worker.say(say(f"u{at}", key.id, tenant=key.tenant), "c", 0.0)
        worker.claimed(key, at + 1, {}, 0.0)
    all_ = worker.listed(ListMessage(id="l"))
    assert [(x.tenant, x.session, x.epoch, x.turns) for x in all_.sessions] == [
        ("a", "t0", 1, 1),
        ("a", "t1", 2, 1),
        ("b", "t2", 3, 1),
    ]
    few = worker.listed(ListMessage(id="l", tenant="a", most=1))
    assert ([x.session for x in few.sessions], few.more) == (["t0"], 1)
    assert worker.listed(ListMessage(id="l", session="t9")).sessions == []


def test_a_session_of_another_is_named() -> None:
    worker = owner()
    worker.say(say("u1"), "c", 0.0)
    (moved,) = told(worker.claim_failed(KEY, ("w2", 7), 0.0))
    assert moved == MovedMessage(id="u1", worker="w2", epoch=7)


def test_it_is_stolen_only_for_a_reason_that_counts() -> None:
    silent = SilentOwner(worker="w2", epoch=7, why=OwnerSilence.NO_PONG)
    (claim,) = owner().say(say("u1", silent=silent), "c", 0.0)
    assert claim == ClaimSession(KEY, silent)
    bored = attrs_of(silent, why="boredom")
    (claim,) = owner().say(say("u1", silent=bored), "c", 0.0)
    assert claim == ClaimSession(KEY, None)


def attrs_of(silent: SilentOwner, **changes: Any) -> SilentOwner:
    fields = {"worker": silent.worker, "epoch": silent.epoch, "why": silent.why}
    return SilentOwner(**{**fields, **changes})


def test_whoever_was_fenced_says_nothing_more() -> None:
    worker = owner()
    claimed(worker)
    worker.say(say("u1"), "c", 0.0)
    close, refusal = worker.fenced(KEY, 1, 0.1)
    assert close == CloseSession(KEY, 1)
    assert told([refusal])[0].reason == RefusalReason.FENCED
    assert worker.ended(KEY, 1, "u1", 0.1) == []
    assert worker.epoch(KEY) == 0


def test_what_runs_goes_on_after_standing_still() -> None:
    worker = owner()
    claimed(worker)
    worker.say(say("u1"), "c", 0.0)
    worker.ask(ask("a1"), "c", 0.0)
    worker.tick(1.0)
    assert worker.still
    (again,) = told(worker.say(say("u1"), "c", 1.0))
    assert again == AcceptedMessage(id="u1", worker="w1", epoch=1, turn=2)
    assert worker.ask(ask("a1"), "c", 1.0) == []
    (refused,) = told(worker.say(say("u2"), "c", 1.0))
    assert refused.reason == RefusalReason.STOOD_STILL


def test_who_stood_still_refuses_until_its_beat_comes_back() -> None:
    worker = owner()
    claimed(worker)
    before = worker.beat(0.0)
    (refused,) = told(worker.say(say("u1"), "c", STILL + 0.1))
    assert refused.reason == RefusalReason.STOOD_STILL
    worker.acknowledged(before.n, STILL + 0.1)  # it was sent before
    (refused,) = told(worker.say(say("u1"), "c", STILL + 0.1))
    assert refused.reason == RefusalReason.STOOD_STILL
    beat = worker.beat(STILL + 0.1)
    assert beat.still
    assert beat.room == 0
    worker.acknowledged(beat.n, STILL + 0.1)
    assert isinstance(told(worker.say(say("u1"), "c", STILL + 0.1))[0], AcceptedMessage)


def test_what_cannot_be_done_in_its_time_is_not_begun() -> None:
    (refused,) = told(owner().say(say("u1", ms=1000 * SHORTEST - 1), "c", 0.0))
    assert refused.reason == RefusalReason.SHED
    worker = owner()
    worker.say(say("u1", ms=200), "c", 0.0)
    worker.tick(0.1)
    (late,) = told(worker.claimed(KEY, 1, {}, 0.15))
    assert late.reason == RefusalReason.SHED


def test_another_tenant_is_refused_by_name() -> None:
    worker = owner(tenants=frozenset({"guild"}))
    (refused,) = told(worker.say(say("u1", tenant="elsewhere"), "c", 0.0))
    assert refused.reason == RefusalReason.WRONG_TENANT
    (claim,) = worker.say(say("u1", tenant="guild"), "c", 0.0)
    assert isinstance(claim, ClaimSession)


def test_a_drain_lets_quiet_sessions_go_and_ends_the_rest_in_time() -> None:
    worker = owner()
    claimed(worker)
    worker.say(say("u1"), "c", 0.0)
    assert worker.drain(0.0, 0.3) == []
    (refused,) = told(worker.say(say("u2", "another"), "c", 0.1))
    assert refused.reason == RefusalReason.DRAINING
    worker.tick(0.2)
    actions = worker.tick(0.3)
    assert [type(x) for x in actions] == [CloseSession, ToClient, ReleaseSession]
    assert not worker.drained
    worker.released(KEY, 0.3)
    assert worker.drained


def test_a_quiet_session_is_released_and_what_comes_meanwhile_waits() -> None:
    worker = owner(idle=0.1)
    claimed(worker)
    assert worker.tick(0.05) == []
    assert worker.tick(0.1) == [ReleaseSession(KEY, 1)]
    assert worker.say(say("u1"), "c", 0.1) == []
    assert worker.released(KEY, 0.2) == [ClaimSession(KEY, None)]


# ------------------------------------------------------------------------ together


@attrs.define
class Stored:
    """One session in the journal."""

    holder: str = ""
    epoch: int = 0
    turns: list[str] = attrs.field(factory=list)
    effects: list[str] = attrs.field(factory=list)
    holders: dict[int, str] = attrs.field(factory=dict)

    def past(self) -> dict[str, int]:
        said = dict.fromkeys([*self.effects, *self.turns])
        return {id_: number for number, id_ in enumerate(said, start=1)}


@attrs.define
class Worker:
    state: Ownership
    doing: list[ClaimSession | ReleaseSession] = attrs.field(factory=list)
    running: list[RunTurn] = attrs.field(factory=list)
    beats: list[int] = attrs.field(factory=list)


NAMES = ("w1", "w2", "w3")
SESSIONS = st.sampled_from(["a", "b"])
WORKERS = st.sampled_from(NAMES)
PICK = st.integers(0, 9)


class Workers(RuleBasedStateMachine):
    """Three workers, two sessions, and clients that send to whomever they like."""

    @initialize()
    def begin(self) -> None:
        self.now = 0.0
        self.store = {"a": Stored(), "b": Stored()}
        self.workers = {name: Worker(owner(name)) for name in NAMES}
        self.said: list[tuple[str, str]] = []
        # What each worker was asked and has not answered.
        self.open: dict[tuple[str, str], str] = {}
        self.lives = 0

    def do(self, worker: Worker, actions: list[WorkerAction]) -> None:
        name = worker.state.worker
        for action in actions:
            match action:
                case ToClient(to, message):
                    assert isinstance(
                        message,
                        AcceptedMessage | MovedMessage | RefusedMessage | DoneMessage,
                    )
                    assert to == f"client of {message.id}"
                    self.open.pop((name, message.id), None)
                    if isinstance(message, AcceptedMessage):
                        session = dict(self.said)[message.id]
                        assert self.store[session].holders[message.epoch] == name
                case RunTurn():
                    mine = [x.say.id for x in worker.running if x.epoch == action.epoch]
                    assert action.say.id not in mine
                    assert action.remaining >= SHORTEST
                    worker.running.append(action)
                case StopTurn(key, epoch, id_):
                    assert any(
                        (x.key, x.epoch, x.say.id) == (key, epoch, id_)
                        for x in worker.running
                    )
                case CloseSession(key, epoch):
                    worker.running = [
                        x for x in worker.running if (x.key, x.epoch) != (key, epoch)
                    ]
                case ClaimSession() | ReleaseSession():
                    worker.doing.append(action)

    # -- clients

    @rule(
        at=WORKERS,
        session=SESSIONS,
        blame=st.none() | WORKERS,
        off=st.integers(0, 1),
        heard=st.integers(0, 3),
    )
    def speak(
        self, at: str, session: str, blame: str | None, off: int, heard: int
    ) -> None:
        """Its sender may have heard of the newest epoch, or of one that never was."""
        id_ = f"u{len(self.said)}"
        self.said.append((id_, session))
        least = self.store[session].epoch + heard - 2 if heard else 0
        self._send(at, id_, session, blame, off, max(0, least))

    @precondition(lambda self: self.said)
    @rule(at=WORKERS, which=PICK, blame=st.none() | WORKERS)
    def speak_again(self, at: str, which: int, blame: str | None) -> None:
        id_, session = self.said[-1 - which % len(self.said)]
        self._send(at, id_, session, blame, 0)

    def _send(
        self,
        at: str,
        id_: str,
        session: str,
        blame: str | None,
        off: int,
        least: int = 0,
    ) -> None:
        silent = None
        epoch = self.store[session].epoch - off
        if blame is not None and epoch > 0:
            blamed = self.workers[blame].state.worker
            silent = SilentOwner(worker=blamed, epoch=epoch, why=OwnerSilence.NO_PONG)
        worker = self.workers[at]
        self.open[worker.state.worker, id_] = session
        message = say(id_, session, silent=silent, least=least)
        self.do(worker, worker.state.say(message, f"client of {id_}", self.now))

    @precondition(lambda self: self.said)
    @rule(at=WORKERS, which=PICK)
    def leave(self, at: str, which: int) -> None:
        id_, _ = self.said[-1 - which % len(self.said)]
        worker = self.workers[at]
        actions = worker.state.leave(id_, f"client of {id_}", self.now)
        self.do(worker, actions)
        # Nobody waits for what was left before it was accepted.
        self.open.pop((worker.state.worker, id_), None)

    # -- the journal

    @rule(at=WORKERS, which=PICK)
    def carry_out(self, at: str, which: int) -> None:
        worker = self.workers[at]
        if not worker.doing:
            return
        action = worker.doing.pop(which % len(worker.doing))
        stored, name = self.store[action.key.id], worker.state.worker
        if isinstance(action, ReleaseSession):
            if stored.epoch == action.epoch:
                stored.holder = ""
            self.do(worker, worker.state.released(action.key, self.now))
            return
        lost = action.silent is not None and (stored.holder, stored.epoch) == (
            action.silent.worker,
            action.silent.epoch,
        )
        if stored.holder in ("", name) or lost:
            stored.epoch += 1
            stored.holder = stored.holders[stored.epoch] = name
            past = dict([*stored.past().items()][-64:])
            actions = worker.state.claimed(action.key, stored.epoch, past, self.now)
        else:
            why = stored.holder, stored.epoch
            actions = worker.state.claim_failed(action.key, why, self.now)
        self.do(worker, actions)

    @rule(at=WORKERS)
    def lose_the_store(self, at: str) -> None:
        worker = self.workers[at]
        claims = [x for x in worker.doing if isinstance(x, ClaimSession)]
        for claim in claims:
            worker.doing.remove(claim)
            key = claim.key
            state = worker.state
            self.do(
                worker, state.claim_failed(key, RefusalReason.UNAVAILABLE, self.now)
            )

    @rule(at=WORKERS, which=PICK, effect=st.booleans())
    def go_on(self, at: str, which: int, effect: bool) -> None:
        """A turn begins an effect, or ends; either is written first, or refused."""
        worker = self.workers[at]
        if not worker.running:
            return
        turn = worker.running[which % len(worker.running)]
        stored = self.store[turn.key.id]
        if stored.epoch != turn.epoch:
            self.do(worker, worker.state.fenced(turn.key, turn.epoch, self.now))
            return
        if effect:
            if turn.say.id not in stored.effects:
                stored.effects.append(turn.say.id)
            return
        assert turn.say.id not in stored.turns
        stored.turns.append(turn.say.id)
        worker.running.remove(turn)
        ended = worker.state.ended(turn.key, turn.epoch, turn.say.id, self.now)
        self.do(worker, ended)

    # -- time, and what happens to machines

    @rule(seconds=st.sampled_from([0.01, 0.05, 0.1]), all_=st.booleans())
    def pass_time(self, seconds: float, all_: bool) -> None:
        """Some workers may be without a step for long: they stood still."""
        self.now += seconds
        for name in NAMES if all_ else NAMES[:1]:
            worker = self.workers[name]
            self.do(worker, worker.state.tick(self.now))

    @rule(at=WORKERS)
    def beat(self, at: str) -> None:
        worker = self.workers[at]
        worker.beats.append(worker.state.beat(self.now).n)

    @rule(at=WORKERS)
    def hear_a_beat(self, at: str) -> None:
        worker = self.workers[at]
        if worker.beats:
            n = worker.beats.pop(0)
            self.do(worker, worker.state.acknowledged(n, self.now))

    @rule(at=WORKERS)
    def drain(self, at: str) -> None:
        worker = self.workers[at]
        self.do(worker, worker.state.drain(self.now, 0.2))

    @rule(at=WORKERS)
    def die(self, at: str) -> None:
        """It dies, and another process takes its place, under another name."""
        gone = self.workers[at].state.worker
        self.open = {key: x for key, x in self.open.items() if key[0] != gone}
        self.lives += 1
        self.workers[at] = Worker(owner(f"{at}-{self.lives}"))

    # -- what holds

    @invariant()
    def nothing_is_written_twice(self) -> None:
        for stored in getattr(self, "store", {}).values():
            assert len(set(stored.turns)) == len(stored.turns)
            assert len(set(stored.effects)) == len(stored.effects)

    @invariant()
    def one_at_a_time_can_write(self) -> None:
        for session, stored in getattr(self, "store", {}).items():
            now = [
                worker.state.worker
                for worker in self.workers.values()
                if worker.state.epoch(SessionKey(session)) == stored.epoch > 0
            ]
            assert now in ([], [stored.holders.get(stored.epoch)])

    @invariant()
    def the_sessions_of_each_tenant_are_counted(self) -> None:
        for worker in getattr(self, "workers", {}).values():
            state = worker.state
            here = (*state._held, *state._claiming, *state._releasing)
            assert state._here == Counter(key.tenant for key in here)

    def teardown(self) -> None:
        """Once the journal has answered, everybody who asked has an answer."""
        for _ in range(50):
            for at in NAMES:
                while self.workers[at].doing:
                    self.carry_out(at, 0)
        assert not self.open
        for at in NAMES:
            worker = self.workers[at]
            while worker.running:
                self.go_on(at, 0, False)
            self.drain(at)
            while worker.doing:
                self.carry_out(at, 0)
            assert worker.state.drained


TestWorkers = Workers.TestCase
TestWorkers.settings = settings(stateful_step_count=60, deadline=None)
