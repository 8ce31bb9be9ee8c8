"""Pauses in calls: the time that a person takes to answer a question of a server.

A server may ask a person something in the middle of a call, and does not say in which.
Until there is an answer, no call of that server is charged for the time that passes:
its limits move, and its measured latency is without it. So that no server holds a
table by asking on and on, it may ask a few times in the calls that are waited for, and
not again once a person has left a question unanswered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from typing import Final

import attrs

import trio

MOST_QUESTIONS: Final = 5  # of one server, until none of its calls is waited for


@attrs.define(eq=False)
class PausedWait:
    """A wait whose deadline moves while a question is open.

    ``shift`` is by how many seconds it has moved.

    Args:
      deadline: the deadline at first, on trio's clock.
      move: sets another deadline; infinity while a question is open.
    """

    deadline: float
    _move: Callable[[float], None]
    shift: float = attrs.field(default=0.0, init=False)
    _questions: int = attrs.field(default=0, init=False)
    _since: float = attrs.field(default=0.0, init=False)

    def hold(self) -> None:
        """One more question is open."""
        self._questions += 1
        if self._questions == 1:
            self._since = trio.current_time()
            self._move(float("inf"))

    def go_on(self) -> None:
        """One question less is open."""
        self._questions -= 1
        if not self._questions:
            self.shift += trio.current_time() - self._since
            self._move(self.deadline + self.shift)


@attrs.define(eq=False)
class Pauses:
    """The open questions of servers, by group, and the waits that they hold up."""

    _open: dict[str, int] = attrs.field(factory=dict, init=False)
    _since: dict[str, float] = attrs.field(factory=dict, init=False)
    _total: dict[str, float] = attrs.field(factory=dict, init=False)
    _asked: dict[str, int] = attrs.field(factory=dict, init=False)
    _waits: dict[PausedWait, Collection[str]] = attrs.field(factory=dict, init=False)

    def total(self, group: str) -> float:
        """Return for how many seconds questions of a server were open so far."""
        total = self._total.get(group, 0.0)
        if group in self._open:
            total += trio.current_time() - self._since[group]
        return total

    def is_waited_for(self, group: str) -> bool:
        """Return whether a call of that server is waited for."""
        return any(group in groups for groups in self._waits.values())

    def may_ask(self, group: str) -> bool:
        """Return whether a server may ask once more, and count the question."""
        asked = self._asked[group] = self._asked.get(group, 0) + 1
        return asked <= MOST_QUESTIONS

    def end_questions(self, group: str) -> None:
        """Let a server ask no more, until none of its calls is waited for."""
        self._asked[group] = MOST_QUESTIONS

    @contextmanager
    def pause(self, group: str) -> Generator[None]:
        """Charge no call of that server for the time within the block."""
        if group not in self._open:
            self._since[group] = trio.current_time()
        self._open[group] = self._open.get(group, 0) + 1
        for wait, groups in self._waits.items():
            if group in groups:
                wait.hold()
        try:
            yield
        finally:
            total = self.total(group)
            self._open[group] -= 1
            if not self._open[group]:
                del self._open[group]
                self._total[group] = total
            for wait, groups in list(self._waits.items()):
                if group in groups:
                    wait.go_on()

    @contextmanager
    def waiting(
        self, groups: Collection[str], deadline: float, move: Callable[[float], None]
    ) -> Generator[PausedWait]:
        """Move a deadline while questions of one of these servers are open."""
        wait = PausedWait(deadline, move)
        for group in groups:
            for _ in range(self._open.get(group, 0)):
                wait.hold()
        self._waits[wait] = groups
        try:
            yield wait
        finally:
            del self._waits[wait]
            for group in groups:
                if group in self._asked and not self.is_waited_for(group):
                    del self._asked[group]
