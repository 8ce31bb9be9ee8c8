"""The operator's configuration file, read again whenever it has changed."""

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
    """The content of the file, in the last version that could be read.

    Args:
      path: None for no file, which means the defaults.
      warn: called like a logger's method when a new version cannot be used.
    """

    path: Path | None
    warn: Callable[[str, str], None]
    config: AtisConfig = attrs.field(factory=AtisConfig, init=False)
    problem: str = attrs.field(default="", init=False)
    _seen: _Signature | None = attrs.field(default=None, init=False)
    _reading: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    def open(self) -> None:
        """Read the file for the first time. Blocks.

        Raises:
          ConfigError: with every problem, each with its place.
        """
        if self.path is not None:
            self._seen = _signature(self.path)
            self.config = load_as(self.path, AtisConfig)

    async def current(self) -> AtisConfig:
        """Return the content of the file now, reading it again if it changed.

        A version that cannot be used changes only `problem`. If cancelled, the file is
        read again at the next call.
        """
        if self.path is None:
            return self.config
        async with self._reading:
            # A network drive may be slow, so this runs in a thread that may be left
            # behind.
            signature = await trio.to_thread.run_sync(
                _signature, self.path, abandon_on_cancel=True
            )
            if signature != self._seen:
                await self._read(self.path)
                # the signature from before reading: a change since then is read at the
                # next call
                self._seen = signature
        return self.config

    async def _read(self, path: Path) -> None:
        try:
            self.config = await trio.to_thread.run_sync(
                load_as, path, AtisConfig, abandon_on_cancel=True
            )
            self.problem = ""
        except ConfigError as error:
            self.problem = "; ".join(error.problems)
            self.warn("%s; the previous version stays in use", self.problem)


def _signature(path: Path) -> _Signature | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
