"""What a scene is asked, and what it says of itself."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from glyphoxa_trio.actors import Request
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc.identity import DEFAULT_SESSION, SessionKey
from glyphoxa_trio.npc.turn_queue import QueueFull
from glyphoxa_trio.tools.tier import Tier

from .addressing import Addressed


class NotHere(GlyphoxaError):
    """There is such an NPC, but not in this scene."""


@attrs.frozen(kw_only=True)
class SceneSettings:
    """``npcs`` are here, ``players`` may wait; an answer waits ``listener`` seconds
    for somebody to listen to it. It is a scene of ``session``."""

    npcs: Sequence[str]
    players: int
    listener: float
    session: SessionKey = DEFAULT_SESSION


class SceneFull(QueueFull):
    """Too many wait to be answered in this scene."""

    @classmethod
    def of(cls, waiting: int) -> SceneFull:
        return cls(f"{waiting} wait in this scene")


class SceneMessages:
    """Whom all of these are for: the actor of a scene."""


@attrs.frozen(kw_only=True)
class Enter(Request[SceneMessages, None]):
    """Asked: find out who is meant, and have them speak when it is their turn.

    ``to`` is whom the caller has named; None leaves it to the rules of the scene.
    ``dm``: whoever directs it says this. ``spoken``: ``to`` has heard it itself, and
    answers already. The rest is as in the `Say` that comes of it. ``place``: the
    `Place` was handed over under that name.
    """

    speaker: str
    text: str = ""
    tier: Tier | None = None
    script: str | None = None
    greets: bool = False
    to: str | None = None
    dm: bool = False
    spoken: bool = False
    place: str = ""


@attrs.frozen
class Mute(Request[SceneMessages, str]):
    """Asked: have this NPC say nothing of its own, or let it; the reply is its name."""

    npc: str
    muted: bool = True


@attrs.frozen
class Bind(Request[SceneMessages, str | None]):
    """Asked: take everything for said to this NPC; None is to go by what is said."""

    npc: str | None


@attrs.frozen
class TurnTo(Request[SceneMessages, str]):
    """Asked: take it that this player spoke to this NPC last."""

    npc: str
    speaker: str


@attrs.frozen
class Whom(Request[SceneMessages, Addressed]):
    """Asked: who would be meant by that? It leaves no trace."""

    text: str
    speaker: str


@attrs.frozen
class PartialUtterance(Request[SceneMessages, None]):
    """Asked: tell whoever is meant what somebody is saying, while they still do."""

    text: str
    speaker: str


@attrs.frozen
class Silence(Request[SceneMessages, bool]):
    """Asked: end what is being said; to this speaker only, if one is named."""

    speaker: str | None


@attrs.frozen
class Follow(Request[SceneMessages, str | None]):
    """Asked: to whom does this player talk, as soon as it is another NPC than
    ``known``? None is nobody."""

    speaker: str
    known: str | None


@attrs.frozen
class Tell(Request[SceneMessages, None]):
    """Asked: this holds in the scene from now on, and nothing else."""

    context: tuple[str, ...]


@attrs.frozen
class LetHear(Request[SceneMessages, None]):
    """Asked: let all NPCs hear that somebody says this; nobody answers."""

    speaker: str
    text: str
    to: str


@attrs.frozen(kw_only=True)
class SceneStatistics:
    """How a scene is. ``speaking`` is an NPC; ``waiting`` has speaker and NPC of what
    was said, those next first; ``context`` is None while it is the configuration's.

    Since it began: ``said`` counts what NPCs have begun to say, ``cut`` what was
    interrupted or never begun, ``unheard`` lines that did not reach an NPC.
    """

    npcs: tuple[str, ...]
    speaking: str | None
    waiting: tuple[tuple[str, str], ...]
    muted: frozenset[str]
    puppet: str | None
    context: tuple[str, ...] | None
    said: int
    cut: int
    unheard: int


@attrs.frozen
class Look(Request[SceneMessages, SceneStatistics]):
    """Asked: how is it?"""
