"""The interface between a vendor's wire and the socket under it: messages, no I/O.

A `VendorWire` implements one vendor's protocol for one socket: a codec and a state
machine. It uses no socket, no task and no clock. The code that runs it (`live_socket`)
passes in commands, messages and the time, and sends the frames. That order is the whole
interface::

    wire.opening(now)                  # once, after the upgrade
    events = wire.receive(message, now)
    wire.send(command, now)
    events = wire.wake(now)            # when `alarm` is reached
    frames = wire.outgoing()           # after each of these
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Protocol, TypeVar

import attrs

from .llm import ErrorKind

RETRYABLE: Final = frozenset(
    {
        ErrorKind.UNREACHABLE,
        ErrorKind.RATE_LIMITED,
        ErrorKind.OVERLOADED,
        ErrorKind.INTERRUPTED,
        ErrorKind.SILENCE,
    }
)
"""The kinds after which the same setup may work on a new socket."""


class Lane(StrEnum):
    """The order in which frames are sent.

    A slow server makes frames wait. Control must not wait behind a second of audio, and
    audio that has waited for long is of no use; but the end of an utterance must not
    overtake the utterance.
    """

    CONTROL = "control"  # before all audio that waits
    AUDIO = "audio"  # may be dropped, the oldest first
    # After the audio before it, which is not dropped any more; and before whatever
    # follows.
    AFTER_AUDIO = "after_audio"


@attrs.frozen
class Frame:
    """One message to send: text, or bytes for a binary one."""

    data: str | bytes
    lane: Lane = Lane.CONTROL


C = TypeVar("C", contravariant=True)
E = TypeVar("E")


class VendorWire(Protocol[C, E]):
    """One vendor's protocol for one socket. No method waits.

    It takes commands of the type ``C`` and returns events of the type ``E``: those of
    `s2s` for a model that hears and speaks, the vendor's own for one that does half of
    it.
    """

    @property
    def ready(self) -> bool:
        """True once the socket is set up: `Ready` was among the events.

        Frames that `send` made before wait for that, in their order; those of the other
        methods do not, since they set it up.
        """
        ...

    @property
    def alarm(self) -> float | None:
        """When to `wake` it, on the clock of ``now``; None for never."""
        ...

    @property
    def unknown(self) -> Mapping[str, int]:
        """Counts of unknown things that arrived, by name; the names are limited."""
        ...

    def opening(self, now: float) -> None:
        """Queue the client's first messages, if any: the socket is open."""
        ...

    def send(self, command: C, now: float) -> None:
        """Carry out a command, now or as soon as the protocol allows it.

        Raises:
          ValueError: if this wire never allows it. Nothing has changed then.
        """
        ...

    def receive(self, message: str | bytes, now: float) -> list[E]:
        """Return the events of a message. Bad messages do not raise.

        Raises:
          LinkClosed: if the server has ended the session; the socket is closed, and the
            caller of `Link.receive` gets this after all events before it.
        """
        ...

    def wake(self, now: float) -> list[E]:
        """Run the step for which the `alarm` was set, and return its events.

        Raises:
          LinkClosed: if the server has been silent for too long.
        """
        ...

    def outgoing(self) -> list[Frame]:
        """Return the frames to send since the last time, oldest first."""
        ...
