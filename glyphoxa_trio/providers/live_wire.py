"""The seam between a vendor's wire and the socket under it: messages, free of I/O.

A `VendorWire` is what one vendor says over one socket: a codec and a state machine. It
knows no socket, no task and no clock; whoever carries it (`live_socket`) feeds it
commands, messages and the time, and sends what it wants sent. That order is the
whole of the protocol::

    wire.opening(now)                  # once, after the upgrade
    events = wire.receive(message, now)
    wire.send(command, now)
    events = wire.wake(now)            # when `alarm` is reached
    frames = wire.outgoing()           # after each of these
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Protocol

import attrs

from .llm import ErrorKind
from .s2s import Command, Event

RETRYABLE: Final = frozenset(
    {
        ErrorKind.UNREACHABLE,
        ErrorKind.RATE_LIMITED,
        ErrorKind.OVERLOADED,
        ErrorKind.INTERRUPTED,
        ErrorKind.SILENCE,
    }
)
"""After these the same setup may work on a new socket."""


class Lane(StrEnum):
    """In which order a frame leaves.

    A wedged or slow peer makes frames wait. Control must not wait behind a second
    of audio, and audio that waits for long is of no use to anybody; but the end of
    an utterance must not overtake the utterance.
    """

    CONTROL = "control"  # before all audio that waits
    AUDIO = "audio"  # may be dropped, the oldest first
    # After the audio that came before it, which is not dropped any more; and
    # before whatever comes after it.
    AFTER_AUDIO = "after_audio"


@attrs.frozen
class Frame:
    """One message to be sent: text, or bytes for a binary one."""

    data: str | bytes
    lane: Lane = Lane.CONTROL


class VendorWire(Protocol):
    """One vendor's side of one socket. Nothing here waits."""

    @property
    def ready(self) -> bool:
        """Whether the socket is set up: `Ready` was among the events.

        Frames that `send` made before wait for it, in their order; those of the
        other methods do not, since they are what sets it up.
        """
        ...

    @property
    def alarm(self) -> float | None:
        """When to `wake` it, on the clock of ``now``; None for not at all."""
        ...

    @property
    def unknown(self) -> Mapping[str, int]:
        """What came and is not known, counted by name. Its keys are bounded."""
        ...

    def opening(self, now: float) -> None:
        """The socket is open: queue what the client says first, if anything."""
        ...

    def send(self, command: Command, now: float) -> None:
        """Do as the command says, now or as soon as the wire allows it.

        Raises:
          ValueError: if this wire never allows it. Nothing has changed then.
        """
        ...

    def receive(self, message: str | bytes, now: float) -> list[Event]:
        """What a message means. Whatever a server sends, this raises nothing but:

        Raises:
          LinkClosed: the server has said that the session is over; the socket is
            closed, and the reader is told this after all events before it.
        """
        ...

    def wake(self, now: float) -> list[Event]:
        """The `alarm` was reached.

        Raises:
          LinkClosed: the server has been silent for too long to go on.
        """
        ...

    def outgoing(self) -> list[Frame]:
        """The frames to be sent since the last time, oldest first."""
        ...
