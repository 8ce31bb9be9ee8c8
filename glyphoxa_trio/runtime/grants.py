"""Check that what the NPCs are granted exists: the check that needs a catalogue.

Above 300 lines, because what a pattern means is asked in each of these checks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final

import attrs

from glyphoxa_trio.config import Config, ConfigError, LeftOut, NpcConfig, ServerSpec
from glyphoxa_trio.host import CatalogueEntry, Snapshot
from glyphoxa_trio.tools.definition import ToolDefinition
from glyphoxa_trio.tools.gate import Grant, TrustMode
from glyphoxa_trio.tools.naming import (
    Collision,
    NamingStyle,
    exposed_name,
    head_of,
    is_glob,
    matches,
    nearest,
)

# So many characters of an exposed name are there even if its end was cut.
_KEPT: Final = 55


@attrs.frozen
class GrantProblem:
    """A pattern that means no tool. An ``error`` if nothing can still bring one."""

    npc: str
    pattern: str
    text: str
    error: bool
    section: str = "npcs"

    def __str__(self) -> str:
        return f"{self.text} @ {self.section}[{self.npc}].tools"


@attrs.frozen
class NameProblem:
    """Tools of servers that are left out because they would share one exposed name.

    The problem belongs to no NPC, so ``npc`` is empty. ``shared`` are the servers of a
    ``.mcp.json``, which cannot say ``expose_as``.
    """

    collision: Collision
    shared: Collection[str] = ()
    npc: str = ""
    error: bool = True

    @property
    def pattern(self) -> str:
        """The name that they would share."""
        return self.collision.name

    @property
    def text(self) -> str:
        return str(self.collision)

    def __str__(self) -> str:
        names = [key.partition(".") for key in reversed(self.collision.left_out)]
        ours = [x for x in names if x[0] not in self.shared]
        server, _, name = (ours or names)[0]
        place = f"mcp.servers[{server}].tools.{name}.expose_as"
        if ours:
            return f"{self.text} @ {place}"
        has = f"for which the configuration must have the server {server!r} itself"
        return f"{self.text}, {has} @ {place}"


Problem = GrantProblem | NameProblem


def section_of(npc: NpcConfig) -> str:
    """The section of the configuration that the NPC is in."""
    return "contexts" if npc.context_name else "npcs"


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


def grants_of(config: Config) -> tuple[Grant, ...]:
    """What the NPCs may use without a person being asked."""
    return tuple(grant_of(npc, config, approver=False) for npc in config.npcs)


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


@attrs.frozen
class Unapproved:
    """A tool that NPCs are granted and that nobody has approved as it is.

    ``changed``: its server described it differently when it was approved.
    """

    listing: CatalogueEntry
    npcs: tuple[str, ...]
    changed: bool

    @property
    def key(self) -> str:
        return self.listing.key

    @property
    def hints(self) -> str:
        """What a call of it may do, as its server says."""
        definition = self.listing.definition
        said = ["only reads" if definition.read_only else "may write"]
        if definition.destructive and not definition.read_only:
            said.append("may destroy")
        if definition.open_world:
            said.append("reaches the open world")
        if self.changed:
            said.append("changed since it was approved")
        return ", ".join(said)


def unapproved(
    config: Config,
    snapshot: Snapshot,
    *,
    held: Collection[str],
    agreed: Collection[str],
) -> list[Unapproved]:
    """Every external tool that an NPC is granted but may not use until it is approved.

    Args:
      held, agreed: the host's `Approvals.held` and `Approvals.agreed`.
    """
    grants = [grant_of(npc, config, approver=False) for npc in config.npcs]
    found: list[Unapproved] = []
    for listing in sorted(snapshot.listings, key=lambda x: x.key):
        definition, exposed = listing.definition, listing.exposed
        changed = listing.key in held
        if not definition.external or (listing.key in agreed and not changed):
            continue
        whose = tuple(
            grant.npc
            for grant in grants
            if not grant.trusts_fully
            and grant.covers(definition, exposed)
            and (changed or not grant.approves(definition, exposed))
        )
        if whose:
            found.append(Unapproved(listing, whose, changed))
    return found


def may_need_approval(config: Config) -> bool:
    """Whether a grant may bring tools of a server that the grant does not approve."""
    return any(
        grant_of(npc, config, approver=False).trust is not TrustMode.FULL
        and (is_glob(pattern) or pattern == spec.name)
        and _may_mean(pattern, spec.name, config.mcp.naming)
        for npc in config.npcs
        for pattern in npc.tools
        for spec in config.mcp.servers
        if config.mcp.enabled
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
            # A tool that is left out because of its name is a `NameProblem` already.
            if any(matches(pattern, x.definition, x.exposed) for x in snapshot.offered):
                continue
            naming = config.mcp.naming
            waiting = [x.name for x in absent if _may_be_of(pattern, x, naming)]
            near = nearest(pattern, [*known, *groups])
            hint = f", did you mean {' or '.join(near)}?" if near else ""
            certain = not (waiting or is_glob(pattern))
            if waiting:
                text = f"{pattern!r} waits for the server {waiting[0]!r}"
            elif is_glob(pattern):
                text = f"{pattern!r} matches no tool"
            elif other := _in_another_style(pattern, snapshot, naming):
                text = f"no tool {pattern!r}{other}"
            elif npc.context_name and not _is_of(pattern, groups):
                # Such lists also name tools of the application's engine: hangup_call.
                text = f"no tool {pattern!r} yet{hint or ', unless a program adds it'}"
                certain = False
            else:
                text = f"no tool {pattern!r}{hint}"
            if not waiting:
                for left in config.mcp.left_out:
                    if (sure := _asks_for(pattern, left, naming)) is None:
                        continue
                    text, certain = _without(left, pattern, text), sure or certain
                    if left.switched_off:
                        certain = False
                    break
            problems.append(
                GrantProblem(npc.name, pattern, text, certain, section_of(npc))
            )
    return problems


def _in_another_style(pattern: str, snapshot: Snapshot, naming: NamingStyle) -> str:
    """The remedy, if ``pattern`` would be right under another `mcp.naming`."""
    for style in NamingStyle:
        for x in snapshot.listings:
            named_by_rule = x.definition.external and x.definition.expose_as is None
            if named_by_rule and exposed_name(x.definition, style) == pattern:
                return (
                    f": with mcp.naming {naming} it is {x.exposed}; grant that, or set"
                    f" naming: {style}"
                )
    return ""


def _is_of(pattern: str, groups: Iterable[str]) -> bool:
    """Whether ``pattern`` is written like a tool of one of these servers or groups."""
    return any(
        pattern.startswith((f"{group}.", *_heads(group, NamingStyle.DOUBLE)))
        for group in groups
    )


def _asks_for(pattern: str, left: LeftOut, naming: NamingStyle) -> bool | None:
    """Whether a pattern that means no tool names a server that is left out.

    None if it cannot mean a tool of that server. A file that cannot be read may hold
    any server, so any pattern may name one of it, unless it begins with a wildcard.
    """
    if left.name is None:
        return not is_glob(pattern) or pattern[0] not in "*?["
    if names_server(pattern, left.name, naming):
        return True
    return False if _may_mean(pattern, left.name, naming) else None


def _without(left: LeftOut, pattern: str, text: str) -> str:
    if left.name is None:
        return f"{text}; it may be in a file that cannot be used: {left.why}"
    how = "switched off" if left.switched_off else "left out"
    return f"{pattern!r} asks for the server {left.name!r}, which is {how}: {left.why}"


def names_server(pattern: str, server: str, naming: NamingStyle) -> bool:
    """Whether a grant names this very server: as a tool of it in full, by its bare
    name, or by a glob that begins with it."""
    if "." in pattern:
        return pattern.partition(".")[0] == server
    if pattern == server:
        return True
    head = head_of(server, naming)[:_KEPT]
    return bool(head) and pattern.startswith(head)


@attrs.frozen
class NeededServer:
    """A grant that names a server."""

    npc: str
    pattern: str
    server: str
    section: str = "npcs"


def needs(config: Config) -> list[NeededServer]:
    """Every grant that names a configured server, in the order of the NPCs."""
    return [
        NeededServer(npc.name, pattern, spec.name, section_of(npc))
        for npc in config.npcs
        for pattern in npc.tools
        for spec in config.mcp.servers
        if names_server(pattern, spec.name, config.mcp.naming)
        or any(x.expose_as == pattern for x in spec.tools.values())
    ]


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
    return _may_mean(pattern, server.name, naming)


def _may_mean(pattern: str, server: str, naming: NamingStyle) -> bool:
    if "." in pattern:
        return fnmatchcase(server, pattern.partition(".")[0])
    heads = _heads(server, naming)
    return is_glob(pattern) or pattern == server or pattern.startswith(heads)


def _heads(server: str, naming: NamingStyle) -> tuple[str, ...]:
    """How the names of a server's tools begin, in the naming style in force and in
    those with a prefix. A name in the wrong style is reported when the server is
    there."""
    styles = {naming, NamingStyle.DOUBLE, NamingStyle.SINGLE}
    return tuple({head_of(server, style)[:_KEPT] for style in styles})
