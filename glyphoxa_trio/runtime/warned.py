"""The warnings of a runtime for its operator: kept, and passed on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import attrs

from glyphoxa_trio.actors import tell
from glyphoxa_trio.mcp import ServerWarning
from glyphoxa_trio.quiet import cleaned

from .config_source import OURS

_KEPT: Final = 100


@attrs.define(eq=False)
class Warnings:
    """The last warnings, newest last. Each is passed on once, with secrets removed.

    Args:
      told: called with each; an exception of it goes to the log.
    """

    _told: Callable[[ServerWarning], None] | None = None
    kept: deque[ServerWarning] = attrs.field(
        factory=lambda: deque(maxlen=_KEPT), init=False
    )

    def add(self, warning: ServerWarning) -> None:
        """Keep a warning and pass it on."""
        warning = attrs.evolve(warning, text=cleaned(warning.text))
        self.kept.append(warning)
        if self._told is not None:
            tell(self._told, warning)

    def say(self, text: str, *, server: str = "") -> None:
        """Warn with a text about a server; without one, about the configuration."""
        self.add(ServerWarning(server=server or OURS, text=text))
