"""The last lines that each server of a pool wrote to stderr."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import attrs

from .process import KEPT_LINES


@attrs.define(eq=False)
class ServerLines:
    """Keeps the last lines of each server, and passes them on.

    They come as `process.LastLines` logs them: without secrets, and rate-limited.
    """

    _log: Callable[[str, str], None] | None = None
    _kept: dict[str, deque[str]] = attrs.field(factory=dict, init=False)

    def add(self, server: str, line: str) -> None:
        """Keep a line, and pass it on."""
        kept = self._kept.setdefault(server, deque(maxlen=KEPT_LINES))
        kept.append(line)
        if self._log is not None:
            self._log(server, line)

    def of(self, server: str) -> tuple[str, ...]:
        """Return the lines that are kept of a server, the oldest first."""
        return tuple(self._kept.get(server, ()))

    def forget(self, server: str) -> None:
        """Drop the lines of a server that is gone."""
        self._kept.pop(server, None)
