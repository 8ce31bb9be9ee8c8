"""Entries of a ``.mcp.json`` as Claude, Cursor, VS Code and Windsurf write them.

`translated` turns such an entry into the keys of our own file. It is lenient where the
meaning is plain (a number in ``env`` is taken as text) and names the fault where it
is not. Unknown keys belong to other programs and are ignored.
"""

from __future__ import annotations

import json
import os
import re
from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from glyphoxa_trio.user_folders import user_home

from .layout import layout
from .problems import Problems, shown, sort_of
from .servers import ServerSpec, Transport

# Keys by which an entry tells other programs to call its tools without asking.
_APPROVALS: Final = ("alwaysAllow", "autoApprove")
_ADDRESSES: Final = ("httpUrl", "url", "serverUrl")  # if several, the first counts
_FOREIGN: Final = frozenset(
    {"type", "serverUrl", "httpUrl", "envFile", "timeout", "disabled", "enabled"}
)
_TRANSPORTS: Final = {
    "stdio": Transport.STDIO,
    "local": Transport.STDIO,
    "http": Transport.STREAMABLE_HTTP,
    "streamable-http": Transport.STREAMABLE_HTTP,
    "streamable_http": Transport.STREAMABLE_HTTP,
    "streamablehttp": Transport.STREAMABLE_HTTP,
    "remote": Transport.STREAMABLE_HTTP,
}
# Keys that mean nothing to a server of the other kind, and do no harm there.
_OF_STDIO: Final = ("command", "args", "env", "cwd", "envFile")
_OF_HTTP: Final = (*_ADDRESSES, "headers", "auth")
_DEEPEST: Final = 32
# Some programs write a timeout in seconds, others in milliseconds.
_SECONDS_BELOW: Final = 1000

_VARIABLE: Final = re.compile(
    r"\$\$\{|\$\{(?:env:(?P<env>[A-Za-z_]\w*)(?P<default>:-[^}]*)?"
    r"|input:(?P<input>[^}]*)|(?P<separator>/))\}",
    re.ASCII,
)


@attrs.frozen
class TranslatedEntry:
    """An entry, translated into our keys.

    Args:
      keys: the keys that our own file would have, with their values.
      spelled: for each of these that the entry spells otherwise, how it spells it.
      env_file: the path of a file with more variables, as written.
      notes: oddities that are no errors.
    """

    keys: Mapping[str, Any]
    spelled: Mapping[str, str]
    env_file: Any = None
    notes: tuple[str, ...] = ()

    def place(self, place: str) -> str:
        """Translate a place that is told by our keys into the place in the file."""
        for ours, theirs in self.spelled.items():
            if place == f".{ours}" or place.startswith((f".{ours}.", f".{ours}[")):
                return f".{theirs}{place.removeprefix(f'.{ours}')}"
        return place


def surroundings(folder: Path, env: Mapping[str, str]) -> Mapping[str, str]:
    """The environment, and the variables that editors set for the file's folder."""
    ours = {
        "workspaceFolder": str(folder),
        "workspaceFolderBasename": folder.name,
        "pathSeparator": os.sep,
    }
    if home := env.get("HOME") or user_home():
        ours["userHome"] = str(home)
    return ChainMap(ours, env)  # type: ignore[arg-type]  # it is only read


def switched_off(entry: Mapping[str, Any]) -> bool:
    """Return true if another program has switched the server off.

    Raises:
      ValueError: a `ConfigMisfit`, if the key's value is neither true nor false.
    """
    problems = Problems()
    off = False
    for key, means_off in (("disabled", True), ("enabled", False)):
        value = entry.get(key)
        with problems.under(key):
            if value is not None and not isinstance(value, bool):
                raise ValueError(f"expected true or false, got {shown(value)}")
        off = off or value is means_off
    problems.end()
    return off


def translated(entry: Mapping[str, Any]) -> TranslatedEntry:
    """Translate an entry into our keys.

    Raises:
      ValueError: a `ConfigMisfit` with every problem.
    """
    problems = Problems()
    notes = [
        f"{key} is for another program and approves nothing here; trust.allow_tools"
        " does"
        for key in _APPROVALS
        if entry.get(key)
    ]
    known: dict[str, Any] = {
        key: entry[key]
        for key in entry
        if key in _KNOWN and key not in ("name", "disabled", "enabled")
        if entry[key] is not None
    }
    spelled: dict[str, str] = {}
    transport = _transport(known, spelled, problems)
    _only_its_own(known, transport)
    _settle_address(known, spelled)
    if "timeout" in known:
        with problems.under("timeout"):
            stated = _milliseconds(known.pop("timeout"))
            spelled.setdefault("timeout_ms", "timeout")
            known.setdefault("timeout_ms", stated)
    _settle_tools(known)
    for key in ("env", "headers"):
        if isinstance(known.get(key), Mapping):
            known[key] = {
                name: _as_text(value)
                for name, value in known[key].items()
                if value is not None
            }
    if isinstance(known.get("args"), list):
        known["args"] = [_as_text(value) for value in known["args"]]
    if type(known.get("command")) is str and "args" in known:
        # Beside args, other programs take the command as one word, spaces and all.
        known["command"] = [known["command"]]
    made: dict[str, Any] = {}
    for key, value in known.items():
        with problems.under(spelled.get(key, key)):
            made[key] = _rewritten(value)
    problems.end()
    env_file = made.pop("envFile", None)
    return TranslatedEntry(made, spelled, env_file, tuple(notes))


_KNOWN: Final = frozenset(layout(ServerSpec)) | _FOREIGN


def understood(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of an entry that decides which program is started, and how."""
    ours = _KNOWN - {"disabled", "enabled"}
    return {key: entry[key] for key in sorted(ours.intersection(entry))}


def variables_in(text: str) -> dict[str, str]:
    """The variables of an ``envFile``: a ``NAME=value`` a line, ``#`` for remarks."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, mark, value = line.strip().removeprefix("export ").partition("=")
        name, value = name.strip(), value.strip()
        if not mark or name.startswith("#") or not name:
            continue
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        else:
            value = re.split(r"\s#", value, maxsplit=1)[0].rstrip()
        found[name] = value
    return found


def _transport(
    known: dict[str, Any], spelled: dict[str, str], problems: Problems
) -> Transport | None:
    """The transport, if the entry states it; it is then put under ``transport``."""
    said: dict[str, Transport] = {}
    for key in ("type", "transport"):
        value = known.pop(key, None)
        if value is None:
            continue
        with problems.under(key):
            if not isinstance(value, str):
                raise ValueError(f"expected text, got {shown(value)}")
            if value.lower() == "sse":
                raise ValueError(
                    "the transport sse is not supported, streamable-http is: many"
                    " servers have both"
                )
            if value.lower() not in _TRANSPORTS:
                raise ValueError(
                    f"expected one of {', '.join(Transport)}, got {shown(value)}"
                )
            said[key] = _TRANSPORTS[value.lower()]
    if len(set(said.values())) > 1:
        problems.add("type and transport say different things: give one")
    for key, transport in said.items():
        spelled["transport"] = key
        known["transport"] = transport.value
        return transport
    return None


def _only_its_own(known: dict[str, Any], transport: Transport | None) -> None:
    """Drop keys that mean nothing to this kind of server, if the kind is certain."""
    address = any(key in known for key in _ADDRESSES)
    if transport is None and ("command" in known) == address:
        return  # it has both, or neither: the reader will say so
    stdio = not address if transport is None else transport is Transport.STDIO
    for key in _OF_HTTP if stdio else _OF_STDIO:
        needed = "command" in known if stdio else address
        if needed or key not in ("command", *_ADDRESSES):
            known.pop(key, None)


def _settle_address(known: dict[str, Any], spelled: dict[str, str]) -> None:
    for key in _ADDRESSES:
        if key in known:
            value = known[key]
            for other in _ADDRESSES:
                known.pop(other, None)
            known["url"] = value
            if key != "url":
                spelled["url"] = key
            return


def _settle_tools(known: dict[str, Any]) -> None:
    """Take a list of names as ``tools``: only these tools, or all if it has ``*``."""
    tools = known.get("tools")
    if isinstance(tools, list) and all(isinstance(x, str) for x in tools):
        del known["tools"]
        if tools and "*" not in tools:
            known.setdefault("allow", tools)


def _milliseconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"expected a number, got {shown(value)}")
    return value * 1000 if value < _SECONDS_BELOW else value


def _as_text(value: Any) -> Any:
    """Return a number, true or false as text, as other programs do."""
    return json.dumps(value) if isinstance(value, bool | int | float) else value


def _rewritten(value: Any, depth: int = 0) -> Any:
    """Return a value with the variables of other programs written in our way."""
    if isinstance(value, str):
        return _VARIABLE.sub(_variable, value)
    if depth > _DEEPEST or not isinstance(value, list | Mapping):
        return value  # no valid value is nested so deep: the reader refuses it
    problems = Problems()
    if isinstance(value, list):
        made: Any = []
        for index, item in enumerate(value):
            with problems.under(index):
                made.append(_rewritten(item, depth + 1))
    else:
        made = {}
        for key, item in value.items():
            with problems.under(key):
                made[key] = _rewritten(item, depth + 1)
    problems.end()
    return made


def _variable(found: re.Match[str]) -> str:
    if found["input"] is not None:
        raise ValueError(
            f"only an editor asks for {found[0]}, this program does not: write ${{VAR}}"
            " and set that variable"
        )
    if found["env"] is not None:
        return f"${{{found['env']}{found['default'] or ''}}}"
    return "${pathSeparator}" if found["separator"] else found[0]


def whole(value: Any) -> Mapping[str, Any]:
    """Return an entry, if it is a mapping.

    Raises:
      ValueError: if it is not.
    """
    if not isinstance(value, Mapping):
        raise ValueError(f"expected a mapping, got {sort_of(value)}")
    return value
