"""Pauses in calls: the time that a person takes to answer a question of a server.

A server may ask a person something in the middle of a call, and does not say in which.
So it is heard only if the calls that are waited for belong to one turn: that turn waits
for the person, and no other does. Until there is an answer, its calls of that server
are not charged for the time that passes: their limits move, and their measured latency
is without it.

No server holds a table by asking on and on. In one turn all questions together, of all
servers, move a limit by the time that one may stay open; a server may ask a few times,
and not again once a person has left a question unanswered. A question ends with the
last call that it may be for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import OpenTime

MOST_QUESTIONS: Final = 5  # of one server in one turn


@attrs.define(eq=False)
class TurnQuestions:
    """The questions that servers ask a person in one turn, in all of its rounds.

    ``by_server`` is how long those of each server were open; ``whose`` the tenant and
    the session whose person is asked.
    """

    whose: tuple[str, str] = ("", "")
    _all: OpenTime = attrs.field(factory=OpenTime, init=False)
    by_server: dict[str, OpenTime] = attrs.field(factory=dict, init=False)
    _asked: dict[str, int] = attrs.field(factory=dict, init=False)

    def may_ask(self, server: str) -> bool:
        """Return whether a server may ask once more, and count the question."""
        asked = self._asked[server] = self._asked.get(server, 0) + 1
        return asked <= MOST_QUESTIONS

    def end_questions(self, server: str) -> None:
        """Let a server ask no more in this turn."""
        self._asked[server] = MOST_QUESTIONS

    def left(self, most: float) -> float:
        """Return how many of ``most`` seconds are left for further questions."""
        return max(0.0, most - self._all.seconds())

    def seconds(self, server: str) -> float:
        """Return for how many seconds questions of a server were open so far."""
        of_server = self.by_server.get(server)
        return 0.0 if of_server is None else of_server.seconds()

    def _clocks(self, server: str) -> tuple[OpenTime, OpenTime]:
        return self._all, self.by_server.setdefault(server, OpenTime())


@attrs.define(eq=False, kw_only=True)
class PausedWait:
    """A wait whose deadline moves while a question is open.

    Args:
      groups: the servers that it is for.
      turn: the turn that waits.
      deadline: the deadline at first, on trio's clock.
      move: sets another deadline.
    """

    groups: Collection[str]
    turn: TurnQuestions
    deadline: float
    move: Callable[[float], None]
    _open: OpenTime | None = attrs.field(default=None, init=False)

    @property
    def shift(self) -> float:
        """The seconds by which the deadline has moved, if no question stays open."""
        return 0.0 if self._open is None else self._open.seconds()

    def until(self) -> float:
        """Return the deadline, if no question stays open from now on."""
        if self._open is None:
            return self.deadline
        return self.deadline + self._open.seconds()

    def hold(self, most: float) -> None:
        """One more question is open, for at most ``most`` seconds."""
        if self._open is None:
            self._open = OpenTime()
        self._open.begin()
        self.move(self.until() + most)

    def go_on(self) -> None:
        """One question less is open."""
        if self._open is None:
            return
        self._open.end()
        if not self._open.count:
            self.move(self.until())


@attrs.define(eq=False, kw_only=True)
class _OpenQuestion:
    """An open question: its server, the turn that waits, and the scope of asking."""

    group: str
    turn: TurnQuestions
    until: float  # when it ends at the latest, on trio's clock
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)

    def holds(self, wait: PausedWait) -> bool:
        """Return whether a wait is for the call that may have asked."""
        return wait.turn is self.turn and self.group in wait.groups


@attrs.define(eq=False)
class Pauses:
    """The open questions of servers, and the waits that they hold up."""

    _open: list[_OpenQuestion] = attrs.field(factory=list, init=False)
    _waits: list[PausedWait] = attrs.field(factory=list, init=False)

    def turns(self, group: str) -> list[TurnQuestions]:
        """Return the turns in which a call of that server is waited for."""
        waits = (x for x in self._waits if group in x.groups)
        return list({id(x.turn): x.turn for x in waits}.values())

    @contextmanager
    def pause(
        self, group: str, turn: TurnQuestions, most: float
    ) -> Generator[trio.CancelScope]:
        """Charge a turn that waits for that server for no time within the block.

        Yields the scope to ask in, which is cancelled when no call waits any more.

        Args:
          group: the server that asks.
          most: seconds that the block takes at most.
        """
        until = trio.current_time() + most
        question = _OpenQuestion(group=group, turn=turn, until=until)
        clocks = turn._clocks(group)
        for clock in clocks:
            clock.begin()
        self._open.append(question)
        for wait in filter(question.holds, self._waits):
            wait.hold(most)
        try:
            yield question.scope
        finally:
            self._open.remove(question)
            for clock in clocks:
                clock.end()
            for wait in filter(question.holds, self._waits):
                wait.go_on()

    @contextmanager
    def waiting(
        self,
        groups: Collection[str],
        turn: TurnQuestions,
        deadline: float,
        move: Callable[[float], None],
    ) -> Generator[PausedWait]:
        """Move a deadline while a question of one of these servers is open."""
        wait = PausedWait(groups=groups, turn=turn, deadline=deadline, move=move)
        for question in self._open:
            if question.holds(wait):
                wait.hold(question.until - trio.current_time())
        self._waits.append(wait)
        try:
            yield wait
        finally:
            self._waits.remove(wait)
            for question in self._open:
                if not any(map(question.holds, self._waits)):
                    question.scope.cancel("no call waits for the answer")
