"""``glyphoxa mcp test``: connect, list, call a named tool; how long each step takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import trio

from glyphoxa_trio.config import (
    ConfigError,
    LeftOut,
    ServerSpec,
    SharedServer,
    load_config,
    load_mcp_json,
)
from glyphoxa_trio.config.mcp_json import find_mcp_json, stranger_of
from glyphoxa_trio.config.server_entries import servers_in
from glyphoxa_trio.mcp.server_check import CheckLine, ServerCheck
from glyphoxa_trio.tools.arguments import InvalidArguments, load
from glyphoxa_trio.tools.naming import nearest

from .common import run_orderly, warn
from .consent import REMEDY, agreed_to
from .console import say, say_json, wide_console
from .grids import FAILED, GOOD, HELD

_STYLES: Final = {
    CheckLine.GOOD: GOOD,
    CheckLine.WARNING: HELD,
    CheckLine.FAILED: FAILED,
}


def check_server(
    name: str,
    *,
    config: Path | None,
    tool: str | None = None,
    arguments: str = "{}",
    as_json: bool = False,
) -> int:
    """Print a line per step; 0 if all went well, 1 if one failed.

    Args:
      tool: called with ``arguments``, the text of a JSON object. None calls nothing.

    Raises:
      ConfigError: if the arguments are no JSON object.
    """

    async def main() -> int:
        given: dict[str, Any] | None = None
        if tool is not None:
            try:
                given = load(arguments)
            except InvalidArguments as error:
                raise ConfigError(f"{error} @ ARGUMENTS") from None
        spec = await _spec(name, config)
        console = wide_console()

        def tell(kind: CheckLine, line: str) -> None:
            if not as_json:
                say(console, line, _STYLES[kind])

        check = ServerCheck(spec, tell, tool, given or {})
        # Over a second of loading is ours, and no fault of the server.
        await trio.to_thread.run_sync(_load, abandon_on_cancel=True)
        well = await check.run()
        if as_json:
            say_json(check.as_json(ok=well))
        return 0 if well else 1

    return run_orderly(main)


def _load() -> None:
    from glyphoxa_trio.mcp import sdk  # noqa: F401


async def _spec(name: str, config: Path | None) -> ServerSpec:
    """The server of that name, if it may be started; asks if that is not known.

    Raises:
      ConfigError: with the nearest names; or that the file says it is disabled, or
        cannot be used; or that the file has another owner; or that starting it was not
        agreed to.
    """
    own: Sequence[ServerSpec] = ()
    left_out: Sequence[LeftOut] = ()
    shared: Sequence[SharedServer]
    path: Path | None = None
    if config is not None:
        mcp = load_config(config, warn=warn).mcp
        own, shared, left_out = mcp.servers, mcp.shared, mcp.left_out
    else:
        path = find_mcp_json(Path.cwd())
        if path is None:
            raise ConfigError(
                f"no server {name!r}: there is no .mcp.json from here upward;"
                " give --config"
            )
        if (why := stranger_of(path, Path.cwd())) is not None:
            raise ConfigError(why)
        found = load_mcp_json(path, only=name)
        for text in found.warnings:
            warn(text)
        shared, left_out = found.entries, found.left_out
    for spec in own:
        if spec.name == name:
            return spec
    for server in shared:
        if server.name == name:
            if not await agreed_to([server], warn=warn):
                raise ConfigError(
                    f"{name!r} is not to be started: it is not agreed to yet: {REMEDY}"
                )
            return server.spec
    for left in left_out:
        if left.name == name:
            raise ConfigError(f"{name!r} is not to be started: {left.why}")
    rows = servers_in(path) if path is not None else ()
    names = [x.name for x in (*own, *shared, *rows)]
    names += [left.name for left in left_out if left.name is not None]
    near = nearest(name, names) or tuple(dict.fromkeys(names))
    raise ConfigError(f"no server {name!r}, there is {', '.join(near) or 'none'}")
