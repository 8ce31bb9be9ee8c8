"""``glyphoxa mcp list``: the configured servers, unexpanded, without their secrets, and
the prompts that each of them offered in the last run."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs

from glyphoxa_trio.config import ConfigError, load_config
from glyphoxa_trio.config.mcp_json import find_mcp_json
from glyphoxa_trio.config.server_entries import UNKNOWN, ListedServer, all_servers
from glyphoxa_trio.config.state import state_folder
from glyphoxa_trio.mcp import ServerPrompt, ToolCache
from glyphoxa_trio.mcp.prompts import described
from glyphoxa_trio.user_folders import user_state_folder

from .common import complain
from .console import say, say_json, wide_console
from .grids import HELD, Cell, Column, Grid
from .grids import show as show_grid
from .prompting import prompt_lines

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
    prompts = _remembered({row.name for row in rows}, config)
    if as_json:
        say_json({"servers": [_as_json(row, prompts[row.name]) for row in rows]})
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
    if offered := [prompt for found in prompts.values() for prompt in found]:
        say(console, "prompts, as of the last run:")
        for line in prompt_lines(offered):
            say(console, line)
    return 0


def _remembered(
    names: Collection[str], config: Path | None
) -> dict[str, tuple[ServerPrompt, ...]]:
    """Return the prompts of each server, as it offered them in the last run."""
    folder: Path | None = user_state_folder()
    if config is not None:
        with suppress(ConfigError):  # a variable that is not set is no matter here
            folder = state_folder(load_config(config, warn=lambda _: None))
    if folder is None:
        return dict.fromkeys(names, ())
    cache = ToolCache(folder / "catalogues")
    return {name: described(name, cache.prompts_of(name)) for name in sorted(names)}


def _as_json(row: ListedServer, prompts: tuple[ServerPrompt, ...]) -> dict[str, Any]:
    return {
        **attrs.asdict(row),
        "source": str(row.source),
        "prompts": [x.key for x in prompts],
    }
