"""``glyphoxa mcp list``: the configured servers, unexpanded, without their secrets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from glyphoxa_trio.config import ConfigError, discreet, load_mcp_json, read_text
from glyphoxa_trio.config.dialects import translated
from glyphoxa_trio.config.formats import read_file
from glyphoxa_trio.config.mcp_json import (
    MCP_JSON,
    entries_of,
    find_mcp_json,
    stranger_of,
)
from glyphoxa_trio.config.seen import Seen

from .common import complain
from .console import say, say_json, wide_console
from .grids import HELD, Cell, Column, Grid
from .grids import show as show_grid

UNKNOWN: Final = "unknown"
_COLUMNS: Final = (
    Column("name"),
    Column("transport", spare=1),
    Column("command or url", whole=False),
    Column("source", whole=False, spare=2),
    Column("state", whole=False),
)


@attrs.frozen(kw_only=True)
class ListedServer:
    """A server as a file has it. ``state`` is unknown unless the file says it."""

    name: str
    transport: str
    target: str
    source: Path
    state: str = UNKNOWN


def show(config: Path | None, *, as_json: bool = False) -> int:
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
            if stranger_of(shared, folder if config is None else config.absolute()):
                rows = [
                    attrs.evolve(row, state="not read: the file has another owner")
                    if row.source == shared
                    else row
                    for row in rows
                ]
    except ConfigError as error:
        return complain(error)
    if as_json:
        say_json({"servers": [_as_json(row) for row in rows]})
        return 0
    console = wide_console()
    if not rows:
        where = " and no .mcp.json" if shared is None else ""
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


def servers_in(path: Path) -> list[ListedServer]:
    """The servers that a configuration or a ``.mcp.json`` names.

    It does not check the servers of a configuration: `check` does.

    Raises:
      ConfigError: if the file cannot be read or is not its format.
    """
    source = path.absolute()
    data, repeated = read_text(read_file(source), source=source)
    if repeated:
        raise ConfigError(*repeated)
    if source.name == MCP_JSON:
        return _shared_in(data, source)
    section = _mapping(data).get("mcp")
    entries = _mapping(section).get("servers")
    if isinstance(entries, list):
        named = [(str(_mapping(entry).get("name", "?")), entry) for entry in entries]
    else:
        named = [(str(name), entry) for name, entry in _mapping(entries).items()]
    rows = [_listed(name, _mapping(entry), source) for name, entry in named]
    if _mapping(section).get("enabled") is False:
        return [attrs.evolve(row, state="disabled by mcp.enabled") for row in rows]
    return rows


def _shared_in(data: Any, source: Path) -> list[ListedServer]:
    """The servers of a ``.mcp.json``, each with what keeps it from being started."""
    found, seen = load_mcp_json(source), Seen()
    states = {
        x.name: "disabled" if x.switched_off else f"left out: {x.why}"
        for x in found.left_out
    }
    for server in found.entries:
        if server not in seen:
            states[server.name] = "not agreed to yet: glyphoxa mcp trust"
    return [
        attrs.evolve(
            _listed(name, _in_our_words(entry), source),
            state=states.get(name, UNKNOWN),
        )
        for name, (_, entry) in entries_of(data, source=source).items()
    ]


def _in_our_words(entry: Any) -> Mapping[Any, Any]:
    """The entry in the keys of our own file, or as it stands if it makes no sense."""
    try:
        return translated(_mapping(entry)).keys
    except ValueError:
        return _mapping(entry)


def _listed(name: str, entry: Mapping[str, Any], source: Path) -> ListedServer:
    kind = entry.get("type", entry.get("transport"))
    follows = "streamable-http" if isinstance(entry.get("url"), str) else "stdio"
    return ListedServer(
        name=name,
        transport=kind if isinstance(kind, str) else follows,
        target=discreet.target(entry),
        source=source,
    )


def _mapping(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}
