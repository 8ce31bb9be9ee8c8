"""The operator's file, read again whenever it has changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import attrs

import trio

from glyphoxa_trio.config import ConfigError, load_as

from .settings import AtisConfig

_Signature = tuple[int, int, int]


@attrs.define(eq=False)
class ConfigFile:
    """What the file says, or said while it could still be read.

    Args:
      path: None for no file, which is the defaults.
      warn: told when a new version is not usable, as a log is: what, and why.
    """

    path: Path | None
    warn: Callable[[str, str], None]
    config: AtisConfig = attrs.field(factory=AtisConfig, init=False)
    problem: str = attrs.field(default="", init=False)
    _seen: _Signature | None = attrs.field(default=None, init=False)
    _reading: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    def open(self) -> None:
        """Read it for the first time. Blocks.

        Raises:
          ConfigError: with every problem, each with its place.
        """
        if self.path is not None:
            self._seen = _signature(self.path)
            self.config = load_as(self.path, AtisConfig)

    async def current(self) -> AtisConfig:
        """What it says now. A version that is not usable changes nothing, but for
        `problem`. Cancelled, it is read the next time."""
        if self.path is None:
            return self.config
        async with self._reading:
            # A network's disk may take its time: in a thread that may be left behind.
            signature = await trio.to_thread.run_sync(
                _signature, self.path, abandon_on_cancel=True
            )
            if signature != self._seen:
                await self._read(self.path)
                self._seen = signature  # of before: what came meanwhile is read next
        return self.config

    async def _read(self, path: Path) -> None:
        try:
            self.config = await trio.to_thread.run_sync(
                load_as, path, AtisConfig, abandon_on_cancel=True
            )
            self.problem = ""
        except ConfigError as error:
            self.problem = "; ".join(error.problems)
            self.warn("%s; the version before goes on", self.problem)


def _signature(path: Path) -> _Signature | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
