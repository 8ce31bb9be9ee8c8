"""The events that one interaction receives: the model's, and those of the sockets."""

from __future__ import annotations

import attrs

from glyphoxa_trio.providers.s2s import Event, LinkClosed
from glyphoxa_trio.tools.outcome import ToolCall


@attrs.frozen
class CallsReady:
    """Calls that may start now, in one fan-out. Each call is delivered once."""

    response: str
    calls: tuple[ToolCall, ...]


@attrs.frozen
class Answered:
    """The calls of a fan-out have ended; the model is expected to continue."""


@attrs.frozen
class BargedIn:
    """The user has interrupted: the rest of the response is unwanted."""


@attrs.frozen
class LinkLost:
    """The socket was lost, and another one is being opened."""

    error: LinkClosed


@attrs.frozen
class LinkBack:
    """Another socket is open.

    ``resumed``: the model remembers the conversation so far. ``heard_again``: the audio
    of the unanswered utterance is being sent to it.
    """

    resumed: bool
    heard_again: bool = False


@attrs.frozen
class LinkGone:
    """No socket can be opened. No event follows."""

    error: LinkClosed


@attrs.frozen
class Overflowed:
    """The listener fell too far behind. No event follows."""


Happening = (
    Event
    | CallsReady
    | Answered
    | BargedIn
    | LinkLost
    | LinkBack
    | LinkGone
    | Overflowed
)
