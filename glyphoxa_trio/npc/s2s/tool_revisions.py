"""Which tools a model has been told of: pure state.

Tools are declared as a whole, and each change of them is a revision. A revision is in
force once the model knows of it or of a later one, and stays so: what a later socket
is told can only be newer.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from glyphoxa_trio.providers.s2s import S2STool


@attrs.define(eq=False)
class ToolRevisions:
    """The declared tools of one conversation, over all its sockets.

    ``revision`` counts the changes; ``in_force`` is the last that the model knows of.
    """

    wanted: tuple[S2STool, ...] = attrs.field(default=(), init=False)
    revision: int = attrs.field(default=0, init=False)
    in_force: int = attrs.field(default=0, init=False)
    _offered: tuple[int, tuple[S2STool, ...]] = attrs.field(default=(0, ()), init=False)
    _opened_with: tuple[S2STool, ...] = attrs.field(default=(), init=False)

    def want(self, tools: Iterable[S2STool]) -> bool:
        """Declare these instead; False if they are the same."""
        wanted = tuple(tools)
        if wanted == self.wanted:
            return False
        self.wanted = wanted
        self.revision += 1
        return True

    def offer(self) -> tuple[S2STool, ...]:
        """A socket is going to be opened with these."""
        self._offered = self.revision, self.wanted
        return self.wanted

    def open(self) -> bool:
        """It is the one that counts; returns whether others are wanted meanwhile."""
        revision, self._opened_with = self._offered
        self.enforce(revision)
        return revision != self.revision

    @property
    def are_those_opened_with(self) -> bool:
        """Whether the open socket began with what is wanted now."""
        return self.wanted == self._opened_with

    def enforce(self, revision: int) -> None:
        """The model knows of these."""
        self.in_force = max(self.in_force, revision)
