"""The queue of utterances that wait for one NPC, or for one scene. Pure.

One utterance has the turn. The DM's come first, then that of a speaker who has
interrupted the answer to themselves, then the others in the order in which they came. A
speaker has one place: a new utterance replaces an earlier one that still waits.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Generic, Protocol, TypeVar

import attrs

from glyphoxa_trio.errors import GlyphoxaError


class QueueFull(GlyphoxaError):
    """Too many utterances wait already."""


class Rank(IntEnum):
    """The order of utterances in a queue."""

    DM = 0
    INTERRUPTS = 1
    PLAYER = 2


class Comer(Protocol):
    """An utterance. ``own``: the NPC answers itself, and is not given its words.

    ``dm``: it comes from the DM.
    """

    @property
    def speaker(self) -> str: ...
    @property
    def own(self) -> bool: ...
    @property
    def dm(self) -> bool: ...


C = TypeVar("C", bound=Comer)


@attrs.define(eq=False)
class _QueuedTurn(Generic[C]):
    who: C
    rank: Rank
    since: int


@attrs.define(eq=False)
class TurnQueue(Generic[C]):
    """The queue: one utterance has the turn, and up to ``most`` wait.

    As many again may wait if they come before the others.

    Args:
      most: how many may wait.
      full: returns the error for one too many, given how many wait.
    """

    most: int
    _full: Callable[[int], QueueFull] = lambda n: QueueFull(
        f"the queue is full: {n} waiting"
    )
    running: C | None = attrs.field(default=None, init=False)
    _waiting: list[_QueuedTurn[C]] = attrs.field(factory=list, init=False)
    _came: int = attrs.field(default=0, init=False)

    def allow(self, most: int) -> None:
        """Set how many may wait from now on; those that wait stay."""
        self.most = most

    @property
    def waiting(self) -> tuple[C, ...]:
        """The waiting utterances, the next first."""
        return tuple(x.who for x in self._waiting)

    @property
    def asking(self) -> int:
        """The number of utterances that wait for an answer."""
        return sum(x.who.own for x in self._waiting)

    def interrupts(self, who: C) -> bool:
        """Return True if the running answer is to the same speaker."""
        return self.running is not None and _replaces(who, self.running)

    def come(self, who: C, *, interrupts: bool | None = None) -> tuple[C, ...]:
        """Begin the turn or wait; return the utterances that ``who`` replaces.

        Args:
          who: the utterance.
          interrupts: whether it interrupts; None decides as `interrupts` does.

        Raises:
          QueueFull: too many wait; the queue is unchanged.
        """
        same = [x for x in self._waiting if _replaces(who, x.who)]
        if interrupts is None:
            interrupts = self.interrupts(who)
        rank = Rank.INTERRUPTS if interrupts else Rank.PLAYER
        rank = Rank.DM if who.dm else min([rank, *(x.rank for x in same)])
        left = [x for x in self._waiting if x not in same]
        if len(left) >= self.most * (1 if rank is Rank.PLAYER else 2):
            raise self._full(len(left))
        self._came += 1
        since = min([self._came, *(x.since for x in same)])
        if self.running is None:
            self.running = who
        else:
            self._waiting = sorted(
                [*left, _QueuedTurn(who, rank, since)], key=lambda x: (x.rank, x.since)
            )
        return tuple(x.who for x in same)

    def go(self, who: C) -> C | None:
        """End the turn of ``who``, or its waiting; return the utterance that begins."""
        self._waiting = [x for x in self._waiting if x.who is not who]
        if self.running is not who:
            return None
        self.running = self._waiting.pop(0).who if self._waiting else None
        return self.running


def _replaces(who: Comer, earlier: Comer) -> bool:
    """Return True if the same speaker speaks for themselves both times."""
    return who.own and earlier.own and who.speaker == earlier.speaker
