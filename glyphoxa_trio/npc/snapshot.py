"""Snapshots of NPCs and scenes that are suspended: frozen data, no trio.

Of the NPC's words only what was delivered is kept, as in its memory; of a tool's
outcome only what its model is told. A running turn is not contained, except for its
number and what had been overheard before it. Times are on the clock of the run that
took the snapshot.
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
    """One call, and what the model is told of its outcome."""

    call: ToolCall
    answer: str


@attrs.frozen
class RoundSnapshot:
    """One response of a model: what was heard of it, and its calls."""

    heard: tuple[str, ...] = ()
    calls: tuple[CallSnapshot, ...] = ()


@attrs.frozen(kw_only=True)
class ExchangeSnapshot:
    """One turn, as later turns are told of it.

    ``late``: the outcomes of earlier turns' calls, as text. ``asked`` and ``utterance``
    are as in `Exchange`.
    """

    speaker: str
    text: str
    asked: bool = True
    overheard: tuple[Overheard, ...] = ()
    late: str = ""
    rounds: tuple[RoundSnapshot, ...] = ()
    utterance: str = ""


@attrs.frozen(kw_only=True)
class OpeningSnapshot:
    """The opening of a conversation, apart from its configuration.

    ``given``: the values of variables. ``scene``: the facts of the scene, while the
    configuration had ``configured``.
    """

    call_id: str
    greeting: str = ""
    greeted: bool = False
    given: Mapping[str, str | None] = attrs.field(factory=dict)
    scene: tuple[str, ...] = ()
    configured: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class NpcSnapshot:
    """One NPC of a session: its `NpcMemory`, and its costs.

    ``loaded``: the loaded tools by key, with the order of their last use; ``used`` and
    ``wanted`` are those of the last round, which count from the next. ``elevation``
    holds until its time. ``fallbacks`` and ``fillers``: how many of these lines were
    said.
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
        """Return the snapshot with its times moved by ``later`` seconds."""
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
    """One scene of a session.

    ``npcs``: the NPCs that it was opened with; empty means all. ``spoken_to``: each
    player with the NPC they spoke to last, the latest at the end. ``told``: the NPCs
    that know the ``context``.
    """

    npcs: tuple[str, ...] = ()
    muted: tuple[str, ...] = ()
    puppet: str | None = None
    spoke: str | None = None
    spoken_to: tuple[tuple[str, str], ...] = ()
    context: tuple[str, ...] | None = None
    told: tuple[str, ...] = ()
