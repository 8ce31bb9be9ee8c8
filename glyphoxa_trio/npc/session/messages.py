"""The messages to the session of an NPC."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import attrs

from glyphoxa_trio.actors import Request
from glyphoxa_trio.npc.turn.settings import SessionSettings
from glyphoxa_trio.tools.tier import Tier


class SessionMessages:
    """The marker of messages to the session of an NPC."""


SessionRequest: TypeAlias = Request[SessionMessages, Any]


@attrs.frozen
class Say(Request[SessionMessages, int]):
    """Ask for an answer to this, with the fields of an `Utterance`.

    ``listener`` is the name under which the listener was handed over. ``id`` is kept
    with the turn. The reply is the number of the turn, and means that it runs or waits.
    """

    text: str
    speaker: str
    tier: Tier | None = None
    script: str | None = None
    greets: bool = False
    waiting: int = 0
    listener: str = ""
    id: str = ""


@attrs.frozen
class LendEar(Request[SessionMessages, bool]):
    """Ask the model to hear this speaker; the reply is False if it cannot hear.

    ``microphone`` is the name under which the `Microphone` was handed over.
    """

    speaker: str
    microphone: str


@attrs.frozen
class TakeEarBack(Request[SessionMessages, None]):
    """Stop hearing the microphone of this name."""

    microphone: str


@attrs.frozen
class Elevate(Request[SessionMessages, None]):
    """Raise the NPC's ceiling to ``tier`` for this many seconds."""

    tier: Tier
    seconds: float


@attrs.frozen
class Interrupt(Request[SessionMessages, bool]):
    """End the running turn; the reply is False if there was none.

    If a ``speaker`` is named, only their turn is ended, and their waiting ones too.
    If ``everybody`` is set, all turns are ended, running and waiting.
    """

    speaker: str | None = None
    everybody: bool = False


@attrs.frozen
class Overhear(Request[SessionMessages, None]):
    """Remember that ``speaker`` said this ``to`` another; do not answer.

    ``logged``: it belongs to the turn of another NPC, with which it is kept.
    """

    speaker: str
    text: str
    to: str = ""
    logged: bool = False


@attrs.frozen
class Situate(Request[SessionMessages, None]):
    """Set the facts of the scene, in place of earlier ones."""

    context: tuple[str, ...]


@attrs.frozen
class Introduce(Request[SessionMessages, None]):
    """Set template variables of prompt and greeting."""

    values: Mapping[str, str | None]


@attrs.frozen
class Configure(Request[SessionMessages, None]):
    """Use these settings from the next turn on.

    A running turn ends with its own settings, except for rights that are taken away:
    the gate refuses those at once.
    """

    settings: SessionSettings


@attrs.frozen
class Approve(Request[SessionMessages, bool]):
    """Answer an open question; the reply is False if it was not open."""

    question: str
    yes: bool


@attrs.frozen
class Preview(Request[SessionMessages, Tier]):
    """Ask for the tier of this text, which may be incomplete. Changes nothing."""

    text: str


@attrs.frozen
class PartialSpeech(Request[SessionMessages, None]):
    """Take note of a partial transcript: the speaker may not have finished."""

    text: str
    speaker: str
