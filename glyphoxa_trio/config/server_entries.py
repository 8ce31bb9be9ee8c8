"""The servers of a configuration and of its ``.mcp.json``, as files have them.

For programs that show and edit them. Secrets are hidden in what is shown. Only the
``.mcp.json`` is edited (`config.edit`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from . import discreet
from .dialects import translated
from .disk import edit_file
from .edit import with_server, without_server
from .formats import read_file, read_text
from .load import load_mcp_json, parse
from .mcp_json import (
    MCP_JSON,
    SERVERS,
    entries_of,
    find_mcp_json,
    home_of_mcp_json,
    parse_mcp_json,
    stranger_of,
)
from .problems import ConfigError
from .seen import Seen

UNKNOWN: Final = "unknown"


class ChangedMeanwhile(ConfigError):
    """The file is not as it was when the editor read it; nothing was written."""


@attrs.frozen(kw_only=True)
class ListedServer:
    """A server as a file has it. ``state`` is unknown unless the file says it."""

    name: str
    transport: str
    target: str
    source: Path
    state: str = UNKNOWN


def all_servers(config: Path | None, folder: Path) -> list[ListedServer]:
    """Return every server of the configuration, if there is one, and of the
    ``.mcp.json`` for ``folder``.

    Raises:
      ConfigError: if a file cannot be read.
    """
    shared = find_mcp_json(folder)
    rows = [] if config is None else servers_in(config)
    taken = {row.name for row in rows}
    if shared is None:
        return rows
    rows += [
        attrs.evolve(row, state=f"overridden by {config.name}")
        if config is not None and row.name in taken
        else row
        for row in servers_in(shared)
    ]
    if stranger_of(shared, folder if config is None else config.absolute()):
        foreign = "not read: the file has another owner"
        rows = [
            attrs.evolve(row, state=foreign) if row.source == shared else row
            for row in rows
        ]
    return rows


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


def new_entry(
    name: str,
    *,
    command: Sequence[str] = (),
    url: str | None = None,
    headers: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the entry of a server, to write into the file.

    Raises:
      ConfigError: with everything that a runtime would not take.
    """
    entry: dict[str, Any] = {}
    if command:
        entry |= {"command": command[0], "args": list(command[1:])}
    if url is not None:
        entry |= {"type": "http", "url": url}
    if env:
        entry["env"] = dict(env)
    if headers:
        entry["headers"] = dict(headers)
    check_entry(name, entry)
    return entry


def check_entry(name: str, entry: Mapping[str, Any]) -> None:
    """Check that a runtime would take an entry, whatever variables will be set.

    Raises:
      ConfigError: with everything that it would not take.
    """
    if "command" not in entry and "url" not in entry:
        raise ConfigError("give the server's url, or the command that starts it")
    shared = parse_mcp_json(
        {SERVERS: {name: entry}}, source=Path.cwd() / MCP_JSON, env=_AnyVariable()
    )
    problems = [left.why for left in shared.left_out] or _contradictions(entry)
    if problems:
        raise ConfigError(*problems)


def _contradictions(entry: Mapping[str, Any]) -> list[str]:
    """Problems of an entry that a ``.mcp.json`` may have without being refused.

    In a file that belongs to other programs, keys that mean nothing are ignored; a
    person who types them is told.
    """
    ours = {key: value for key, value in entry.items() if key != "type"}
    if "command" in ours:
        ours["command"] = [ours["command"]]
    data = {"mcp": {"servers": {"it": ours}}}
    try:
        parse(data, source=Path.cwd() / MCP_JSON, env=_AnyVariable())
    except ConfigError as error:
        return [what.partition(" @ ")[0] for what in error.problems]
    return []


@attrs.frozen
class ServerFile:
    """The ``.mcp.json`` beside a configuration, for an editor.

    An editor reads, shows what it has read, and gives the ``revision`` of that with its
    edit: an edit of a file that has changed since is refused. All methods block.
    """

    config: Path

    @property
    def path(self) -> Path:
        """The file, which need not exist."""
        return home_of_mcp_json(self.config.absolute().parent)

    def revision(self) -> str:
        """Return what stands for the text of the file; "" if there is none.

        Raises:
          ConfigError: if it cannot be read.
        """
        return _revision_of(read_file(self.path) if self.path.exists() else None)

    def servers(self) -> list[ListedServer]:
        """Return every server of the configuration and of the file.

        Raises:
          ConfigError: if one of them cannot be read.
        """
        return all_servers(self.config, self.config.absolute().parent)

    def add(self, name: str, entry: Mapping[str, Any], *, revision: str) -> None:
        """Add a server, and agree to its start.

        Raises:
          ConfigError: if there is one of that name, or the file cannot be edited.
          ChangedMeanwhile: the file has another revision.
        """
        self._refuse_configured(name)

        def change(text: str | None) -> str:
            _refuse_changed(text, revision)
            return with_server(text, name, entry)

        edit_file(self.path, change)
        agree_to(self.path, name)

    def change(self, name: str, changes: Mapping[str, Any], *, revision: str) -> None:
        """Change a server, and agree to its start.

        Args:
          changes: keys of its entry with their new values; other keys stay. In ``env``
            and ``headers`` other names stay, and None takes a name out. None in place
            of a value takes out the key.

        Raises:
          ConfigError: if there is none of that name in the file, a runtime would not
            take the entry, or the file cannot be edited.
          ChangedMeanwhile: the file has another revision.
        """
        self._refuse_configured(name)

        def change(text: str | None) -> str:
            _refuse_changed(text, revision)
            without_server(text, name)  # says so if there is none
            data, _ = read_text(text or "", source=self.path)
            old = entries_of(data, source=self.path)[name][1]
            entry = _changed(old if isinstance(old, dict) else {}, changes)
            check_entry(name, entry)
            return with_server(text, name, entry, replace=True)

        edit_file(self.path, change)
        agree_to(self.path, name)

    def remove(self, name: str, *, revision: str) -> None:
        """Take a server out.

        Raises:
          ConfigError: if there is none of that name in the file, or it cannot be
            edited.
          ChangedMeanwhile: the file has another revision.
        """
        self._refuse_configured(name)

        def change(text: str | None) -> str:
            _refuse_changed(text, revision)
            return without_server(text, name)

        edit_file(self.path, change)

    def _refuse_configured(self, name: str) -> None:
        refuse_configured(self.config, name)


def refuse_configured(config: Path | None, name: str) -> None:
    """Refuse to edit a server that the configuration has itself.

    Raises:
      ConfigError: it has.
    """
    if config is not None and name in {x.name for x in servers_in(config)}:
        raise ConfigError(
            f"{name!r} is in {config.name}, which goes first; edit it there"
        )


def agree_to(path: Path, name: str) -> None:
    """Note that a server of the file may be started: to add it is to agree to that.

    Raises:
      OSError: if that cannot be kept.
    """
    added = load_mcp_json(path, env=_AnyVariable(), only=name)
    Seen().add(added.entries)


def _changed(old: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    entry = dict(old)
    for key, value in changes.items():
        if key in ("env", "headers") and value is not None:
            before = old.get(key)
            both = {**(before if isinstance(before, dict) else {}), **value}
            value = {x: y for x, y in both.items() if y is not None}
        if value:
            entry[key] = value
        else:
            entry.pop(key, None)
    return entry


def _revision_of(text: str | None) -> str:
    if text is None:
        return ""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return hashlib.sha256(lines.encode()).hexdigest()[:16]


def _refuse_changed(text: str | None, revision: str) -> None:
    if _revision_of(text) != revision:
        raise ChangedMeanwhile(f"another edit came first: read it again @ {MCP_JSON}")


def plain_secrets(entry: Mapping[str, Any]) -> list[str]:
    """Yield the places where something that looks like a secret stands in plain
    text."""
    url = entry.get("url", "")
    return [
        *(["url"] if url and discreet.HIDDEN in discreet.address(url) else []),
        *(
            f"{key}.{name}"
            for key in ("env", "headers")
            for name, value in entry.get(key, {}).items()
            if discreet.names_secret(name) and discreet.HIDDEN in discreet.value(value)
        ),
    ]


class _AnyVariable(Mapping[str, str]):
    """The environment, and in it every variable that a server may be given later.

    Its stand-in makes sense as a whole address and as a part of one.
    """

    def __getitem__(self, name: str) -> str:
        return os.environ.get(name) or "http://set-later"

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)

    def __iter__(self) -> Iterator[str]:
        return iter(os.environ)

    def __len__(self) -> int:
        return len(os.environ)
