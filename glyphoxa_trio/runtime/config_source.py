"""The source of a runtime's configuration, which a reload reads again."""

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
from glyphoxa_trio.config.seen import Seen
from glyphoxa_trio.mcp import ServerWarning

OURS: Final = "configuration"  # the origin of warnings that belong to no server


# The remedy in messages about servers of a .mcp.json that may not be started.
REMEDY: Final = (
    "glyphoxa mcp trust agrees to it, or open_runtime(approve_servers=...) decides"
)


@attrs.define(eq=False)
class ConfigSource:
    """The source of a runtime's configuration: a file, a `Config`, or a function.

    `read_again` may run in a thread; warnings are kept until `tell` reports them
    outside of that thread. ``current`` is the configuration in use, from `open` on.

    Args:
      approve: which servers of a ``.mcp.json`` may be started; None means those that
        the user has agreed to by command.
      path: the file, if it is one.
    """

    _read: Callable[[], Config]
    _approve: bool | Approve | None = None
    _again: bool = True
    _said: list[str] = attrs.field(factory=list)
    path: Path | None = None
    current: Config = attrs.field(init=False)

    @classmethod
    def of(
        cls,
        config: Config | Path | str | Callable[[], Config],
        approve: bool | Approve | None = None,
    ) -> ConfigSource:
        """Make a source from the ``config`` argument of `open_runtime`."""
        if isinstance(config, Config):
            return cls(partial(checked, config), approve, again=False)
        if isinstance(config, str | Path):
            said: list[str] = []
            read = partial(load_config, Path(config), warn=said.append)
            return cls(read, approve, said=said, path=Path(config))
        if not callable(config):
            checked(config)  # raises, and says what it should have been
        return cls(lambda: checked(config()), approve)

    def open(self) -> Config:
        """Read the configuration and make it the current one."""
        self.current = self.read()
        return self.current

    def serve(self, config: Config) -> None:
        """Make ``config`` the current one."""
        self.current = config

    def read(self) -> Config:
        """Return the configuration as it is now, with its permitted servers."""
        return self.admit(self._read())

    def read_again(self) -> Config:
        """Read the configuration for a reload.

        Raises:
          ConfigError: if the source is a `Config`, which cannot be read again.
        """
        if not self._again:
            raise ConfigError(
                "the runtime was opened with a Config, which cannot be read again: give"
                " another one to reload()"
            )
        return self.read()

    def admit(self, config: Config) -> Config:
        """Return the configuration with only those shared servers that are approved."""
        approve = Seen().__contains__ if self._approve is None else self._approve
        config, said = admitted(config, approve, remedy=REMEDY)
        self._said += said
        return config

    def tell(self, warn: Callable[[ServerWarning], None]) -> None:
        """Pass the warnings of what was read since the last call to ``warn``."""
        while self._said:
            warn(ServerWarning(server=OURS, text=self._said.pop(0)))
