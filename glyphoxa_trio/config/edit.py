"""Adding servers to a ``.mcp.json``, and taking them out again.

Others write this file, too, so only the text of the one entry is touched: all
that is not ours stays as it is, byte for byte. A text that is no JSON object, or
says a thing twice, is refused and stays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from glyphoxa_trio.tools.naming import nearest

from .disk import edit_file
from .formats import read_text
from .mcp_json import MCP_JSON, SERVERS, VS_CODE
from .problems import ConfigError, sort_of

# How a server is reached: what `mcp add` decides. The rest of an entry is the
# operator's, and survives `--replace`.
_REACHED_BY: Final = frozenset(
    {"type", "transport", "command", "args", "env", "envFile", "cwd", "url", "headers"}
    | {"serverUrl", "httpUrl", "auth"}
)
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_UNIT: Final = "  "  # for a file that does not say how it is indented


def add_server(
    path: Path, name: str, entry: Mapping[str, Any], *, replace: bool = False
) -> None:
    """Put an entry into the file, which is made if it is not there. Blocks.

    Args:
      replace: a server of that name may be there; what its entry says beside how
        it is reached stays.

    Raises:
      ConfigError: if there is one already, or the file cannot be edited.
    """
    edit_file(path, lambda text: with_server(text, name, entry, replace=replace))


def remove_server(path: Path, name: str) -> None:
    """Take an entry out of the file. Blocks.

    Raises:
      ConfigError: if there is none of that name, or the file cannot be edited.
    """
    edit_file(path, lambda text: without_server(text, name))


@attrs.frozen
class _Member:
    """``"key": value`` in a text: where it begins, where its value does, the end."""

    key: str
    start: int
    value: int
    end: int


@attrs.frozen
class _Object:
    """An object in a text: the places of its braces, and the members between them."""

    start: int
    end: int
    members: tuple[_Member, ...]

    def get(self, key: str) -> _Member | None:
        return next((x for x in self.members if x.key == key), None)


def with_server(
    text: str | None, name: str, entry: Mapping[str, Any], *, replace: bool = False
) -> str:
    """The text with one more entry; see `add_server`. None is no file.

    Raises:
      ConfigError: see `add_server`.
    """
    if text is None:
        text = "{}\n"
    root, servers = _read(text, name)
    style = _Style.of(text, root)
    if servers is None:
        return style.inserted(text, root, SERVERS, {name: dict(entry)}, depth=1)
    there = servers.get(name)
    if there is None:
        return style.inserted(text, servers, name, entry, depth=2)
    if not replace:
        raise ConfigError(f"there is a server {name!r} already @ {MCP_JSON}")
    old = json.loads(text[there.value : there.end])
    kept = old if isinstance(old, dict) else {}
    new = {**entry, **{k: v for k, v in kept.items() if k not in _REACHED_BY}}
    return text[: there.value] + style.written(new, depth=2) + text[there.end :]


def without_server(text: str | None, name: str) -> str:
    """The text without the entry of that name; see `remove_server`.

    Raises:
      ConfigError: with the nearest names, if there is none.
    """
    servers = None if text is None else _read(text, name)[1]
    members = () if servers is None else servers.members
    names = [member.key for member in members]
    if text is None or servers is None or name not in names:
        near = nearest(name, names) or names
        there = f", there is {', '.join(near)}" if near else ""
        raise ConfigError(f"no server {name!r}{there} @ {MCP_JSON}")
    at = names.index(name)
    if len(members) == 1:
        return text[: servers.start + 1] + text[servers.end - 1 :]
    if at == 0:
        return text[: members[0].start] + text[members[1].start :]
    return text[: members[at - 1].end] + text[members[at].end :]


def _read(text: str, name: str) -> tuple[_Object, _Object | None]:
    """The object that is the whole file, and the one in it that has the server ``name``
    or will get it; None if the file has no servers.

    Raises:
      ConfigError: if the text is not JSON, says a key twice, or has something
        else where an object should be.
    """
    data, repeated = read_text(text, source=Path(MCP_JSON))
    if repeated:
        raise ConfigError(*repeated)
    if data is None and not text.strip():
        raise ConfigError(f"the file is empty @ {MCP_JSON}")
    _an_object(data)
    _an_object(data.get(SERVERS, {}), f".{SERVERS}")
    root = _scan(text, _after_space(text, 0))
    found = [
        _scan(text, member.value)
        for key in (SERVERS, VS_CODE)
        if isinstance(data.get(key), dict) and (member := root.get(key)) is not None
    ]
    has_it = (servers for servers in found if servers.get(name) is not None)
    return root, next(has_it, found[0] if found else None)


def _an_object(value: Any, place: str = "") -> None:
    if not isinstance(value, dict):
        raise ConfigError(
            f"expected a mapping, got {sort_of(value)} @ {MCP_JSON}{place}"
        )


def _scan(text: str, start: int) -> _Object:
    """The object that begins at ``start``, in a text that is known to be JSON."""
    decode = json.JSONDecoder().raw_decode
    members: list[_Member] = []
    at = _after_space(text, start + 1)
    while text[at] != "}":
        begins = _after_space(text, at + 1) if text[at] == "," else at
        key, colon = decode(text, begins)
        value = _after_space(text, _after_space(text, colon) + 1)
        end = decode(text, value)[1]
        members.append(_Member(key, begins, value, end))
        at = _after_space(text, end)
    return _Object(start, at + 1, tuple(members))


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()


@attrs.frozen
class _Style:
    """Return the indentation of a text; None if all of it is on one line."""

    unit: str | None
    newline: str

    @classmethod
    def of(cls, text: str, root: _Object) -> _Style:
        newline = "\r\n" if "\r\n" in text else "\n"
        if not root.members:
            return cls(_UNIT, newline)
        before = text[root.start + 1 : root.members[0].start]
        _, broken, indentation = before.rpartition("\n")
        return cls(indentation if broken else None, newline)

    def inserted(
        self, text: str, into: _Object, key: str, value: Any, *, depth: int
    ) -> str:
        """The text with one more member at the end of an object."""
        member = f"{json.dumps(key)}: {self.written(value, depth=depth)}"
        if into.members:
            last = into.members[-1].end
            # As the last one is set apart from the one before it.
            lead = text[into.start + 1 : into.members[0].start]
            if len(into.members) > 1:
                comma = text.index(",", into.members[-2].end)
                lead = text[comma + 1 : into.members[-1].start]
            elif not lead:
                lead = " "
            return f"{text[:last]},{lead}{member}{text[last:]}"
        inside = self._line(depth) + member + self._line(depth - 1)
        return text[: into.start + 1] + inside + text[into.end - 1 :]

    def written(self, value: Any, *, depth: int) -> str:
        """A value as JSON, indented for where it stands."""
        text = json.dumps(value, indent=self.unit, ensure_ascii=False, allow_nan=False)
        return text.replace("\n", self._line(depth))

    def _line(self, depth: int) -> str:
        return "" if self.unit is None else self.newline + self.unit * depth
