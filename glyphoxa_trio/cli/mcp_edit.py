"""``glyphoxa mcp add`` and ``remove``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from glyphoxa_trio.config import ConfigError
from glyphoxa_trio.config.edit import add_server, remove_server
from glyphoxa_trio.config.mcp_json import home_of_mcp_json
from glyphoxa_trio.config.server_entries import (
    agree_to,
    new_entry,
    plain_secrets,
    refuse_configured,
)

from .common import complain, warn
from .render import on_screen


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
        entry |= _typed_in(Path.cwd(), command, path)
        refuse_configured(config, name)
        add_server(path, name, entry, replace=replace)
        _agree_to(path, name)
    except ConfigError as error:
        return complain(error)
    print(on_screen(f"{name} is in {path}"))  # noqa: T201 a command speaks
    for place in plain_secrets(entry):
        print(  # noqa: T201
            f"{place} is in that file as you wrote it; ${{VAR}} keeps a secret out",
            file=sys.stderr,
        )
    return 0


def _typed_in(here: Path, command: Sequence[str], file: Path) -> dict[str, str]:
    """Return the folder that the server is to run in, as a key of its entry, if the
    command names a file by a path that is relative to the folder it was typed in."""
    home = file.parent.absolute()
    if here == home or not any(_is_here(here, word) for word in command):
        return {}
    return {"cwd": os.path.relpath(here, home)}


def _is_here(here: Path, word: str) -> bool:
    """Return true if a word, or the value of an option, is the path of something."""
    value = word.partition("=")[2] if word.startswith("-") else word
    with suppress(OSError, ValueError):
        return bool(value) and not Path(value).is_absolute() and (here / value).exists()
    return False


def _agree_to(path: Path, name: str) -> None:
    """Note that the server may be started: the user who adds it agrees to that."""
    try:
        agree_to(path, name)
    except OSError as error:
        warn(f"your agreement to start it could not be kept: {error}")


def remove(name: str, *, config: Path | None) -> int:
    """Remove a server; 0, or 2 with a line that says why not."""
    path = home_of_mcp_json(_folder(config))
    try:
        try:
            remove_server(path, name)
        except ConfigError:
            refuse_configured(config, name)  # says more
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
    given: dict[str, dict[str, str]] = {"env": {}, "headers": {}}
    problems: list[str] = []
    for key, mark, pairs in (("env", "=", env), ("headers", ":", headers)):
        for pair in pairs:
            field, found, value = pair.partition(mark)
            if not found or not field.strip():
                option = key.removesuffix("s")
                # Not shown: it may be a secret without its name.
                problems.append(f"--{option} wants NAME{mark}VALUE")
                continue
            given[key][field.strip()] = value if key == "env" else value.strip()
    if not command and url is None:
        problems.append(
            "give the server's --url, or the command that starts it behind a --"
        )
    if problems:
        raise ConfigError(*problems)
    return new_entry(name, command=command, url=url, **given)
