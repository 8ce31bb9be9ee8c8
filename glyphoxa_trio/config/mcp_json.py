"""``.mcp.json``: the servers a project shares with other programs.

    {"mcpServers": {"files": {"command": "npx", "args": ["-y", "some-server"]},
                    "world": {"url": "https://world.example/mcp"}}}

The file is not ours alone, so every entry is judged by itself: one that cannot be
used is left out, with a warning, and the rest goes on. It is an error only where an
NPC's grant names its server, which the runtime finds out. An entry may have every
key that a server of our own file has, and those of Claude, Cursor, VS Code and
Windsurf (`dialects`). What it says of tools is not the operator's word, so what would
let one be called unasked or twice is left out, whatever its source.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from glyphoxa_trio.secret import Secret

from . import discreet
from .dialects import (
    TranslatedEntry,
    surroundings,
    switched_off,
    translated,
    understood,
    variables_in,
    whole,
)
from .formats import read_file
from .overrides import ToolOverride
from .problems import ConfigError, ConfigMisfit, place_of, sort_of
from .reader import ConfigReader
from .scalars import Scalars
from .servers import McpDefaults, ServerSpec, Transport
from .shared import LeftOut, SharedServer

MCP_JSON: Final = ".mcp.json"
SERVERS: Final = "mcpServers"
VS_CODE: Final = "servers"  # what VS Code calls it

_REPOSITORY: Final = ".git"
_NAMES: Final = ("secrets", "not_secret")


@attrs.frozen(kw_only=True)
class Shared:
    """The contents of one ``.mcp.json``: servers to use, those left out, and
    warnings."""

    entries: tuple[SharedServer, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def servers(self) -> tuple[ServerSpec, ...]:
        return tuple(entry.spec for entry in self.entries)


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

    Without one it belongs beside ``.git``, and without that into the folder.
    """
    if (found := find_mcp_json(folder)) is not None:
        return found
    roots = (x for x in (folder, *folder.parents) if (x / _REPOSITORY).exists())
    return next(roots, folder) / MCP_JSON


def stranger_of(found: Path, config: Path) -> str | None:
    """Why a ``.mcp.json`` must not be believed, or None. Blocks on the file system.

    It says which programs to start, and it was looked for as far up as the root:
    a user who may write to a folder on that way, such as ``/tmp``, must not decide.
    """
    trusted = {0, os.geteuid()}
    try:
        trusted.add(config.stat().st_uid)
        owners = {found.lstat().st_uid, found.stat().st_uid}
    except OSError:
        return None  # reading it says so
    if owners <= trusted:
        return None
    return f"has another owner than {config.name}, so it is not read @ {found}"


def entries_of(data: Any, *, source: Path) -> dict[str, tuple[str, Any]]:
    """The entries of a file by name, each with the key that it stands below.

    Raises:
      ConfigError: if the file has something else where its servers should be.
    """
    if not isinstance(data, Mapping):
        raise ConfigError(f"expected a mapping, got {sort_of(data)} @ {source.name}")
    found: dict[str, tuple[str, Any]] = {}
    for key in (VS_CODE, SERVERS):  # if both have a name, the latter counts
        entries = data.get(key, {})
        if key == VS_CODE and not isinstance(entries, Mapping):
            continue  # whatever that is, it belongs to another program
        if not isinstance(entries, Mapping):
            raise ConfigError(
                f"expected a mapping, got {sort_of(entries)} @ {source.name}.{key}"
            )
        found |= {name: (key, entry) for name, entry in entries.items()}
    return found


def parse_mcp_json(
    data: Any,
    *,
    source: Path,
    env: Mapping[str, str],
    defaults: McpDefaults | None = None,
    taken: Container[str] = (),
    groups: Container[str] = (),
    only: str | None = None,
) -> Shared:
    """Plain data of a ``.mcp.json`` as servers. Paths are relative to its folder.

    Blocks on reading where an entry has an ``envFile``.

    Args:
      defaults: what servers get that do not state it.
      taken: names that the configuration file has, which goes first.
      groups: names of built-in groups, whose tools a server would replace.
      only: the one server that is wanted; problems of others are not told.

    Raises:
      ConfigError: if the file as a whole cannot be understood.
    """
    around = surroundings(source.parent, env)
    reader = ConfigReader(Scalars(around, source.parent), defaults or McpDefaults())
    entries: list[SharedServer] = []
    left_out: list[LeftOut] = []
    warnings: list[str] = []
    for name, (below, entry) in entries_of(data, source=source).items():
        if only not in (None, name):
            continue
        place = f"{source.name}{place_of(below)}{place_of(name)}"
        if name in taken:
            warnings.append(f"the configuration has it, too, and goes first @ {place}")
            continue
        try:
            if switched_off(whole(entry)):
                why = f"it is switched off there @ {place}"
                left_out.append(LeftOut(name=name, why=why, switched_off=True))
                continue
            if name in groups:
                raise ValueError(
                    "its name is that of a group of built-in tools: rename it, or"
                    f" switch off builtin.{name}"
                )
            server, notes = _server(name, entry, source, reader)
        except (ConfigError, ValueError) as error:
            found = [f"{what} @ {place}{where}" for where, what in _found(error)]
            left_out.append(LeftOut(name=name, why="; ".join(found)))
            warnings += (f"{name!r} is left out: {text}" for text in found)
            continue
        entries.append(attrs.evolve(server, below=below))
        warnings += (f"{note} @ {place}" for note in notes)
    return Shared(
        entries=tuple(entries), left_out=tuple(left_out), warnings=tuple(warnings)
    )


def _found(error: ValueError | ConfigError) -> list[tuple[str, str]]:
    """Each problem, with its place below the entry."""
    if isinstance(error, ConfigMisfit):
        return error.found
    if isinstance(error, ConfigError):
        return [("", what) for what in error.problems]
    return [("", str(error))]


def _server(
    name: str, written: Mapping[str, Any], source: Path, reader: ConfigReader
) -> tuple[SharedServer, tuple[str, ...]]:
    """Read one entry as a server; also returns its oddities, as notes.

    Raises:
      ValueError, ConfigError: naming the fault.
    """
    _check_name(name)
    entry = translated(written)
    notes = list(entry.notes)
    keys = {**entry.keys, "name": name}
    # They may name variables of a file that is not read yet.
    named = {key: keys.pop(key) for key in _NAMES if entry.env_file and key in keys}
    try:
        spec: ServerSpec = reader.converter.structure(keys, ServerSpec)
        lists: dict[str, Any] = {
            key: reader.converter.structure(value, tuple[str, ...])
            for key, value in named.items()
        }
    except ConfigMisfit as misfit:
        raise ConfigMisfit(
            [(entry.place(at), what) for at, what in misfit.found]
        ) from None
    spec = _not_the_operators(spec, notes)
    text = _env_file(entry, spec, reader, notes)
    more = {key: Secret(value) for key, value in variables_in(text or "").items()}
    spec = attrs.evolve(spec, env={**more, **spec.env}, **lists)
    made = SharedServer(
        spec=spec,
        source=source,
        digest=_digest(written, text),
        target=discreet.target({**entry.keys, "envFile": entry.env_file}),
    )
    return made, tuple(notes)


def _not_the_operators(spec: ServerSpec, notes: list[str]) -> ServerSpec:
    """The server without what only an operator may say of its tools.

    Who agrees that a server is started has seen its command, and not this.
    """
    tools: dict[str, ToolOverride] = {}
    for name, override in spec.tools.items():
        tools[name], opens = override.of_somebody_else()
        if opens:
            notes.append(
                f"tools{place_of(name)} says {', '.join(opens)}, which counts only in"
                " the configuration itself, under mcp.servers"
            )
    return attrs.evolve(spec, tools=tools)


def _check_name(name: str) -> None:
    field = attrs.fields(ServerSpec).name
    assert field.validator is not None
    try:
        field.validator(None, field, name)
    except ValueError as error:
        raise ValueError(f"its name {error}") from None


def _env_file(
    entry: TranslatedEntry, spec: ServerSpec, reader: ConfigReader, notes: list[str]
) -> str | None:
    """The text of the entry's ``envFile``; None if it has none that can be read."""
    if entry.env_file is None or spec.transport is not Transport.STDIO:
        return None
    try:
        return read_file(reader.scalars.path(entry.env_file, Path))
    except ValueError as error:
        raise ConfigMisfit([(".envFile", str(error))]) from None
    except ConfigError as error:
        (why,) = error.problems
        notes.append(f"goes on without its envFile, which {why.partition(' @ ')[0]}")
        return None


def _digest(written: Mapping[str, Any], env_file: str | None) -> str:
    """Return a digest of everything in the entry that decides which program is
    started."""
    try:
        facts = json.dumps([understood(written), env_file], sort_keys=True)
    except (RecursionError, TypeError) as error:
        raise ValueError("is nested too deeply") from error
    return hashlib.sha256(facts.encode()).hexdigest()


def names_in(data: Any) -> Iterable[str]:
    """The names of all servers, sound or not; none if the data is no ``.mcp.json``."""
    try:
        return entries_of(data, source=Path(MCP_JSON))
    except ConfigError:
        return ()
