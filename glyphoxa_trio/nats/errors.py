"""The errors of this room: of the connection, of the server, and of requests."""

from __future__ import annotations

from glyphoxa_trio.errors import GlyphoxaError


class NatsError(GlyphoxaError):
    """Base of the errors of NATS. No text has credentials."""


class NatsUnreachable(NatsError):
    """No server could be reached within the time that is allowed for it."""


class NatsRefused(NatsError):
    """The server refuses something: the credentials, or a subject."""


class NatsDisconnected(NatsError):
    """There is no connection at the moment, or it broke before the end of this.

    A message that was given out may have arrived or not: NATS delivers at most once.
    """


class OutgoingFull(NatsError):
    """More would wait to be sent than is allowed: the server reads too slowly."""


class PayloadTooLarge(NatsError):
    """The server takes no message of this size; nothing was sent."""


class NoResponders(NatsError):
    """The server says at once that no subscription exists for the subject."""


class RepliesLost(NatsError):
    """Replies came faster than they were read, and one had to be dropped."""


class ProtocolViolation(NatsError):
    """The bytes that came from the server are not NATS."""
