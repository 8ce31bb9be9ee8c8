"""The names of tools: those that models see, and names or patterns in a configuration.

A tool has one canonical key, ``group.name``, and one exposed name. An exposed name
never has a dot and a key always does, so a pattern is never ambiguous between the two.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final, Protocol

import attrs

from glyphoxa_trio.errors import GlyphoxaError

from .definition import ToolDefinition

MAX_LENGTH: Final = 64
_LEGAL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9_-]")
_HASH_DIGITS: Final = 8
# The rule for names that every provider accepts for a tool, as part of a message.
NO_NAME: Final = (
    f"must be 1 to {MAX_LENGTH} letters, digits, _ or -, and start with a letter or _"
)

# A word boundary in a camel-case name: getAtis, METARReport.
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NOT_SNAKE: Final = re.compile(r"[^a-z0-9_]")

LIST_RESOURCES: Final = "list_resources"
READ_RESOURCE: Final = "read_resource"
"""The names of the two tools that every server with resources has."""

# The plain name belongs to the memory group's `get_summary`.
_BUILT_IN_NAMES: Final = {"sessions.get_summary": "get_session_summary"}


class BadName(GlyphoxaError):
    """An ``expose_as`` that no provider would accept as the name of a tool."""


class NameCollision(GlyphoxaError):
    """Two tools of this process have one name, or any two have one key."""


class NamingStyle(StrEnum):
    """The way the tools of external servers are exposed (``mcp.naming``)."""

    DOUBLE = "double"  # mcp__server__tool
    SINGLE = "single"  # mcp_server_tool
    BARE = "bare"  # tool


def exposed_name(
    definition: ToolDefinition, style: NamingStyle = NamingStyle.DOUBLE
) -> str:
    """Return the name under which models see the tool; valid for every provider.

    Invalid characters become ``_``. A name that is too long, or that loses a letter
    because it is not ASCII, ends in a hash of the canonical key. `SINGLE` is lower
    snake case throughout: ``Aviation-ATIS`` and ``Get-Atis`` give
    ``mcp_aviation_atis_get_atis``.

    Raises:
      BadName: if ``expose_as`` is not itself a valid name.
    """
    if definition.expose_as is not None:
        if not is_exposed_name(definition.expose_as):
            raise BadName(
                f"{definition.key}: expose_as {definition.expose_as!r} {NO_NAME}"
            )
        return definition.expose_as
    return _safe(_plain_name(definition, style), definition.key)


def is_exposed_name(name: str) -> bool:
    """Return True if every provider accepts ``name`` as the name of a tool."""
    return _LEGAL.fullmatch(name) is not None


@attrs.frozen
class Collision:
    """Tools that would all have one exposed name, so that none of them gets it.

    Args:
      name: the exposed name.
      left_out: the canonical keys of the servers' tools among them, sorted.
      kept: the key of the one that stays: a tool of ours, or `tool_search`.
    """

    name: str
    left_out: tuple[str, ...]
    kept: str | None = None

    def __str__(self) -> str:
        if self.kept is None:
            *first, last = self.left_out
            which = f"{', '.join(first)} and {last} would all be"
            if len(self.left_out) == 2:
                which = f"{first[0]} and {last} would both be"
            return (
                f"{which} exposed as {self.name!r}, so none of them is; give all but"
                " one another name with expose_as"
            )
        names = " and ".join(self.left_out)
        return (
            f"{names} would be exposed as {self.name!r}, which is the name of"
            f" {self.kept}, so {names} {'is' if len(self.left_out) == 1 else 'are'}"
            " left out; give another name with expose_as"
        )


@attrs.frozen
class Exposed:
    """Every tool that gets its exposed name, by that name, and the collisions."""

    tools: Mapping[str, ToolDefinition]
    collisions: tuple[Collision, ...] = ()


def expose_all(
    definitions: Iterable[ToolDefinition], style: NamingStyle = NamingStyle.DOUBLE
) -> Exposed:
    """Return every tool under its exposed name, in the order given.

    Servers choose the names of their tools. If several of those would share a name,
    exactly these tools are left out, whatever the order. A tool of this process keeps
    its name: no server can take it away.

    Raises:
      NameCollision: if two tools of this process share a name, or any two a canonical
        key; the message names both.
      BadName: see `exposed_name`.
    """
    by_name: dict[str, list[ToolDefinition]] = {}
    by_key: dict[str, ToolDefinition] = {}
    for definition in definitions:
        if (other := by_key.setdefault(definition.key, definition)) is not definition:
            # A grant could not tell them apart, under any exposed names.
            raise NameCollision(
                f"{definition.key} is the key of two tools, {_whose(other)} and"
                f" {_whose(definition)}; give the server another name"
            )
        by_name.setdefault(exposed_name(definition, style), []).append(definition)
    tools: dict[str, ToolDefinition] = {}
    collisions: list[Collision] = []
    for name, sharing in by_name.items():
        ours = [definition for definition in sharing if not definition.external]
        if len(ours) > 1:
            raise NameCollision(
                f"{ours[0].key} and {ours[1].key} would both be exposed as {name!r};"
                " give one of them another name with expose_as"
            )
        if len(sharing) == 1 or ours:
            tools[name] = (ours or sharing)[0]
        if len(sharing) > 1:
            left_out = sorted(x.key for x in sharing if x.external)
            kept = ours[0].key if ours else None
            collisions.append(Collision(name, tuple(left_out), kept))
    return Exposed(tools, tuple(sorted(collisions, key=lambda one: one.name)))


def is_glob(pattern: str) -> bool:
    """Return True if ``pattern`` may match several names: ``*``, ``?``, ``[...]``."""
    return any(character in pattern for character in "*?[")


class HasNames(Protocol):
    """The names of a tool that patterns are compared with."""

    @property
    def key(self) -> str: ...

    @property
    def group(self) -> str: ...


def matches(pattern: str, definition: HasNames, exposed: str) -> bool:
    """Return True if a grant's ``pattern`` includes this tool. Case counts.

    A pattern is an exposed name, a canonical key, a glob of either, or the bare name of
    a group or server, which includes all of it. A glob with a dot matches keys, a glob
    without one matches exposed names: so ``*_summary`` does not include tools of
    servers, which choose their own names.
    """
    if is_glob(pattern):
        return fnmatchcase(definition.key if "." in pattern else exposed, pattern)
    return pattern in (exposed, definition.key, definition.group)


def names_in_full(pattern: str, definition: HasNames, exposed: str) -> bool:
    """Return True if ``pattern`` names this one tool, which approves it as well.

    A glob never does, not even for a tool whose own name reads like the glob.
    """
    return not is_glob(pattern) and pattern in (exposed, definition.key)


def nearest(word: str, known: Iterable[str], n: int = 3) -> tuple[str, ...]:
    """Return up to ``n`` of ``known`` that are similar to ``word``, best first.

    A name that ends in the whole word comes first: people write ``roll`` for
    ``mcp__dice__roll``.
    """
    candidates = sorted(known)
    tail = re.compile(rf"[._]{re.escape(word)}\Z")
    ending = [name for name in candidates if word and tail.search(name)]
    close = difflib.get_close_matches(word, candidates, n) if n > 0 else []
    return tuple(dict.fromkeys(ending + close))[:n]


def head_of(server: str, style: NamingStyle) -> str:
    """Return the prefix of the exposed names of a server's tools, unless cut."""
    match style:
        case NamingStyle.DOUBLE:
            return f"mcp__{server}__"
        case NamingStyle.SINGLE:
            return f"mcp_{_snake(server)}_"
        case NamingStyle.BARE:
            return ""


def _snake(name: str) -> str:
    """Return lower snake case; non-ASCII letters stay, so that `_safe` sees them."""
    lower = _HUMP.sub("_", name).lower()
    return "".join(
        "_" if letter.isascii() and _NOT_SNAKE.match(letter) else letter
        for letter in lower
    )


def _plain_name(definition: ToolDefinition, style: NamingStyle) -> str:
    if not definition.external:
        return _BUILT_IN_NAMES.get(definition.key, definition.name)
    match style:
        case NamingStyle.DOUBLE:
            return f"{head_of(definition.group, style)}{definition.name}"
        case NamingStyle.SINGLE:
            return f"{head_of(definition.group, style)}{_snake(definition.name)}"
        case NamingStyle.BARE:
            if definition.name in (LIST_RESOURCES, READ_RESOURCE):
                # Two servers would have this name, and neither of them chose it.
                return f"{definition.group}_{definition.name}"
            return definition.name


def _safe(name: str, key: str) -> str:
    legal = _ILLEGAL.sub("_", name)
    if not _LEGAL.match(legal):  # empty, or with a digit or a dash first
        legal = f"_{legal}"
    if len(legal) <= MAX_LENGTH and name.isascii():
        return legal
    # A lone surrogate is possible: names come from foreign JSON.
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{legal[: MAX_LENGTH - _HASH_DIGITS - 1]}_{digest[:_HASH_DIGITS]}"


def _whose(definition: ToolDefinition) -> str:
    return "a server's" if definition.external else "a built-in"
