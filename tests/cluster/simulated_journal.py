"""The journal of a simulated cluster: who has which session, and which turns are kept.

It refuses what PostgreSQL refuses: a claim of what a living worker has, unless it is
stolen in the right epoch; a write that is not by the holder in its epoch. It can fail
over to a copy, which may lack the last moments of what was acknowledged. A copy that
takes over begins a timeline, and its epochs are above all of those before.

What was written is looked at once more, by other means than the refusal: that no epoch
of a session has two writers, and that no write is in an older epoch than one before.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from math import inf
from typing import TypeAlias

import attrs

from glyphoxa_trio.npc.identity import SessionKey

CLAIMS = 10_000  # a second, or as many releases, if it does nothing else
WRITES = 30_000  # a second; they are committed together
ANSWER = 0.001  # seconds until it answers, when nothing else waits
TIMELINE = 2**32  # epochs of each timeline
REMEMBERED = 2.0  # seconds of writes that a failure may take back


@attrs.define(eq=False)
class Kept:
    """A session. ``past``: ids that have a turn or an effect. ``wrote``: the epoch and
    the worker of the last write."""

    holder: str = ""
    epoch: int = 0
    past: dict[str, int] = attrs.field(factory=dict)
    wrote: tuple[int, str] = (0, "")


# The time of a change, the session, its holder, epoch and last writer before it, and
# the id that was added to its past, and the one that was added to the turns; or "".
_Change: TypeAlias = tuple[float, SessionKey, Kept, str, int, tuple[int, str], str, str]


@attrs.define(eq=False)
class SimulatedJournal:
    """All sessions. ``broke`` is told of broken promises.

    ``alive``: the workers whose lock is held. ``turns``: the ids of those that are
    written. ``undone``: ids of which something that was acknowledged is lost.
    """

    broke: Callable[[str, str], None]
    timeline: int = 1
    sessions: dict[SessionKey, Kept] = attrs.field(factory=dict)
    alive: set[str] = attrs.field(factory=set)
    turns: set[str] = attrs.field(factory=set)
    undone: set[str] = attrs.field(factory=set)
    counts: Counter[str] = attrs.field(factory=Counter)
    claims: Counter[int] = attrs.field(factory=Counter)  # by second
    _lost_epochs: dict[SessionKey, int] = attrs.field(factory=dict)
    _changes: deque[_Change] = attrs.field(factory=deque)
    _free: float = 0.0  # when it has done what waits
    _dies: float = inf
    _back: float = 0.0

    def wait(self, now: float, rate: float = WRITES) -> float:
        """Return the seconds that an operation takes which is asked for now."""
        start = self._back if self.is_away(now) else now
        self._free = max(start, self._free) + 1 / rate
        return self._free + ANSWER - now

    def is_away(self, now: float) -> bool:
        return self._dies <= now < self._back

    def will_fail(self, at: float) -> None:
        """Announce a failure: answers that would come after it do not come."""
        self._dies, self._back = at, inf

    def answer_is_lost(self, now: float) -> bool:
        return now < self._dies < now + ANSWER

    def fail(self, now: float, away: float, *, lost: float = 0.0) -> None:
        self._dies, self._back = now, now + away
        self.timeline += 1
        self.alive.clear()
        while lost and self._changes and self._changes[-1][0] > now - lost:
            self._undo(*self._changes.pop())
        self._changes.clear()

    def _undo(
        self,
        at: float,
        key: SessionKey,
        kept: Kept,
        holder: str,
        epoch: int,
        wrote: tuple[int, str],
        past: str,
        turn: str,
    ) -> None:
        if kept.epoch > epoch:
            self._lost_epochs[key] = max(self._lost_epochs.get(key, 0), kept.epoch)
            self.counts["claims undone"] += 1
        kept.holder, kept.epoch, kept.wrote = holder, epoch, wrote
        if past:
            del kept.past[past]
            self.undone.add(past)
        if turn:
            self.turns.discard(turn)
            self.undone.add(turn)
            self.counts["turns undone"] += 1

    def _note(
        self, now: float, key: SessionKey, kept: Kept, past: str = "", turn: str = ""
    ) -> None:
        changes = self._changes
        changes.append(
            (now, key, kept, kept.holder, kept.epoch, kept.wrote, past, turn)
        )
        while changes[0][0] < now - REMEMBERED:
            changes.popleft()

    def claim(
        self, key: SessionKey, worker: str, steal_from: int | None, now: float
    ) -> tuple[Kept, str | None]:
        """Return the session, and who has it, if it cannot be had."""
        kept = self.sessions.get(key)
        if kept is None:
            kept = self.sessions[key] = Kept()
        held = kept.holder not in ("", worker) and kept.holder in self.alive
        if held and steal_from != kept.epoch:
            self.counts["claims refused"] += 1
            return kept, kept.holder
        self._note(now, key, kept)
        self.claims[int(now)] += 1
        self.counts["claims stolen"] += held
        kept.holder = worker
        kept.epoch = max(kept.epoch, self.timeline * TIMELINE) + 1
        if kept.epoch <= self._lost_epochs.get(key, 0):
            self.broke("an epoch was given twice", f"{key} {kept.epoch}")
        return kept, None

    def release(self, key: SessionKey, worker: str, epoch: int, now: float) -> None:
        kept = self.sessions[key]
        if self.may_write(kept, worker, epoch):
            self._note(now, key, kept)
            kept.holder = ""
            self.counts["releases"] += 1

    def may_write(self, kept: Kept, worker: str, epoch: int) -> bool:
        return kept.epoch == epoch and kept.holder == worker

    def write(
        self, key: SessionKey, worker: str, epoch: int, id_: str, turn: int, now: float
    ) -> bool:
        """Write that an utterance begins an effect; return False to fence it."""
        return self._write(key, worker, epoch, id_, turn, now, ends=False)

    def append(
        self, key: SessionKey, worker: str, epoch: int, id_: str, turn: int, now: float
    ) -> bool:
        """Write the turn of an utterance; return False to fence it."""
        return self._write(key, worker, epoch, id_, turn, now, ends=True)

    def _write(
        self,
        key: SessionKey,
        worker: str,
        epoch: int,
        id_: str,
        turn: int,
        now: float,
        *,
        ends: bool,
    ) -> bool:
        kept = self.sessions[key]
        if not self.may_write(kept, worker, epoch):
            return False
        if ends and id_ in self.turns:
            self.broke("a turn was written twice", id_)
        if kept.wrote[0] == epoch and kept.wrote[1] != worker:
            self.broke("an epoch has two writers", f"{key} {kept.wrote} {worker}")
        if kept.wrote[0] > epoch:
            self.broke("a write is in an older epoch", f"{key} {kept.wrote} {worker}")
        new = "" if id_ in kept.past else id_
        self._note(now, key, kept, new, id_ if ends else "")
        kept.wrote = epoch, worker
        kept.past[id_] = turn
        if ends:
            self.turns.add(id_)
        return True
