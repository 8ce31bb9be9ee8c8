"""What is kept of an NPC, or of a scene, when it is set aside: frozen data, no trio.

Of the NPC's words only what was delivered is kept, as in its memory; of a tool's answer
what its model is told of it. A turn that runs is not in it: its number is, and what had
been overheard before it. Moments are on the clock of the run that took the snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from glyphoxa_trio.tools.outcome import Outcome, ToolCall
from glyphoxa_trio.tools.tier import Tier

from .cost import Spent
from .overheard import Overheard
from .selection import Chosen


@attrs.frozen
class CallSnapshot:
    """One call, and what the model is told of its end."""

    call: ToolCall
    answer: str


@attrs.frozen
class RoundSnapshot:
    """One response of a model: what was heard of it, and its calls."""

    heard: tuple[str, ...] = ()
    calls: tuple[CallSnapshot, ...] = ()


@attrs.frozen(kw_only=True)
class ExchangeSnapshot:
    """One turn, as a later one is told of it. ``late``: what calls of earlier turns had
    come to, in words; ``asked`` as in `Exchange`."""

    speaker: str
    text: str
    asked: bool = True
    overheard: tuple[Overheard, ...] = ()
    late: str = ""
    rounds: tuple[RoundSnapshot, ...] = ()


@attrs.frozen(kw_only=True)
class OpeningSnapshot:
    """What stands before the conversation, beside the configuration.

    ``given`` are values of variables; ``scene`` is what was told of it, while the
    configuration said ``configured``.
    """

    call_id: str
    greeting: str = ""
    greeted: bool = False
    given: Mapping[str, str | None] = attrs.field(factory=dict)
    scene: tuple[str, ...] = ()
    configured: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class NpcSnapshot:
    """One NPC of a session: its `Memory`, and what it has cost.

    ``loaded`` are tools by key, with the order of their last use; those that were
    ``used`` or ``wanted`` in the last round count from the next. ``elevation`` holds
    until that moment. So often a line was said because there was nothing to say
    (``fallbacks``), or while tools were waited for (``fillers``).
    """

    turns: int
    opening: OpeningSnapshot
    history: tuple[ExchangeSnapshot, ...] = ()
    overheard: tuple[Overheard, ...] = ()
    late: tuple[Outcome, ...] = ()
    loaded: Mapping[str, int] = attrs.field(factory=dict)
    used: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()
    elevation: tuple[Tier, float] | None = None
    chosen: Chosen = attrs.field(factory=Chosen)
    fallbacks: int = 0
    fillers: int = 0
    spent: Spent = attrs.field(factory=Spent)

    def on_clock(self, later: float) -> NpcSnapshot:
        """The same, with its moments on a clock that says ``later`` seconds more."""
        if not later:
            return self
        elevation, deep_at = self.elevation, self.chosen.deep_at
        if elevation is not None:
            elevation = elevation[0], elevation[1] + later
        if deep_at is not None:
            deep_at += later
        chosen = attrs.evolve(self.chosen, deep_at=deep_at)
        return attrs.evolve(self, elevation=elevation, chosen=chosen)


@attrs.frozen(kw_only=True)
class SceneSnapshot:
    """One scene of a session. ``npcs`` are those that it was opened with, none are all;
    ``spoken_to`` has the players and to whom each spoke last, the latest at the end;
    ``told`` are those who know the ``context``."""

    npcs: tuple[str, ...] = ()
    muted: tuple[str, ...] = ()
    puppet: str | None = None
    spoke: str | None = None
    spoken_to: tuple[tuple[str, str], ...] = ()
    context: tuple[str, ...] | None = None
    told: tuple[str, ...] = ()
