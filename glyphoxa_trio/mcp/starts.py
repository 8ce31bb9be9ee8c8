"""The duration of one start of a server, and whether it predicts the next one."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import attrs

_A_WHILE: Final = 0.05  # seconds; only the first import of the SDK takes longer
_AT_ONCE: Final = 0.1  # seconds; the handshake of a server that is already up is faster


@attrs.define(eq=False)
class Start:
    """One start of a server, from its process to the handshake.

    ``alone`` is True if no other server started meanwhile. ``waited`` is the time spent
    waiting for the SDK to load, in seconds; the code that starts the server sets it.
    """

    alone: bool = True
    waited: float = 0.0

    def over(self, *, shaking_hands: float | None) -> bool:
        """Note that the session is open.

        Returns whether this start predicts the next one.

        Args:
          shaking_hands: seconds that the handshake took; None for a server that we do
            not start.
        """
        _under_way.discard(self)
        if self.waited < _A_WHILE:
            return self.alone
        was_up = shaking_hands is None or shaking_hands < _AT_ONCE
        return self.alone and not was_up


_under_way: set[Start] = set()


@contextmanager
def starting() -> Generator[Start]:
    """Record a start within the block; starts at the same time are not alone."""
    start = Start(alone=not _under_way)
    for other in tuple(_under_way):  # another thread may begin a start meanwhile
        other.alone = False
    _under_way.add(start)
    try:
        yield start
    finally:
        _under_way.discard(start)
