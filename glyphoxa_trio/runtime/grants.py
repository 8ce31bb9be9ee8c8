"""Whether what the NPCs are granted exists (D14): the check that needs a catalogue."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final

import attrs

from glyphoxa_trio.config import Config, ConfigError, NpcConfig, ServerSpec
from glyphoxa_trio.host import Snapshot
from glyphoxa_trio.tools.definition import ToolDefinition
from glyphoxa_trio.tools.gate import Grant
from glyphoxa_trio.tools.naming import NamingStyle, is_glob, matches, nearest

# How the exposed names of a server's tools begin, as far as a long name keeps it.
_HEAD: Final = {
    NamingStyle.DOUBLE: "mcp__{}__",
    NamingStyle.SINGLE: "mcp_{}_",
    NamingStyle.BARE: "",
}
_KEPT: Final = 55


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
    trust = npc.trust or config.trust
    return Grant(
        npc=npc.name,
        tools=npc.tools,
        trust=trust.mode,
        allow_tools=trust.allow_tools,
        approver=approver,
    )


def approved_by(config: Config) -> Callable[[ToolDefinition, str], bool]:
    """Whether the configuration approves an external tool, for any NPC (D13a).

    That is what may be held back when it changes. Full trust approves whatever
    comes, so it is no approval of anything.
    """
    limited = [
        grant
        for npc in config.npcs
        if not (grant := grant_of(npc, config, approver=False)).trusts_fully
    ]
    return lambda definition, exposed: any(
        grant.approves(definition, exposed) for grant in limited
    )


def check_grants(
    config: Config, snapshot: Snapshot, *, absent: Sequence[ServerSpec]
) -> list[GrantProblem]:
    """Every granted name or pattern that no tool answers to.

    Args:
      absent: servers that are configured and not ready (yet): theirs may come.
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
            naming = config.mcp.naming
            waiting = [x.name for x in absent if _may_be_of(pattern, x, naming)]
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


def shadowed_groups(servers: Iterable[ServerSpec], snapshot: Snapshot) -> list[str]:
    """A problem per server named like a group of ours: it would take its place."""
    ours = {x.definition.group for x in snapshot.listings if not x.definition.external}
    return [
        f"{spec.name!r} is a group of built-in tools @ mcp.servers"
        for spec in servers
        if spec.name in ours
    ]


def refuse_faults(config: Config, snapshot: Snapshot, problems: Iterable[str]) -> None:
    """Refuse what is wrong whatever the servers bring, ``problems`` included.

    Raises:
      ConfigError: with all of it at once.
    """
    servers = config.mcp.servers
    grants = check_grants(config, snapshot, absent=servers)
    faults = [
        *problems,
        *shadowed_groups(servers, snapshot),
        *(str(problem) for problem in grants if problem.error),
    ]
    if faults:
        raise ConfigError(*faults)


def _may_be_of(pattern: str, server: ServerSpec, naming: NamingStyle) -> bool:
    """Whether a tool of ``server`` could answer to the pattern, by its shape."""
    if any(override.expose_as == pattern for override in server.tools.values()):
        return True
    if "." in pattern:
        return fnmatchcase(server.name, pattern.partition(".")[0])
    head = _HEAD[naming].format(server.name)[:_KEPT]
    return is_glob(pattern) or pattern == server.name or pattern.startswith(head)
