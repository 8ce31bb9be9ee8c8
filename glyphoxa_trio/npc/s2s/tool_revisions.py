"""The tools that a model has been told of: pure state.

Tools are declared as a whole, and each change is a revision. A revision is in force
once the model knows it or a later one, and stays so, because a later socket is only
ever told of newer ones.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from glyphoxa_trio.providers.s2s import S2STool


@attrs.define(eq=False)
class ToolRevisions:
    """The declared tools of one conversation, over all its sockets.

    ``revision`` counts the changes; ``in_force`` is the last revision that the model
    knows.
    """

    wanted: tuple[S2STool, ...] = attrs.field(default=(), init=False)
    revision: int = attrs.field(default=0, init=False)
    in_force: int = attrs.field(default=0, init=False)
    _offered: tuple[int, tuple[S2STool, ...]] = attrs.field(default=(0, ()), init=False)
    _opened_with: tuple[S2STool, ...] = attrs.field(default=(), init=False)

    def want(self, tools: Iterable[S2STool]) -> bool:
        """Declare these tools instead; return False if they are the same."""
        wanted = tuple(tools)
        if wanted == self.wanted:
            return False
        self.wanted = wanted
        self.revision += 1
        return True

    def offer(self) -> tuple[S2STool, ...]:
        """Return the tools that the next socket is opened with."""
        self._offered = self.revision, self.wanted
        return self.wanted

    def open(self) -> bool:
        """Record that the socket is open; return True if other tools are wanted."""
        revision, self._opened_with = self._offered
        self.enforce(revision)
        return revision != self.revision

    @property
    def are_those_opened_with(self) -> bool:
        """True if the open socket began with the tools that are wanted now."""
        return self.wanted == self._opened_with

    def enforce(self, revision: int) -> None:
        """Record that the model knows this revision."""
        self.in_force = max(self.in_force, revision)
