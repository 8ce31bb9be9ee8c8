"""To whom players speak: what the rules of `addressing` need to remember."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import attrs

from .addressing import Addressed, Names, NobodyAddressed, addressed

_PLAYERS: Final = 1000  # of whom it is remembered to whom they spoke last
Told = Callable[[str | None], None]


@attrs.define(eq=False)
class Attention:
    """``puppet`` is spoken to by everybody, ``muted`` NPCs by nobody; ``spoke`` is the
    one that spoke last."""

    muted: set[str] = attrs.field(factory=set, init=False)
    puppet: str | None = attrs.field(default=None, init=False)
    spoke: str | None = attrs.field(default=None, init=False)
    _last: OrderedDict[str, str] = attrs.field(factory=OrderedDict, init=False)
    _followers: dict[Told, tuple[str, str | None]] = attrs.field(
        factory=dict, init=False
    )

    def whom(self, text: str, speaker: str, names: Names) -> Addressed:
        """Who is meant by that.

        Raises:
          NobodyAddressed: as `addressed`.
        """
        return addressed(
            text,
            names,
            muted=self.muted,
            puppet=self.puppet,
            last=(self._last.get(speaker), self.spoke),
        )

    def bind(self, npc: str | None) -> None:
        """Everything is for this one, whatever it names."""
        self.puppet = npc

    def has_spoken(self, npc: str) -> None:
        self.spoke = npc

    def remember(self, npc: str, speaker: str) -> None:
        """This player has spoken to that NPC."""
        self._last[speaker] = npc
        self._last.move_to_end(speaker)
        if len(self._last) > _PLAYERS:
            self._last.popitem(last=False)

    def follow(self, speaker: str, told: Told) -> None:
        """Tell ``told`` to whom this player speaks, whenever it is another one."""
        self._followers[told] = (speaker, None)
        told(None)

    def unfollow(self, told: Told) -> None:
        self._followers.pop(told, None)

    def tell(self, names: Names) -> None:
        """Tell those who follow what has changed."""
        for told, (speaker, before) in self._followers.items():
            try:
                now: str | None = self.whom("", speaker, names).npc
            except NobodyAddressed:
                now = None
            if now != before:
                self._followers[told] = (speaker, now)
                told(now)
