"""What comes to one utterance: the model's events, and what becomes of the sockets."""

from __future__ import annotations

import attrs

from glyphoxa_trio.providers.s2s import Event, LinkClosed
from glyphoxa_trio.tools.outcome import ToolCall


@attrs.frozen
class CallsReady:
    """These may be begun now, in one fan-out. Each call comes once."""

    response: str
    calls: tuple[ToolCall, ...]


@attrs.frozen
class Answered:
    """The calls of a fan-out have ended: the model is awaited again."""


@attrs.frozen
class BargedIn:
    """Somebody speaks: what the model says is not wanted any more."""


@attrs.frozen
class LinkLost:
    """The socket is gone, and another is being opened."""

    error: LinkClosed


@attrs.frozen
class LinkBack:
    """Another socket is open. ``resumed``: the model remembers what was before it.
    ``heard_again``: what was said is on its way to it, as it sounds."""

    resumed: bool
    heard_again: bool = False


@attrs.frozen
class LinkGone:
    """No socket can be had. Nothing follows."""

    error: LinkClosed


@attrs.frozen
class Overflowed:
    """The listener fell too far behind. Nothing follows."""


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
