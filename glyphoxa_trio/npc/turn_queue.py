"""Whose turn it is, and who waits for it: one at a time. Pure.

Whoever directs comes first, then a speaker who has interrupted the answer to
themselves, then the others as they came. A speaker has one place: what they say
replaces what they have said before and that still waits. The same rules hold for one
NPC and for a scene.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Generic, Protocol, TypeVar

import attrs

from glyphoxa_trio.errors import GlyphoxaError


class QueueFull(GlyphoxaError):
    """Too many wait to be answered already."""


class Rank(IntEnum):
    DM = 0
    INTERRUPTS = 1
    PLAYER = 2


class Comer(Protocol):
    """What somebody wants an NPC to say: its ``own`` words, or what it is given. A
    ``dm`` directs it."""

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
    """One has the turn, up to ``most`` wait; as many again if they go before them.

    Args:
      full: the error for one too many, given how many wait.
    """

    most: int
    _full: Callable[[int], QueueFull] = lambda n: QueueFull(f"{n} wait")
    running: C | None = attrs.field(default=None, init=False)
    _waiting: list[_QueuedTurn[C]] = attrs.field(factory=list, init=False)
    _came: int = attrs.field(default=0, init=False)

    def allow(self, most: int) -> None:
        """So many may wait from now on; those that do stay."""
        self.most = most

    @property
    def waiting(self) -> tuple[C, ...]:
        """In the order in which they come next."""
        return tuple(x.who for x in self._waiting)

    @property
    def asking(self) -> int:
        """How many wait for an answer."""
        return sum(x.who.own for x in self._waiting)

    def interrupts(self, who: C) -> bool:
        """Whether the answer that is being given is to the same speaker."""
        return self.running is not None and _replaces(who, self.running)

    def come(self, who: C, *, interrupts: bool | None = None) -> tuple[C, ...]:
        """Have the turn, or wait for it. Returns whom ``who`` replaces: they are gone.

        Args:
          interrupts: as the method of that name, unless the caller knows better.

        Raises:
          QueueFull: too many wait; nothing has changed.
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
        """``who`` has the turn or waits no more. Returns who has it from now on, if
        that is somebody else than before."""
        self._waiting = [x for x in self._waiting if x.who is not who]
        if self.running is not who:
            return None
        self.running = self._waiting.pop(0).who if self._waiting else None
        return self.running


def _replaces(who: Comer, earlier: Comer) -> bool:
    """Whether the same speaker went on, and is not giving out words of others."""
    return who.own and earlier.own and who.speaker == earlier.speaker
