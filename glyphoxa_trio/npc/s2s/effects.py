"""The effects of the conversation's machine: frozen data that `shell` carries out."""

from __future__ import annotations

from enum import Enum, auto
from typing import Generic, TypeVar

import attrs

from glyphoxa_trio.providers.llm import Usage
from glyphoxa_trio.providers.s2s import Command, Complaint

from .happenings import Happening

I = TypeVar("I")  # noqa: E741  an interaction, of which the machine knows nothing


class SimpleEffect(Enum):
    """An effect without arguments."""

    WANT = auto()  # a socket is needed
    LOOK = auto()  # the conversation may be quiet now
    KEEP_SOCKET = auto()  # the socket need not be replaced
    TELL_SPEECH = auto()  # tell the owner: a user starts to speak
    TELL_TOOLS = auto()  # wake the waiters: other tools are in force


@attrs.frozen
class Replace:
    """Open another socket. ``closes_in``: seconds until the server closes this one."""

    closes_in: float | None = None


@attrs.frozen
class Put(Generic[I]):
    """Deliver an event to an interaction."""

    interaction: I
    happening: Happening


@attrs.frozen
class Understood(Generic[I]):
    """Give an interaction its words, as far as they are known."""

    interaction: I
    text: str
    final: bool


@attrs.frozen
class TellSpoken(Generic[I]):
    """Tell the owner of a spoken utterance."""

    interaction: I


@attrs.frozen
class Settled:
    """Tell the owner that a call's outcome was told to the model, or never will be."""

    call_id: str


# A command is sent on the socket; usage and complaints go to the owner.
Effect = (
    SimpleEffect
    | Replace
    | Put[I]
    | Understood[I]
    | TellSpoken[I]
    | Settled
    | Command
    | Usage
    | Complaint
)
