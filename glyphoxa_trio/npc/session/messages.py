"""What the session of an NPC can be asked and told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import attrs

from glyphoxa_trio.actors import Request
from glyphoxa_trio.npc.turn.settings import SessionSettings
from glyphoxa_trio.tools.tier import Tier


class SessionMessages:
    """Whom all of these are for: the session of an NPC."""


SessionRequest: TypeAlias = Request[SessionMessages, Any]


@attrs.frozen
class Say(Request[SessionMessages, int]):
    """Asked: answer this, with the fields of an `Utterance`. ``listener`` was handed
    over under that name. The reply, the turn's number, means that it runs or waits."""

    text: str
    speaker: str
    tier: Tier | None = None
    script: str | None = None
    greets: bool = False
    waiting: int = 0
    listener: str = ""


@attrs.frozen
class LendEar(Request[SessionMessages, bool]):
    """Asked: let the model hear this speaker, whose `Microphone` was handed over under
    that name; False if it does not hear."""

    speaker: str
    microphone: str


@attrs.frozen
class TakeEarBack(Request[SessionMessages, None]):
    """Told: hear nobody any more, if it was this one."""

    microphone: str


@attrs.frozen
class Elevate(Request[SessionMessages, None]):
    """Asked: raise the NPC's ceiling to ``tier`` for so many seconds (D2)."""

    tier: Tier
    seconds: float


@attrs.frozen
class Interrupt(Request[SessionMessages, bool]):
    """Asked: end the turn that is running, if one is; of this ``speaker`` only, if one
    is named, and then those of theirs that wait, too; or of ``everybody``."""

    speaker: str | None = None
    everybody: bool = False


@attrs.frozen
class Overhear(Request[SessionMessages, None]):
    """Asked: remember that ``speaker`` said this, ``to`` somebody; say nothing."""

    speaker: str
    text: str
    to: str = ""


@attrs.frozen
class Situate(Request[SessionMessages, None]):
    """Asked: know from now on that this holds in the scene, and nothing else of it."""

    context: tuple[str, ...]


@attrs.frozen
class Introduce(Request[SessionMessages, None]):
    """Asked: put these values into prompt and greeting from now on (A32)."""

    values: Mapping[str, str | None]


@attrs.frozen
class Configure(Request[SessionMessages, None]):
    """Asked: be this from the next turn on.

    A turn that runs ends as it began, but for what is taken away: that is gone at
    the gate at once.
    """

    settings: SessionSettings


@attrs.frozen
class Approve(Request[SessionMessages, bool]):
    """Asked: settle an open question; the reply says whether it was open."""

    question: str
    yes: bool


@attrs.frozen
class Preview(Request[SessionMessages, Tier]):
    """Asked: the tier that this, perhaps unfinished, text would get; no trace."""

    text: str


@attrs.frozen
class PartialSpeech(Request[SessionMessages, None]):
    """Told: somebody is saying this, and has perhaps not finished."""

    text: str
    speaker: str
