"""Whether what the NPCs are granted exists (D14): the check that needs a catalogue."""

from __future__ import annotations

from collections.abc import Collection

import attrs

from glyphoxa_trio.config import Config, ConfigError, NpcConfig
from glyphoxa_trio.host import Snapshot
from glyphoxa_trio.tools.gate import Grant
from glyphoxa_trio.tools.naming import is_glob, matches, nearest


@attrs.frozen
class GrantProblem:
    """A pattern that means no tool. An ``error`` if nothing can still bring one."""

    npc: str
    pattern: str
    text: str
    error: bool

    def __str__(self) -> str:
        return f"{self.text} @ npcs[{self.npc}].tools"


def grant_of(npc: NpcConfig, config: Config, *, approver: bool) -> Grant:
    """What the configuration lets an NPC use."""
    return Grant(
        npc=npc.name,
        tools=npc.tools,
        trust=config.trust.mode,
        allow_tools=config.trust.allow_tools,
        approver=approver,
    )


def check_grants(
    config: Config, snapshot: Snapshot, *, absent: Collection[str]
) -> list[GrantProblem]:
    """Every granted name or pattern that no tool answers to.

    Args:
      absent: servers that are configured and have not listed their tools (yet).
    """
    known = [*snapshot.by_exposed, *snapshot.by_key]
    groups = {listing.definition.group for listing in snapshot.listings}
    problems: list[GrantProblem] = []
    for npc in config.npcs:
        for pattern in npc.tools:
            if any(
                matches(pattern, x.definition, x.exposed) for x in snapshot.listings
            ):
                continue
            waiting = [server for server in absent if _may_be_of(pattern, server)]
            near = nearest(pattern, [*known, *groups])
            hint = f", did you mean {' or '.join(near)}?" if near else ""
            if waiting:
                text = f"{pattern!r} waits for the server {waiting[0]!r}"
            elif is_glob(pattern):
                text = f"{pattern!r} matches no tool"
            else:
                text = f"no tool {pattern!r}{hint}"
            certain = not (waiting or is_glob(pattern))
            problems.append(GrantProblem(npc.name, pattern, text, certain))
    return problems


def refuse_shadowed_groups(config: Config, builtin: Snapshot) -> None:
    """A server named like a group of ours would be granted together with it.

    Raises:
      ConfigError: naming each such server.
    """
    ours = {listing.definition.group for listing in builtin.listings}
    taken = [spec.name for spec in config.mcp.servers if spec.name in ours]
    if taken:
        raise ConfigError(
            *(f"{name!r} is a group of built-in tools @ mcp.servers" for name in taken)
        )


def _may_be_of(pattern: str, server: str) -> bool:
    """Whether a tool of ``server`` could answer to the pattern, by its shape."""
    return (
        pattern == server
        or pattern.startswith((f"{server}.", "mcp_"))
        or is_glob(pattern)
    )
