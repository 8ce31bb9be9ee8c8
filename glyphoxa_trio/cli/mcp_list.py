"""``glyphoxa mcp list``: what is written down, unexpanded, without its secrets."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from glyphoxa_trio.config import ConfigError, discreet, read_text
from glyphoxa_trio.config.formats import read_file
from glyphoxa_trio.config.mcp_json import (
    MCP_JSON,
    SERVERS,
    find_mcp_json,
    stranger_of,
    why_left_out,
)

from .common import complain
from .render import on_screen
from .tools import wide_console


@attrs.frozen(kw_only=True)
class Listed:
    """A server as a file has it. ``state`` is unknown unless the file says it."""

    name: str
    transport: str
    target: str
    source: Path
    state: str = "unknown"


def show(config: Path | None) -> int:
    """Print every server of the configuration and of ``.mcp.json``."""
    folder = Path.cwd() if config is None else config.absolute().parent
    shared = find_mcp_json(folder)
    try:
        rows = [] if config is None else servers_in(config)
        taken = {row.name for row in rows}
        if shared is not None:
            rows += [
                attrs.evolve(row, state=f"overridden by {config.name}")
                if config is not None and row.name in taken
                else row
                for row in servers_in(shared)
            ]
            why = config and stranger_of(shared, config.absolute())
            if why:
                rows = [
                    attrs.evolve(row, state="not read: the file is somebody else's")
                    if row.source == shared
                    else row
                    for row in rows
                ]
    except ConfigError as error:
        return complain(error)
    console = wide_console()
    if not console.is_terminal:
        console.width = 1000  # a line per server, for whatever reads it
    if not rows:
        where = " and no .mcp.json" if shared is None else ""
        console.print(f"no servers{where}", markup=False)
        return 0
    table = Table(box=SIMPLE_HEAD)
    for column in ("name", "transport", "command or url", "source", "state"):
        table.add_column(column, overflow="fold")
    for row in rows:
        cells = (row.name, row.transport, row.target, str(row.source), row.state)
        table.add_row(*(Text(on_screen(cell)) for cell in cells))
    console.print(table)
    return 0


def servers_in(path: Path) -> list[Listed]:
    """The servers that a configuration or a ``.mcp.json`` names.

    Says nothing of whether they are right: that is for `check`.

    Raises:
      ConfigError: if the file cannot be read or is not its format.
    """
    source = path.absolute()
    data, repeated = read_text(read_file(source), source=source)
    if repeated:
        raise ConfigError(*repeated)
    shared = source.name == MCP_JSON
    section = data if shared else _mapping(data).get("mcp")
    entries = _mapping(section).get(SERVERS if shared else "servers")
    if isinstance(entries, list):
        named = [(str(_mapping(entry).get("name", "?")), entry) for entry in entries]
    else:
        named = [(str(name), entry) for name, entry in _mapping(entries).items()]
    rows = [_listed(name, _mapping(entry), source) for name, entry in named]
    if not shared and _mapping(section).get("enabled") is False:
        return [attrs.evolve(row, state="disabled by mcp.enabled") for row in rows]
    return rows


def _listed(name: str, entry: Mapping[str, Any], source: Path) -> Listed:
    url, command = entry.get("url"), entry.get("command")
    kind = entry.get("type", entry.get("transport"))
    follows = "streamable-http" if isinstance(url, str) else "stdio"
    state = "unknown"
    if source.name == MCP_JSON:
        if entry.get("disabled") is True:
            state = "disabled"
        elif why := why_left_out(name, entry):
            state = f"left out: {why}"
    return Listed(
        name=name,
        transport=kind if isinstance(kind, str) else follows,
        target=_target(url, command, entry, shared=source.name == MCP_JSON),
        source=source,
        state=state,
    )


def _target(url: Any, command: Any, entry: Mapping[str, Any], *, shared: bool) -> str:
    if isinstance(url, str):
        shown = discreet.address(url)
    else:
        args = entry.get("args")
        rest = args if isinstance(args, list) else []
        words = _words(command, split=not (shared and "args" in entry))
        shown = discreet.command([*words, *map(str, rest)])
    beside = [
        f"{name}{mark}{discreet.value(str(value))}"
        for key, mark in (("env", "="), ("headers", ": "))
        for name, value in _mapping(entry.get(key)).items()
    ]
    return "\n".join([shown or "nothing", *beside])


def _words(command: Any, *, split: bool) -> list[str]:
    if isinstance(command, list):
        return [str(word) for word in command]
    if not isinstance(command, str):
        return []
    try:
        return shlex.split(command) if split else [command]
    except ValueError:
        return [command]


def _mapping(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}
