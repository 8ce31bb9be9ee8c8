"""``.mcp.json``: the servers a project shares with other programs (N7, N8).

    {"mcpServers": {"files": {"command": "npx", "args": ["-y", "some-server"]},
                    "world": {"url": "https://world.example/mcp"}}}

The file is not ours alone. What others may write there and we cannot use is a
warning, and the rest goes on; a value of the wrong type and a contradiction are
errors, as in our own file. An entry may have every key that a server of our own
file has; ``type`` is another word for ``transport``.
"""

from __future__ import annotations

import os
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from .layout import layout, unknown
from .problems import ConfigError, Misfit, Problems, shown, sort_of
from .reader import Reader
from .scalars import Scalars
from .servers import McpDefaults, ServerSpec, Transport

MCP_JSON: Final = ".mcp.json"
SERVERS: Final = "mcpServers"

_REPOSITORY: Final = ".git"
_OTHERS: Final = frozenset({"type", "disabled"})  # keys that our own file has not
_UNSUPPORTED: Final = frozenset({"sse"})


@attrs.frozen(kw_only=True)
class Shared:
    """The servers of one ``.mcp.json`` that are ours to start, and the warnings."""

    servers: tuple[ServerSpec, ...] = ()
    warnings: tuple[str, ...] = ()


def find_mcp_json(folder: Path) -> Path | None:
    """The nearest ``.mcp.json`` from ``folder`` upward, within its repository.

    A folder that holds ``.git`` is the last one that is looked into. Blocks on
    the file system.
    """
    for place in (folder, *folder.parents):
        if (place / MCP_JSON).is_file():
            return place / MCP_JSON
        if (place / _REPOSITORY).exists():
            return None
    return None


def home_of_mcp_json(folder: Path) -> Path:
    """The ``.mcp.json`` of the project that ``folder`` is in, there or not yet.

    Without one it belongs beside ``.git`` (N14), and without that into the folder.
    """
    if (found := find_mcp_json(folder)) is not None:
        return found
    roots = (x for x in (folder, *folder.parents) if (x / _REPOSITORY).exists())
    return next(roots, folder) / MCP_JSON


def stranger_of(found: Path, config: Path) -> str | None:
    """Why a ``.mcp.json`` must not be believed, or None. Blocks on the file system.

    It says which programs to start, and it was looked for as far up as the root:
    whoever may write to a folder on that way, such as ``/tmp``, must not decide.
    """
    trusted = {0, os.geteuid()}
    try:
        trusted.add(config.stat().st_uid)
        owners = {found.lstat().st_uid, found.stat().st_uid}
    except OSError:
        return None  # reading it says so
    if owners <= trusted:
        return None
    return f"belongs to somebody else than {config.name}, so it is not read @ {found}"


def parse_mcp_json(
    data: Any,
    *,
    source: Path,
    env: Mapping[str, str],
    defaults: McpDefaults | None = None,
    taken: Container[str] = (),
    only: str | None = None,
) -> Shared:
    """Plain data of a ``.mcp.json`` as servers. Paths are relative to its folder.

    Args:
      defaults: what servers get that do not state it.
      taken: names that the configuration file has, which goes first (N9).
      only: the one server that is wanted; what is wrong with others is not.

    Raises:
      ConfigError: with every problem, each with its place.
    """
    reader = Reader(Scalars(env, source.parent), defaults or McpDefaults())
    warnings, problems = Problems(), Problems()
    servers: list[ServerSpec] = []
    if not isinstance(data, Mapping):
        raise ConfigError(f"expected a mapping, got {sort_of(data)} @ {source.name}")
    for key in data:
        if key != SERVERS:
            warnings.add(f"unknown key {shown(key)} is ignored")
    with problems.under(SERVERS):
        entries = data.get(SERVERS, {})
        if not isinstance(entries, Mapping):
            raise ValueError(f"expected a mapping, got {sort_of(entries)}")
        below = Problems()
        for name, entry in entries.items():
            if only not in (None, name):
                continue
            with below.under(name):
                if name in taken:
                    warnings.add(
                        "the configuration has it, too, and goes first", SERVERS, name
                    )
                elif (spec := _server(name, entry, reader, warnings)) is not None:
                    servers.append(spec)
        below.end()
    if problems.found:
        raise ConfigError(*_placed(problems, source))
    return Shared(servers=tuple(servers), warnings=_placed(warnings, source))


def _placed(problems: Problems, source: Path) -> tuple[str, ...]:
    return tuple(f"{what} @ {source.name}{place}" for place, what in problems.found)


def _server(
    name: str, entry: Any, reader: Reader, warnings: Problems
) -> ServerSpec | None:
    """One entry as a server; None for one that is not to be started.

    Raises:
      ValueError, ConfigError: for what is wrong with it.
    """
    if not isinstance(entry, Mapping):
        raise ValueError(f"expected a mapping, got {sort_of(entry)}")
    problems = Problems()
    with problems.under("disabled"):
        if reader.scalars.switch(entry.get("disabled", False), bool):
            return None
    if why := why_left_out(name, entry):
        warnings.add(f"is left out: {why}", SERVERS, name)
        return None
    known = {key: entry[key] for key in entry if key in layout(ServerSpec)}
    for key in entry:
        if key not in known and key not in _OTHERS:
            warnings.add(f"{unknown(key, ServerSpec)}; it is ignored", SERVERS, name)
    if "name" in known:
        problems.add("the key is its name: leave out 'name'")
    if "type" in entry:
        with problems.under("type"):
            reader.converter.structure(entry["type"], Transport)
            known.setdefault("transport", entry["type"])
        if "transport" in entry:
            problems.add("type and transport are the same thing: give one")
    if type(known.get("command")) is str and "args" in known:
        # Beside args it is one word for everybody else, spaces and all.
        known["command"] = [known["command"]]
    spec: ServerSpec | None = None
    try:
        spec = reader.converter.structure({**known, "name": name}, ServerSpec)
    except Misfit as misfit:
        problems.found += misfit.found
    except ConfigError as error:
        problems.found += [("", what) for what in error.problems]
    problems.end()
    return spec


def why_left_out(name: str, entry: Mapping[str, Any]) -> str | None:
    """Why an entry that is right for others is none for us; None if it is."""
    kind = entry.get("type", entry.get("transport"))
    if isinstance(kind, str) and kind in _UNSUPPORTED:
        return f"the transport {kind} is not supported, streamable-http is"
    field = attrs.fields(ServerSpec).name
    assert field.validator is not None
    try:
        field.validator(None, field, name)
    except ValueError as error:
        return f"its name {error}"
    return None
