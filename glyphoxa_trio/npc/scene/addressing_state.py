"""The addressing state of a scene: what the rules of `addressing` need to remember."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import attrs

from glyphoxa_trio.actors import Call
from glyphoxa_trio.npc.snapshot import SceneSnapshot

from .addressing import Addressed, Names, NobodyAddressed, addressed
from .messages import Follow, SceneMessages

_PLAYERS: Final = 1000  # how many players' last addressees are remembered


@attrs.define(eq=False)
class AddressingState:
    """The addressing state.

    ``puppet``: the NPC to which every utterance goes. ``muted``: the NPCs that are
    never addressed. ``spoke``: the NPC that spoke last. The scene's actor sets them.
    """

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
        """True if no utterance is in progress and no waiter follows the addressee."""
        return self._idle() and all(call.abandoned for call, _ in self._followers)

    def lives(self, idle: Callable[[], bool]) -> None:
        """Serve this actor, whose ``idle`` returns True while it has nothing to do."""
        self._idle = idle

    def restore(self, kept: SceneSnapshot) -> None:
        """Take over a snapshot."""
        self.muted.update(kept.muted)
        self.puppet, self.spoke = kept.puppet, kept.spoke
        self._last.update(kept.spoken_to)

    def snapshot(self) -> SceneSnapshot:
        """Return a snapshot."""
        return SceneSnapshot(
            muted=tuple(sorted(self.muted)),
            puppet=self.puppet,
            spoke=self.spoke,
            spoken_to=tuple(self._last.items()),
        )

    def whom(self, text: str, speaker: str, names: Names) -> Addressed:
        """Return the addressed NPC.

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

    def remember(self, npc: str, speaker: str) -> None:
        """Record that this player has spoken to that NPC."""
        self._last[speaker] = npc
        self._last.move_to_end(speaker)
        if len(self._last) > _PLAYERS:
            self._last.popitem(last=False)

    def follow(self, call: Call[SceneMessages], request: Follow) -> None:
        """Answer this request as soon as its player speaks to another NPC (`tell`)."""
        self._followers.append((call, request))

    def tell(self, names: Names) -> None:
        """Answer the requests of `follow` whose addressee has changed."""
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
