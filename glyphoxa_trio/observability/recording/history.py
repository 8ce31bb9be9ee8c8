"""A wrapper of the history of measurements, which records what it loads."""

from __future__ import annotations

from typing import Any

import attrs

from glyphoxa_trio.host import SampleHistory
from glyphoxa_trio.tools.history import ToolPlace
from glyphoxa_trio.tools.window import Sample


@attrs.define(eq=False)
class HeardHistory:
    """A wrapped `SampleHistory` that also keeps what it loads in ``samples``."""

    _history: SampleHistory
    _samples: list[tuple[ToolPlace, Sample]]

    async def load(self, expiry: float) -> list[tuple[ToolPlace, Sample]]:
        found = await self._history.load(expiry)
        self._samples += found
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._history, name)
