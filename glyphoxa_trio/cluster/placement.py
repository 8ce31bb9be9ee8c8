"""A client's half of the protocol: whom it asks for a session, and when it asks again.

A client knows the workers by their beats, and the owner of a session by their answers.
An utterance is sent again with the same id until a worker answers: to the same one
after 100 ms, and after longer and longer pauses then; to another one if the owner is
gone or silent, with the owner's name, its epoch and the reason, so that the session may
be taken from it. Once something of an
answer was handed out, the utterance is not sent again: it ends as ``lost``. An answer
in an older epoch than the client knows of comes from a worker that has lost the session
and does not know that yet: its conversation lacks the latest turns.

Pure: times are seconds of one clock, which are passed in, and methods return actions.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from math import inf
from random import Random
from typing import Any, Final, TypeAlias

import attrs
from msgspec.structs import replace

from glyphoxa_trio.npc.identity import SessionKey

from .messages import (
    AcceptedMessage,
    AnswerMessage,
    AnyMessage,
    Asking,
    AskMessage,
    BeatMessage,
    DoneMessage,
    EventsMessage,
    LeaveMessage,
    MovedMessage,
    OwnerSilence,
    PingMessage,
    PongMessage,
    RefusalReason,
    RefusedMessage,
    SayMessage,
    SilentOwner,
)
from .ownership import STILL

AGAIN: Final = 0.1
"""Seconds after which an utterance that nobody has answered is sent again, and a worker
that runs one is asked if it lives."""

LONGEST_AGAIN: Final = 0.4
"""Seconds after which it is sent again at last: each pause is twice the one before. A
worker that has it and waits for a database is not asked ten times a second."""

SILENT: Final = 0.3
"""Seconds without a sign of life, since it was asked for one, after which a worker is
silent."""

OLD: Final = 3.0
"""Seconds after which a worker whose beats are missing is no longer chosen, and a turn
is lost because there is no bus."""

OVERTIME: Final = 2.0
"""Seconds that the end of a turn may come after its time is over."""

MOST_ROUTES: Final = 100_000
_MOST_OVER: Final = 1000
_PAUSE: Final = 0.03  # before an utterance that was sent away is sent elsewhere
_AT_ONCE: Final = 3  # so often it is sent elsewhere without a pause
_GUESSES: Final = 8

_PING: Final = PingMessage()
_NOWHERE: Final = ("", 0)  # a session of which nothing is known

_ELSEWHERE: Final = frozenset(
    {RefusalReason.DRAINING, RefusalReason.FENCED, RefusalReason.STOOD_STILL}
)
# Another one may have room for a session that nobody owns.
_FULL: Final = frozenset({RefusalReason.SHED, RefusalReason.QUOTA})


@attrs.frozen
class ToWorker:
    """Send a message to the inbox of a worker."""

    worker: str
    message: AnyMessage


@attrs.frozen
class GiveEvents:
    """Hand out events of an utterance's turn; the first has number ``n``. They are
    acknowledged to ``worker``."""

    id: str
    worker: str
    n: int
    events: Sequence[dict[str, Any]]


@attrs.frozen
class EndSay:
    """The utterance, or request, is over: with a message, or lost (None)."""

    id: str
    worker: str = ""
    ended: DoneMessage | AnswerMessage | RefusedMessage | None = None


ClientAction: TypeAlias = ToWorker | GiveEvents | EndSay


@attrs.define(eq=False)
class _SeenWorker:
    name: str
    beat: BeatMessage | None = None
    heard: float = 0.0
    asked: float | None = None  # since when a sign of life is awaited
    gone: OwnerSilence | None = None  # why it is not asked
    open: dict[str, _OpenSay] = attrs.field(factory=dict)  # what it was sent last


@attrs.define(eq=False)
class _OpenSay:
    say: Asking
    key: SessionKey
    until: float
    worker: str = ""  # that it was sent to last; "" for none
    pause: float = 0.0  # until it is sent to that one again
    again: float = 0.0  # when it is to be sent, unless it was answered
    due: float = inf  # when `tick` looks at it
    moves: int = 0
    shed: int = 0
    least: int = 0  # epoch: whoever had the session in an older one has lost it
    epoch: int = 0  # since it was accepted
    turn: int = 0
    given: int = 0  # events
    left: bool = False

    @property
    def accepted(self) -> bool:
        return self.epoch > 0


@attrs.define(eq=False)
class Placement:
    """The workers, the owners of sessions, and the utterances that are open.

    Args:
      random: chooses among workers for sessions that nobody is known to have.
    """

    random: Random = attrs.field(factory=Random)
    _workers: dict[str, _SeenWorker] = attrs.field(factory=dict, init=False)
    _names: list[str] = attrs.field(factory=list, init=False)  # the same ones
    # Of those: the ones that were sent something that is open.
    _busy: dict[str, _SeenWorker] = attrs.field(factory=dict, init=False)
    # The owner of each session, or "" if that is not known, and the latest epoch; the
    # one used longest ago first.
    _routes: dict[SessionKey, tuple[str, int]] = attrs.field(factory=dict, init=False)
    _open: dict[str, _OpenSay] = attrs.field(factory=dict, init=False)
    # When to look at them, the soonest first, and a number against ties: a tick that
    # looked at all of them would cost the more, the more is open. An entry that is not
    # at its utterance's ``due`` is void.
    _due: list[tuple[float, int, _OpenSay]] = attrs.field(factory=list, init=False)
    _looks: int = attrs.field(default=0, init=False)
    # Of those that are open: sent to nobody, until somebody beats.
    _unsent: dict[str, _OpenSay] = attrs.field(factory=dict, init=False)
    # The sessions of the last utterances and requests that are over.
    _over: dict[str, SessionKey] = attrs.field(factory=dict, init=False)
    _last: float | None = attrs.field(default=None, init=False)  # step
    _deaf: float | None = attrs.field(default=None, init=False)  # since when
    _tidy: float = attrs.field(default=0.0, init=False)  # when the dead are forgotten
    counts: dict[str, int] = attrs.field(factory=dict, init=False)

    @property
    def open(self) -> int:
        """The number of utterances that are not over."""
        return len(self._open)

    def workers(self, now: float) -> Iterator[BeatMessage]:
        """Yield the last beat of each worker that beats."""
        for seen in self._workers.values():
            if seen.beat is not None and now - seen.heard <= OLD and not seen.gone:
                yield seen.beat

    def route(self, key: SessionKey) -> tuple[str, int] | None:
        """Return the owner of a session, and its epoch, as far as they are known."""
        worker, epoch = self._routes.get(key, _NOWHERE)
        return (worker, epoch) if worker else None

    # -- what the client's user does ---------------------------------------------

    def say(self, say: SayMessage, now: float) -> list[ClientAction]:
        """Send an utterance; `EndSay` follows, once.

        Raises:
          ValueError: its id is in use.
        """
        return self._begin(say, now)

    def ask(self, ask: AskMessage, now: float) -> list[ClientAction]:
        """Send any other request; `EndSay` follows, once. It is carried out once by
        each owner that gets it, so twice only if the first one loses its session.

        Raises:
          ValueError: its id is in use.
        """
        return self._begin(ask, now)

    def _begin(self, asked: Asking, now: float) -> list[ClientAction]:
        if asked.id in self._open:
            raise ValueError(f"the id {asked.id!r} is in use")
        self._step(now)
        one = _OpenSay(asked, asked.key, now + asked.remaining_ms / 1000)
        self._open[asked.id] = one
        return self._send(one, now)

    def leave(self, id_: str, *, forget: bool = False) -> list[ClientAction]:
        """Interrupt an utterance. Its end still comes, unless it is to be forgotten, or
        was not accepted yet."""
        one = self._open.get(id_)
        if one is None:
            return []
        one.left = True
        actions: list[ClientAction] = []
        if one.worker:
            actions.append(ToWorker(one.worker, LeaveMessage(id=id_)))
        if forget or not one.accepted:
            actions += self._end(one, None)
        return actions

    # -- what workers, and the bus, say ------------------------------------------

    def received(
        self, message: AnyMessage, worker: str, now: float
    ) -> list[ClientAction]:
        """Take a message that a worker has sent."""
        self._step(now)
        self._lives(worker, now)
        match message:  # the most frequent first
            case PongMessage():
                return []
            case EventsMessage():
                return self._events(message, worker)
            case AcceptedMessage():
                return self._accepted(message, worker, now)
            case DoneMessage():
                return self._done(message, worker)
            case MovedMessage():
                return self._moved(message, now)
            case RefusedMessage():
                return self._refused(message, now)
            case AnswerMessage():
                return self._answered(message, now)
        return []

    def beat(self, beat: BeatMessage, now: float) -> list[ClientAction]:
        """Take a worker's beat, and send what waits for one."""
        self._step(now)
        seen = self._lives(beat.worker, now)
        seen.beat = beat
        if not self._unsent:
            return []
        actions: list[ClientAction] = []
        for one in list(self._unsent.values()):
            actions += self._send(one, now)
        return actions

    def no_responders(self, worker: str, now: float) -> list[ClientAction]:
        """Note that no worker of this name is connected to the bus."""
        self._step(now)
        return self._gone(worker, OwnerSilence.NO_RESPONDERS, now)

    def tick(self, now: float, *, deaf: bool = False) -> list[ClientAction]:
        """Send again what was not answered, find silent workers, and end what is too
        late. To be called ten times a second and more.

        Args:
          deaf: there is no connection to the bus, so that nobody can be heard.
        """
        self._step(now)
        actions: list[ClientAction] = []
        if deaf:
            self._excuse(now)
            self._deaf = now if self._deaf is None else self._deaf
        else:
            if self._deaf is not None:
                self._hear_again(now)
            actions += self._look_for_the_silent(now)
        if self._deaf is not None and now - self._deaf > OLD:
            for one in [x for x in self._open.values() if x.accepted]:
                actions += self._end(one, None)
        for one in self._now_due(now):
            late = now - one.until
            if late > OVERTIME if one.accepted else late >= 0:
                actions += self._late(one)
            elif not (deaf or one.accepted) and now >= one.again:
                actions += self._send(one, now)
            elif one.accepted:
                # Not later than this, so that what has ended is not kept for long.
                self._look_at(one, min(one.until + OVERTIME, now + OLD))
            else:
                self._look_at(one, min(one.until, now + AGAIN if deaf else one.again))
        self._forget_the_dead(now)
        return actions

    def _look_at(self, one: _OpenSay, at: float) -> None:
        """Have `tick` look at an utterance then, if it does not before."""
        if at < one.due:
            one.due = at
            self._looks += 1
            heapq.heappush(self._due, (at, self._looks, one))

    def _now_due(self, now: float) -> list[_OpenSay]:
        """Return the open utterances that are to be looked at now."""
        heap = self._due
        due: list[_OpenSay] = []
        while heap and heap[0][0] <= now:
            at, _, one = heapq.heappop(heap)
            if at == one.due:
                one.due = inf
                due.append(one)
        return due

    def _hear_again(self, now: float) -> None:
        """Send what was not answered at once, since it may have been sent to nobody."""
        self._deaf = None
        for one in self._open.values():
            if not one.accepted:
                one.again = now
                self._look_at(one, now)

    def _look_for_the_silent(self, now: float) -> list[ClientAction]:
        actions: list[ClientAction] = []
        silent: list[_SeenWorker] = []
        for seen in self._busy.values():
            if now - seen.heard < AGAIN:
                continue
            asked = seen.asked
            if asked is not None and now - asked > SILENT:
                silent.append(seen)
            elif asked is None or now - asked >= AGAIN:
                seen.asked = now if asked is None else asked
                actions.append(ToWorker(seen.name, _PING))
        for seen in silent:
            actions += self._gone(seen.name, OwnerSilence.NO_PONG, now)
        return actions

    def _forget_the_dead(self, now: float) -> None:
        if now < self._tidy:
            return
        self._tidy = now + OLD
        for seen in list(self._workers.values()):
            if now - seen.heard > 20 * OLD and not seen.open:
                del self._workers[seen.name]
                self._names.remove(seen.name)

    def _step(self, now: float) -> None:
        # Nobody is silent because this client stood still and did not listen.
        last, self._last = self._last, now
        if last is not None and now - last > STILL:
            self._excuse(now)

    def _excuse(self, now: float) -> None:
        """Take nobody for silent, since this client could not hear."""
        for seen in self._workers.values():
            seen.heard = max(seen.heard, now - OLD / 2)
            if seen.asked is not None:
                seen.asked = now

    # -- sending -----------------------------------------------------------------

    def _send(self, one: _OpenSay, now: float) -> list[ClientAction]:
        """Send an utterance to the owner of its session, or to whoever may take it."""
        if now >= one.until:
            return self._late(one)
        worker, epoch = self._routes.get(one.key, _NOWHERE)
        silent = None
        why = self._silence(worker, now) if worker else None
        if why is not None:
            silent = SilentOwner(worker=worker, epoch=epoch, why=why)
            worker = ""
        if not worker:
            worker = self._choice(one, now)
        same = bool(one.pause) and worker == one.worker
        one.pause = min(2 * one.pause, LONGEST_AGAIN) if same else AGAIN
        one.again = now + one.pause
        self._look_at(one, min(one.again, one.until))
        self._hand(one, worker, now)
        one.least = epoch if silent is None else epoch + 1
        if not worker:
            self._unsent[one.say.id] = one
            return []
        self._unsent.pop(one.say.id, None)
        left = 1000 * (one.until - now)
        say = replace(
            one.say, remaining_ms=max(0.0, left), silent=silent, least=one.least
        )
        return [ToWorker(worker, say)]

    def _hand(self, one: _OpenSay, worker: str, now: float) -> None:
        """Note to whom an utterance was sent; "" is nobody."""
        if worker == one.worker:
            return
        self._take_back(one)
        one.worker = worker
        if worker:
            seen = self._busy[worker] = self._seen(worker, now)
            seen.open[one.say.id] = one

    def _take_back(self, one: _OpenSay) -> None:
        if one.worker:
            seen = self._workers[one.worker]
            del seen.open[one.say.id]
            if not seen.open:
                del self._busy[one.worker]

    def _silence(self, worker: str, now: float) -> OwnerSilence | None:
        seen = self._workers.get(worker)
        if seen is None:
            return None
        if seen.gone is None and seen.beat is not None and now - seen.heard > OLD:
            return OwnerSilence.OLD_BEAT
        return seen.gone

    def _choice(self, one: _OpenSay, now: float) -> str:
        """Return the one of two random workers that runs fewer turns; "" without any.

        The one that it was sent to last stays, while it may still answer.
        """
        if not (one.shed or one.moves) and self._takes(one.worker, now):
            return one.worker
        two = self._two(one.worker, now)
        return min(two, key=lambda x: (x.turns, x.sessions)).worker if two else ""

    def _takes(self, worker: str, now: float) -> BeatMessage | None:
        """Return the last beat of a worker that takes sessions, else None."""
        seen = self._workers.get(worker)
        if seen is None or seen.gone or now - seen.heard > OLD:
            return None
        beat = seen.beat
        return beat if beat is not None and beat.room and not beat.draining else None

    def _two(self, but: str, now: float) -> list[BeatMessage]:
        """Return two random workers that take sessions; this one, if there is no other.

        Most do, so a few random names are tried before all workers are looked at.
        """
        names = self._names
        two: dict[str, BeatMessage] = {}
        for _ in range(_GUESSES if names else 0):
            name = names[int(len(names) * self.random.random())]
            if name != but and (beat := self._takes(name, now)) is not None:
                two[name] = beat
                if len(two) == 2:
                    return list(two.values())
        there = [x for x in self.workers(now) if x.room and not x.draining]
        others = [x for x in there if x.worker != but] or there
        return self.random.sample(others, min(2, len(others)))

    def _elsewhere(self, one: _OpenSay, now: float) -> list[ClientAction]:
        """Send it again, after a pause if that did not help before."""
        one.moves += 1
        if one.moves <= _AT_ONCE:
            return self._send(one, now)
        one.again = now + _PAUSE
        self._look_at(one, one.again)
        return []

    # -- answers -----------------------------------------------------------------

    def _lives(self, worker: str, now: float) -> _SeenWorker:
        seen = self._workers.get(worker) or self._seen(worker, now)
        seen.heard, seen.asked, seen.gone = now, None, None
        return seen

    def _seen(self, worker: str, now: float) -> _SeenWorker:
        seen = self._workers.get(worker)
        if seen is None:
            seen = self._workers[worker] = _SeenWorker(worker, heard=now)
            self._names.append(worker)
        return seen

    def _gone(self, worker: str, why: OwnerSilence, now: float) -> list[ClientAction]:
        """Find another worker for all that this one was sent."""
        seen = self._seen(worker, now)
        seen.gone, seen.asked = why, None
        self._count(why)
        actions: list[ClientAction] = []
        for one in list(seen.open.values()):
            actions += self._again(one, now)
        return actions

    def _again(self, one: _OpenSay, now: float) -> list[ClientAction]:
        """Send an utterance whose worker is lost again, if nothing of it was given out.

        The next owner knows from the journal if it had a turn, or an effect.
        """
        if one.given or one.left:
            return self._end(one, None)
        one.epoch = one.turn = 0
        return self._elsewhere(one, now)

    def _accepted(
        self, message: AcceptedMessage, worker: str, now: float
    ) -> list[ClientAction]:
        one = self._open.get(message.id)
        self._learn_from(message, one, worker)
        if one is None:
            return []
        if message.epoch < one.least:
            return self._outdated(one, message.worker, now)
        if message.epoch > one.epoch and not one.given:
            self._hand(one, message.worker, now)
            one.epoch, one.turn = message.epoch, message.turn
            self._unsent.pop(message.id, None)
        return []

    def _outdated(self, one: _OpenSay, worker: str, now: float) -> list[ClientAction]:
        """Ask another worker than this one, which has lost the session."""
        if worker != one.worker or one.accepted:
            return []
        self._count("outdated_owner")
        leave = ToWorker(worker, LeaveMessage(id=one.say.id))
        return [leave, *self._elsewhere(one, now)]

    def _moved(self, message: MovedMessage, now: float) -> list[ClientAction]:
        one = self._open.get(message.id)
        if one is None or one.accepted:
            return []
        self._learn(one.key, message.worker, message.epoch)
        return self._elsewhere(one, now)

    def _refused(self, message: RefusedMessage, now: float) -> list[ClientAction]:
        one = self._open.get(message.id)
        if one is None or message.worker != one.worker or message.epoch < one.epoch:
            return []
        key, reason = one.key, message.reason
        self._count(f"refused_{reason}")
        route = self._routes.get(key)
        lost = reason == RefusalReason.FENCED or not message.epoch
        if lost and route is not None and route[0] == message.worker:
            self._routes[key] = "", route[1]
        if reason in _ELSEWHERE:
            return self._again(one, now)
        if reason in _FULL and not message.epoch and not one.shed:
            one.shed += 1
            return self._elsewhere(one, now)
        return self._end(one, message)

    def _events(self, message: EventsMessage, worker: str) -> list[ClientAction]:
        one = self._open.get(message.id)
        self._learn_from(message, one, worker)
        if one is None or message.epoch < one.epoch or worker != one.worker:
            return []
        if not one.accepted:
            return []  # sent again, it is accepted before its events
        next_ = one.given + 1
        if (message.epoch, message.turn, message.n) != (one.epoch, one.turn, next_):
            return self._gap(one)
        one.given += len(message.events)
        return [GiveEvents(message.id, worker, message.n, message.events)]

    def _done(self, message: DoneMessage, worker: str) -> list[ClientAction]:
        one = self._open.get(message.id)
        self._learn_from(message, one, worker)
        if one is None or not isinstance(one.say, SayMessage):
            return []
        if message.epoch < max(one.epoch, one.least):
            return []
        if message.n and worker != one.worker:
            return []  # a database that was made anew may give an epoch twice
        if message.n and not one.accepted:
            return []  # sent again, it is answered as one of before
        if message.n and message.n != one.given + 1:
            return self._gap(one)
        return self._end(one, message)

    def _answered(self, message: AnswerMessage, now: float) -> list[ClientAction]:
        one = self._open.get(message.id)
        if one is None or not isinstance(one.say, AskMessage):
            return []
        if message.epoch < one.least:
            return self._outdated(one, message.worker, now)
        self._learn(one.key, message.worker, message.epoch)
        return self._end(one, message)

    def _gap(self, one: _OpenSay) -> list[ClientAction]:
        self._count("gaps")
        leave = ToWorker(one.worker, LeaveMessage(id=one.say.id))
        return [leave, *self._end(one, None)]

    def _late(self, one: _OpenSay) -> list[ClientAction]:
        if one.accepted:
            return self._gap(one)
        refused = RefusedMessage(
            id=one.say.id,
            worker=one.worker or "-",
            reason=RefusalReason.UNAVAILABLE,
            message="no worker has taken it in time",
        )
        return self._end(one, refused)

    def _end(
        self,
        one: _OpenSay,
        ended: DoneMessage | AnswerMessage | RefusedMessage | None,
    ) -> list[ClientAction]:
        self._take_back(one)
        one.due = inf
        del self._open[one.say.id]
        self._unsent.pop(one.say.id, None)
        self._over[one.say.id] = one.key
        if len(self._over) > _MOST_OVER:
            del self._over[next(iter(self._over))]
        return [EndSay(one.say.id, one.worker, ended)]

    # -- routes ------------------------------------------------------------------

    def _learn(self, key: SessionKey, worker: str, epoch: int) -> None:
        known = self._routes.pop(key, _NOWHERE)  # it is the one used last now
        self._routes[key] = (worker, epoch) if known[1] <= epoch else known
        if len(self._routes) > MOST_ROUTES:
            del self._routes[next(iter(self._routes))]

    def _learn_from(
        self,
        message: AcceptedMessage | EventsMessage | DoneMessage,
        one: _OpenSay | None,
        worker: str,
    ) -> None:
        """Learn from what a worker says of an utterance, also if it is too late."""
        if one is None:
            key = self._over.get(message.id)
            if key is not None:
                self._learn(key, worker, message.epoch)
        elif worker != one.worker or message.epoch != one.epoch:
            self._learn(one.key, worker, message.epoch)

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1
