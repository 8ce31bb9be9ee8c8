"""``glyphoxa mcp trust``: look at what a ``.mcp.json`` would start, and agree to it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from glyphoxa_trio.config import ConfigError, SharedServer, load_config, load_mcp_json
from glyphoxa_trio.config.mcp_json import find_mcp_json, stranger_of
from glyphoxa_trio.config.seen import Seen
from glyphoxa_trio.tools.naming import nearest

from .choosing import somebody_is_there
from .common import run_orderly, warn
from .consent import agreed_to, described, said_yes
from .console import say, wide_console
from .grids import GOOD


def trust(names: Sequence[str], *, config: Path | None) -> int:
    """Ask about entries that are new here; 1 if not all of them may be started."""

    async def main() -> int:
        console = wide_console()
        wanted = _wanted(names, config)
        new = [server for server in wanted if server not in Seen()]
        if not new:
            say(console, "no server is new here")
            return 0
        if not (said_yes() or somebody_is_there()):
            for line in described(new, Seen()):
                say(console, line)
            say(console, "there is no terminal to ask in; --yes agrees")
            return 1
        agreed = await agreed_to(new, warn=warn)
        for server in agreed:
            say(console, f"{server.name} may be started", GOOD)
        return 0 if len(agreed) == len(new) else 1

    return run_orderly(main)


def _found(config: Path | None) -> tuple[SharedServer, ...]:
    if config is not None:
        return load_config(config, warn=warn).mcp.shared
    path = find_mcp_json(Path.cwd())
    if path is None:
        raise ConfigError("there is no .mcp.json from here upward; give --config")
    if (why := stranger_of(path, Path.cwd())) is not None:
        raise ConfigError(why)
    found = load_mcp_json(path)
    for text in found.warnings:
        warn(text)
    return found.entries


def _wanted(names: Sequence[str], config: Path | None) -> list[SharedServer]:
    """The entries to ask about; all of them unless there are names.

    Raises:
      ConfigError: for an unknown name, or if no file can be read and understood.
    """
    found = _found(config)
    if not names:
        return list(found)
    known = [server.name for server in found]
    for name in names:
        if name not in known:
            near = nearest(name, known) or known
            raise ConfigError(
                f"no server {name!r} to start in .mcp.json, there is"
                f" {', '.join(near) or 'none'}"
            )
    return [server for server in found if server.name in names]
