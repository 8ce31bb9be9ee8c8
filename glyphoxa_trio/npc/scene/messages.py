"""The messages to a scene, and its statistics."""

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
    """The NPC exists, but is not in this scene."""


@attrs.frozen(kw_only=True)
class SceneSettings:
    """The settings of a scene.

    ``npcs``: the NPCs in the scene. ``players``: how many utterances may wait.
    ``listener``: how many seconds an answer waits for its listener. ``session``: the
    session that the scene belongs to.
    """

    npcs: Sequence[str]
    players: int
    listener: float
    session: SessionKey = DEFAULT_SESSION


class SceneFull(QueueFull):
    """Too many utterances wait in this scene."""

    @classmethod
    def of(cls, waiting: int) -> SceneFull:
        """Return the error for this many waiting utterances."""
        return cls(f"the queue of this scene is full: {waiting} waiting")


class SceneMessages:
    """The marker of messages to the actor of a scene."""


@attrs.frozen(kw_only=True)
class Enter(Request[SceneMessages, None]):
    """Find the addressed NPC, and have it answer when its turn comes.

    ``to``: the NPC that the caller has chosen; None leaves it to the rules of the
    scene. ``dm``: the DM says this. ``whisper``: that NPC alone hears it.
    ``spoken``: ``to`` has heard it itself, and answers already. ``place``: the name
    under which the `Place` was handed over. The other fields are those of `Say`.
    """

    speaker: str
    text: str = ""
    tier: Tier | None = None
    script: str | None = None
    greets: bool = False
    to: str | None = None
    dm: bool = False
    whisper: bool = False
    spoken: bool = False
    place: str = ""
    id: str = ""


@attrs.frozen
class Mute(Request[SceneMessages, str]):
    """Mute this NPC, so that it says nothing of its own, or unmute it.

    The reply is its full name.
    """

    npc: str
    muted: bool = True


@attrs.frozen
class Bind(Request[SceneMessages, str | None]):
    """Send every utterance to this NPC; None returns to the rules of the scene."""

    npc: str | None


@attrs.frozen
class TurnTo(Request[SceneMessages, str]):
    """Act as if this player had spoken to this NPC last."""

    npc: str
    speaker: str


@attrs.frozen
class Whom(Request[SceneMessages, Addressed]):
    """Ask which NPC this would be addressed to. Changes nothing."""

    text: str
    speaker: str


@attrs.frozen
class PartialUtterance(Request[SceneMessages, None]):
    """Pass a partial transcript to the addressed NPC."""

    text: str
    speaker: str


@attrs.frozen
class Silence(Request[SceneMessages, bool]):
    """End the running answer; only an answer to this speaker, if one is named."""

    speaker: str | None


@attrs.frozen
class Follow(Request[SceneMessages, str | None]):
    """Ask to which NPC this player talks; answered once it is not ``known``.

    None means no NPC.
    """

    speaker: str
    known: str | None


@attrs.frozen
class Tell(Request[SceneMessages, None]):
    """Set the facts of the scene, in place of earlier ones."""

    context: tuple[str, ...]


@attrs.frozen
class LetHear(Request[SceneMessages, None]):
    """Tell all NPCs that ``speaker`` says this; none answers."""

    speaker: str
    text: str
    to: str


@attrs.frozen(kw_only=True)
class SceneStatistics:
    """The state of a scene.

    ``speaking``: the NPC that speaks. ``waiting``: speaker and NPC of each waiting
    utterance, the next first. ``context``: the facts of the scene; None while they are
    the configuration's. Counters since the scene began: ``said`` counts the answers
    that NPCs have begun, ``cut`` those that were interrupted or never begun,
    ``unheard`` the lines that did not reach an NPC.
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
    """Ask for the state of the scene."""
