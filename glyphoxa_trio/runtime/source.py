"""Where a configuration comes from, again and again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import attrs

from glyphoxa_trio.config import Config, ConfigError, load_config
from glyphoxa_trio.mcp import ServerWarning

OURS: Final = "configuration"  # whom a warning is of that is no server's


@attrs.define(eq=False)
class Source:
    """Where the configuration comes from, again and again; reading may be in a
    thread, telling what was odd is not."""

    read: Callable[[], Config]
    _again: bool = True
    _said: list[str] = attrs.field(factory=list)

    @classmethod
    def of(cls, config: Config | Path | str | Callable[[], Config]) -> Source:
        if isinstance(config, Config):
            return cls(lambda: config, again=False)
        if isinstance(config, str | Path):
            said: list[str] = []
            return cls(partial(load_config, Path(config), warn=said.append), said=said)
        return cls(config)

    def read_again(self) -> Config:
        if not self._again:
            raise ConfigError("there is no file to read again: give a Config")
        return self.read()

    def tell(self, warn: Callable[[ServerWarning], None]) -> None:
        while self._said:
            warn(ServerWarning(server=OURS, text=self._said.pop(0)))
