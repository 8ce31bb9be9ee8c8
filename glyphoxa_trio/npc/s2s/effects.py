"""What a conversation wants done: frozen, and carried out in order by `shell`."""

from __future__ import annotations

from enum import Enum, auto
from typing import Generic, TypeVar

import attrs

from glyphoxa_trio.providers.llm import Usage
from glyphoxa_trio.providers.s2s import Command, Complaint

from .happenings import Happening

I = TypeVar("I")  # noqa: E741  an interaction, of which the machine knows nothing


class SimpleEffect(Enum):
    """An effect that is always the same."""

    WANT = auto()  # a socket is needed
    LOOK = auto()  # perhaps it is quiet now
    KEEP_SOCKET = auto()  # it need not be replaced after all
    TELL_SPEECH = auto()  # the owner: somebody begins to speak
    TELL_TOOLS = auto()  # whoever waits: other tools are in force


@attrs.frozen
class Replace:
    """Another socket is needed; ``closes_in``: the server closes this one."""

    closes_in: float | None = None


@attrs.frozen
class Put(Generic[I]):
    """This happens to that interaction."""

    interaction: I
    happening: Happening


@attrs.frozen
class Understood(Generic[I]):
    """So its words are, as far as is known."""

    interaction: I
    text: str
    final: bool


@attrs.frozen
class TellSpoken(Generic[I]):
    """The owner: somebody has spoken."""

    interaction: I


@attrs.frozen
class Settled:
    """The owner: what this call came to was told, or will never be."""

    call_id: str


# A command is to be sent on the socket; usage and complaints are the owner's.
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
