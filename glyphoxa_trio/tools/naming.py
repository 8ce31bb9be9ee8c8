"""What models call a tool, and which tools a written name or pattern means (D13).

A tool has one canonical key, ``group.name``, and one exposed name. An exposed
name never holds a dot and a key always does, so a pattern is never ambiguous
between the two.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterable
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final

from glyphoxa_trio.errors import GlyphoxaError

from .definition import ToolDefinition

MAX_LENGTH: Final = 64
_LEGAL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9_-]")
_HASH_DIGITS: Final = 8

# The plain name belongs to the memory group's `get_summary` (G7).
_BUILT_IN_NAMES: Final = {"sessions.get_summary": "get_session_summary"}


class BadName(GlyphoxaError):
    """An ``expose_as`` that no provider would take as the name of a tool."""


class NameCollision(GlyphoxaError):
    """Two tools under one name. Whoever configures the servers must choose."""


class NamingStyle(StrEnum):
    """How the tools of other people's servers are exposed (``mcp.naming``)."""

    DOUBLE = "double"  # mcp__server__tool
    SINGLE = "single"  # mcp_server_tool
    BARE = "bare"  # tool


def exposed_name(
    definition: ToolDefinition, style: NamingStyle = NamingStyle.DOUBLE
) -> str:
    """The name under which models see the tool; safe for every provider.

    Foreign characters become ``_``. A name that is too long, or that loses a
    letter because it is not ASCII, ends in a hash of the canonical key.

    Raises:
      BadName: if ``expose_as`` is not itself a legal name.
    """
    if definition.expose_as is not None:
        if not is_exposed_name(definition.expose_as):
            raise BadName(
                f"{definition.key}: expose_as {definition.expose_as!r} must be 1 to"
                f" {MAX_LENGTH} letters, digits, _ or -, and start with a letter or _"
            )
        return definition.expose_as
    return _safe(_plain_name(definition, style), definition.key)


def is_exposed_name(name: str) -> bool:
    """True if every provider would take ``name`` as the name of a tool."""
    return _LEGAL.fullmatch(name) is not None


def expose_all(
    definitions: Iterable[ToolDefinition], style: NamingStyle = NamingStyle.DOUBLE
) -> dict[str, ToolDefinition]:
    """Every tool under its exposed name, in the order given.

    Raises:
      NameCollision: naming both tools, if two share a name or a canonical key.
      BadName: see `exposed_name`.
    """
    exposed: dict[str, ToolDefinition] = {}
    by_key: dict[str, ToolDefinition] = {}
    for definition in definitions:
        name = exposed_name(definition, style)
        if (other := exposed.get(name)) and other.key != definition.key:
            raise NameCollision(
                f"{other.key} and {definition.key} would both be exposed as {name!r};"
                " give one of them another name with expose_as"
            )
        if (other := by_key.get(definition.key)) is not None:
            # A grant could not tell them apart, whatever they are exposed as.
            raise NameCollision(
                f"{definition.key} is the key of two tools, {_whose(other)} and"
                f" {_whose(definition)}; give the server another name"
            )
        exposed[name] = by_key[definition.key] = definition
    return exposed


def is_glob(pattern: str) -> bool:
    """True if ``pattern`` may mean several names: ``*``, ``?`` and ``[...]``."""
    return any(character in pattern for character in "*?[")


def matches(pattern: str, definition: ToolDefinition, exposed: str) -> bool:
    """True if a grant written as ``pattern`` means this tool. Case counts.

    A pattern is an exposed name, a canonical key, a glob of either, or the bare
    name of a group or server, which means all of it. A glob with a dot is one
    of keys, a glob without is one of exposed names: so ``*_summary`` does not
    reach into servers, whose tools choose their own names.
    """
    if is_glob(pattern):
        return fnmatchcase(definition.key if "." in pattern else exposed, pattern)
    return pattern in (exposed, definition.key, definition.group)


def names_in_full(pattern: str, definition: ToolDefinition, exposed: str) -> bool:
    """True if ``pattern`` names this one tool, so that writing it approves (D13a).

    A glob never does, not even for a tool whose own name reads like the glob.
    """
    return not is_glob(pattern) and pattern in (exposed, definition.key)


def nearest(word: str, known: Iterable[str], n: int = 3) -> tuple[str, ...]:
    """Up to ``n`` of ``known`` that ``word`` may have meant, best first.

    A name that ends in the whole word comes first: people write ``roll`` for
    ``mcp__dice__roll``.
    """
    candidates = sorted(known)
    tail = re.compile(rf"[._]{re.escape(word)}\Z")
    ending = [name for name in candidates if word and tail.search(name)]
    close = difflib.get_close_matches(word, candidates, n) if n > 0 else []
    return tuple(dict.fromkeys(ending + close))[:n]


def _plain_name(definition: ToolDefinition, style: NamingStyle) -> str:
    if not definition.external:
        return _BUILT_IN_NAMES.get(definition.key, definition.name)
    match style:
        case NamingStyle.DOUBLE:
            return f"mcp__{definition.group}__{definition.name}"
        case NamingStyle.SINGLE:
            return f"mcp_{definition.group}_{definition.name}"
        case NamingStyle.BARE:
            return definition.name


def _safe(name: str, key: str) -> str:
    legal = _ILLEGAL.sub("_", name)
    if not _LEGAL.match(legal):  # a digit or a dash first, or nothing at all
        legal = f"_{legal}"
    if len(legal) <= MAX_LENGTH and name.isascii():
        return legal
    # A lone surrogate is possible: names come from other people's JSON.
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{legal[: MAX_LENGTH - _HASH_DIGITS - 1]}_{digest[:_HASH_DIGITS]}"


def _whose(definition: ToolDefinition) -> str:
    return "a server's" if definition.external else "a built-in"
