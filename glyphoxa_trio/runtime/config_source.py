"""Where a configuration comes from, again and again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import attrs

from glyphoxa_trio.config import (
    Approve,
    Config,
    ConfigError,
    admitted,
    load_config,
)
from glyphoxa_trio.config.checking import checked
from glyphoxa_trio.mcp import ServerWarning

OURS: Final = "configuration"  # whom a warning is of that is no server's


# How an embedder lets servers of a .mcp.json be started.
REMEDY: Final = "open_runtime(approve_servers=...) decides"


@attrs.define(eq=False)
class ConfigSource:
    """Where the configuration comes from, again and again. It may be read in a thread;
    its warnings are told later, outside of that thread. ``current`` is what is served,
    from `open` on.

    Args:
      approve: which servers of a ``.mcp.json`` may be started.
    """

    _read: Callable[[], Config]
    _approve: bool | Approve = False
    _again: bool = True
    _said: list[str] = attrs.field(factory=list)
    current: Config = attrs.field(init=False)

    @classmethod
    def of(
        cls,
        config: Config | Path | str | Callable[[], Config],
        approve: bool | Approve = False,
    ) -> ConfigSource:
        if isinstance(config, Config):
            return cls(partial(checked, config), approve, again=False)
        if isinstance(config, str | Path):
            said: list[str] = []
            read = partial(load_config, Path(config), warn=said.append)
            return cls(read, approve, said=said)
        if not callable(config):
            checked(config)  # raises, and says what it should have been
        return cls(lambda: checked(config()), approve)

    def open(self) -> Config:
        """Serve what it says now."""
        self.current = self.read()
        return self.current

    def serve(self, config: Config) -> None:
        self.current = config

    def read(self) -> Config:
        """The configuration as it is now, with the servers that may be started."""
        return self.admit(self._read())

    def read_again(self) -> Config:
        if not self._again:
            raise ConfigError("there is no file to read again: give a Config")
        return self.read()

    def admit(self, config: Config) -> Config:
        """The configuration with those of its shared servers that are approved."""
        config, said = admitted(config, self._approve, remedy=REMEDY)
        self._said += said
        return config

    def tell(self, warn: Callable[[ServerWarning], None]) -> None:
        while self._said:
            warn(ServerWarning(server=OURS, text=self._said.pop(0)))
