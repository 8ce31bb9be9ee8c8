"""A cluster without I/O: the pure halves of workers and clients, a bus that loses and
delays, and a clock that jumps from one event to the next.

Nothing waits and nothing is a task, so that a second of a million sessions costs about
as much as a second. Everything that was promised is checked as it happens
(`Promises`). Not simulated: processor time of workers and clients, and the credit of a
turn's events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any, TypeAlias

import attrs

from glyphoxa_trio.cluster.actions import (
    ClaimSession,
    CloseSession,
    ReleaseSession,
    RunTurn,
    StopTurn,
    ToClient,
    WorkerAction,
)
from glyphoxa_trio.cluster.messages import (
    AnyMessage,
    BeatMessage,
    DoneMessage,
    EventsMessage,
    LeaveMessage,
    PingMessage,
    PongMessage,
    RefusalReason,
    RefusedMessage,
    SayMessage,
    SilentOwner,
)
from glyphoxa_trio.cluster.ownership import Ownership
from glyphoxa_trio.cluster.placement import (
    OVERTIME,
    ClientAction,
    EndSay,
    GiveEvents,
    Placement,
    ToWorker,
)
from glyphoxa_trio.cluster.served_sessions import CLAIM_WITHIN, KEPT_WITHIN
from glyphoxa_trio.npc.identity import SessionKey

from .simulated_journal import CLAIMS, SimulatedJournal

TICK = 0.05  # seconds of a client; a worker has twice as many
PAY = "Pay!"  # has a side effect; everything else has none
NO_INTEREST = 0.0005  # seconds until "no responders" is back
SLOTS = 1000  # of time, a second

# When something happens, a number against ties, and what.
_Due: TypeAlias = tuple[float, int, Callable[..., None], tuple[Any, ...]]


@attrs.frozen
class Script:
    """A turn: its messages, each with so many events, and the seconds before each. An
    effect begins half-way to the first message."""

    batches: tuple[int, ...] = (1, 1, 1, 1)
    pause: float = 0.05

    @property
    def events(self) -> int:
        return sum(self.batches)


@attrs.define(eq=False)
class Link:
    """A connection to one of the servers of the bus."""

    server: int = 0
    up: bool = True
    broke: float = -1.0  # when; what was on its way then is lost


@attrs.define(eq=False)
class Heard:
    """An utterance as its player knows it."""

    id: str
    key: str
    began: float
    until: float
    phase: str = ""
    first: float = 0.0  # when its first event came; 0 for never
    given: int = 0  # events
    end: str = ""
    kept: bool = False
    ended: float = 0.0


@attrs.define(eq=False)
class Promises:
    """Everything that was broken, and an example of each."""

    broken: Counter[str] = attrs.field(factory=Counter)
    examples: dict[str, str] = attrs.field(factory=dict)

    def broke(self, what: str, example: str) -> None:
        self.broken[what] += 1
        self.examples.setdefault(what, example)


def _nobody(heard: Heard) -> None:
    """Nobody wants to know."""


@attrs.define(eq=False)
class World:
    """Everything that happens, by time. ``over`` is told of each end."""

    random: Random
    script: Script = Script()
    idle: float = 2.0
    over: Callable[[Heard], None] = _nobody
    lossy: float = 0.0  # the share of messages that is lost
    phase: str = "quiet"
    now: float = 0.0
    workers: dict[str, Worker] = attrs.field(factory=dict, init=False)
    clients: dict[str, Client] = attrs.field(factory=dict, init=False)
    journal: SimulatedJournal = attrs.field(init=False)
    promises: Promises = attrs.field(factory=Promises, init=False)
    effects: dict[str, int] = attrs.field(factory=dict, init=False)
    acknowledged: set[str] = attrs.field(factory=set, init=False)
    counts: Counter[str] = attrs.field(factory=Counter, init=False)
    # What happens, by the slot of time that it is in. The one of now is a heap, and the
    # others are not sorted before it is their turn: one heap of everything costs more.
    _slots: dict[int, list[_Due]] = attrs.field(factory=dict, init=False)
    _next: list[int] = attrs.field(factory=list, init=False)  # slots, as a heap
    _slot: int = attrs.field(default=0, init=False)
    _due: list[_Due] = attrs.field(factory=list, init=False)
    _at: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.journal = SimulatedJournal(self.promises.broke)

    def later(self, seconds: float, what: Callable[..., None], *args: Any) -> None:
        at = self.now + seconds
        self._at += 1
        slot = int(at * SLOTS)
        if slot <= self._slot:
            heappush(self._due, (at, self._at, what, args))
        elif slot in self._slots:
            self._slots[slot].append((at, self._at, what, args))
        else:
            self._slots[slot] = [(at, self._at, what, args)]
            heappush(self._next, slot)

    def run(self, until: float) -> None:
        last = int(until * SLOTS)
        while True:
            due = self._due
            while due and due[0][0] <= until:
                self.now, _, what, args = heappop(due)
                what(*args)
            if due or not self._next or self._next[0] > last:
                break
            self._slot = heappop(self._next)
            self._due = self._slots.pop(self._slot)
            self._due.sort()  # which is a heap
        self.now = until

    # -- the bus

    def latency(self) -> float:
        return 0.0002 + 0.0018 * self.random.random()

    def arrives(self) -> bool:
        return not self.lossy or self.random.random() >= self.lossy

    def to_worker(self, name: str, client: Client, message: AnyMessage) -> None:
        if client.link.up and (not self.lossy or self.arrives()):
            self.counts["messages"] += 1
            at = self._at_worker
            self.later(self.latency(), at, name, client, message, self.now)

    def _at_worker(
        self, name: str, client: Client, message: AnyMessage, sent: float
    ) -> None:
        worker = self.reachable(name, client, sent)
        if worker is not None:
            worker.when_awake(worker.take, message, client.name)

    def reachable(self, name: str, client: Client, sent: float) -> Worker | None:
        """Return a worker whose inbox has a message now; tell the client if no worker
        has that name."""
        if client.link.broke >= sent:
            return None
        worker = self.workers.get(name)
        if worker is not None:
            link = worker.link
            if link.up:
                return None if link.broke >= sent else worker
        if worker is None or not (worker.vanished or worker.link.broke >= sent):
            self.later(NO_INTEREST, client.no_responders, name)
        return None

    def to_client(self, name: str, worker: Worker, message: AnyMessage) -> None:
        if worker.link.up and (not self.lossy or self.arrives()):
            self.counts["messages"] += 1
            client = self.clients[name]
            at = self._at_client
            self.later(self.latency(), at, client, worker, message, self.now)

    def _at_client(
        self, client: Client, worker: Worker, message: AnyMessage, sent: float
    ) -> None:
        link = client.link
        if link.up and link.broke < sent and worker.link.broke < sent:
            client.take(message, worker.name)

    def beats(self, worker: Worker, beat: BeatMessage) -> None:
        if worker.link.up:
            self.later(self.latency(), self._beat_arrives, worker, beat, self.now)

    def _beat_arrives(self, worker: Worker, beat: BeatMessage, sent: float) -> None:
        if worker.link.broke >= sent:
            return
        sure = not self.lossy
        for client in self.clients.values():
            link = client.link
            if link.up and link.broke < sent and (sure or self.arrives()):
                client.beat(beat)
        if self.arrives():
            worker.when_awake(worker.heard, beat.n)

    def lose_server(self, server: int, others: list[int], longest: float) -> None:
        """Lose a server of the bus. Its connections come back on others, one by one."""
        ends: list[Worker | Client] = [*self.workers.values(), *self.clients.values()]
        for one in ends:
            link = one.link
            if link.up and link.server == server:
                link.up, link.broke = False, self.now
                self.later(longest * self.random.random(), self._connect, one, others)

    def _connect(self, one: Worker | Client, others: list[int]) -> None:
        if not (isinstance(one, Worker) and one.dead):
            one.link.server, one.link.up = self.random.choice(others), True

    # -- the database

    def fail_over(self, away: float, *, lost: float = 0.0) -> None:
        """Lose the database, and have another take over ``away`` seconds later.

        All locks that say who lives are lost, and come back within five seconds of
        that.

        Args:
          lost: seconds of acknowledged writes that the other one does not have.
        """
        self.journal.fail(self.now, away, lost=lost)
        for worker in self.workers.values():
            wait = away + 5.0 * self.random.random()
            self.later(wait, worker.lock)

    # -- afterwards

    def settled(self) -> list[str]:
        """Check what can only be known at the end, and return all that was broken."""
        broke, journal = self.promises.broke, self.journal
        for client in self.clients.values():
            for id_ in client.open:
                broke("an utterance has no end", id_)
        for id_, times in self.effects.items():
            if times > 1 and id_ not in journal.undone:
                broke("an effect was begun twice", id_)
        for id_ in self.acknowledged:
            if id_ not in journal.turns and id_ not in journal.undone:
                broke("an acknowledged turn is lost", id_)
        examples = self.promises.examples
        return [
            f"{n} times: {what}, such as {examples[what]}"
            for what, n in self.promises.broken.items()
        ]


@attrs.define(eq=False)
class Turn:
    """A turn that runs in a worker."""

    run: RunTurn
    sent: int = 0  # messages
    events: int = 0
    interrupted: bool = False
    closed: bool = False


@attrs.define(eq=False)
class Worker:
    world: World
    name: str
    link: Link = attrs.field(factory=Link)
    own: Ownership = attrs.field(init=False)
    pong: PongMessage = attrs.field(init=False)
    dead: bool = False
    vanished: bool = False  # it is dead, and the bus does not know
    stopped: float = 0.0  # until when
    turns: dict[SessionKey, list[Turn]] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.own = Ownership(
            worker=self.name, deployment="d", version="1", idle=self.world.idle
        )
        self.pong = PongMessage(worker=self.name)
        self.world.workers[self.name] = self
        self.lock()
        self.tick(0)

    def lock(self) -> None:
        """Take the lock that says that it lives."""
        if not self.dead:
            self.world.journal.alive.add(self.name)

    def unlock(self) -> None:
        self.world.journal.alive.discard(self.name)

    def die(self, *, noticed: float = 0.0) -> None:
        """Be killed; with the machine, if others notice only after some seconds."""
        self.dead, self.vanished = True, noticed > 0
        self.link.up, self.link.broke = False, self.world.now
        self.own = Ownership(worker=self.name, deployment="d", version="1")
        self.turns = {}
        self.world.later(noticed, self.unlock)
        self.world.later(noticed, self.found_dead)

    def found_dead(self) -> None:
        self.vanished = False

    def when_awake(self, what: Callable[..., None], *args: Any) -> None:
        if self.stopped > self.world.now:
            self.later(self.stopped - self.world.now, what, *args)
        elif not self.dead:
            what(*args)

    def later(self, seconds: float, what: Callable[..., None], *args: Any) -> None:
        self.world.later(seconds, self.when_awake, what, *args)

    def tick(self, at: int) -> None:
        now = self.world.now
        self.do(self.own.tick(now))
        if at % 5 == 0:
            self.world.beats(self, self.own.beat(now))
        self.later(2 * TICK, self.tick, at + 1)

    def drain(self, within: float) -> None:
        self.do(self.own.drain(self.world.now, within))

    def heard(self, n: int) -> None:
        self.do(self.own.acknowledged(n, self.world.now))

    def take(self, message: AnyMessage, client: str) -> None:
        match message:
            case SayMessage():
                self.do(self.own.say(message, client, self.world.now))
            case LeaveMessage(id=id_):
                self.do(self.own.leave(id_, client, self.world.now))
            case PingMessage():
                self.world.to_client(client, self, self.pong)

    def do(self, actions: list[WorkerAction]) -> None:
        for action in actions:
            if type(action) is ToClient:
                self.world.to_client(action.to, self, action.message)
                continue
            match action:
                case RunTurn():
                    turn = Turn(action)
                    self.turns.setdefault(action.key, []).append(turn)
                    pause = self.world.script.pause
                    if action.say.text == PAY:
                        self.later(pause / 2, self.pay, turn)
                    else:
                        self.later(pause, self.go_on, turn)
                case ClaimSession():
                    self.try_claim(action, self.world.now)
                case StopTurn(key=key, id=id_):
                    for turn in self.turns.get(key, ()):
                        turn.interrupted |= turn.run.say.id == id_
                case CloseSession(key=key):
                    for turn in self.turns.pop(key, ()):
                        turn.closed = True
                case ReleaseSession(key=key, epoch=epoch):
                    self.give_back(key, epoch)

    # -- what the journal is asked

    def write(self, what: Callable[..., None], *args: Any) -> None:
        self.later(self.world.journal.wait(self.world.now), what, *args)

    def try_claim(self, claim: ClaimSession, began: float) -> None:
        """Claim a session, now or when the database is back; give up in time."""
        now = self.world.now
        wait = self.world.journal.wait(now, CLAIMS)
        if now + wait > began + CLAIM_WITHIN:
            self.later(began + CLAIM_WITHIN - now, self.cannot_claim, claim.key)
        else:
            self.later(wait, self.claim, claim, began)

    def cannot_claim(self, key: SessionKey) -> None:
        why = RefusalReason.UNAVAILABLE
        self.do(self.own.claim_failed(key, why, self.world.now))

    def claim(self, claim: ClaimSession, began: float) -> None:
        key, now, journal = claim.key, self.world.now, self.world.journal
        if journal.is_away(now):
            self.try_claim(claim, began)
            return
        silent = claim.silent
        steal_from = None if silent is None else silent.epoch
        kept, owner = journal.claim(key, self.name, steal_from, now)
        if owner is not None:
            self.do(self.own.claim_failed(key, (owner, kept.epoch), now))
        elif journal.answer_is_lost(now):
            self.cannot_claim(key)
        else:
            self.do(self.own.claimed(key, kept.epoch, kept.past, now))

    def give_back(self, key: SessionKey, epoch: int) -> None:
        wait = self.world.journal.wait(self.world.now, CLAIMS)
        self.later(wait, self.release, key, epoch)

    def release(self, key: SessionKey, epoch: int) -> None:
        if self.world.journal.is_away(self.world.now):
            self.give_back(key, epoch)
            return
        self.world.journal.release(key, self.name, epoch, self.world.now)
        self.do(self.own.released(key, self.world.now))

    def go_on(self, turn: Turn) -> None:
        """Send the next events of a turn, or end it."""
        if turn.closed:
            return
        if turn.interrupted or turn.sent == len(self.world.script.batches):
            self.finish(turn)
        else:
            self.send(turn)

    def send(self, turn: Turn) -> None:
        run, many = turn.run, self.world.script.batches[turn.sent]
        first = turn.events + 1
        turn.sent, turn.events = turn.sent + 1, turn.events + many
        events = EventsMessage(
            id=run.say.id,
            epoch=run.epoch,
            turn=run.turn,
            n=first,
            events=_EVENTS[many],
        )
        self.world.to_client(run.to, self, events)
        self.later(self.world.script.pause, self.go_on, turn)

    def pay(self, turn: Turn) -> None:
        """Begin an effect once that is written; without a database, do without it."""
        if turn.closed:
            return
        if turn.interrupted:
            self.finish(turn)
        elif self.world.journal.is_away(self.world.now):
            self.do_without(turn)
        else:
            self.write(self.begin_effect, turn)

    def do_without(self, turn: Turn) -> None:
        self.world.counts["effects refused"] += 1
        self.later(self.world.script.pause / 2, self.go_on, turn)

    def begin_effect(self, turn: Turn) -> None:
        if turn.closed:
            return
        world, run, id_ = self.world, turn.run, turn.run.say.id
        if world.journal.is_away(world.now):  # nobody knows if it was written
            self.do_without(turn)
        elif world.journal.write(
            run.key, self.name, run.epoch, id_, run.turn, world.now
        ):
            world.effects[id_] = world.effects.get(id_, 0) + 1
            self.later(world.script.pause / 2, self.go_on, turn)
        else:
            self.do(self.own.fenced(run.key, run.epoch, world.now))

    def finish(self, turn: Turn) -> None:
        """Write a turn, and tell its end then; or soon, if the database is away."""
        if self.world.journal.is_away(self.world.now):
            self.later(KEPT_WITHIN, self.end, turn, False)
            self.write(self.append, turn, True)
        else:
            self.write(self.append, turn, False)

    def append(self, turn: Turn, told: bool) -> None:
        if turn.closed:
            return
        world, run, id_ = self.world, turn.run, turn.run.say.id
        if world.journal.is_away(world.now):
            if not told:
                self.finish(turn)
            else:
                self.write(self.append, turn, True)
        elif world.journal.append(
            run.key, self.name, run.epoch, id_, run.turn, world.now
        ):
            if not told:
                self.end(turn, True)
        else:
            world.counts["fenced"] += 1
            self.do(self.own.fenced(run.key, run.epoch, world.now))

    def end(self, turn: Turn, kept: bool) -> None:
        run = turn.run
        if turn.closed:
            return
        running = self.turns[run.key]
        running.remove(turn)
        if not running:
            del self.turns[run.key]
        done = DoneMessage(
            id=run.say.id,
            epoch=run.epoch,
            turn=run.turn,
            n=turn.events + 1,
            end="interrupted" if turn.interrupted else "completed",
            kept=kept,
        )
        self.world.to_client(run.to, self, done)
        self.do(self.own.ended(run.key, run.epoch, run.say.id, self.world.now))


_EVENTS = [[{"event": "X"}] * n for n in range(10)]


@attrs.define(eq=False)
class Client:
    world: World
    name: str
    link: Link = attrs.field(factory=Link)
    placement: Placement = attrs.field(init=False)
    open: dict[str, Heard] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.placement = Placement(Random(self.world.random.random()))
        self.world.clients[self.name] = self
        self.tick()

    def tick(self) -> None:
        deaf = not self.link.up
        self.do(self.placement.tick(self.world.now, deaf=deaf))
        self.world.later(TICK, self.tick)

    def say(self, id_: str, session: str, within: float, text: str = PAY) -> None:
        now = self.world.now
        self.open[id_] = Heard(id_, session, now, now + within, self.world.phase)
        say = SayMessage(
            id=id_, session=session, npc="Bo", text=text, remaining_ms=within * 1000
        )
        self.do(self.placement.say(say, now))

    def leave(self, id_: str) -> None:
        self.do(self.placement.leave(id_))

    def take(self, message: AnyMessage, worker: str) -> None:
        self.do(self.placement.received(message, worker, self.world.now))

    def beat(self, beat: BeatMessage) -> None:
        self.do(self.placement.beat(beat, self.world.now))

    def no_responders(self, worker: str) -> None:
        if self.link.up:
            self.do(self.placement.no_responders(worker, self.world.now))

    def do(self, actions: list[ClientAction]) -> None:
        if not actions:
            return
        pings: list[str] = []
        for action in actions:
            if type(action) is GiveEvents:
                self.given(action)
            elif type(action) is EndSay:
                self.over(action)
            elif type(action) is ToWorker:
                if type(action.message) is PingMessage:
                    pings.append(action.worker)
                else:
                    self.world.to_worker(action.worker, self, action.message)
        if pings and self.link.up:
            self.world.later(self.world.latency(), self.ask, pings, self.world.now)

    def ask(self, workers: list[str], sent: float) -> None:
        """Have the pings of one moment arrive, and send what answers them at once."""
        world = self.world
        answers: list[Worker] = []
        world.counts["pings"] += len(workers)
        reachable, arrives, sure = world.reachable, world.arrives, not world.lossy
        for name in workers:
            worker = reachable(name, self, sent) if sure or arrives() else None
            if worker is None:
                continue
            if worker.stopped > world.now:
                worker.when_awake(worker.take, PingMessage(), self.name)
            elif sure or arrives():
                answers.append(worker)
        if answers:
            world.later(world.latency(), self.answered, answers, world.now)

    def answered(self, workers: list[Worker], sent: float) -> None:
        if not self.link.up or self.link.broke >= sent:
            return
        received, now = self.placement.received, self.world.now
        for worker in workers:
            if worker.link.broke < sent:
                actions = received(worker.pong, worker.name, now)
                if actions:
                    self.do(actions)

    # -- what its players hear

    def given(self, events: GiveEvents) -> None:
        heard = self.open.get(events.id)
        if heard is None:
            self.world.promises.broke("events came after the end", events.id)
            return
        if events.n != heard.given + 1:
            self.world.promises.broke("an event is missing, or came twice", events.id)
        heard.given += len(events.events)
        heard.first = heard.first or self.world.now

    def over(self, end: EndSay) -> None:
        world, ended = self.world, end.ended
        heard = self.open.pop(end.id, None)
        if heard is None:
            world.promises.broke("an utterance ended twice", end.id)
            return
        heard.ended = world.now
        if isinstance(ended, RefusedMessage):
            heard.end = "refused"
        elif ended is None:
            heard.end = "lost"
        elif isinstance(ended, DoneMessage):
            heard.end, heard.kept = ended.end, ended.kept and ended.n > 0
        if heard.kept:
            world.acknowledged.add(end.id)
        if heard.end == "completed" and heard.given != world.script.events:
            world.promises.broke("a complete turn misses events", end.id)
        if world.now > heard.until + OVERTIME + 2 * TICK:
            world.promises.broke("an end came too late", end.id)
        world.over(heard)


def silent_in(message: AnyMessage) -> SilentOwner | None:
    assert isinstance(message, SayMessage)
    return message.silent
