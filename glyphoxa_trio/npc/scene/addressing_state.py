"""To whom players speak: what the rules of `addressing` need to remember."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import attrs

from glyphoxa_trio.actors import Call
from glyphoxa_trio.npc.snapshot import SceneSnapshot

from .addressing import Addressed, Names, NobodyAddressed, addressed
from .messages import Follow, SceneMessages

_PLAYERS: Final = 1000  # of whom it is remembered to whom they spoke last


@attrs.define(eq=False)
class AddressingState:
    """``puppet`` is spoken to by everybody, ``muted`` NPCs by nobody; ``spoke`` is the
    one that spoke last."""

    muted: set[str] = attrs.field(factory=set, init=False)
    puppet: str | None = attrs.field(default=None, init=False)
    spoke: str | None = attrs.field(default=None, init=False)
    _last: OrderedDict[str, str] = attrs.field(factory=OrderedDict, init=False)
    _idle: Callable[[], bool] = attrs.field(default=lambda: True, init=False)
    _followers: list[tuple[Call[SceneMessages], Follow]] = attrs.field(
        factory=list, init=False
    )

    @property
    def idle(self) -> bool:
        """Whether nobody speaks in the scene, and nobody follows it."""
        return self._idle() and all(call.abandoned for call, _ in self._followers)

    def lives(self, idle: Callable[[], bool]) -> None:
        """An actor goes by this from now on, which says whether it is ``idle``."""
        self._idle = idle

    def restore(self, kept: SceneSnapshot) -> None:
        """Be as it was then."""
        self.muted.update(kept.muted)
        self.puppet, self.spoke = kept.puppet, kept.spoke
        self._last.update(kept.spoken_to)

    def snapshot(self) -> SceneSnapshot:
        """What is kept of it."""
        return SceneSnapshot(
            muted=tuple(sorted(self.muted)),
            puppet=self.puppet,
            spoke=self.spoke,
            spoken_to=tuple(self._last.items()),
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

    def follow(self, call: Call[SceneMessages], request: Follow) -> None:
        """Answer this as soon as its player speaks to another NPC (`tell`)."""
        self._followers.append((call, request))

    def tell(self, names: Names) -> None:
        """Tell those who follow what has changed."""
        waiting, self._followers = self._followers, []
        for call, request in waiting:
            try:
                now: str | None = self.whom("", request.speaker, names).npc
            except NobodyAddressed:
                now = None
            if call.abandoned:
                continue
            if now != request.known:
                call.reply(now)
            else:
                self._followers.append((call, request))
