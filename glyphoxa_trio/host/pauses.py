"""Pauses in calls: the time that a person takes to answer a question of a server.

A server may ask a person something in the middle of a call, and does not say in which.
So it is heard only if the calls that are waited for belong to one turn: that turn waits
for the person, and no other does. Until there is an answer, its calls of that server
are not charged for the time that passes: their limits move, and their measured latency
is without it.

No server holds a table by asking on and on. All of its questions together move a limit
by the time that one may stay open; it may ask a few times, and not again once a person
has left a question unanswered. A question ends with the last call that it may be for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from typing import Final

import attrs

import trio

MOST_QUESTIONS: Final = 5  # of one server, until none of its calls is waited for


@attrs.define(eq=False, kw_only=True)
class PausedWait:
    """A wait whose deadline moves while a question is open.

    ``shift`` is by how many seconds it has moved.

    Args:
      groups: the servers that it is for.
      turn: what tells the waits of one turn from those of others.
      deadline: the deadline at first, on trio's clock.
      move: sets another deadline.
    """

    groups: Collection[str]
    turn: object
    deadline: float
    move: Callable[[float], None]
    shift: float = attrs.field(default=0.0, init=False)
    _most: float = attrs.field(default=0.0, init=False)  # of all questions together
    _questions: int = attrs.field(default=0, init=False)
    _since: float = attrs.field(default=0.0, init=False)

    def until(self) -> float:
        """Return the deadline, if no question stays open from now on."""
        return self.deadline + self._shifted()

    def hold(self, most: float) -> None:
        """One more question is open. Together they move the deadline by ``most``."""
        self._questions += 1
        self._most = max(self._most, most)
        if self._questions == 1:
            self._since = trio.current_time()
        self.move(self.deadline + self._most)

    def go_on(self) -> None:
        """One question less is open."""
        shift = self._shifted()
        self._questions -= 1
        if not self._questions:
            self.shift = shift
            self.move(self.deadline + shift)

    def _shifted(self) -> float:
        open_ = trio.current_time() - self._since if self._questions else 0.0
        return min(self._most, self.shift + open_)


@attrs.define(eq=False, kw_only=True)
class _OpenQuestion:
    """An open question: its server, the turn that waits, and the scope of asking."""

    group: str
    turn: object
    most: float
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)

    def holds(self, wait: PausedWait) -> bool:
        """Return whether a wait is for the call that may have asked."""
        return wait.turn is self.turn and self.group in wait.groups


@attrs.define(eq=False)
class Pauses:
    """The open questions of servers, by group, and the waits that they hold up."""

    _open: list[_OpenQuestion] = attrs.field(factory=list, init=False)
    _since: dict[str, float] = attrs.field(factory=dict, init=False)
    _total: dict[str, float] = attrs.field(factory=dict, init=False)
    _asked: dict[str, int] = attrs.field(factory=dict, init=False)
    _waits: list[PausedWait] = attrs.field(factory=list, init=False)

    def total(self, group: str) -> float:
        """Return for how many seconds questions of a server were open so far."""
        total = self._total.get(group, 0.0)
        if group in self._since:
            total += trio.current_time() - self._since[group]
        return total

    def turns(self, group: str) -> int:
        """Return in how many turns a call of that server is waited for."""
        return len({id(x.turn) for x in self._waits if group in x.groups})

    def may_ask(self, group: str) -> bool:
        """Return whether a server may ask once more, and count the question."""
        asked = self._asked[group] = self._asked.get(group, 0) + 1
        return asked <= MOST_QUESTIONS

    def end_questions(self, group: str) -> None:
        """Let a server ask no more, until none of its calls is waited for."""
        self._asked[group] = MOST_QUESTIONS

    @contextmanager
    def pause(self, group: str, most: float) -> Generator[trio.CancelScope]:
        """Charge the turn that waits for that server for no time within the block.

        Yields the scope to ask in, which is cancelled when no call waits any more.

        Args:
          group: the server that asks.
          most: seconds for which all of its questions together are not charged.
        """
        turn = next((x.turn for x in self._waits if group in x.groups), None)
        question = _OpenQuestion(group=group, turn=turn, most=most)
        self._since.setdefault(group, trio.current_time())
        self._open.append(question)
        for wait in filter(question.holds, self._waits):
            wait.hold(most)
        try:
            yield question.scope
        finally:
            self._open.remove(question)
            if not any(x.group == group for x in self._open):
                self._total[group] = self.total(group)
                del self._since[group]
            for wait in filter(question.holds, self._waits):
                wait.go_on()

    @contextmanager
    def waiting(
        self,
        groups: Collection[str],
        turn: object,
        deadline: float,
        move: Callable[[float], None],
    ) -> Generator[PausedWait]:
        """Move a deadline while a question of one of these servers is open."""
        wait = PausedWait(groups=groups, turn=turn, deadline=deadline, move=move)
        for question in self._open:
            if question.holds(wait):
                wait.hold(question.most)
        self._waits.append(wait)
        try:
            yield wait
        finally:
            self._waits.remove(wait)
            for group in groups:
                if not self.turns(group):
                    self._asked.pop(group, None)
            for question in self._open:
                if not any(map(question.holds, self._waits)):
                    question.scope.cancel("no call waits for the answer")
