"""``glyphoxa mcp add`` and ``remove``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from glyphoxa_trio.config import ConfigError, discreet, load_mcp_json, parse
from glyphoxa_trio.config.edit import add_server, remove_server
from glyphoxa_trio.config.mcp_json import (
    MCP_JSON,
    SERVERS,
    home_of_mcp_json,
    parse_mcp_json,
)
from glyphoxa_trio.config.seen import Seen

from .common import complain, warn
from .mcp_list import servers_in
from .render import on_screen


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


def add(
    name: str,
    command: Sequence[str],
    *,
    url: str | None,
    headers: Sequence[str],
    env: Sequence[str],
    transport: str | None,
    scope: str | None,
    replace: bool,
    config: Path | None,
) -> int:
    """Add a server; 0, or 2 with a line that says why not."""
    try:
        command, url = _reached_by(command, url, transport, scope)
        entry = _entry(name, command, url=url, headers=headers, env=env)
        path = home_of_mcp_json(_folder(config))
        _not_in(config, name)
        add_server(path, name, entry, replace=replace)
        _agree_to(path, name)
    except ConfigError as error:
        return complain(error)
    print(on_screen(f"{name} is in {path}"))  # noqa: T201 a command speaks
    for place in _plain_secrets(entry):
        print(  # noqa: T201
            f"{place} is in that file as you wrote it; ${{VAR}} keeps a secret out",
            file=sys.stderr,
        )
    return 0


def _agree_to(path: Path, name: str) -> None:
    """Note that the server may be started: the user who adds it agrees to that."""
    added = load_mcp_json(path, env=_AnyVariable(), only=name)
    try:
        Seen().add(added.entries)
    except OSError as error:
        warn(f"your agreement to start it could not be kept: {error}")


def remove(name: str, *, config: Path | None) -> int:
    """Remove a server; 0, or 2 with a line that says why not."""
    path = home_of_mcp_json(_folder(config))
    try:
        try:
            remove_server(path, name)
        except ConfigError:
            _not_in(config, name)  # says more
            raise
    except ConfigError as error:
        return complain(error)
    print(on_screen(f"{name} is out of {path}"))  # noqa: T201
    return 0


def _folder(config: Path | None) -> Path:
    return Path.cwd() if config is None else config.absolute().parent


def _reached_by(
    command: Sequence[str], url: str | None, transport: str | None, scope: str | None
) -> tuple[Sequence[str], str | None]:
    """Return the command and the address. Other programs want the address in place of
    the command, beside ``--transport http``: that is understood, too.

    Raises:
      ConfigError: for options of those programs that this one does not have.
    """
    problems: list[str] = []
    if scope not in (None, "project"):
        problems.append(
            f"--scope {scope}: servers are added to the project's .mcp.json: leave it"
            " out, or say project"
        )
    if transport == "sse":
        problems.append(
            "--transport sse: it is not supported; most such servers have an address"
            " for --transport http as well"
        )
    elif transport not in (None, "stdio", *_REMOTE):
        problems.append(f"--transport {transport}: expected one of stdio, http")
    if problems:
        raise ConfigError(*problems)
    if transport == "stdio":
        if url is not None:
            raise ConfigError("--transport stdio and a --url: give the command")
        return command, None
    is_address = len(command) == 1 and command[0].startswith(("http://", "https://"))
    if url is None and (is_address or transport in _REMOTE):
        if len(command) != 1:
            raise ConfigError(f"--transport {transport} wants one address")
        return (), command[0]
    return command, url


_REMOTE: Final = ("http", "streamable-http")


def _entry(
    name: str,
    command: Sequence[str],
    *,
    url: str | None,
    headers: Sequence[str],
    env: Sequence[str],
) -> dict[str, Any]:
    """Return the entry to write into the file, once a runtime would accept it.

    Raises:
      ConfigError: with everything that it would not take.
    """
    entry: dict[str, Any] = {}
    if command:
        entry |= {"command": command[0], "args": list(command[1:])}
    if url is not None:
        entry |= {"type": "http", "url": url}
    problems: list[str] = []
    for key, mark, pairs in (("env", "=", env), ("headers", ":", headers)):
        for pair in pairs:
            field, found, value = pair.partition(mark)
            if not found or not field.strip():
                option = key.removesuffix("s")
                # Not shown: it may be a secret without its name.
                problems.append(f"--{option} wants NAME{mark}VALUE")
                continue
            entry.setdefault(key, {})[field.strip()] = (
                value if key == "env" else value.strip()
            )
    if not command and url is None:
        problems.append(
            "give the server's --url, or the command that starts it behind a --"
        )
    else:
        shared = parse_mcp_json(
            {SERVERS: {name: entry}}, source=Path.cwd() / MCP_JSON, env=_AnyVariable()
        )
        problems += [left.why for left in shared.left_out] or _contradictions(entry)
    if problems:
        raise ConfigError(*problems)
    return entry


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


def _not_in(config: Path | None, name: str) -> None:
    """Raises ConfigError if the configuration has a server of that name itself."""
    if config is not None and name in {x.name for x in servers_in(config)}:
        raise ConfigError(
            f"{name!r} is in {config.name}, which goes first; edit it there"
        )


def _plain_secrets(entry: Mapping[str, Any]) -> list[str]:
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
