"""What an operator should see of a runtime: kept, and told."""

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
    """The newest last, as many as are of use; each is told once, without secrets.

    Args:
      told: what it raises goes to the log.
    """

    _told: Callable[[ServerWarning], None] | None = None
    kept: deque[ServerWarning] = attrs.field(
        factory=lambda: deque(maxlen=_KEPT), init=False
    )

    def add(self, warning: ServerWarning) -> None:
        warning = attrs.evolve(warning, text=cleaned(warning.text))
        self.kept.append(warning)
        if self._told is not None:
            tell(self._told, warning)

    def say(self, text: str, *, server: str = "") -> None:
        """Of a server, or of ourselves if none is named."""
        self.add(ServerWarning(server=server or OURS, text=text))
