"""Calls that other processes with the same tools make in place of this one.

Which calls those are, and how the other process is asked, is a `CallSharer`'s affair;
the host asks it before it makes a call whose result would be cached.
"""

from __future__ import annotations

from typing import Protocol

import attrs

from glyphoxa_trio.tools.cache import CacheKey
from glyphoxa_trio.tools.definition import CallContext
from glyphoxa_trio.tools.outcome import ToolResult

from .catalogue import CatalogueEntry


@attrs.frozen
class AnswerElsewhere:
    """The result of a call that another process made, and the seconds for which it may
    be cached yet: 0 if it is outdated already."""

    result: ToolResult
    valid_for: float


class CallSharer(Protocol):
    """The way to other processes that may make a call."""

    def shares(
        self, listing: CatalogueEntry, key: CacheKey, context: CallContext
    ) -> bool:
        """Return True if another process is to be asked. Must be quick."""
        ...

    async def ask(
        self, listing: CatalogueEntry, key: CacheKey, context: CallContext
    ) -> AnswerElsewhere | None:
        """Return the answer of another process, or None if the call is to be made here.

        Must end early enough for that, and raise nothing but a cancellation.
        """
        ...
