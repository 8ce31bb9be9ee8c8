"""``glyphoxa mcp list``: the configured servers, unexpanded, without their secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import attrs

from glyphoxa_trio.config import ConfigError
from glyphoxa_trio.config.mcp_json import find_mcp_json
from glyphoxa_trio.config.server_entries import UNKNOWN, ListedServer, all_servers

from .common import complain
from .console import say, say_json, wide_console
from .grids import HELD, Cell, Column, Grid
from .grids import show as show_grid

_COLUMNS: Final = (
    Column("name"),
    Column("transport", spare=1),
    Column("command or url", whole=False),
    Column("source", whole=False, spare=2),
    Column("state", whole=False),
)


def show(config: Path | None, *, as_json: bool = False) -> int:
    """Print every server of the configuration and of ``.mcp.json``."""
    folder = Path.cwd() if config is None else config.absolute().parent
    try:
        rows = all_servers(config, folder)
    except ConfigError as error:
        return complain(error)
    if as_json:
        say_json({"servers": [_as_json(row) for row in rows]})
        return 0
    console = wide_console()
    if not rows:
        where = "" if find_mcp_json(folder) else " and no .mcp.json"
        say(console, f"no servers{where}")
        return 0
    cells: list[list[Cell]] = [
        [
            row.name,
            row.transport,
            row.target,
            str(row.source),
            row.state if row.state == UNKNOWN else (row.state, HELD),
        ]
        for row in rows
    ]
    show_grid(console, Grid(columns=_COLUMNS, rows=cells))
    return 0


def _as_json(row: ListedServer) -> dict[str, Any]:
    return {**attrs.asdict(row), "source": str(row.source)}
