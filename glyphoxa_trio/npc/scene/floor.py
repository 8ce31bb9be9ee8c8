"""Who speaks in a scene, and who waits for it: one NPC at a time. Pure.

Whoever directs the scene comes first, then a player who has interrupted an answer to
themselves, then the others as they came. A player has one place: what they say replaces
what they have said before and that still waits.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Generic, Protocol, TypeVar

import attrs

from glyphoxa_trio.errors import GlyphoxaError


class SceneFull(GlyphoxaError):
    """Too many wait to be answered in this scene."""


class Rank(IntEnum):
    DM = 0
    INTERRUPTS = 1
    PLAYER = 2


class Comer(Protocol):
    """What somebody wants an NPC to say: its ``own`` words, or what it is given. A
    ``dm`` directs the scene."""

    @property
    def speaker(self) -> str: ...
    @property
    def own(self) -> bool: ...
    @property
    def dm(self) -> bool: ...


C = TypeVar("C", bound=Comer)


@attrs.define(eq=False)
class _Waiting(Generic[C]):
    who: C
    rank: Rank
    since: int


@attrs.define(eq=False)
class Floor(Generic[C]):
    """One speaks, up to ``most`` wait; as many again if they go before them."""

    most: int
    speaking: C | None = attrs.field(default=None, init=False)
    _waiting: list[_Waiting[C]] = attrs.field(factory=list, init=False)
    _came: int = attrs.field(default=0, init=False)

    @property
    def waiting(self) -> tuple[C, ...]:
        """In the order in which they come next."""
        return tuple(x.who for x in self._waiting)

    @property
    def asking(self) -> int:
        """How many wait for an answer."""
        return sum(x.who.own for x in self._waiting)

    def interrupts(self, who: C) -> bool:
        """Whether the answer that is being given is to the same player."""
        now = self.speaking
        return now is not None and _replaces(who, now)

    def come(self, who: C) -> tuple[C, ...]:
        """Have ``who`` speak, or wait. Returns whom that replaces: they are gone.

        Raises:
          SceneFull: too many wait; nothing has changed.
        """
        same = [x for x in self._waiting if _replaces(who, x.who)]
        rank = Rank.INTERRUPTS if self.interrupts(who) else Rank.PLAYER
        rank = Rank.DM if who.dm else min([rank, *(x.rank for x in same)])
        left = [x for x in self._waiting if x not in same]
        if len(left) >= self.most * (1 if rank is Rank.PLAYER else 2):
            raise SceneFull(f"{len(left)} wait in this scene")
        self._came += 1
        since = min([self._came, *(x.since for x in same)])
        if self.speaking is None:
            self.speaking = who
        else:
            self._waiting = sorted(
                [*left, _Waiting(who, rank, since)], key=lambda x: (x.rank, x.since)
            )
        return tuple(x.who for x in same)

    def go(self, who: C) -> C | None:
        """``who`` speaks or waits no more. Returns who speaks from now on, if that is
        somebody else than before."""
        self._waiting = [x for x in self._waiting if x.who is not who]
        if self.speaking is not who:
            return None
        self.speaking = self._waiting.pop(0).who if self._waiting else None
        return self.speaking


def _replaces(who: Comer, earlier: Comer) -> bool:
    """Whether the same speaker went on, and is not giving out words of others."""
    return who.own and earlier.own and who.speaker == earlier.speaker
